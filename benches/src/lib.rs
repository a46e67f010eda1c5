//! Tollgate beside its peers: the contenders behind one small trait, and the loop that times them.
//!
//! * `cargo bench -p tollgate-benches --bench versus`: contenders in turn, ratios in one run;
//! * `cargo bench -p tollgate-benches --bench keyed`: criterion, each contender on its own;
//! * `cargo bench -p tollgate-benches --bench flood`: what known clients feel of a flood and a sweep;
//! * `cargo bench -p tollgate-benches --bench memory`: what a client takes;
//! * `benches/instructions.py`: what one decision executes and writes, instruction by instruction.

mod contender;
mod keys;
mod measure;
mod ours;
mod peers;
mod sets;
mod twin;

pub use crate::contender::{Contender, Key, Policy};
pub use crate::keys::{client_keys, zipf};
pub use crate::measure::{Lap, Subject};
#[cfg(feature = "metrics")]
pub use crate::ours::Checked;
pub use crate::ours::{Clocked, Given, Pinned, Stream, Tick};
pub use crate::peers::{Governor, GovernorStream, GovernorTick, RateLimit, RateNet};
pub use crate::sets::{
    KINDS, algorithms, caps, clocks, contenders, contenders_at_scale, logs, stacks, streams,
};
#[cfg(feature = "metrics")]
pub use crate::sets::{counted, counted_checks, counted_stacks};
pub use crate::twin::{LogTwin, MutexTwin, OneMutex};
