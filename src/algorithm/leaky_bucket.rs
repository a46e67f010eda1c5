//! Leaky bucket as a queue: work leaves evenly spaced, up to `queue` requests wait their turn.

use core::fmt;
use core::time::Duration;

use super::virtual_time::Pace;
use super::{AlgorithmKind, Grant, Place, Stand, WordAlgorithm};
use crate::carry::Change;
use crate::decision::RetryAfter;
use crate::quota::{Allowance, Quota, QuotaError, Rate};
use crate::time::Nanos;
use crate::word::Word;

/// Leaky bucket (GCRA): never a burst. One unit leaves per interval (`period / limit`); up to
/// `queue` more are admitted with a [`delay`](crate::Decision::delay) after which it is their turn.
///
/// With queue 0 this is strict pacing. A request that is admitted and then waits its delay leaves
/// at least one interval after the one before it; one of cost `k` keeps the next waiting for `k`
/// intervals.
///
/// **Bound:** in any interval of length `t` at most `queue + 1 + limit * t / period` units are
/// admitted, less what was refunded; after the delays, at most `1 + limit * t / period` leave.
///
/// **State:** the time at which the bucket is empty again, in one word.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Algorithm, LeakyBucket, Nanos, Quota};
///
/// let bucket = LeakyBucket::<u64>::new(Quota::per_second(10)?, 1)?;
/// let client = bucket.fresh(Nanos::ZERO);
/// assert_eq!(bucket.check(&client, Nanos::ZERO, 1)?.1.delay, Duration::ZERO);
/// assert_eq!(bucket.check(&client, Nanos::ZERO, 1)?.1.delay, Duration::from_millis(100));
/// assert!(!bucket.check(&client, Nanos::ZERO, 1)?.1.admitted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket<W = u64> {
    quota: Quota,
    pace: Pace<W>,
}

impl<W: Word> LeakyBucket<W> {
    /// A bucket at the quota's rate with `queue` places behind the one in service. The quota's
    /// burst plays no part.
    ///
    /// # Errors
    /// If the word cannot hold the quota and the queue: see [`QuotaError`].
    pub fn new(quota: Quota, queue: u64) -> Result<Self, QuotaError> {
        let Some(capacity) = queue.checked_add(1) else {
            return Err(QuotaError::TooLarge {
                what: "queue",
                given: queue,
                max: u64::MAX - 1,
                instead: "use a smaller queue",
            });
        };
        let pace = Pace::new(&quota, capacity).map_err(|error| match error {
            QuotaError::TooLarge { what: "burst", given, max, instead } => QuotaError::TooLarge {
                what: "queue",
                given: given - 1,
                max: max.saturating_sub(1),
                instead,
            },
            other => other,
        })?;
        Ok(Self { pace, quota })
    }

    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        Some(AlgorithmKind::LeakyBucket { queue: self.pace.capacity() - 1 })
    }

    /// The rate at which work really leaves: the quota's, unless its numerator in lowest terms is
    /// too large for a 64-bit word; then the nearest that is not faster.
    pub fn effective_rate(&self) -> Rate {
        self.pace.rate()
    }
}

impl<W: Word> fmt::Display for LeakyBucket<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, queue {}, leaky bucket", self.quota.rate_only(), self.pace.capacity() - 1)
    }
}

impl<W: Word> WordAlgorithm for LeakyBucket<W> {
    type Word = W;

    const NAME: &'static str = "leaky_bucket";

    const REFUNDS_SURVIVE_CHANGE: bool = true;

    fn limit(&self) -> u64 {
        self.pace.capacity()
    }

    fn allowance(&self) -> Allowance {
        self.quota.rate_only().into()
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

    // Whoever waits may do so behind the queue too: how long is for the waiter to say.
    fn stand(&self, word: W, now: Nanos, cost: u64) -> Option<Stand<W>> {
        self.pace.stand(word, now, cost, W::from(0))
    }

    fn stand_in(&self, place: Place<W>, now: Nanos, cost: u64) -> Option<Stand<W>> {
        self.pace.stand_in(place, now, cost, W::from(0))
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

    fn queues(&self) -> bool {
        self.pace.capacity() > 1
    }

    fn delay(&self, word: W, now: Nanos) -> Duration {
        self.pace.until(word, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::CarryOver;

    fn at(nanos: u64) -> Nanos {
        Nanos::new(nanos)
    }

    #[test]
    fn without_a_queue_it_paces_strictly() {
        let bucket = LeakyBucket::<u64>::new(Quota::per_second(4).unwrap(), 0).unwrap();
        let (word, _) = bucket.take(0, at(10), 1).unwrap();
        assert_eq!(bucket.take(word, at(250_000_009), 1), None);
        assert_eq!(bucket.retry_after(word, at(10), 1), RetryAfter::nanos(250_000_000));
        assert!(bucket.take(word, at(250_000_010), 1).is_some());
        assert_eq!(bucket.retry_after(word, at(10), 2), RetryAfter::Never);
    }

    #[test]
    fn queued_work_is_told_its_turn() {
        let bucket = LeakyBucket::<u64>::new(Quota::per_second(4).unwrap(), 2).unwrap();
        let mut word = 0;
        for turn in 0..3 {
            assert_eq!(bucket.delay(word, at(0)), Duration::from_millis(250 * turn));
            word = bucket.take(word, at(0), 1).unwrap().0;
        }
        assert_eq!(bucket.take(word, at(0), 1), None);
        assert_eq!(bucket.remaining(word, at(0)), 0);
        assert_eq!(bucket.remaining(word, at(500_000_000)), 2);
    }

    #[test]
    fn whoever_waits_stands_behind_all_that_was_taken() {
        let quota = Quota::new(1, Duration::from_nanos(10)).unwrap();
        let bucket = LeakyBucket::<u64>::new(quota, 2).unwrap();
        assert_eq!((bucket.owed(130, at(100)), bucket.owed(90, at(100))), (3, 0));
        let place = |start, end| Place { start, end };
        let wait = Duration::from_nanos(30);
        assert_eq!(bucket.stand(130, at(100), 2), Some((place(130, 150), wait)));
        let within = bucket.stand_in(place(130, 150), at(100), 1);
        assert_eq!(within, Some((place(130, 140), wait)));
    }

    #[test]
    fn a_longer_queue_fills_from_the_shorter_one() {
        let quota = Quota::new(1, Duration::from_nanos(10)).unwrap();
        let short = LeakyBucket::<u64>::new(quota, 0).unwrap();
        let mut long = LeakyBucket::<u64>::new(quota, 2).unwrap();
        let change = Change { at: at(100), carry_over: CarryOver::Keep, moved: false };
        long.inherit(&short, change);
        assert_eq!((long.start(at(0)), long.start(at(200))), (120, 200));
    }

    #[test]
    fn a_queue_without_end_is_refused() {
        let error = LeakyBucket::<u128>::new(Quota::per_second(4).unwrap(), u64::MAX).unwrap_err();
        assert!(error.to_string().starts_with("queue 18446744073709551615: at most"), "{error}");
    }
}
