//! The arithmetic that both buckets share: one virtual time in a word.
//!
//! ```text
//!  64-bit word   | 63     | 62 .................................. 0 |
//! 128-bit word   | 127    | 126 ................................. 0 |
//!                | frozen | the time at which the bucket is full    |
//!                |        | again (empty again, for a leaky bucket) |
//! ```
//!
//! Unit: ticks since the clock's origin. A quota has its own tick: `scale` ticks a nanosecond, so
//! that the interval between two units is a whole number of ticks and nothing is ever rounded.
//! With the rate `units / nanos` in lowest terms, `scale = units` and `interval = nanos`.
//!
//! | | 64 bits | 128 bits |
//! |---|---|---|
//! | scale, exact up to | 29 (less if a full bucket is worth more than months) | any |
//! | beyond it | the nearest rate that is not faster, if near enough (I10) | |
//! | lasts | 10 years at scale 29, 292 years at scale 1 | at least 10 years; 584 for all but huge numerators |
//!
//! * `max(word, now)` makes a stale clock harmless: time that a word has seen is never unseen.
//! * A bucket that is full is any word `<= now`; a refund is a subtraction that stops there.
//! * At the end of its life the clock saturates at the horizon: buckets no longer refill, so the
//!   error falls on the side of refusing.
//!
//! Source: the generic cell rate algorithm in its virtual scheduling form, ITU-T I.371 (1993),
//! annex A; a token bucket is the same arithmetic read from the other end.

use core::num::NonZeroU64;
use core::time::Duration;

use super::{Place, Stand};
use crate::carry::{CarryOver, Change, scale};
use crate::decision::RetryAfter;
use crate::quota::{LIFETIME, Quota, QuotaError, Rate};
use crate::time::Nanos;
use crate::word::Word;

/// A rate and a capacity, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace<W> {
    /// Ticks in a nanosecond.
    scale: W,
    /// Ticks from one unit to the next.
    interval: W,
    /// Ticks that `capacity` units are worth: how far the word may run ahead of the time.
    tolerance: W,
    /// The greatest time in ticks: `horizon + tolerance` is still a payload.
    horizon: W,
    capacity: u64,
    /// The word of a client that has used nothing: 0, or what a full bucket became when these
    /// parameters took over from others.
    origin: W,
}

/// Where a bucket came from is no part of what it is.
impl<W: PartialEq> PartialEq for Pace<W> {
    fn eq(&self, other: &Self) -> bool {
        (&self.scale, &self.interval, self.capacity)
            == (&other.scale, &other.interval, other.capacity)
    }
}

impl<W: Eq> Eq for Pace<W> {}

impl<W: Word> Pace<W> {
    /// The quota's rate with room for `capacity` units (at least 1).
    pub(crate) fn new(quota: &Quota, capacity: u64) -> Result<Self, QuotaError> {
        let exact = quota.rate();
        let (units, nanos) = (u128::from(exact.units()), u128::from(exact.nanos()));
        // Beside its lifetime the word holds the nanoseconds that a full bucket is worth.
        let most = u128::MAX >> (u128::BITS - W::PAYLOAD_BITS);
        let full = (u128::from(capacity) * nanos).div_ceil(units);
        let largest = (most / full.saturating_add(LIFETIME.into())).saturating_to_u64();
        let approximate = W::PAYLOAD_BITS < u64::BITS;
        let nearest = match approximate {
            true => exact.approximate(largest),
            false => Some(exact).filter(|exact| exact.units() <= largest),
        };
        if nearest.is_none() {
            let units_told = if approximate { 1 } else { units };
            let room = (most / units_told).saturating_sub(LIFETIME.into());
            let instead = match approximate {
                true => "use a smaller one, or the algorithm with the 128-bit word",
                false => "use a smaller one",
            };
            let max = (room.saturating_mul(units) / nanos).saturating_to_u64();
            return Err(if max > 0 {
                QuotaError::TooLarge { what: "burst", given: capacity, max, instead }
            } else {
                // Not even one unit: it takes too long to come back.
                let longest = room.saturating_mul(quota.limit().into());
                QuotaError::TooLarge {
                    what: "period in ns",
                    given: quota.period().as_nanos().saturating_to_u64(),
                    max: longest.saturating_to_u64(),
                    instead,
                }
            });
        }
        let near = nearest.filter(|near| near.stands_for(exact));
        let tolerance = |rate: &Rate| W::from_u128(u128::from(capacity) * u128::from(rate.nanos()));
        let fit = near.and_then(|rate| Some((rate, tolerance(&rate)?)));
        let (rate, tolerance) = fit.ok_or(QuotaError::RateNotRepresentable {
            given: exact,
            nearest,
            instead: "use the algorithm with the 128-bit word",
        })?;
        Ok(Self {
            scale: W::from(rate.units()),
            interval: W::from(rate.nanos()),
            tolerance,
            horizon: W::MAX - tolerance,
            capacity,
            origin: W::from(0),
        })
    }

    pub(crate) fn start(&self, since: Nanos) -> W {
        self.ticks(since).max(self.origin)
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The rate that the ticks tell.
    pub(crate) fn rate(&self) -> Rate {
        let positive = |ticks: W| NonZeroU64::new(ticks.saturating_to_u64());
        let one = NonZeroU64::MIN;
        Rate::new(positive(self.scale).unwrap_or(one), positive(self.interval).unwrap_or(one))
    }

    #[inline]
    pub(crate) fn ticks(&self, now: Nanos) -> W {
        W::from(now.get()).saturating_mul(self.scale).min(self.horizon)
    }

    /// The word after `cost` units; `None` if it would run further ahead than the capacity.
    #[inline]
    pub(crate) fn take(&self, word: W, now: Nanos, cost: u64) -> Option<W> {
        if cost > self.capacity {
            return None;
        }
        let now = self.ticks(now);
        // No overflow: word <= MAX, and cost <= capacity, so the product is <= tolerance <= MAX.
        let next = word.max(now) + W::from(cost) * self.interval;
        (next - now <= self.tolerance).then_some(next)
    }

    /// The word after `amount` units came back; `None` if the bucket is full as it is.
    pub(crate) fn give_back(&self, word: W, now: Nanos, amount: u64) -> Option<W> {
        let now = self.ticks(now);
        let back = W::from(amount).saturating_mul(self.interval);
        (word > now).then(|| word.saturating_sub(back).max(now))
    }

    /// The word after `cost` units that were used already; the debt ends where the word does.
    pub(crate) fn charge(&self, word: W, now: Nanos, cost: u64) -> W {
        let cost = W::from(cost).saturating_mul(self.interval);
        add(word.max(self.ticks(now)), cost)
    }

    /// The word that has its next unit at `until` and not before.
    pub(crate) fn penalize(&self, word: W, until: Nanos) -> W {
        word.max(add(self.ticks(until), self.tolerance - self.interval))
    }

    pub(crate) fn owed(&self, word: W, now: Nanos) -> u64 {
        self.used(word, now).div_ceil(self.interval).saturating_to_u64()
    }

    /// The word for one of `old`, as [`Change`] says.
    ///
    /// With tokens kept, what is missing from the new capacity is what was missing from the old
    /// (a token missing is worth the new interval) plus what the capacity has grown by. A bucket
    /// below zero keeps its promise: the first unit comes when it would have come.
    pub(crate) fn adopt(&self, old: &Self, word: W, change: Change) -> W {
        if self == old && !change.moved && change.carry_over == CarryOver::Keep {
            // Exactly: the word may tell of times after the change, which look like debt then.
            return word;
        }
        let missing: u128 = old.missing(word, change.at).into();
        let in_debt = missing > old.tolerance.into() && !change.moved;
        let priced = |missing: u128| {
            scale(missing, self.interval.saturating_to_u64(), old.interval.saturating_to_u64())
        };
        let worth = |units: u64| u128::from(units) * self.interval.into();
        let missing = match change.carry_over {
            CarryOver::Reset if !change.moved => 0,
            _ if in_debt => {
                let wait = old.retry_after_nanos(word, change.at);
                let wait = u128::from(wait).saturating_mul(self.scale.into());
                let tolerance: u128 = self.tolerance.into();
                tolerance.max(wait.saturating_add(tolerance - self.interval.into()))
            }
            CarryOver::Proportional if !change.moved => {
                scale(priced(missing), self.capacity, old.capacity)
            }
            _ if change.moved => priced(old.used(word, change.at).into()),
            _ => priced(missing)
                .saturating_add(worth(self.capacity.saturating_sub(old.capacity)))
                .saturating_sub(worth(old.capacity.saturating_sub(self.capacity))),
        };
        let word = add(self.ticks(change.at), W::from_u128(missing).unwrap_or(W::MAX));
        // Among its new like a client begins as they do, at best.
        if change.moved { word.max(self.origin) } else { word }
    }

    /// How long until one unit, for a word that has none.
    fn retry_after_nanos(&self, word: W, now: Nanos) -> u64 {
        let earliest = add(word, self.interval).saturating_sub(self.tolerance);
        self.nanos_until(earliest, now)
    }

    pub(crate) fn inherit(&mut self, old: &Self, change: Change) {
        self.origin = self.adopt(old, old.origin, change);
    }

    /// Ticks by which the word is ahead of a fresh one's.
    fn used(&self, word: W, now: Nanos) -> W {
        self.missing(word, now).saturating_sub(self.missing(self.origin, now))
    }

    /// Ticks by which the word is ahead of the time.
    fn missing(&self, word: W, now: Nanos) -> W {
        word.saturating_sub(self.ticks(now))
    }

    /// Whether both this word and a fresh one are full.
    pub(crate) fn is_idle(&self, word: W, now: Nanos) -> bool {
        word.max(self.origin) <= self.ticks(now)
    }

    /// Whole units that fit between the word and the tolerance.
    pub(crate) fn remaining(&self, word: W, now: Nanos) -> u64 {
        let now = self.ticks(now);
        let room = (now + self.tolerance).saturating_sub(word.max(now));
        (room / self.interval).saturating_to_u64()
    }

    pub(crate) fn retry_after(&self, word: W, now: Nanos, cost: u64) -> RetryAfter {
        if cost > self.capacity {
            return RetryAfter::Never;
        }
        let earliest = (word + W::from(cost) * self.interval).saturating_sub(self.tolerance);
        if earliest <= self.ticks(now) {
            RetryAfter::Now
        } else if earliest > self.horizon {
            RetryAfter::Never
        } else {
            RetryAfter::nanos(self.nanos_until(earliest, now))
        }
    }

    /// The place of `cost` units behind all that was taken, and how long until its turn, which comes
    /// `lead` ticks before the place begins; none if it never comes.
    pub(crate) fn stand(&self, word: W, now: Nanos, cost: u64, lead: W) -> Option<Stand<W>> {
        if cost > self.capacity {
            return None;
        }
        let start = word.max(self.ticks(now));
        let turn = start.saturating_sub(lead);
        // No overflow: see `take`. What begins by the horizon ends by the greatest payload.
        let place = Place { start, end: start + W::from(cost) * self.interval };
        (turn <= self.horizon && place.end <= W::MAX).then(|| (place, self.until(turn, now)))
    }

    /// The first place of `cost` units within another whose turn is not over.
    pub(crate) fn stand_in(
        &self,
        place: Place<W>,
        now: Nanos,
        cost: u64,
        lead: W,
    ) -> Option<Stand<W>> {
        if cost > self.capacity {
            return None;
        }
        let start = place.start.max(self.ticks(now) + lead);
        let end = start + W::from(cost) * self.interval;
        let wait = self.until(start - lead, now);
        (end <= place.end).then_some((Place { start, end }, wait))
    }

    /// Ticks that are left of the capacity beside `cost` units.
    pub(crate) fn beside(&self, cost: u64) -> W {
        self.tolerance.saturating_sub(W::from(cost).saturating_mul(self.interval))
    }

    /// How long until `word`, rounded up.
    pub(crate) fn until(&self, word: W, now: Nanos) -> Duration {
        Duration::from_nanos(self.nanos_until(word, now))
    }

    fn nanos_until(&self, tick: W, now: Nanos) -> u64 {
        tick.div_ceil(self.scale).saturating_to_u64().saturating_sub(now.get())
    }
}

/// The sum of two payloads, at most the greatest.
fn add<W: Word>(word: W, more: W) -> W {
    word + more.min(W::MAX - word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace<W: Word>(limit: u64, nanos: u64, capacity: u64) -> Result<Pace<W>, QuotaError> {
        Pace::new(&Quota::new(limit, Duration::from_nanos(nanos)).unwrap(), capacity)
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_interval_is_a_whole_number_of_ticks() {
        let pace = pace::<u64>(700_000_000, SECOND, 1).unwrap();
        assert_eq!((pace.scale, pace.interval), (7, 10));
        assert_eq!(pace.rate(), Quota::per_second(700_000_000).unwrap().rate());
    }

    #[test]
    fn numerators_up_to_29_are_exact_in_63_bits() {
        for units in 1..=29 {
            assert_eq!(pace::<u64>(units, SECOND + 7, 1).unwrap().rate().units(), units);
        }
        assert!(pace::<u64>(31, SECOND + 7, 1).unwrap().rate().units() <= 29);
        assert_eq!(pace::<u128>(31, SECOND + 7, 1).unwrap().rate().units(), 31);
    }

    #[test]
    fn what_63_bits_cannot_tell_is_an_error_that_names_the_remedy() {
        let error = pace::<u64>(103, 100, 1).unwrap_err();
        assert!(error.to_string().contains("128-bit word"), "{error}");
        let year = 365 * 86_400 * SECOND;
        let text = pace::<u64>(1, year, 584).unwrap_err().to_string();
        assert!(text.starts_with("burst 584: at most 282 here; use a smaller one, or"), "{text}");
        assert!(pace::<u64>(1, year, 282).is_ok() && pace::<u64>(1, year, 283).is_err());
        assert!(pace::<u128>(1, year, 584).is_ok());
        let error = pace::<u128>(1, u64::MAX, u64::MAX).unwrap_err();
        assert!(error.to_string().ends_with("use a smaller one"), "{error}");
    }

    const AT: Nanos = Nanos::new(100);

    fn change(carry_over: CarryOver, moved: bool) -> Change {
        Change { at: AT, carry_over, moved }
    }

    #[test]
    fn a_pace_is_its_numbers_and_not_where_it_came_from() {
        let five = pace::<u64>(1, 10, 5).unwrap();
        let mut grown = five;
        grown.inherit(&pace(1, 10, 2).unwrap(), change(CarryOver::Keep, false));
        assert!(grown.origin > five.origin);
        assert_eq!(grown, five);
        for (limit, nanos, capacity) in [(3, 10, 5), (1, 20, 5), (1, 10, 6)] {
            assert_ne!(pace(limit, nanos, capacity).unwrap(), five);
        }
    }

    #[test]
    fn what_is_owed_is_rounded_up_and_paid_before_anything_is_granted() {
        let pace = pace::<u64>(1, 10, 5).unwrap();
        assert_eq!((pace.owed(130, AT), pace.owed(131, AT), pace.owed(90, AT)), (3, 4, 0));
        assert_eq!(pace.charge(90, AT, 7), 170);
        assert_eq!(pace.penalize(90, Nanos::new(200)), 240);
        assert_eq!(pace.take(240, Nanos::new(199), 1), None);
        assert_eq!(pace.take(240, Nanos::new(200), 1), Some(250));
        assert_eq!(pace.penalize(250, Nanos::new(200)), 250);
    }

    #[test]
    fn what_is_missing_is_taken_over() {
        let old = pace::<u64>(1, 10, 5).unwrap();
        let adopt = |nanos, capacity, word, change| {
            pace::<u64>(1, nanos, capacity).unwrap().adopt(&old, word, change)
        };
        let keep = change(CarryOver::Keep, false);
        assert_eq!(adopt(10, 5, 200, keep), 200);
        // Three are missing: at the new interval, of a capacity grown or shrunk.
        assert_eq!(adopt(20, 5, 130, keep), 160);
        assert_eq!(adopt(10, 8, 130, keep), 160);
        assert_eq!((adopt(10, 4, 130, keep), adopt(10, 1, 130, keep)), (120, 100));
        let proportional = change(CarryOver::Proportional, false);
        assert_eq!((adopt(10, 10, 130, proportional), adopt(10, 5, 130, proportional)), (160, 130));
        let reset = change(CarryOver::Reset, false);
        assert_eq!((adopt(10, 5, 130, reset), adopt(20, 8, 200, reset)), (100, 100));
        // In debt until 160, and it stays so.
        for changed in [keep, proportional] {
            assert_eq!(adopt(20, 5, 200, changed), 240);
            assert_eq!(adopt(20, 1, 200, changed), 160);
        }
        // What was used goes with it to another tier, whatever that carries over.
        for carry_over in [CarryOver::Keep, CarryOver::Proportional, CarryOver::Reset] {
            let moved = change(carry_over, true);
            assert_eq!((adopt(10, 5, 130, moved), adopt(20, 8, 200, moved)), (130, 300));
        }
    }

    #[test]
    fn a_client_that_moves_begins_as_a_fresh_one_does_at_best() {
        let mut old = pace::<u64>(1, 10, 5).unwrap();
        old.inherit(&pace(1, 10, 2).unwrap(), change(CarryOver::Keep, false));
        assert_eq!(
            (old.origin, old.start(Nanos::ZERO), old.start(Nanos::new(140))),
            (130, 130, 140)
        );
        assert!(!old.is_idle(100, Nanos::new(129)) && old.is_idle(100, Nanos::new(130)));
        assert!(!old.is_idle(131, Nanos::new(130)));
        // Of the 40 that are missing a fresh one misses 30.
        let moved = change(CarryOver::Keep, true);
        let mut new = pace::<u64>(1, 10, 8).unwrap();
        assert_eq!(new.adopt(&old, 140, moved), 110);
        new.inherit(&pace(1, 10, 6).unwrap(), change(CarryOver::Keep, false));
        assert_eq!(new.adopt(&old, 140, moved), 120);
    }

    #[test]
    fn a_place_is_behind_all_that_was_taken() {
        let pace = pace::<u64>(1, 10, 5).unwrap();
        let nanos = Duration::from_nanos;
        let place = |start, end| Place { start, end };
        assert_eq!(pace.stand(90, AT, 2, 0), Some((place(100, 120), nanos(0))));
        assert_eq!(pace.beside(2), 30);
        assert_eq!(pace.stand(170, AT, 2, 30), Some((place(170, 190), nanos(40))));
        assert_eq!((pace.stand(0, AT, 5, 0).is_some(), pace.stand(0, AT, 6, 0)), (true, None));
        assert_eq!(pace.stand(<u64 as Word>::MAX, AT, 1, 0), None);
        // Within it, as long as it lasts.
        let stand_in = |now, cost| pace.stand_in(place(170, 190), Nanos::new(now), cost, 40);
        assert_eq!(stand_in(100, 1), Some((place(170, 180), nanos(30))));
        assert_eq!(stand_in(140, 1), Some((place(180, 190), nanos(0))));
        assert_eq!((stand_in(141, 1), stand_in(100, 2).is_some()), (None, true));
        let wide = |cost| pace.stand_in(place(0, 900), AT, cost, 0).is_some();
        assert!(wide(5) && !wide(6));
    }

    #[test]
    fn the_same_parameters_leave_a_word_as_it_is() {
        let old = pace::<u64>(3, 10, 5).unwrap();
        // In debt by a part of a nanosecond, which a wait in nanoseconds could not tell.
        let keep = change(CarryOver::Keep, false);
        assert_eq!((old.adopt(&old, 362, keep), old.adopt(&old, 299, keep)), (362, 299));
        // Another client's beginning is no such thing: of 62 ticks that are missing it misses 40.
        let mut grown = pace::<u64>(3, 10, 5).unwrap();
        grown.inherit(&pace(3, 10, 1).unwrap(), keep);
        assert_eq!(old.adopt(&grown, 362, change(CarryOver::Keep, true)), 322);
    }

    #[test]
    fn what_comes_at_the_horizon_is_told_and_nothing_beyond_it() {
        const MAX: u64 = <u64 as Word>::MAX;
        let pace = pace::<u64>(1, 1, 5).unwrap();
        let horizon = MAX - 5;
        assert_eq!(pace.retry_after(MAX - 1, AT, 1), RetryAfter::nanos(horizon - AT.get()));
        assert_eq!(pace.take(MAX - 1, Nanos::new(horizon), 1), Some(MAX));
        assert_eq!(pace.retry_after(MAX, AT, 1), RetryAfter::Never);
        // No turn after the horizon, and no place that ends after the greatest payload.
        assert!(pace.stand(horizon, AT, 5, 0).is_some());
        assert_eq!(pace.stand(horizon + 1, AT, 1, 0), None);
        assert_eq!(pace.stand(MAX, AT, 1, 5), None);
        assert_eq!((pace.charge(MAX - 1, AT, 5), pace.charge(MAX, AT, u64::MAX)), (MAX, MAX));
    }

    #[test]
    fn a_word_that_owes_beyond_the_horizon_answers_never() {
        let pace = pace::<u64>(1, 1, 5).unwrap();
        assert_eq!(pace.retry_after(<u64 as Word>::MAX, Nanos::ZERO, 5), RetryAfter::Never);
        assert_eq!(pace.remaining(<u64 as Word>::MAX, Nanos::MAX), 0);
        assert_eq!(pace.take(<u64 as Word>::MAX, Nanos::MAX, 1), None);
    }

    #[test]
    fn after_the_horizon_time_stands_still() {
        let pace = pace::<u64>(29, 1, 2).unwrap();
        let word = pace.take(0, Nanos::MAX, 2).unwrap();
        assert_eq!(word, <u64 as Word>::MAX);
        assert_eq!(pace.take(word, Nanos::MAX, 1), None);
    }
}
