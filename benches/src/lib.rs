//! Tollgate beside its peers: the contenders behind one small trait, and the loop that times them.
//!
//! * `cargo bench -p tollgate-benches --bench keyed`: criterion, each contender on its own;
//! * `cargo bench -p tollgate-benches --bench versus`: contenders in turn, ratios in one run;
//! * `benches/instructions.py`: what one decision executes and writes, instruction by instruction.

mod contender;
mod keys;
mod measure;
mod ours;
mod peers;
mod twin;

pub use crate::contender::{Contender, Policy};
pub use crate::keys::client_keys;
pub use crate::measure::{Lap, Subject, contenders};
pub use crate::ours::{Clocked, Given};
pub use crate::peers::{Governor, RateNet};
pub use crate::twin::MutexTwin;
