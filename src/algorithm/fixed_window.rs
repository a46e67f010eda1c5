//! Fixed window: a count that starts anew with each window.

use core::fmt;
use core::time::Duration;

use super::{AlgorithmKind, Grant, WordAlgorithm};
use crate::carry::Change;
use crate::decision::RetryAfter;
use crate::quota::{Allowance, LIFETIME, Quota, QuotaError};
use crate::time::Nanos;
use crate::word::{Field, Layout, Word};

/// Where the windows of a [`FixedWindow`] begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At multiples of the period since the clock's origin, the same for every client.
    #[default]
    Aligned,
    /// At the client's first charged request after the window before was over, as a "5-hour
    /// allowance" does.
    FirstRequest,
}

/// Fixed window: at most `limit` units in each window of one period.
///
/// **Bound:** `limit` per window; so up to `2 * limit` around the edge between two windows. Where
/// that matters use the sliding counter or the sliding log. The quota's burst plays no part.
///
/// **State:** which window, and how much of it was used, in one word:
///
/// ```text
/// | frozen | count: all other bits, 64 at most | window: as the clock's life needs, if the limit leaves room |
/// ```
///
/// | field | unit | at its maximum |
/// |---|---|---|
/// | window, aligned | periods since the origin; lasts 10 to 584 years | the last window never ends: refuses |
/// | window, from the first request | its start in ns; lasts 10 to 584 years | the same |
/// | count | units; above `limit` only by a charge or a lowered limit | further charges are not counted |
///
/// A window is only ever replaced by a later one; windows are compared as plain numbers and never
/// wrap, so no client can sleep past a wrap. `u64` holds a limit below 2^32 with any period from
/// 150 ms; anchored windows keep their start to the nanosecond and need `FixedWindow<u128>`
/// unless the limit is below 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow<W = u64> {
    quota: Quota,
    limit: u64,
    period: u64,
    anchor: Anchor,
    count: Field,
    window: Field,
    word: core::marker::PhantomData<W>,
}

/// The word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Snapshot {
    window: u64,
    count: u64,
}

impl<W: Word> FixedWindow<W> {
    /// Windows of the quota's period.
    ///
    /// # Errors
    /// If the word cannot hold the limit beside ten years of windows: see [`QuotaError`].
    pub fn new(quota: Quota, anchor: Anchor) -> Result<Self, QuotaError> {
        let (limit, period) = (quota.limit(), quota.period_nanos());
        let unit = match anchor {
            Anchor::Aligned => period,
            Anchor::FirstRequest => 1,
        };
        let (window, layout) = Layout::of::<W>().windows(unit, limit, 1);
        let count = layout.rest();
        if window.max() <= LIFETIME / unit || count.max() < limit {
            return Err(QuotaError::TooLarge {
                what: "limit",
                given: limit,
                max: Layout::of::<W>().widest_beside(LIFETIME / unit + 1, 1),
                instead: "use a smaller limit, or the algorithm with the 128-bit word",
            });
        }
        Ok(Self { quota, limit, period, anchor, count, window, word: core::marker::PhantomData })
    }

    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        Some(AlgorithmKind::FixedWindow { anchor: self.anchor })
    }

    fn unpack(&self, word: W) -> Snapshot {
        Snapshot { window: self.window.get(word), count: self.count.get(word) }
    }

    fn pack(&self, snapshot: Snapshot) -> W {
        self.window.put::<W>(snapshot.window) | self.count.put(snapshot.count)
    }

    /// The word as seen at `now`: in the window of `now`, or in its own if that is later.
    fn at(&self, word: W, now: Nanos) -> Snapshot {
        let seen = self.unpack(word);
        let (open, window) = match self.anchor {
            Anchor::Aligned => {
                let window = (now.get() / self.period).min(self.window.max());
                (window <= seen.window, window)
            }
            Anchor::FirstRequest => {
                let end = self.end(seen.window);
                let endless = end == u64::MAX || seen.window == self.window.max();
                let running = seen.count > 0 && (now.get() < end || endless);
                (running || now.get() <= seen.window, now.get().min(self.window.max()))
            }
        };
        if open { seen } else { Snapshot { window, count: 0 } }
    }

    /// The beginning of a window in ns, at most `u64::MAX`.
    fn beginning(&self, window: u64) -> u64 {
        match self.anchor {
            Anchor::Aligned => window.saturating_mul(self.period),
            Anchor::FirstRequest => window,
        }
    }

    /// The end of a window in ns, at most `u64::MAX`.
    fn end(&self, window: u64) -> u64 {
        self.beginning(window).saturating_add(self.period)
    }

    fn less(&self, snapshot: Snapshot, amount: u64) -> Option<W> {
        let count = snapshot.count.saturating_sub(amount);
        (count < snapshot.count).then(|| self.pack(Snapshot { count, ..snapshot }))
    }
}

impl<W: Word> fmt::Display for FixedWindow<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let anchor = match self.anchor {
            Anchor::Aligned => "",
            Anchor::FirstRequest => " from the first request",
        };
        write!(f, "{}, fixed window{anchor}", self.quota.rate_only())
    }
}

impl<W: Word> WordAlgorithm for FixedWindow<W> {
    type Word = W;

    const NAME: &'static str = "fixed_window";

    fn limit(&self) -> u64 {
        self.limit
    }

    fn allowance(&self) -> Allowance {
        self.quota.rate_only().into()
    }

    fn start(&self, since: Nanos) -> W {
        let window = match self.anchor {
            Anchor::Aligned => since.get() / self.period,
            Anchor::FirstRequest => since.get(),
        };
        self.pack(Snapshot { window, count: 0 })
    }

    #[inline]
    fn take(&self, word: W, now: Nanos, cost: u64) -> Option<(W, Grant)> {
        let Snapshot { window, count } = self.at(word, now);
        // No overflow: count <= limit.
        let fits = cost <= self.limit.saturating_sub(count);
        let next = Snapshot { window, count: count.saturating_add(cost) };
        fits.then(|| (self.pack(next), Grant { window, amount: cost }))
    }

    fn give_back(&self, word: W, _now: Nanos, grant: Grant) -> Option<W> {
        let seen = self.unpack(word);
        if seen.window == grant.window { self.less(seen, grant.amount) } else { None }
    }

    fn credit(&self, word: W, now: Nanos, amount: u64) -> Option<W> {
        self.less(self.at(word, now), amount)
    }

    fn charge(&self, word: W, now: Nanos, cost: u64) -> W {
        let seen = self.at(word, now);
        self.pack(Snapshot { count: seen.count.saturating_add(cost), ..seen })
    }

    fn penalize(&self, word: W, now: Nanos, until: Nanos) -> W {
        let seen = self.at(word, now);
        let shut = match self.anchor {
            Anchor::Aligned => until.get().saturating_sub(1) / self.period,
            Anchor::FirstRequest => until.get().saturating_sub(self.period),
        };
        // The greatest count: a limit raised meanwhile does not open it.
        self.pack(Snapshot { window: shut.max(seen.window), count: self.count.max() })
    }

    fn owed(&self, word: W, now: Nanos) -> u64 {
        self.at(word, now).count
    }

    fn adopt(&self, old: &Self, word: W, change: Change) -> W {
        let seen = old.at(word, change.at);
        let beginning = old.beginning(seen.window);
        let window = match self.anchor {
            Anchor::Aligned => beginning.max(change.at.get()) / self.period,
            Anchor::FirstRequest => beginning,
        };
        self.pack(Snapshot { window, count: change.used(seen.count, old.limit, self.limit) })
    }

    fn is_idle(&self, word: W, now: Nanos) -> bool {
        // A window that is yet to come is no fresh one's.
        let come = self.beginning(self.unpack(word).window) <= now.get();
        come && self.at(word, now).count == 0
    }

    fn remaining(&self, word: W, now: Nanos) -> u64 {
        self.limit.saturating_sub(self.at(word, now).count)
    }

    fn retry_after(&self, word: W, now: Nanos, cost: u64) -> RetryAfter {
        let seen = self.at(word, now);
        if cost > self.limit {
            RetryAfter::Never
        } else if cost <= self.limit.saturating_sub(seen.count) {
            RetryAfter::Now
        } else if seen.window == self.window.max() || self.end(seen.window) == u64::MAX {
            RetryAfter::Never
        } else {
            RetryAfter::nanos(self.end(seen.window).saturating_sub(now.get()).max(1))
        }
    }

    fn reset_after(&self, word: W, now: Nanos) -> Duration {
        let seen = self.at(word, now);
        match seen.count {
            0 => Duration::ZERO,
            _ => Duration::from_nanos(self.end(seen.window).saturating_sub(now.get())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::CarryOver;

    fn window(limit: u64, anchor: Anchor) -> FixedWindow<u128> {
        let quota = Quota::new(limit, Duration::from_nanos(100)).unwrap();
        FixedWindow::new(quota, anchor).unwrap()
    }

    fn at(nanos: u64) -> Nanos {
        Nanos::new(nanos)
    }

    #[test]
    fn a_window_ends_at_a_multiple_of_the_period() {
        let window = window(2, Anchor::Aligned);
        let (word, _) = window.take(0, at(50), 2).unwrap();
        assert_eq!(window.take(word, at(99), 1), None);
        assert_eq!(window.retry_after(word, at(99), 1), RetryAfter::nanos(1));
        assert!(window.take(word, at(100), 2).is_some());
    }

    #[test]
    fn an_anchored_window_begins_with_the_first_charged_request() {
        let window = window(2, Anchor::FirstRequest);
        let (word, _) = window.take(window.start(at(0)), at(50), 2).unwrap();
        assert_eq!(window.take(word, at(149), 1), None);
        assert_eq!(window.retry_after(word, at(149), 1), RetryAfter::nanos(1));
        for now in [150, 170] {
            assert_eq!(window.take(word, at(now), 1).unwrap().1.window, now);
        }
    }

    #[test]
    fn a_stale_time_counts_in_the_latest_window() {
        for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
            let window = window(2, anchor);
            let (word, _) = window.take(0, at(250), 1).unwrap();
            let (word, _) = window.take(word, at(10), 1).unwrap();
            assert_eq!(window.take(word, at(20), 1), None);
            assert_eq!(window.remaining(word, at(260)), 0);
        }
    }

    #[test]
    fn a_state_made_later_knows_no_earlier_window() {
        for (anchor, begun) in [(Anchor::Aligned, 2), (Anchor::FirstRequest, 250)] {
            let window = window(2, anchor);
            let grant = window.take(window.start(at(250)), at(10), 1).unwrap().1;
            assert_eq!((grant.window, WordAlgorithm::limit(&window)), (begun, 2));
        }
    }

    #[test]
    fn a_refund_after_the_window_does_nothing() {
        let window = window(2, Anchor::Aligned);
        let (word, grant) = window.take(0, at(50), 2).unwrap();
        let (later, _) = window.take(word, at(150), 1).unwrap();
        assert_eq!(window.give_back(later, at(160), grant), None);
        let back = window.give_back(word, at(60), grant).unwrap();
        assert_eq!(window.remaining(back, at(60)), 2);
        assert_eq!(window.give_back(back, at(60), grant), None);
    }

    #[test]
    fn what_was_used_already_is_owed_and_shuts_the_window() {
        for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
            let window = window(5, anchor);
            let word = window.charge(window.start(at(0)), at(250), 7);
            assert_eq!((window.owed(word, at(250)), window.owed(word, at(350))), (7, 0));
            assert_eq!((window.remaining(word, at(250)), window.remaining(word, at(350))), (0, 5));
            let word = window.penalize(word, at(260), at(801));
            assert_eq!((window.remaining(word, at(800)), window.remaining(word, at(900))), (0, 5));
        }
    }

    #[test]
    fn a_window_is_taken_over_into_the_one_that_is_open() {
        let kept = |change, from, to, word: u128| {
            let old = window(5, from);
            let quota = Quota::new(9, Duration::from_nanos(40)).unwrap();
            let new = FixedWindow::<u128>::new(quota, to).unwrap();
            let seen = new.unpack(new.adopt(&old, word, change));
            (seen.window, seen.count)
        };
        let change = Change { at: at(250), carry_over: CarryOver::Keep, moved: false };
        let (aligned, first) = (Anchor::Aligned, Anchor::FirstRequest);
        let charged = |anchor, now| window(5, anchor).charge(0, at(now), 3);
        // From 200 on, or 210; 250 is in the window from 240 on.
        assert_eq!(kept(change, aligned, aligned, charged(aligned, 210)), (6, 3));
        assert_eq!(kept(change, first, aligned, charged(first, 210)), (6, 3));
        assert_eq!(kept(change, aligned, first, charged(aligned, 210)), (200, 3));
        assert_eq!(kept(change, first, first, charged(first, 210)), (210, 3));
        // What is over by then is forgotten; what is yet to come stays.
        assert_eq!(kept(change, aligned, aligned, charged(aligned, 190)), (6, 0));
        assert_eq!(kept(change, aligned, aligned, charged(aligned, 510)), (12, 3));
    }

    #[test]
    fn narrow_words_take_the_usual_quotas_and_name_the_remedy_for_others() {
        let second = Quota::per_second(u64::from(u32::MAX)).unwrap();
        assert!(FixedWindow::<u64>::new(second, Anchor::Aligned).is_ok());
        let error = FixedWindow::<u64>::new(second, Anchor::FirstRequest).unwrap_err();
        let text = "limit 4294967295: at most 15 here; \
                    use a smaller limit, or the algorithm with the 128-bit word";
        assert_eq!(error.to_string(), text);
        assert!(FixedWindow::<u128>::new(second, Anchor::FirstRequest).is_ok());
    }

    #[test]
    fn the_last_window_never_ends() {
        let quota = Quota::new(15, Duration::from_nanos(1)).unwrap();
        for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
            let window = FixedWindow::<u64>::new(quota, anchor).unwrap();
            let (word, _) = window.take(0, Nanos::MAX, 15).unwrap();
            assert_eq!(window.take(word, Nanos::MAX, 1), None);
            assert_eq!(window.retry_after(word, Nanos::MAX, 1), RetryAfter::Never);
        }
        // Time ends within the window.
        let window = window(2, Anchor::FirstRequest);
        let (word, _) = window.take(0, at(u64::MAX - 5), 2).unwrap();
        assert_eq!(window.take(word, Nanos::MAX, 1), None);
        assert_eq!(window.retry_after(word, Nanos::MAX, 1), RetryAfter::Never);
    }
}
