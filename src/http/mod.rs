//! What a limiter needs to know of HTTP: who asks, and how to tell them where they stand.
#![doc = include_str!("../../docs/http.md")]

mod fields;
mod forwarded;
mod item;
mod key;
mod network;
mod text;

#[cfg(feature = "tower")]
pub(crate) use self::fields::Fields;
pub use self::fields::{BadName, Limits, RateLimitFields};
pub use self::forwarded::{ForwardedFor, Trust};
pub use self::key::{EitherKey, KeyOf, Or, PeerAddress, WithoutKey};
pub use self::network::{BadNetwork, Network, Prefixes};
pub use self::text::{HeaderKey, Path, Text};
