//! What the ring can do: each operation as a step from one control word to the next.
//!
//! A step is a pure function of a [`View`], the time and the cost. [`Ring::update`] applies it.

use super::control::{Control, Extent, Reach, Voiding};
use super::ring::{Ring, Step};
use super::rule::Rule;
use super::view::{Kept, Newest, Stale, View};
use super::{Decided, Standing};
use crate::time::Nanos;
use crate::word::Frozen;

impl Ring {
    fn standing(
        &self,
        rule: &Rule,
        view: &View<'_>,
        kept: Kept,
        cost: u32,
    ) -> Result<Standing, Stale> {
        let opens = match (kept.used() + cost).saturating_sub(rule.limit()) {
            0 => None,
            excess => view.oldest(kept, excess)?,
        };
        let newest = view.newest(kept)?;
        Ok(Standing {
            used: kept.used(),
            opens: opens.map(|stamp| self.told(stamp)),
            newest: newest.map(|stamp| self.told(stamp)),
        })
    }

    /// The state of affairs at `now`, and of a request of `cost` (0 to the limit).
    pub(super) fn peek(&self, rule: &Rule, now: Nanos, cost: u32) -> Standing {
        self.read(rule, |view| {
            let kept = view.kept_at(self.time(view.control(), now))?;
            self.standing(rule, view, kept, cost)
        })
    }

    /// Whether `cost` (1 to the limit) would be admitted.
    pub(super) fn fits(&self, rule: &Rule, now: Nanos, cost: u32) -> bool {
        self.read(rule, |view| {
            let kept = view.kept_at(self.time(view.control(), now))?;
            Ok(kept.used() + cost <= rule.limit())
        })
    }

    /// Takes `cost` units (1 to the limit) or nothing.
    #[inline]
    pub(super) fn admit<const TOLD: bool>(
        &self,
        rule: &Rule,
        now: Nanos,
        cost: u32,
    ) -> Result<Decided, Frozen> {
        self.update(rule, |view| self.admission::<TOLD>(rule, view, now, cost))
    }

    #[inline]
    pub(super) fn admission<const TOLD: bool>(
        &self,
        rule: &Rule,
        view: &View<'_>,
        now: Nanos,
        cost: u32,
    ) -> Result<Step<Decided>, Stale> {
        let time = self.time(view.control(), now);
        let kept = view.kept_at(time)?;
        let used = kept.used() + cost;
        if used > rule.limit() {
            let standing =
                if TOLD { self.standing(rule, view, kept, cost)? } else { Standing::default() };
            return Ok((None, Ok(Decided { stamp: None, standing })));
        }
        let stamp = self.told(time);
        let standing = Standing { used, opens: None, newest: Some(stamp) };
        let step = self.with(rule, view, kept, cost, time)?;
        Ok((step.0, step.1.map(|()| Decided { stamp: Some(stamp), standing })))
    }

    /// The step that adds `cost` units to those kept. Where slots, places or stamps have run out
    /// it freezes the ring instead, for a larger one.
    #[inline]
    fn with(
        &self,
        rule: &Rule,
        view: &View<'_>,
        kept: Kept,
        cost: u32,
        stamp: u64,
    ) -> Result<Step<()>, Stale> {
        let (circle, span) = (self.circle(), kept.span + cost);
        if span <= self.capacity() && stamp <= Control::MAX_STAMP {
            let tail = circle.forward(circle.unpack(view.control().tail()), cost);
            let last_lap = u64::from(circle.last_lap(Control::TAIL_BITS));
            if u64::from(tail.lap) <= last_lap.min(rule.layout().last_lap()) {
                let tail = circle.pack(tail);
                let next = Control::admitted(Extent { tail, span, voids: kept.voids, stamp });
                return Ok((Some(next), Ok(())));
            }
        }
        Ok((Some(self.frozen(view, stamp, cost)?), Err(Frozen)))
    }

    /// The control word frozen as it is at `time`; or, if units count then, at the last time that
    /// a stamp can tell, which is less than a period before.
    fn frozen(&self, view: &View<'_>, time: u64, missing: u32) -> Result<Control, Stale> {
        if view.kept_at(time)?.span == 0 {
            return Ok(Control::frozen_without_units(time, missing));
        }
        let stamp = time.min(Control::MAX_STAMP);
        let Kept { span, voids, .. } = view.kept_at(stamp)?;
        Ok(Control::frozen(Extent { span, voids, stamp, ..view.control().extent() }, missing))
    }

    /// Gives back `amount` (at least 1) of the units that were admitted at `stamp`.
    pub(super) fn refund(
        &self,
        rule: &Rule,
        now: Nanos,
        stamp: Nanos,
        amount: u32,
    ) -> Result<(), Frozen> {
        self.update(rule, |view| self.refunding(rule, view, now, stamp, amount))
    }

    pub(super) fn refunding(
        &self,
        rule: &Rule,
        view: &View<'_>,
        now: Nanos,
        stamp: Nanos,
        amount: u32,
    ) -> Result<Step<()>, Stale> {
        let control = view.control();
        let time = self.time(control, now);
        match self.since_base(stamp) {
            Some(stamp) if stamp <= control.stamp() && time - stamp < rule.period() => {
                let newest = view.newest_of(view.up_to(stamp)?, stamp, amount)?;
                Ok(without(view, newest, Reach::Instant))
            }
            // It expired, or was never of this log.
            _ => Ok((None, Ok(()))),
        }
    }

    /// Gives back `amount` (at least 1) of the newest units.
    pub(super) fn credit(&self, rule: &Rule, now: Nanos, amount: u32) -> Result<(), Frozen> {
        self.update(rule, |view| self.crediting(rule, view, now, amount))
    }

    pub(super) fn crediting(
        &self,
        rule: &Rule,
        view: &View<'_>,
        now: Nanos,
        amount: u32,
    ) -> Result<Step<()>, Stale> {
        let time = self.time(view.control(), now);
        let since = time.checked_sub(rule.period()).map_or(0, |expired| expired.saturating_add(1));
        let newest = view.newest_of(view.control().span(), since, amount)?;
        Ok(without(view, newest, Reach::Tail))
    }

    /// Takes all that is left.
    pub(super) fn drain(&self, rule: &Rule, now: Nanos) -> Result<(), Frozen> {
        self.update(rule, |view| {
            let time = self.time(view.control(), now);
            let kept = view.kept_at(time)?;
            match rule.limit().saturating_sub(kept.used()) {
                0 => Ok((None, Ok(()))),
                left => self.with(rule, view, kept, left, time),
            }
        })
    }

    /// Takes `cost` units (1 to the limit) that are not refused: the oldest make room for them.
    pub(super) fn charge(&self, rule: &Rule, now: Nanos, cost: u32) -> Result<(), Frozen> {
        self.update(rule, |view| {
            let time = self.time(view.control(), now);
            let kept = view.newest_kept(view.kept_at(time)?, rule.limit() - cost)?;
            self.with(rule, view, kept, cost, time)
        })
    }

    /// Takes the whole limit at such a time that it expires at `until`, or at now if that is later.
    /// Whatever else is held has expired by then.
    pub(super) fn penalize(&self, rule: &Rule, now: Nanos, until: Nanos) -> Result<(), Frozen> {
        let shut = self.since_base(until).unwrap_or(0).saturating_sub(rule.period());
        self.update(rule, |view| {
            let time = self.time(view.control(), now);
            let kept = view.newest_kept(view.kept_at(time)?, rule.limit())?;
            if kept.used() == rule.limit() && view.oldest(kept, 1)? >= Some(shut) {
                return Ok((None, Ok(())));
            }
            // Too far ahead for this ring's stamps: one with a later base takes over.
            let too_far = shut > Control::MAX_STAMP && time > rule.period();
            let stamp = shut.min(Control::MAX_STAMP).max(time);
            let none = view.newest_kept(kept, 0)?;
            match self.with(rule, view, none, rule.limit(), stamp)? {
                (Some(next), Ok(())) if !too_far => Ok((Some(next), Ok(()))),
                // Frozen as of now: what is held counts until then.
                _ => Ok((Some(self.frozen(view, time, rule.limit())?), Err(Frozen))),
            }
        })
    }

    /// Freezes the ring if nothing counts at `now`. Whether this call did.
    pub(super) fn freeze_if_idle(&self, rule: &Rule, now: Nanos) -> bool {
        let frozen = self.update(rule, |view| {
            let time = self.time(view.control(), now);
            // A stamp that is yet to come is no fresh log's.
            let idle = self.told(time) <= now && view.kept_at(time)?.used() == 0;
            Ok((if idle { Some(self.frozen(view, time, 0)?) } else { None }, Ok(idle)))
        });
        frozen == Ok(true)
    }

    /// Freezes the ring as it is.
    pub(super) fn freeze(&self, rule: &Rule) {
        // Frozen before or by this call: it is the same.
        let _ = self
            .update(rule, |view| Ok((Some(self.frozen(view, view.control().stamp(), 0)?), Ok(()))));
    }
}

/// The step that gives back the units of `newest`.
fn without(view: &View<'_>, newest: Option<Newest>, reach: Reach) -> Step<()> {
    let next = newest.map(|Newest { from, count }| {
        view.control().voided(count, Voiding { back: view.control().span() - from, reach })
    });
    (next, Ok(()))
}
