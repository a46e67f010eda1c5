//! The log while every request costs one unit and none is given back: one exchange a unit.
//!
//! A circle of slots, each holding the last unit that took it. Units take slots one after another,
//! so going round from the *tail* (the slot whose turn it is) the units are sorted, oldest first.
//! There is no other word: **a unit is admitted by the exchange of its slot**, and the exchange
//! that freezes the tail's slot stops all of them.
//!
//! # Why it holds
//! Number the units: unit `n` takes slot `n mod slots` in lap `n div slots`, and leaves the lap's
//! phase (odd or even) in it. *A slot is only taken when the unit in it has expired*, by the
//! exchange itself. From this alone:
//!
//! * **Never over-admit.** Two units of one slot are a period apart at least, so no window of one
//!   period holds two of them, and all slots together hold no more units than there are slots,
//!   which is the limit at most.
//! * **No value comes twice in a slot**, since stamps only grow in it. An exchange that succeeds
//!   found the slot as it was read, with nothing in between.
//!
//! That nothing is refused wrongly needs the order:
//!
//! * **Unit `n` comes after unit `n - 1`.** A taker of slot `i` has read the slot before (lap `l`,
//!   stamp `s`) and then slot `i` itself; let `e` be the lap of slot `i` that follows `l`. When the
//!   slot before was read, units had come round to it, so slot `i` was in lap `e - 1` or later. It
//!   was read in the other phase than `e`'s: in lap `e - 1`, `e + 1`, `e + 3` ... But the unit of
//!   lap `e` is stamped `s` or later, and that of `e + 1` one period later still, and so on; the
//!   stamp read was not later than `s`. So slot `i` was in lap `e - 1`, its turn had come, and if
//!   the exchange succeeds it has not passed.
//! * **Stamps are sorted**: a unit's stamp is `max(now, s)`.
//! * **A refusal is right** at the instant when the tail's slot was read: it held the oldest unit.
//!   If that counts, all do. What is read of further slots is confirmed by reading the tail's slot
//!   again: every later unit would have changed it first.
//! * **A thread that stops** has either taken its slot, and the unit is admitted, or it has done
//!   nothing. The hint, which it may store late, only says where to begin to look.
//!
//! # Memory order
//! Slots are exchanged with `Release` and loaded with `Acquire`. The pair carries the chain
//! "unit `n` after unit `n - 1`" to readers: whoever reads a unit in one slot finds no slot
//! further back than that unit's taker did. The argument above (slot `i` was in lap `e - 1` or
//! later) and the second look at the tail's slot rest on it. The hint is `Relaxed`: any value does.

use alloc::boxed::Box;
use core::fmt;

use super::rule::Rule;
use super::view::Stale;
use super::{Decided, Holding, Standing};
use crate::sync::{AtomicU64, Backoff, Ordering};
use crate::time::Nanos;
use crate::word::Frozen;

/// A slot: the last unit that took it.
///
/// ```text
/// | 63     | 62   | 61    | 60 ... 0  |
/// | frozen | ring | phase | stamp + 1 |
/// ```
///
/// | bits | unit | meaning | transitions |
/// |---|---|---|---|
/// | stamp | ns since the log's base; 0 for never taken | of the unit, 73 years at most: beyond, a ring takes over | up, a period at a time |
/// | phase | flag | of the unit's lap: 1 in the first | to and fro, with the stamp |
/// | frozen | flag | of the tail's slot: nothing is ever taken again | 0 to 1, once |
/// | ring | flag | with `frozen`: a [`Ring`](super::ring::Ring) must take over | with `frozen` |
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u64);

/// Why a log is frozen: what its successor must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The same; larger, if all its slots count.
    Plain,
    /// A ring: for costs above one, for units that come back, for times beyond a mark's.
    Ring,
}

impl Mark {
    const STAMP: u64 = (1 << 61) - 1;
    const PHASE: u64 = 1 << 61;
    const RING: u64 = 1 << 62;
    const FROZEN: u64 = 1 << 63;
    /// The latest stamp, 73 years after the base.
    const MAX_STAMP: u64 = Self::STAMP - 1;
    /// Of a slot that no unit has taken yet.
    const NEVER: Self = Self(0);

    #[inline]
    fn unit(phase: bool, stamp: u64) -> Self {
        debug_assert!(stamp <= Self::MAX_STAMP, "stamp {stamp} reaches out of the mark");
        Self((stamp + 1) | if phase { Self::PHASE } else { 0 })
    }

    #[inline]
    const fn stamp(self) -> Option<u64> {
        (self.0 & Self::STAMP).checked_sub(1)
    }

    #[inline]
    const fn phase(self) -> bool {
        self.0 & Self::PHASE != 0
    }

    #[inline]
    const fn is_frozen(self) -> bool {
        self.0 & Self::FROZEN != 0
    }

    const fn need(self) -> Need {
        if self.0 & Self::RING == 0 { Need::Plain } else { Need::Ring }
    }

    const fn frozen(self, need: Need) -> Self {
        Self(self.0 | Self::FROZEN | if let Need::Ring = need { Self::RING } else { 0 })
    }

    /// Whether this unit is later than that one; a slot never taken is the earliest.
    #[inline]
    const fn is_later_than(self, that: Self) -> bool {
        self.0 & Self::STAMP > that.0 & Self::STAMP
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mark")
            .field("frozen", &self.is_frozen())
            .field("need", &self.need())
            .field("phase", &self.phase())
            .field("stamp", &self.stamp())
            .finish()
    }
}

/// Where the next unit goes, and the units on both sides.
#[derive(Clone, Copy, Debug)]
struct Tail {
    index: usize,
    /// In the slot before: the newest unit.
    newest: Mark,
    /// In the slot itself: the oldest unit.
    oldest: Mark,
}

/// How many slots lie between two places of the hint. At 1, every unit takes the hint's cache line
/// along from core to core; to look at up to three more slots, mostly of one line, costs less.
const HINTED: usize = 4;

/// The log of a client whose requests cost one unit each.
pub(super) struct Plain {
    base: u64,
    /// Where the tail was lately.
    hint: AtomicU64,
    slots: Box<[AtomicU64]>,
}

impl Plain {
    pub(super) fn fresh(rule: &Rule, since: Nanos) -> Self {
        Self::build(since.get(), &[], rule.plain_slots(0))
    }

    /// A log that holds these units, of which there are no more than the limit, with room for
    /// `at_least` units.
    pub(super) fn of(rule: &Rule, holding: &Holding, at_least: u32) -> Self {
        let slots = rule.plain_slots(holding.stamps.len() as u32).max(at_least);
        Self::build(holding.base(), &holding.stamps, slots)
    }

    fn build(base: u64, stamps: &[Nanos], slots: u32) -> Self {
        // They are of the first lap, whose phase is the opposite of a slot never taken.
        let taken = stamps.iter().map(|stamp| Mark::unit(true, stamp.get() - base));
        let marks = taken.chain(core::iter::repeat(Mark::NEVER)).take(slots as usize);
        let slots = marks.map(|mark| AtomicU64::new(mark.0)).collect();
        Self { base, hint: AtomicU64::new(0), slots }
    }

    /// What must take over from this frozen log.
    pub(super) fn need(&self) -> Need {
        self.tail().oldest.need()
    }

    /// What the log held at `now`.
    pub(super) fn holding(&self, rule: &Rule, now: Nanos) -> Holding {
        self.read(|tail| {
            let time = self.time(tail, now);
            let marks = (0..self.capacity()).map(|after| self.after(tail, after));
            let counting = marks.filter(|&mark| counts(rule, mark, time));
            let stamps = counting.filter_map(Mark::stamp).map(|stamp| self.told(stamp));
            Holding { latest: self.told(time), stamps: stamps.collect() }
        })
    }

    #[inline]
    fn told(&self, stamp: u64) -> Nanos {
        Nanos::new(self.base + stamp)
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.tail().oldest.is_frozen()
    }

    pub(super) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The latest time that the state has kept.
    pub(super) fn latest(&self) -> Nanos {
        Nanos::new(self.base + self.tail().newest.stamp().unwrap_or(0))
    }

    #[inline]
    fn slot(&self, index: usize) -> Mark {
        Mark(self.slots[index].load(Ordering::Acquire))
    }

    #[inline]
    fn exchange(&self, tail: &Tail, next: Mark) -> Result<(), Stale> {
        let (slot, seen) = (&self.slots[tail.index], tail.oldest.0);
        if slot.compare_exchange(seen, next.0, Ordering::Release, Ordering::Relaxed).is_err() {
            return Err(Stale);
        }
        let hint = self.index_after(tail.index, 1);
        if !next.is_frozen() && hint % HINTED == 0 {
            // A late store moves the hint back, which costs one search.
            self.hint.store(hint as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The tail: found at the hint, or else by going round from there.
    #[inline]
    fn tail(&self) -> Tail {
        let mut index = self.hint.load(Ordering::Relaxed) as usize;
        let before = if index == 0 { self.slots.len() } else { index } - 1;
        let mut newest = self.slot(before);
        loop {
            let oldest = self.slot(index);
            let phase = newest.phase() ^ (index == 0);
            if oldest.phase() != phase && !oldest.is_later_than(newest) {
                return Tail { index, newest, oldest };
            }
            newest = oldest;
            index = self.index_after(index, 1);
        }
    }

    #[inline]
    fn index_after(&self, index: usize, steps: usize) -> usize {
        let index = index + steps;
        if index < self.slots.len() { index } else { index - self.slots.len() }
    }

    /// The `after`-th oldest unit, from 0.
    #[inline]
    fn after(&self, tail: &Tail, after: u32) -> Mark {
        match after {
            0 => tail.oldest,
            _ => self.slot(self.index_after(tail.index, after as usize)),
        }
    }

    /// The time of a log that is asked at `now`, since the base.
    #[inline]
    fn time(&self, tail: &Tail, now: Nanos) -> u64 {
        now.get().saturating_sub(self.base).max(tail.newest.stamp().unwrap_or(0))
    }

    /// The unit that must no longer count if `cost` is to fit the limit; `None` if there is none.
    #[inline]
    fn obstacle(&self, rule: &Rule, tail: &Tail, cost: u32, time: u64) -> Option<Mark> {
        let spare = rule.limit() - self.capacity();
        let after = cost.checked_sub(spare)?.checked_sub(1)?;
        Some(self.after(tail, after)).filter(|&mark| counts(rule, mark, time))
    }

    fn standing(&self, rule: &Rule, tail: &Tail, cost: u32, time: u64) -> Standing {
        let (mut low, mut high) = (0, self.capacity());
        while low < high {
            let middle = low + (high - low) / 2;
            if counts(rule, self.after(tail, middle), time) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let obstacle = self.obstacle(rule, tail, cost, time);
        Standing {
            used: self.capacity() - low,
            opens: obstacle.and_then(Mark::stamp).map(|stamp| self.told(stamp)),
            newest: Some(tail.newest)
                .filter(|&mark| counts(rule, mark, time))
                .and_then(Mark::stamp)
                .map(|stamp| self.told(stamp)),
        }
    }

    /// Whether nothing was taken since the tail was found.
    #[inline]
    fn confirm(&self, tail: &Tail) -> Result<(), Stale> {
        if self.slot(tail.index) == tail.oldest { Ok(()) } else { Err(Stale) }
    }

    /// Reads the log until the reading is of one instant.
    #[inline]
    fn read<T>(&self, reading: impl Fn(&Tail) -> T) -> T {
        let backoff = Backoff::new();
        loop {
            let tail = self.tail();
            let read = reading(&tail);
            if self.confirm(&tail).is_ok() {
                return read;
            }
            backoff.pause();
        }
    }

    /// The state of affairs at `now`, and of a request of `cost` (0 to the limit).
    pub(super) fn peek(&self, rule: &Rule, now: Nanos, cost: u32) -> Standing {
        self.read(|tail| self.standing(rule, tail, cost, self.time(tail, now)))
    }

    /// Whether `cost` (1 to the limit) would be admitted.
    #[inline]
    pub(super) fn fits(&self, rule: &Rule, now: Nanos, cost: u32) -> bool {
        self.read(|tail| self.obstacle(rule, tail, cost, self.time(tail, now)).is_none())
    }

    /// Takes `cost` units (1 to the limit) or nothing.
    #[inline]
    pub(super) fn admit<const TOLD: bool>(
        &self,
        rule: &Rule,
        now: Nanos,
        cost: u32,
    ) -> Result<Decided, Frozen> {
        self.update(|tail| {
            let time = self.time(tail, now);
            let standing =
                if TOLD { self.standing(rule, tail, cost, time) } else { Standing::default() };
            if self.obstacle(rule, tail, cost, time).is_some() {
                return (None, Ok(Decided { stamp: None, standing }));
            }
            if cost > 1 || time > Mark::MAX_STAMP {
                return (Some(tail.oldest.frozen(Need::Ring)), Err(Frozen));
            }
            if counts(rule, tail.oldest, time) {
                // All slots are taken, but not the whole limit.
                return (Some(tail.oldest.frozen(Need::Plain)), Err(Frozen));
            }
            let next = Mark::unit(!tail.oldest.phase(), time);
            let stamp = self.told(time);
            let standing = Standing { used: standing.used + 1, newest: Some(stamp), opens: None };
            (Some(next), Ok(Decided { stamp: Some(stamp), standing }))
        })
    }

    /// Freezes the log for a ring, if that is needed as it stands at `now`.
    pub(super) fn leave_to_ring(
        &self,
        rule: &Rule,
        now: Nanos,
        needed: impl Fn(Standing) -> bool,
    ) -> Result<(), Frozen> {
        self.update(|tail| match needed(self.standing(rule, tail, 0, self.time(tail, now))) {
            true => (Some(tail.oldest.frozen(Need::Ring)), Err(Frozen)),
            false => (None, Ok(())),
        })
    }

    /// Freezes the log if nothing counts at `now`. Whether this call did.
    pub(super) fn freeze_if_idle(&self, rule: &Rule, now: Nanos) -> bool {
        let frozen = self.update(|tail| {
            let time = self.time(tail, now);
            // A stamp that is yet to come is no fresh log's.
            let idle = self.told(time) <= now && !counts(rule, tail.newest, time);
            (idle.then(|| tail.oldest.frozen(Need::Plain)), Ok(idle))
        });
        frozen == Ok(true)
    }

    /// Freezes the log as it is.
    pub(super) fn freeze(&self) {
        // Frozen before or by this call: it is the same.
        let _ = self.update(|tail| (Some(tail.oldest.frozen(Need::Plain)), Ok(())));
    }

    /// The one way in which the log changes: tries `step` on one tail after another until the
    /// tail's slot is exchanged, or need not be. Each lost race means that another thread's
    /// exchange succeeded. A step without a next mark stores nothing.
    #[inline]
    fn update<T>(
        &self,
        mut step: impl FnMut(&Tail) -> (Option<Mark>, Result<T, Frozen>),
    ) -> Result<T, Frozen> {
        let backoff = Backoff::new();
        loop {
            let tail = self.tail();
            if tail.oldest.is_frozen() {
                return Err(Frozen);
            }
            let (next, report) = step(&tail);
            let applied = match next {
                None => self.confirm(&tail),
                Some(next) => self.exchange(&tail, next),
            };
            match applied {
                Ok(()) => return report,
                Err(Stale) => backoff.pause(),
            }
        }
    }
}

/// Whether the unit counts at `time`.
#[inline]
fn counts(rule: &Rule, mark: Mark, time: u64) -> bool {
    mark.stamp().is_some_and(|stamp| time.saturating_sub(stamp) < rule.period())
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain")
            .field("base", &Nanos::new(self.base))
            .field("tail", &self.tail())
            .field("capacity", &self.capacity())
            .finish()
    }
}
