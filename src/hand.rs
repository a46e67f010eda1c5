//! The sweep's memory: where it stopped, and when the next client will be idle.
//!
//! All of it is advice. Two threads that sweep at once may look at the same entries or skip some;
//! nothing is retired that is not idle, and a later pass finds what an earlier one missed.

use crate::sync::{AtomicU64, Ordering};
use crate::time::Nanos;

/// Relaxed throughout: advice, see above.
#[derive(Debug)]
pub(crate) struct Hand {
    /// Where the walk goes on.
    cursor: AtomicU64,
    /// Of the clients seen in this pass, when the first will be idle, and where it was seen.
    soonest: AtomicU64,
    place: AtomicU64,
    /// Clients retired in this pass.
    retired: AtomicU64,
    /// Until then a whole pass found that no client would be idle.
    busy_until: AtomicU64,
}

impl Default for Hand {
    fn default() -> Self {
        Self {
            cursor: AtomicU64::new(0),
            soonest: AtomicU64::new(u64::MAX),
            place: AtomicU64::new(0),
            retired: AtomicU64::new(0),
            busy_until: AtomicU64::new(0),
        }
    }
}

impl Hand {
    pub(crate) fn cursor(&self) -> u64 {
        self.cursor.load(Ordering::Relaxed)
    }

    /// The time at which some client will be idle, as far as is known.
    pub(crate) fn soonest(&self) -> Option<Nanos> {
        let known = match self.busy_until.load(Ordering::Relaxed) {
            0 => self.soonest.load(Ordering::Relaxed),
            busy_until => busy_until,
        };
        (known != u64::MAX).then_some(Nanos::new(known))
    }

    /// Whether a whole pass found that no client is idle at `now`.
    pub(crate) fn is_known_busy(&self, now: Nanos) -> bool {
        now.get() < self.busy_until.load(Ordering::Relaxed)
    }

    /// Learns of a newcomer, who may be idle sooner than all whom a pass has seen.
    pub(crate) fn saw_newcomer(&self) {
        if self.busy_until.load(Ordering::Relaxed) != 0 {
            self.busy_until.store(0, Ordering::Relaxed);
        }
    }

    /// Where a client was seen that should be idle by `now`. It is told once.
    pub(crate) fn due(&self, now: Nanos) -> Option<u64> {
        let due = self.soonest.load(Ordering::Relaxed) <= now.get();
        due.then(|| {
            self.soonest.store(u64::MAX, Ordering::Relaxed);
            self.busy_until.store(0, Ordering::Relaxed);
            self.place.load(Ordering::Relaxed)
        })
    }

    /// Learns that a client seen after `place` will be idle at `at`.
    pub(crate) fn saw_busy(&self, at: Nanos, place: u64) {
        if at.get() < self.soonest.load(Ordering::Relaxed) {
            self.soonest.store(at.get(), Ordering::Relaxed);
            self.place.store(place, Ordering::Relaxed);
        }
    }

    /// Moves on to `next` (0: the pass is over) after a step that retired `retired` clients. How
    /// many were retired in this pass.
    pub(crate) fn moved(&self, next: u64, retired: usize) -> u64 {
        self.cursor.store(next, Ordering::Relaxed);
        let retired = self.retired.fetch_add(retired as u64, Ordering::Relaxed) + retired as u64;
        if next == 0 {
            let none_idle = retired == 0;
            let until = if none_idle { self.soonest.load(Ordering::Relaxed) } else { 0 };
            self.busy_until.store(until, Ordering::Relaxed);
            self.retired.store(0, Ordering::Relaxed);
        }
        retired
    }
}
