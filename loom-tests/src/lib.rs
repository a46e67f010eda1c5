//! What the models share: the explorer, the table of algorithms, the stand-in map.
//!
//! The models are the files of `tests/`; the crate they explore is the real one, built with
//! `--cfg tollgate_loom` so that its atomics are loom's. `run` runs them, `mutants.sh` breaks the
//! crate once for each model and demands that the model notices.

#![cfg(tollgate_loom)]

pub mod limiters;
mod map;

pub use map::StandIn;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Explores every interleaving of `body` within the preemption bound (`LOOM_MAX_PREEMPTIONS`,
/// default 2) and tells how many there were.
#[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "this counts loom's runs")]
pub fn explore(name: &str, body: impl Fn() + Send + Sync + 'static) {
    let executions: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    let start = Instant::now();
    builder.check(move || {
        executions.fetch_add(1, Relaxed);
        body();
    });
    let (explored, seconds) = (executions.load(Relaxed), start.elapsed().as_secs_f32());
    println!("model {name}: {explored} executions, {seconds:.1} s");
}
