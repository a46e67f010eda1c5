//! The ring as one control word means it.
//!
//! A [`View`] reads slots and stores nothing. It looks through an operation that is committed in
//! the control word but not yet in the slots, so it means the same before, while and after
//! anybody completes that operation.
//!
//! # When the control word is no longer the ring's
//! Of the slots of a view, two things can change under it: a place behind a newer head is taken
//! by a later lap, and a unit is voided by a later refund or credit. The first shows in the slot's
//! lap, and gives [`Stale`]. The second shows where the control word knows of no voided unit; where
//! it does know of some, [`View::confirm`] reads the control word again. What is left is what the
//! control word meant, so what is computed from it was true at the instant it was loaded.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use super::circle::Place;
use super::control::{Control, Reach};
use super::ring::Ring;
use super::rule::Rule;

/// The control word has changed: load it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stale;

/// One unit of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) stamp: u64,
    /// It was not given back.
    pub(super) counts: bool,
}

/// What is left of a view once its oldest units have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Units gone, voided ones included.
    pub(super) gone: u32,
    pub(super) span: u32,
    pub(super) voids: u32,
}

impl Kept {
    pub(super) const fn used(self) -> u32 {
        self.span - self.voids
    }
}

/// The newest units that count, as many as were asked for or there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    /// Behind the head.
    pub(super) from: u32,
    pub(super) count: u32,
}

/// The units that the last operation voided.
#[derive(Clone, Copy, Debug)]
struct Voided {
    /// Behind the head.
    from: u32,
    /// Only those with this stamp.
    only: Option<u64>,
}

impl Voided {
    fn covers(self, at: u32, stamp: u64) -> bool {
        at >= self.from && self.only.is_none_or(|only| only == stamp)
    }
}

/// A ring, read through one control word. Units are told by how far they are behind the head:
/// the oldest is unit 0.
pub(super) struct View<'a> {
    ring: &'a Ring,
    rule: &'a Rule,
    control: Control,
    head: Place,
    voided: Option<Voided>,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn of(ring: &'a Ring, rule: &'a Rule, control: Control) -> Result<Self, Stale> {
        let circle = ring.circle();
        let head = circle.back(circle.unpack(control.tail()), control.span());
        let mut view = Self { ring, rule, control, head, voided: None };
        if let Some(voiding) = control.voiding() {
            let from = control.span() - voiding.back;
            let only = match voiding.reach {
                Reach::Instant => Some(view.unit(from)?.stamp),
                Reach::Tail => None,
            };
            view.voided = Some(Voided { from, only });
        }
        Ok(view)
    }

    pub(super) fn control(&self) -> Control {
        self.control
    }

    /// Where unit `at` lies.
    #[inline]
    pub(super) fn place(&self, at: u32) -> Place {
        self.ring.circle().forward(self.head, at)
    }

    /// Unit `at`.
    #[inline]
    pub(super) fn unit(&self, at: u32) -> Result<Unit, Stale> {
        let (layout, place) = (self.rule.layout(), self.place(at));
        let slot = self.ring.slot(place);
        match layout.written(slot, place.lap) {
            Ordering::Greater => Err(Stale),
            // Everything but the last operation is in the slots: this is of the last admission.
            Ordering::Less => Ok(Unit { stamp: self.control.stamp(), counts: true }),
            Ordering::Equal => {
                let void = layout.is_void(slot);
                if void && self.control.voids() == 0 {
                    return Err(Stale);
                }
                // Every unit of a view is less than a period older than its stamp.
                let stamp = layout.stamp(slot, self.control.stamp());
                let voided = self.voided.is_some_and(|voided| voided.covers(at, stamp));
                Ok(Unit { stamp, counts: !void && !voided })
            }
        }
    }

    /// What counts at `time`, which is not before the control word's stamp. The first unit kept,
    /// if any, counts.
    #[inline]
    pub(super) fn kept_at(&self, time: u64) -> Result<Kept, Stale> {
        let (span, voids) = (self.control.span(), self.control.voids());
        if time - self.control.stamp() >= self.rule.period() {
            return Ok(Kept { gone: span, span: 0, voids: 0 });
        }
        let mut gone = 0;
        let mut voids_gone = 0;
        while gone < span {
            let unit = self.unit(gone)?;
            if unit.counts && time - unit.stamp < self.rule.period() {
                break;
            }
            voids_gone += u32::from(!unit.counts);
            gone += 1;
        }
        // More voids than the control word knows of, or than there are units: a later one's.
        let voids = voids.checked_sub(voids_gone).ok_or(Stale)?;
        let span = span - gone;
        if voids > span { Err(Stale) } else { Ok(Kept { gone, span, voids }) }
    }

    /// What is left once the oldest that count have gone, so that at most `most` do.
    pub(super) fn newest_kept(&self, kept: Kept, most: u32) -> Result<Kept, Stale> {
        let Kept { mut gone, mut span, mut voids } = kept;
        while span > 0 && span - voids > most {
            voids -= u32::from(!self.unit(gone)?.counts).min(voids);
            gone += 1;
            span -= 1;
        }
        // The first unit kept counts.
        while span > 0 && !self.unit(gone)?.counts {
            voids = voids.checked_sub(1).ok_or(Stale)?;
            gone += 1;
            span -= 1;
        }
        if voids > span { Err(Stale) } else { Ok(Kept { gone, span, voids }) }
    }

    /// The stamp of the `n`-th oldest unit that counts, from 1.
    pub(super) fn oldest(&self, kept: Kept, n: u32) -> Result<Option<u64>, Stale> {
        if kept.voids == 0 {
            let at = kept.gone + n - 1;
            return Ok(if n <= kept.span { Some(self.unit(at)?.stamp) } else { None });
        }
        let mut left = n;
        for at in kept.gone..kept.gone + kept.span {
            let unit = self.unit(at)?;
            left -= u32::from(unit.counts);
            if left == 0 {
                return Ok(Some(unit.stamp));
            }
        }
        Ok(None)
    }

    /// The stamp of the newest unit that counts.
    pub(super) fn newest(&self, kept: Kept) -> Result<Option<u64>, Stale> {
        for at in (kept.gone..kept.gone + kept.span).rev() {
            let unit = self.unit(at)?;
            if unit.counts {
                return Ok(Some(unit.stamp));
            }
        }
        Ok(None)
    }

    /// How many units are not newer than `stamp`.
    pub(super) fn up_to(&self, stamp: u64) -> Result<u32, Stale> {
        let (mut low, mut high) = (0, self.control.span());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.unit(middle)?.stamp <= stamp {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The newest of the first `end` units that count and are not older than `since`, at most
    /// `amount` (at least 1) of them.
    pub(super) fn newest_of(
        &self,
        end: u32,
        since: u64,
        amount: u32,
    ) -> Result<Option<Newest>, Stale> {
        let mut newest = None;
        for at in (0..end).rev() {
            let unit = self.unit(at)?;
            if unit.stamp < since {
                break;
            }
            if unit.counts {
                let count = newest.map_or(1, |Newest { count, .. }| count + 1);
                newest = Some(Newest { from: at, count });
                if count == amount {
                    break;
                }
            }
        }
        Ok(newest)
    }

    /// Whether what was read is what the control word meant. To be asked before a conclusion from
    /// units that no exchange of the control word confirms.
    #[inline]
    pub(super) fn confirm(&self) -> Result<(), Stale> {
        if self.control.voids() == 0 || self.ring.load() == self.control {
            Ok(())
        } else {
            Err(Stale)
        }
    }

    /// Completes the last operation: afterwards the slots say what the control word says. Harmless
    /// when late.
    #[inline]
    pub(super) fn complete(&self) {
        match self.voided {
            None => self.complete_admission(),
            Some(voided) => self.complete_voiding(voided),
        }
    }

    #[inline]
    fn complete_admission(&self) {
        let mut missing = 0;
        while missing < self.control.span() && self.is_unwritten(self.control.span() - 1 - missing)
        {
            missing += 1;
        }
        self.ring.write_newest(self.rule, self.control, missing);
    }

    #[inline]
    fn is_unwritten(&self, at: u32) -> bool {
        let place = self.place(at);
        self.rule.layout().written(self.ring.slot(place), place.lap) == Ordering::Less
    }

    fn complete_voiding(&self, voided: Voided) {
        let layout = self.rule.layout();
        for at in voided.from..self.control.span() {
            let place = self.place(at);
            let slot = self.ring.slot(place);
            if layout.written(slot, place.lap) != Ordering::Equal
                || !voided.covers(at, layout.stamp(slot, self.control.stamp()))
            {
                return;
            }
            self.ring.void(layout, place, slot);
        }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = (0..self.control.span()).map(|at| self.unit(at));
        f.debug_struct("View")
            .field("control", &self.control)
            .field("units", &units.collect::<Vec<_>>())
            .finish()
    }
}
