//! What happened to clients, from counters that no decision on a known client touches.

use crate::sync::{AtomicU64, Ordering};

/// How many clients there are, and what became of others since the limiter was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Clients that have a state now.
    pub clients: u64,
    /// States made at a first sight.
    pub created: u64,
    /// Idle states removed.
    pub retired: u64,
    /// Newcomers refused because there were as many clients as may be.
    pub refused_full: u64,
    /// Newcomers admitted without a limit of their own for that reason.
    pub admitted_full: u64,
    /// Clients that moved on to another policy or tier.
    pub migrated: u64,
    /// Requests admitted that a limit in shadow would have refused.
    pub would_have_refused: u64,
}

/// The counters behind [`Stats`]. Relaxed: each is a number of its own and orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) created: Counter,
    pub(crate) retired: Counter,
    pub(crate) refused_full: Counter,
    pub(crate) admitted_full: Counter,
    pub(crate) migrated: Counter,
    pub(crate) would_have_refused: Counter,
}

impl Counters {
    pub(crate) fn read(&self, clients: u64) -> Stats {
        Stats {
            clients,
            created: self.created.get(),
            retired: self.retired.get(),
            refused_full: self.refused_full.get(),
            admitted_full: self.admitted_full.get(),
            migrated: self.migrated.get(),
            would_have_refused: self.would_have_refused.get(),
        }
    }
}

/// One counter.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Default for Counter {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Counter {
    /// Counts one more; how many there were before.
    pub(crate) fn count(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts one less.
    pub(crate) fn discount(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
