//! Sliding window counter: two counts, the older weighted by how much of it still overlaps.

use core::fmt;
use core::time::Duration;

use super::{AlgorithmKind, Grant, WordAlgorithm};
use crate::carry::Change;
use crate::decision::RetryAfter;
use crate::quota::{Allowance, LIFETIME, Quota, QuotaError};
use crate::time::Nanos;
use crate::word::{Field, Layout, Word};

/// Sliding window counter: `previous * (period - elapsed) / period + current + cost <= limit`,
/// where `elapsed` is the time since the current window began. Exact: no rounding decides.
///
/// **Bound:** the weighted sum never exceeds `limit`; it takes the previous window's units as
/// evenly spread, so a half-open window of one period holds fewer than `2 * limit` in the worst
/// case and about `limit` for steady traffic. The sliding log is exact. The quota's burst plays no part.
///
/// **State:** one word:
///
/// ```text
/// | frozen | previous: half the other bits | current: the other half | window: as the clock's life needs, if the limit leaves room |
/// ```
///
/// | field | unit | at its maximum |
/// |---|---|---|
/// | window | periods since the origin; lasts 10 to 584 years | the last window never ends: refuses |
/// | previous, current | units; above `limit` only by a charge or a lowered limit | further charges are not counted |
///
/// A window is only ever replaced by a later one; windows are compared as plain numbers and never
/// wrap. `u64` holds limits below 2^15 with any period from 40 ms; `SlidingCounter<u128>` holds
/// every limit below 2^34 with any period, and below 2^44 from 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter<W = u64> {
    quota: Quota,
    limit: u64,
    period: u64,
    current: Field,
    previous: Field,
    window: Field,
    word: core::marker::PhantomData<W>,
}

/// The word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Snapshot {
    window: u64,
    previous: u64,
    current: u64,
}

impl<W: Word> SlidingCounter<W> {
    /// Windows of the quota's period.
    ///
    /// # Errors
    /// If the word cannot hold the limit twice beside ten years of windows: see [`QuotaError`].
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        let (limit, period) = (quota.limit(), quota.period_nanos());
        let (window, layout) = Layout::of::<W>().windows(period, limit, 2);
        let (current, previous) = layout.halves();
        if window.max() <= LIFETIME / period || current.max() < limit {
            return Err(QuotaError::TooLarge {
                what: "limit",
                given: limit,
                max: Layout::of::<W>().widest_beside(LIFETIME / period + 1, 2),
                instead: match W::PAYLOAD_BITS {
                    64.. => "use a smaller limit, or a token bucket",
                    _ => "use a smaller limit, or the algorithm with the 128-bit word",
                },
            });
        }
        let word = core::marker::PhantomData;
        Ok(Self { quota, limit, period, current, previous, window, word })
    }

    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        Some(AlgorithmKind::SlidingCounter)
    }

    fn unpack(&self, word: W) -> Snapshot {
        Snapshot {
            window: self.window.get(word),
            previous: self.previous.get(word),
            current: self.current.get(word),
        }
    }

    fn pack(&self, snapshot: Snapshot) -> W {
        self.window.put::<W>(snapshot.window)
            | self.previous.put(snapshot.previous)
            | self.current.put(snapshot.current)
    }

    /// The word as seen at `now`, and how much of its window is left in ns (1 to `period`). A time
    /// before the word's window is taken as that window's beginning.
    fn at(&self, word: W, now: Nanos) -> (Snapshot, u64) {
        let seen = self.unpack(word);
        let window = (now.get() / self.period).min(self.window.max());
        let left = self.period - now.get() % self.period;
        if window < seen.window {
            return (seen, self.period);
        }
        let snapshot = match window - seen.window {
            0 => seen,
            1 => Snapshot { window, previous: seen.current, current: 0 },
            _ => Snapshot { window, previous: 0, current: 0 },
        };
        // In the last window that can be told, time stands still.
        (snapshot, if window == self.window.max() { self.period } else { left })
    }

    /// What the previous window still weighs, in units, rounded up: the same as exact, since
    /// limits and costs are whole.
    fn weight(&self, previous: u64, left: u64) -> u64 {
        let product = u128::from(previous) * u128::from(left);
        product.div_ceil(u128::from(self.period)).saturating_to_u64()
    }

    fn used(&self, snapshot: Snapshot, left: u64) -> u64 {
        self.weight(snapshot.previous, left).saturating_add(snapshot.current)
    }

    /// The beginning of a window in ns, at most `u64::MAX`.
    fn beginning(&self, window: u64) -> u64 {
        window.saturating_mul(self.period)
    }

    /// The earliest time, from the beginning of `window` to its end, at which `previous` units of
    /// the window before weigh at most `room`.
    fn lightened(&self, window: u64, previous: u64, room: u64) -> u64 {
        let left = u128::from(room) * u128::from(self.period) / u128::from(previous.max(1));
        let elapsed = self.period - left.saturating_to_u64().min(self.period);
        self.beginning(window).saturating_add(elapsed)
    }

    /// The time at which `cost`, refused now, will fit.
    fn opening(&self, seen: Snapshot, cost: u64) -> u64 {
        match self.limit.saturating_sub(seen.current).checked_sub(cost) {
            Some(room) => self.lightened(seen.window, seen.previous, room),
            // Not in this window: in the next, where this window's count is the previous one.
            None => self.lightened(seen.window.saturating_add(1), seen.current, self.limit - cost),
        }
    }
}

impl<W: Word> fmt::Display for SlidingCounter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, sliding window counter", self.quota.rate_only())
    }
}

impl<W: Word> WordAlgorithm for SlidingCounter<W> {
    type Word = W;

    const NAME: &'static str = "sliding_counter";

    fn limit(&self) -> u64 {
        self.limit
    }

    fn allowance(&self) -> Allowance {
        self.quota.rate_only().into()
    }

    fn start(&self, since: Nanos) -> W {
        self.pack(Snapshot { window: since.get() / self.period, previous: 0, current: 0 })
    }

    #[inline]
    fn take(&self, word: W, now: Nanos, cost: u64) -> Option<(W, Grant)> {
        let (seen, left) = self.at(word, now);
        let room = self.limit.saturating_sub(seen.current).checked_sub(cost)?;
        // weight(previous, left) <= room, without the division.
        let weight = u128::from(seen.previous) * u128::from(left);
        if weight > u128::from(room) * u128::from(self.period) {
            return None;
        }
        let next = Snapshot { current: seen.current.saturating_add(cost), ..seen };
        Some((self.pack(next), Grant { window: seen.window, amount: cost }))
    }

    fn give_back(&self, word: W, _now: Nanos, grant: Grant) -> Option<W> {
        let seen = self.unpack(word);
        let next = match seen.window.checked_sub(grant.window)? {
            0 => Snapshot { current: seen.current.saturating_sub(grant.amount), ..seen },
            1 => Snapshot { previous: seen.previous.saturating_sub(grant.amount), ..seen },
            _ => seen,
        };
        (next != seen).then(|| self.pack(next))
    }

    fn credit(&self, word: W, now: Nanos, amount: u64) -> Option<W> {
        let (seen, _) = self.at(word, now);
        let current = seen.current.saturating_sub(amount);
        (current < seen.current).then(|| self.pack(Snapshot { current, ..seen }))
    }

    fn charge(&self, word: W, now: Nanos, cost: u64) -> W {
        let (seen, _) = self.at(word, now);
        self.pack(Snapshot { current: seen.current.saturating_add(cost), ..seen })
    }

    fn penalize(&self, word: W, now: Nanos, until: Nanos) -> W {
        let (seen, _) = self.at(word, now);
        let shut = until.get().saturating_sub(1) / self.period;
        // The greatest count: a limit raised meanwhile does not open it.
        self.pack(Snapshot {
            window: shut.max(seen.window),
            previous: 0,
            current: self.current.max(),
        })
    }

    fn owed(&self, word: W, now: Nanos) -> u64 {
        let (seen, left) = self.at(word, now);
        self.used(seen, left)
    }

    fn adopt(&self, old: &Self, word: W, change: Change) -> W {
        let (seen, left) = old.at(word, change.at);
        let kept = |units| change.used(units, old.limit, self.limit);
        self.pack(if old.period == self.period {
            Snapshot { previous: kept(seen.previous), current: kept(seen.current), ..seen }
        } else {
            // The counts of other windows: what they weigh now counts in the window of now.
            let now = old.beginning(seen.window).max(change.at.get());
            let current = kept(old.used(seen, left));
            Snapshot { window: now / self.period, previous: 0, current }
        })
    }

    fn is_idle(&self, word: W, now: Nanos) -> bool {
        let (seen, _) = self.at(word, now);
        // A window that is yet to come is no fresh one's.
        let come = self.beginning(seen.window) <= now.get();
        come && seen.previous == 0 && seen.current == 0
    }

    fn remaining(&self, word: W, now: Nanos) -> u64 {
        let (seen, left) = self.at(word, now);
        self.limit.saturating_sub(self.used(seen, left))
    }

    fn retry_after(&self, word: W, now: Nanos, cost: u64) -> RetryAfter {
        let (seen, left) = self.at(word, now);
        if cost > self.limit {
            RetryAfter::Never
        } else if cost <= self.limit.saturating_sub(self.used(seen, left)) {
            RetryAfter::Now
        } else if seen.window == self.window.max() {
            RetryAfter::Never
        } else {
            RetryAfter::nanos(self.opening(seen, cost).saturating_sub(now.get()).max(1))
        }
    }

    fn reset_after(&self, word: W, now: Nanos) -> Duration {
        let (seen, _) = self.at(word, now);
        let windows = match (seen.current, seen.previous) {
            (0, 0) => return Duration::ZERO,
            (0, _) => 1,
            _ => 2,
        };
        let end = self.beginning(seen.window.saturating_add(windows));
        Duration::from_nanos(end.saturating_sub(now.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::CarryOver;

    fn counter(limit: u64) -> SlidingCounter {
        SlidingCounter::new(Quota::new(limit, Duration::from_millis(100)).unwrap()).unwrap()
    }

    fn ms(millis: u64) -> Nanos {
        Nanos::new(millis * 1_000_000)
    }

    fn wait(millis: u64) -> RetryAfter {
        RetryAfter::nanos(millis * 1_000_000)
    }

    #[test]
    fn the_previous_window_weighs_as_much_as_it_overlaps() {
        let counter = counter(10);
        let (word, _) = counter.take(0, ms(50), 10).unwrap();
        assert_eq!(counter.remaining(word, ms(100)), 0);
        assert_eq!(counter.remaining(word, ms(150)), 5);
        assert_eq!(counter.remaining(word, ms(155)), 5);
        assert_eq!(counter.remaining(word, ms(200)), 10);
        assert!(counter.take(word, ms(150), 5).is_some());
        assert_eq!(counter.take(word, Nanos::new(149_999_999), 5), None);
    }

    #[test]
    fn a_full_window_keeps_the_door_shut_into_the_next() {
        let counter = counter(1);
        let (word, _) = counter.take(0, ms(0), 1).unwrap();
        assert_eq!(counter.retry_after(word, ms(0), 1), wait(200));
        assert_eq!(counter.take(word, Nanos::new(199_999_999), 1), None);
        assert!(counter.take(word, ms(200), 1).is_some());
        assert_eq!(counter.reset_after(word, ms(0)), Duration::from_millis(200));
    }

    #[test]
    fn waits_end_in_this_window_or_the_next() {
        let counter = counter(10);
        let (word, _) = counter.take(0, ms(0), 10).unwrap();
        assert_eq!(counter.retry_after(word, ms(90), 1), wait(20));
        let (word, _) = counter.take(word, ms(150), 5).unwrap();
        assert_eq!(counter.retry_after(word, ms(150), 1), wait(10));
        assert_eq!(counter.retry_after(word, ms(150), 6), wait(70));
        assert_eq!(counter.retry_after(word, ms(150), 11), RetryAfter::Never);
    }

    #[test]
    fn a_refund_reaches_the_window_that_paid() {
        let counter = counter(10);
        let (word, grant) = counter.take(0, ms(0), 10).unwrap();
        let back = counter.give_back(word, ms(10), grant).unwrap();
        assert!(counter.is_idle(back, ms(10)));
        let (next, _) = counter.take(word, ms(150), 5).unwrap();
        let back = counter.give_back(next, ms(150), grant).unwrap();
        assert_eq!(counter.remaining(back, ms(150)), 5);
        let (after, _) = counter.take(word, ms(250), 1).unwrap();
        assert_eq!(counter.give_back(after, ms(250), grant), None);
    }

    #[test]
    fn a_stale_time_is_the_beginning_of_the_latest_window() {
        let counter = counter(10);
        let (word, _) = counter.take(0, ms(150), 4).unwrap();
        assert_eq!(counter.remaining(word, ms(20)), 6);
        assert_eq!(counter.take(word, ms(20), 7), None);
        let grant = counter.take(word, ms(20), 6).unwrap().1;
        assert_eq!(grant.window, 1);
    }

    #[test]
    fn what_was_used_already_is_owed_and_shuts_this_window_and_the_next() {
        let counter = counter(10);
        let word = counter.charge(0, ms(50), 12);
        let owed = [50, 100, 150, 199, 200].map(|now| counter.owed(word, ms(now)));
        assert_eq!(owed, [12, 12, 6, 1, 0]);
        let left =
            |until, now| counter.remaining(counter.penalize(word, ms(50), ms(until)), ms(now));
        assert_eq!((left(300, 299), left(300, 399), left(300, 400)), (0, 0, 10));
        assert_eq!((left(301, 499), left(301, 500)), (0, 10));
    }

    #[test]
    fn idle_is_nothing_in_this_window_nor_the_one_before() {
        let counter = counter(10);
        let (word, _) = counter.take(counter.start(ms(100)), ms(150), 1).unwrap();
        let idle = [50, 150, 250, 299, 300].map(|now| counter.is_idle(word, ms(now)));
        assert_eq!(idle, [false, false, false, false, true]);
        assert!(!counter.is_idle(counter.start(ms(100)), ms(99)), "it is yet to come");
        assert!(counter.is_idle(counter.start(ms(100)), ms(100)));
    }

    #[test]
    fn counts_are_taken_over_by_window_or_by_what_they_weigh() {
        let old = counter(10);
        let word = old.charge(old.charge(0, ms(50), 4), ms(150), 3);
        let adopt = |millis, word, at, carry_over| {
            let quota = Quota::new(20, Duration::from_millis(millis)).unwrap();
            let new = SlidingCounter::<u64>::new(quota).unwrap();
            let seen = new.unpack(new.adopt(&old, word, Change { at, carry_over, moved: false }));
            (seen.window, seen.previous, seen.current)
        };
        assert_eq!(adopt(100, word, ms(150), CarryOver::Keep), (1, 4, 3));
        assert_eq!(adopt(100, word, ms(150), CarryOver::Proportional), (1, 8, 6));
        assert_eq!(adopt(100, word, ms(150), CarryOver::Reset), (1, 0, 0));
        // Half of the four weighs still; 150 ms are in the window from 120 on.
        assert_eq!(adopt(40, word, ms(150), CarryOver::Keep), (3, 0, 5));
        assert_eq!(adopt(40, word, ms(190), CarryOver::Keep), (4, 0, 4));
        // The time of the change is stale.
        assert_eq!(adopt(40, word, ms(0), CarryOver::Keep), (2, 0, 7));
    }

    #[test]
    fn narrow_words_name_the_remedy() {
        let quota = Quota::per_second(1 << 20).unwrap();
        let error = SlidingCounter::<u64>::new(quota).unwrap_err();
        assert!(error.to_string().contains("at most 131071 here"), "{error}");
        assert!(SlidingCounter::<u128>::new(quota).is_ok());
    }

    #[test]
    fn the_last_window_never_ends() {
        let quota = Quota::new(3, Duration::from_nanos(1)).unwrap();
        let counter = SlidingCounter::<u128>::new(quota).unwrap();
        let (word, _) = counter.take(0, Nanos::MAX, 3).unwrap();
        assert_eq!(counter.take(word, Nanos::MAX, 1), None);
        assert_eq!(counter.retry_after(word, Nanos::MAX, 1), RetryAfter::Never);
    }
}
