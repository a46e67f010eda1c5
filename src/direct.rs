//! One stream without keys: an algorithm, one state, a clock.

use alloc::sync::Arc;
use core::fmt;

use crossbeam_utils::CachePadded;

use crate::algorithm::{Algorithm, Interrupted, each_part};
use crate::decision::Decision;
use crate::sync::Slot;
use crate::time::{Clock, Nanos};

/// A limiter for one stream, or for everything at once: no keys, no map.
///
/// ```
/// use tollgate::{DirectLimiter, ManualClock, Quota, TokenBucket};
///
/// let bucket = TokenBucket::<u64>::new(Quota::per_second(1)?)?;
/// let limiter = DirectLimiter::new(bucket, ManualClock::new());
/// assert!(limiter.is_allowed());
/// assert!(!limiter.is_allowed());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
///
/// Progress: decisions and refunds are lock-free, refusals and peeks wait-free. No decision
/// allocates, but for those of a sliding log that must grow.
pub struct DirectLimiter<A: Algorithm, C = ()> {
    algorithm: A,
    clock: C,
    // Written by every admission: apart from what every decision only reads.
    state: CachePadded<A::State>,
    /// The state that took over from the first, once that was frozen: a ring that had to grow.
    successor: Slot<Option<A::State>>,
}

impl<A: Algorithm, C> DirectLimiter<A, C> {
    /// A limiter that has admitted nothing.
    pub fn new(algorithm: A, clock: C) -> Self {
        let state = CachePadded::new(algorithm.fresh(Nanos::ZERO));
        Self { algorithm, clock, state, successor: Slot::new(None) }
    }

    /// Asks the state until it is met unfrozen.
    #[inline]
    fn ask<T>(
        &self,
        now: Nanos,
        mut ask: impl FnMut(&A::State) -> Result<T, Interrupted<A::Grant>>,
    ) -> T {
        match ask(&self.state) {
            Ok(answer) => answer,
            Err(torn) => self.ask_successor(now, torn, ask),
        }
    }

    #[cold]
    fn ask_successor<T>(
        &self,
        now: Nanos,
        torn: Interrupted<A::Grant>,
        mut ask: impl FnMut(&A::State) -> Result<T, Interrupted<A::Grant>>,
    ) -> T {
        let mut torn = torn;
        loop {
            let held = self.successor.load();
            let frozen = match &**held {
                None => &*self.state,
                Some(state) => match ask(state) {
                    Ok(answer) => return answer,
                    Err(taken) => {
                        torn = taken;
                        state
                    }
                },
            };
            // Whoever meets a frozen state helps to replace it; nobody waits (I7).
            self.algorithm.freeze(frozen);
            let next = Arc::new(Some(self.algorithm.successor(frozen)));
            self.successor.replace(&held, next);
            if let Some(grant) = torn.taken.take() {
                self.refund_at(now, grant);
            }
        }
    }

    /// Whether `cost` units may pass at `now`; if so they are charged.
    #[inline]
    pub fn is_allowed_at(&self, now: Nanos, cost: u64) -> bool {
        self.acquire_at(now, cost).is_some()
    }

    /// [`is_allowed_at`](Self::is_allowed_at) with its reasons.
    pub fn check_at(&self, now: Nanos, cost: u64) -> Decision {
        let (grant, reading) = self.ask(now, |state| self.algorithm.check(state, now, cost));
        let missed = grant.is_some_and(|grant| self.algorithm.missed(&grant) != 0);
        Decision::of_client(reading).missed(missed)
    }

    /// What [`check_at`](Self::check_at) would answer; charges nothing.
    pub fn peek_at(&self, now: Nanos, cost: u64) -> Decision {
        Decision::of_client(self.ask(now, |state| {
            // Cost 0 is always admitted, and tells a frozen state.
            self.algorithm.acquire(state, now, 0)?;
            Ok(self.algorithm.peek(state, now, cost))
        }))
    }

    /// Charges `cost` units, if they fit, for a grant that [`refund_at`](Self::refund_at) takes
    /// back.
    #[inline]
    pub fn acquire_at(&self, now: Nanos, cost: u64) -> Option<A::Grant> {
        self.ask(now, |state| self.algorithm.acquire(state, now, cost))
    }

    /// Gives back exactly what `grant` took.
    pub fn refund_at(&self, now: Nanos, grant: A::Grant) {
        let mut done = 0;
        self.ask(now, |state| {
            let refund = |part| self.algorithm.refund(state, now, self.algorithm.part(grant, part));
            Ok(each_part(self.algorithm.parts(), &mut done, refund)?)
        });
    }

    /// Gives `amount` units back without a grant, never beyond full.
    pub fn credit_at(&self, now: Nanos, amount: u64) {
        let mut done = 0;
        self.ask(now, |state| {
            let credit = |part| self.algorithm.credit(state, now, amount, part);
            Ok(each_part(self.algorithm.parts(), &mut done, credit)?)
        });
    }
}

impl<A: Algorithm, C: Clock> DirectLimiter<A, C> {
    /// Whether one unit may pass now; if so it is charged.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        self.is_allowed_at(self.clock.now(), 1)
    }

    /// [`is_allowed`](Self::is_allowed) with its reasons.
    pub fn check(&self) -> Decision {
        self.check_n(1)
    }

    /// Charges `cost` units whole, or nothing.
    pub fn check_n(&self, cost: u64) -> Decision {
        self.check_at(self.clock.now(), cost)
    }

    /// What [`check_n`](Self::check_n) would answer; charges nothing.
    pub fn peek_n(&self, cost: u64) -> Decision {
        self.peek_at(self.clock.now(), cost)
    }

    /// Charges `cost` units, if they fit, for a grant that [`refund`](Self::refund) takes back.
    #[inline]
    pub fn acquire(&self, cost: u64) -> Option<A::Grant> {
        self.acquire_at(self.clock.now(), cost)
    }

    /// Gives back exactly what `grant` took.
    pub fn refund(&self, grant: A::Grant) {
        self.refund_at(self.clock.now(), grant);
    }

    /// Gives `amount` units back without a grant, never beyond full.
    pub fn credit(&self, amount: u64) {
        self.credit_at(self.clock.now(), amount);
    }
}

impl<A: Algorithm + fmt::Debug, C: fmt::Debug> fmt::Debug for DirectLimiter<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectLimiter")
            .field("algorithm", &self.algorithm)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FixedWindow, ManualClock, Quota, RetryAfter};
    use core::time::Duration;

    #[test]
    fn one_stream_is_held_to_its_quota() {
        let clock = ManualClock::new();
        let window = FixedWindow::<u64>::new(Quota::per_second(3).unwrap(), Default::default());
        let limiter = DirectLimiter::new(window.unwrap(), clock.clone());
        assert!(limiter.is_allowed());
        assert_eq!(limiter.peek_n(2).remaining(), 2);
        let grant = limiter.acquire(2).unwrap();
        assert_eq!(limiter.check().retry_after(), RetryAfter::After(Duration::from_secs(1)));
        limiter.refund(grant);
        assert!(limiter.check_n(2).is_admitted());
        limiter.credit(9);
        assert_eq!(limiter.peek_n(0).remaining(), 3);
        clock.advance(Duration::from_secs(1));
        assert!(limiter.check_n(3).is_admitted());
        assert!(limiter.check_n(0).is_admitted());
    }
}
