//! Token bucket: up to `burst` units at once, refilled continuously at the quota's rate.

use core::fmt;
use core::time::Duration;

use super::virtual_time::Pace;
use super::{AlgorithmKind, Grant, Place, Stand, WordAlgorithm};
use crate::carry::Change;
use crate::decision::RetryAfter;
use crate::quota::{Allowance, Quota, QuotaError, Rate};
use crate::time::Nanos;
use crate::word::Word;

/// Token bucket: full at first sight, `burst` units at once, `limit` per `period` in the long run.
///
/// **Bound:** in any interval of length `t` at most `burst + limit * t / period` units are
/// admitted, less what was refunded in it. Exact: the fraction of a token is kept.
///
/// **State:** the time at which the bucket is full again, in one word (`src/algorithm/virtual_time.rs`
/// draws it). `u64` holds every usual quota; `TokenBucket<u128>` holds the rest.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Algorithm, Nanos, Quota, TokenBucket};
///
/// let bucket = TokenBucket::<u64>::new(Quota::per_second(2)?)?;
/// let client = bucket.fresh(Nanos::ZERO);
/// let (granted, reading) = bucket.check(&client, Nanos::ZERO, 2)?;
/// assert!(granted.is_some());
/// assert_eq!(reading.remaining, 0);
/// assert_eq!(bucket.acquire(&client, Nanos::new(499_999_999), 1)?, None);
/// assert!(bucket.acquire(&client, Nanos::new(500_000_000), 1)?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket<W = u64> {
    quota: Quota,
    pace: Pace<W>,
}

impl<W: Word> TokenBucket<W> {
    /// A bucket for `quota`.
    ///
    /// # Errors
    /// If the word cannot hold the quota: see [`QuotaError`].
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Ok(Self { pace: Pace::new(&quota, quota.burst())?, quota })
    }

    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        Some(AlgorithmKind::TokenBucket)
    }

    /// The rate at which tokens really come: the quota's, unless its numerator in lowest terms is
    /// too large for a 64-bit word; then the nearest that is not faster.
    pub fn effective_rate(&self) -> Rate {
        self.pace.rate()
    }
}

impl<W: Word> fmt::Display for TokenBucket<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, token bucket", self.quota)
    }
}

impl<W: Word> WordAlgorithm for TokenBucket<W> {
    type Word = W;

    const NAME: &'static str = "token_bucket";

    const REFUNDS_SURVIVE_CHANGE: bool = true;

    fn limit(&self) -> u64 {
        self.pace.capacity()
    }

    fn allowance(&self) -> Allowance {
        self.quota.into()
    }

    fn start(&self, since: Nanos) -> W {
        self.pace.start(since)
    }

    #[inline]
    fn take(&self, word: W, now: Nanos, cost: u64) -> Option<(W, Grant)> {
        let next = self.pace.take(word, now, cost)?;
        Some((next, Grant { window: 0, amount: cost }))
    }

    const KEEPS_ORDER: bool = true;

    fn stand(&self, word: W, now: Nanos, cost: u64) -> Option<Stand<W>> {
        self.pace.stand(word, now, cost, self.pace.beside(cost))
    }

    fn stand_in(&self, place: Place<W>, now: Nanos, cost: u64) -> Option<Stand<W>> {
        self.pace.stand_in(place, now, cost, self.pace.beside(cost))
    }

    fn give_back(&self, word: W, now: Nanos, grant: Grant) -> Option<W> {
        self.pace.give_back(word, now, grant.amount)
    }

    fn credit(&self, word: W, now: Nanos, amount: u64) -> Option<W> {
        self.pace.give_back(word, now, amount)
    }

    fn charge(&self, word: W, now: Nanos, cost: u64) -> W {
        self.pace.charge(word, now, cost)
    }

    fn penalize(&self, word: W, _now: Nanos, until: Nanos) -> W {
        self.pace.penalize(word, until)
    }

    fn owed(&self, word: W, now: Nanos) -> u64 {
        self.pace.owed(word, now)
    }

    fn adopt(&self, old: &Self, word: W, change: Change) -> W {
        self.pace.adopt(&old.pace, word, change)
    }

    fn inherit(&mut self, old: &Self, change: Change) {
        self.pace.inherit(&old.pace, change);
    }

    fn is_idle(&self, word: W, now: Nanos) -> bool {
        self.pace.is_idle(word, now)
    }

    fn remaining(&self, word: W, now: Nanos) -> u64 {
        self.pace.remaining(word, now)
    }

    fn retry_after(&self, word: W, now: Nanos, cost: u64) -> RetryAfter {
        self.pace.retry_after(word, now, cost)
    }

    fn reset_after(&self, word: W, now: Nanos) -> Duration {
        self.pace.until(word, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(limit: u64, burst: u64) -> TokenBucket {
        TokenBucket::new(Quota::per_second(limit).unwrap().with_burst(burst).unwrap()).unwrap()
    }

    #[test]
    fn a_full_bucket_bursts_and_then_paces() {
        let bucket = bucket(1, 3);
        let (word, grant) = bucket.take(0, Nanos::ZERO, 3).unwrap();
        assert_eq!(grant.amount, 3);
        assert_eq!(bucket.take(word, Nanos::new(999_999_999), 1), None);
        assert!(bucket.take(word, Nanos::new(1_000_000_000), 1).is_some());
        assert_eq!(bucket.retry_after(word, Nanos::ZERO, 1), RetryAfter::nanos(1_000_000_000));
        assert_eq!(bucket.retry_after(word, Nanos::ZERO, 4), RetryAfter::Never);
        assert_eq!(bucket.reset_after(word, Nanos::ZERO), Duration::from_secs(3));
    }

    #[test]
    fn a_refund_is_a_subtraction_that_stops_at_full() {
        let bucket = bucket(1, 3);
        let (word, grant) = bucket.take(0, Nanos::ZERO, 2).unwrap();
        let half = bucket.give_back(word, Nanos::new(500_000_000), grant).unwrap();
        assert_eq!(bucket.remaining(half, Nanos::new(500_000_000)), 3);
        assert_eq!(half, 500_000_000, "a full bucket keeps no fraction");
        assert_eq!(bucket.give_back(word, Nanos::new(2_000_000_000), grant), None);
    }

    #[test]
    fn whoever_waits_has_his_turn_when_the_units_are_there() {
        let bucket =
            TokenBucket::<u64>::new(Quota::new(3, Duration::from_nanos(30)).unwrap()).unwrap();
        let (place, wait) = bucket.stand(130, Nanos::new(100), 2).unwrap();
        assert_eq!((place.start, place.end, wait), (130, 150, Duration::from_nanos(20)));
        let (within, wait) = bucket.stand_in(place, Nanos::new(100), 1).unwrap();
        assert_eq!((within.start, within.end, wait), (130, 140, Duration::from_nanos(10)));
    }

    #[test]
    fn idle_is_full() {
        let bucket = bucket(1, 3);
        let (word, _) = bucket.take(0, Nanos::ZERO, 1).unwrap();
        assert!(!bucket.is_idle(word, Nanos::new(999_999_999)));
        assert!(bucket.is_idle(word, Nanos::new(1_000_000_000)));
    }
}
