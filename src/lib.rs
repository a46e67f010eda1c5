//! Tollgate answers one question on the hot path of a proxy: *may this client proceed, right now?*
#![doc = include_str!("../docs/guide.md")]
#![cfg_attr(not(any(feature = "std", test)), no_std)]

extern crate alloc;

#[cfg(doc)]
#[doc = include_str!("../docs/evidence.md")]
pub mod evidence {}

mod algorithm;
mod carry;
mod decision;
#[cfg(feature = "std")]
mod direct;
mod policy;
mod quota;
mod sync;
mod time;
mod word;

#[cfg(feature = "std")]
mod all_of;
#[cfg(feature = "std")]
mod background;
#[cfg(feature = "std")]
mod builder;
#[cfg(feature = "std")]
mod cap;
#[cfg(feature = "std")]
mod charging;
#[cfg(feature = "std")]
mod clients;
#[cfg(feature = "config")]
mod config;
#[cfg(feature = "std")]
mod explained;
#[cfg(feature = "std")]
mod grants;
#[cfg(feature = "std")]
mod hand;
#[cfg(feature = "std")]
mod handle;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "std")]
mod limiter;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "std")]
mod permit;
#[cfg(feature = "std")]
mod pinned;
#[cfg(feature = "std")]
mod plan;
#[cfg(feature = "std")]
mod registry;
#[cfg(feature = "std")]
mod stats;
#[cfg(feature = "std")]
mod sweep;
#[cfg(feature = "std")]
mod tiered;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(feature = "tracing")]
mod trace;
#[cfg(feature = "tokio")]
mod waiting;

pub use crate::algorithm::{
    Algorithm, AlgorithmKind, Anchor, AnyAlgorithm, AnyGrant, AnyState, Checked, Constant, Counts,
    FixedWindow, Grant, InFlight, Interrupted, LeakyBucket, Limit, Log, LogGrant, Place,
    SlidingCounter, SlidingLog, Stack, StackError, StackGrant, StackState, Stand, TokenBucket,
    Told, Turn, UnknownAlgorithm, WordAlgorithm,
};
pub use crate::carry::{CarryOver, Change};
#[cfg(feature = "config")]
pub use crate::config::{ConfigError, Mistake};
pub use crate::decision::{Decision, LimitReading, Reading, RetryAfter};

#[cfg(feature = "std")]
pub use crate::all_of::{AllOf, Joined};
#[cfg(feature = "std")]
pub use crate::background::Sweeper;
#[cfg(feature = "std")]
pub use crate::builder::LimiterBuilder;
#[cfg(feature = "std")]
pub use crate::direct::DirectLimiter;
#[cfg(feature = "std")]
pub use crate::explained::Explained;
#[cfg(feature = "std")]
pub use crate::handle::Handle;
#[cfg(feature = "std")]
pub use crate::limiter::Limiter;
#[cfg(feature = "std")]
pub use crate::permit::{Borrowed, Charge, OnDrop, Owned, Permit, Settles};
#[cfg(feature = "std")]
pub use crate::pinned::Pinned;
#[cfg(feature = "std")]
pub use crate::plan::Client;
pub use crate::policy::{Policies, Policy, WhenFull};
pub use crate::quota::{Allowance, Quota, QuotaError, Rate};
#[cfg(feature = "std")]
pub use crate::registry::{PapayaRegistry, Registry};
#[cfg(feature = "std")]
pub use crate::stats::Stats;
#[cfg(feature = "std")]
pub use crate::sweep::Swept;
#[cfg(feature = "std")]
pub use crate::tiered::{TierOf, TieredLimiter};
pub use crate::time::{Clock, ManualClock, Nanos};
#[cfg(feature = "std")]
pub use crate::time::{CoarseClock, MonotonicClock};
#[cfg(feature = "tokio")]
pub use crate::waiting::{Wait, WaitError};
pub use crate::word::{Cell, Frozen, Word};
