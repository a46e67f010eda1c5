//! One stream without keys: an algorithm, one state, a clock.

use crossbeam_utils::CachePadded;

use crate::algorithm::Algorithm;
use crate::decision::{Decision, Reading};
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
/// allocates.
#[derive(Debug)]
pub struct DirectLimiter<A: Algorithm, C = ()> {
    algorithm: A,
    clock: C,
    // Written by every admission: apart from what every decision only reads.
    state: CachePadded<A::State>,
}

impl<A: Algorithm, C> DirectLimiter<A, C> {
    /// A limiter that has admitted nothing.
    pub fn new(algorithm: A, clock: C) -> Self {
        let state = CachePadded::new(algorithm.fresh(Nanos::ZERO));
        Self { algorithm, clock, state }
    }

    /// Whether `cost` units may pass at `now`; if so they are charged.
    #[inline]
    pub fn is_allowed_at(&self, now: Nanos, cost: u64) -> bool {
        self.acquire_at(now, cost).is_some()
    }

    /// [`is_allowed_at`](Self::is_allowed_at) with its reasons.
    pub fn check_at(&self, now: Nanos, cost: u64) -> Decision {
        Decision::of_client(self.take_at(now, cost).1)
    }

    /// What [`check_at`](Self::check_at) would answer; charges nothing.
    pub fn peek_at(&self, now: Nanos, cost: u64) -> Decision {
        Decision::of_client(self.read_at(now, cost))
    }

    /// Charges `cost` units, if they fit, for a grant that [`refund_at`](Self::refund_at) takes
    /// back.
    #[inline]
    pub fn acquire_at(&self, now: Nanos, cost: u64) -> Option<A::Grant> {
        self.algorithm.acquire(&self.state, now, cost).ok().flatten()
    }

    /// Gives back exactly what `grant` took.
    pub fn refund_at(&self, now: Nanos, grant: A::Grant) {
        let _ = self.algorithm.refund(&self.state, now, grant);
    }

    /// Gives `amount` units back without a grant, never beyond full.
    pub fn credit_at(&self, now: Nanos, amount: u64) {
        let _ = self.algorithm.credit(&self.state, now, amount);
    }

    /// [`acquire_at`](Self::acquire_at) with the reading of the snapshot that decided.
    fn take_at(&self, now: Nanos, cost: u64) -> (Option<A::Grant>, Reading) {
        let taken = self.algorithm.check(&self.state, now, cost);
        taken.unwrap_or_else(|_| (None, self.read_at(now, cost)))
    }

    fn read_at(&self, now: Nanos, cost: u64) -> Reading {
        self.algorithm.peek(&self.state, now, cost)
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
