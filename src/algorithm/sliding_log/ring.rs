//! The log with everything: costs above one, refunds, credits. A control word and a ring of slots.
//!
//! **The control word decides.** One exchange of it is the instant at which an admission, a refund,
//! a credit or a freeze happens, whole or not at all. Slots only remember, one unit each, when it
//! was admitted and whether it was given back. An operation is committed in the control word
//! *first*, with all that is needed to write its slots; so anybody can write them, and
//! [`commit`](Ring::commit), the one way to change the control word, first writes what the
//! operation before left unwritten. At most one operation is ever incomplete: the last.
//!
//! # Proof, by cases
//! Notation: a control value `c` spans the places `[head, tail)`. *Written for `c`* means that the
//! slots of the span say what `c` means.
//!
//! 1. **No control value comes twice** (see [`Control`]), so an exchange that succeeds changed the
//!    very value that was loaded, and nothing happened in between; and a control word that reads
//!    the same twice has not changed.
//! 2. **When `c` is replaced, it is written.** Whoever replaces `c` has completed it. Completing is
//!    idempotent: every helper computes the same slot values, from `c` alone.
//! 3. **A late helper does nothing.** It writes by an exchange from the value that it read. If its
//!    operation is complete, the slot is of the same lap and says so, or of a later lap; either way
//!    there is nothing to write. If the operation was completed after the read, the slot has
//!    changed, and no slot value comes twice (see [`Slot`]), so the exchange fails.
//! 4. **What is unwritten shows.** While `c` is current, a slot of its span that is of an earlier
//!    lap belongs to the last admission, so its stamp is `c`'s (2: all earlier ones are written).
//!    Units are written oldest first, so they are the newest ones of the span, and if the newest is
//!    written all are. Units that the last refund gave back are told by the control word. So a
//!    [`View`] of `c` means the same however much is written.
//! 5. **Stamps are sorted and come back whole.** An admission is stamped `max(now, stamp of c)`.
//!    Its span begins at the first unit that counts at that time; later ones are not older. So
//!    every unit of a span is less than a period older than the stamp of its control word, and the
//!    slot's low bits tell its stamp. Refunds keep the span and the stamp. Freezing trims the span
//!    for its own, later stamp.
//! 6. **Exact.** `used` of a view is the number of its units that were not given back and count at
//!    `max(now, stamp)`. An admission adds its units in one exchange if `used + cost` is within the
//!    limit, so no interleaving admits more, or admits in parts. A refusal is true of one control
//!    value while that was current: what could change under it is told in [`view`](super::view).
//! 7. **A refund is exact.** Units with one stamp are alike in everything that is ever decided, so
//!    giving back any that many of them, if so many are left, undoes that admission. Which ones,
//!    one exchange settles (1). Expired ones are none of the span's, or no longer count.
//! 8. **A thread that stops** before its exchange has done nothing; after it, its operation has
//!    happened and others write its slots (2). It holds up nobody.
//! 9. **Freezing** is an exchange of the control word like any other, so an admission comes before
//!    it, and is seen by the successor, or fails. A frozen control value is complete (2) and its
//!    slots never change again (3): every successor is the same.
//!
//! When slots, places or stamps run out the ring is frozen, and the admission that needs them asks
//! its successor. Places never wrap, so nothing above needs a bound on how long a thread may sleep.
//!
//! # Memory order
//! * Control word: exchanged with `Release`, loaded with `Acquire`. Whoever loads a value sees the
//!   slots as written as they were when it was committed (case 4).
//! * Slots: exchanged with `Release`, loaded with `Acquire`. Two things need the pair. Whoever sees
//!   the newest unit written sees the older ones of its batch written (case 4); and whoever sees a
//!   slot that a later operation changed finds, on a second look, a later control word (case 6).
//! * Exchanges that fail are `Relaxed`: nothing is concluded from what they saw, except that
//!   somebody wrote the slot, which coherence carries on with the next `Release`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering as Compared;
use core::fmt;

use super::Holding;
use super::circle::{Circle, Place};
use super::control::{Control, Extent};
use super::rule::Rule;
use super::slot::{Slot, SlotLayout};
use super::view::{Stale, View};
use crate::sync::{AtomicU64, AtomicU128, Backoff, Ordering};
use crate::time::Nanos;
use crate::word::Frozen;

/// The log of a client whose requests may cost more than one unit, or be refunded.
pub(super) struct Ring {
    control: AtomicU128,
    /// The time that stamps count from.
    base: u64,
    circle: Circle,
    slots: Box<[AtomicU64]>,
}

const _: () = assert!(cfg!(tollgate_loom) || size_of::<Ring>() <= 48);

impl Ring {
    /// A ring that holds these units.
    pub(super) fn of(rule: &Rule, holding: &Holding) -> Self {
        let base = holding.base();
        let used = holding.stamps.len() as u32;
        let units = holding.stamps.iter();
        let units = units.map(|stamp| rule.layout().unit(0, stamp.get() - base));
        let units = units.chain(core::iter::repeat(Slot::EMPTY));
        let slots = units.take(rule.slots(used, 1, 0) as usize);
        let stamp = holding.latest.get() - base;
        let extent = Extent { tail: 0, span: used, voids: 0, stamp };
        Self::build(base, extent, slots.map(|slot| AtomicU64::new(slot.0)).collect())
    }

    fn build(base: u64, extent: Extent, slots: Box<[AtomicU64]>) -> Self {
        let circle = Circle::of(slots.len() as u32);
        let tail = circle.pack(circle.forward(Place { lap: 0, index: 0 }, extent.span));
        let control = Control::admitted(Extent { tail, ..extent });
        Self { control: AtomicU128::new(control.word()), base, circle, slots }
    }

    /// A ring that takes over from this frozen one, with all its units that count. It is no smaller: it
    /// may have been frozen for another limit's sake, before a request had taken the room that it
    /// grew for; among several logs that would go on for ever.
    pub(super) fn successor(&self, rule: &Rule) -> Self {
        self.read(rule, |view| {
            let control = view.control();
            let kept = view.kept_at(control.time())?;
            // The new base: the stamp of the oldest unit kept, less than a period ago.
            let oldest = view.oldest(kept, 1)?.unwrap_or(control.time());
            let needed = rule.slots(kept.used(), control.missing(), kept.voids) as usize;
            let capacity = needed.max(self.slots.len());
            let mut slots = Vec::with_capacity(capacity);
            for at in kept.gone..control.span() {
                let unit = view.unit(at)?;
                if unit.counts {
                    let slot = rule.layout().unit(0, unit.stamp - oldest);
                    slots.push(AtomicU64::new(slot.0));
                }
            }
            slots.resize_with(capacity, || AtomicU64::new(Slot::EMPTY.0));
            let stamp = control.time() - oldest;
            let extent = Extent { tail: 0, span: kept.used(), voids: 0, stamp };
            Ok(Self::build(self.base.saturating_add(oldest), extent, slots.into_boxed_slice()))
        })
    }

    /// What the ring held at `now`.
    pub(super) fn holding(&self, rule: &Rule, now: Nanos) -> Holding {
        self.read(rule, |view| {
            let time = self.time(view.control(), now);
            let kept = view.kept_at(time)?;
            let mut stamps = Vec::with_capacity(kept.used() as usize);
            for at in kept.gone..view.control().span() {
                let unit = view.unit(at)?;
                if unit.counts {
                    stamps.push(self.told(unit.stamp));
                }
            }
            Ok(Holding { latest: self.told(time), stamps })
        })
    }

    #[inline]
    pub(super) fn told(&self, stamp: u64) -> Nanos {
        Nanos::new(self.base + stamp)
    }

    /// A time in nanoseconds since the base; `None` if it is before that.
    #[inline]
    pub(super) fn since_base(&self, time: Nanos) -> Option<u64> {
        time.get().checked_sub(self.base)
    }

    #[inline]
    pub(super) fn circle(&self) -> Circle {
        self.circle
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.load().is_frozen()
    }

    pub(super) fn capacity(&self) -> u32 {
        self.circle.capacity()
    }

    #[inline]
    pub(super) fn load(&self) -> Control {
        Control::from_word(self.control.load(Ordering::Acquire))
    }

    #[inline]
    fn exchange(&self, seen: Control, next: Control) -> Result<(), Stale> {
        let (seen, next) = (seen.word(), next.word());
        match self.control.compare_exchange(seen, next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(Stale),
        }
    }

    #[inline]
    pub(super) fn slot(&self, place: Place) -> Slot {
        Slot(self.slots[place.index as usize].load(Ordering::Acquire))
    }

    /// Writes the newest `count` units of `control`, oldest first.
    #[inline]
    pub(super) fn write_newest(&self, rule: &Rule, control: Control, count: u32) {
        let mut place = self.circle.back(self.circle.unpack(control.tail()), count);
        for _ in 0..count {
            self.write(rule.layout(), place, control.stamp());
            place = self.circle.forward(place, 1);
        }
    }

    /// Writes a unit to `place`, unless somebody did.
    #[inline]
    fn write(&self, layout: SlotLayout, place: Place, stamp: u64) {
        let former = self.slot(place);
        if layout.written(former, place.lap) == Compared::Less {
            // If this fails another helper has written the same.
            self.exchange_slot(place, former, layout.unit(place.lap, stamp));
        }
    }

    /// Voids the unit that `place` held, unless somebody did.
    pub(super) fn void(&self, layout: SlotLayout, place: Place, unit: Slot) {
        if !layout.is_void(unit) {
            self.exchange_slot(place, unit, layout.voided(unit));
        }
    }

    #[inline]
    fn exchange_slot(&self, place: Place, seen: Slot, next: Slot) {
        let slot = &self.slots[place.index as usize];
        let _ = slot.compare_exchange(seen.0, next.0, Ordering::Release, Ordering::Relaxed);
    }

    /// The time of a state that is asked at `now`, since the base.
    #[inline]
    pub(super) fn time(&self, control: Control, now: Nanos) -> u64 {
        self.since_base(now).unwrap_or(0).max(control.time())
    }

    /// The latest time that the state has kept.
    pub(super) fn latest(&self) -> Nanos {
        self.told(self.load().time())
    }

    /// Reads the ring until the reading is of one instant.
    pub(super) fn read<T>(
        &self,
        rule: &Rule,
        mut reading: impl FnMut(&View<'_>) -> Result<T, Stale>,
    ) -> T {
        let backoff = Backoff::new();
        loop {
            let view = View::of(self, rule, self.load());
            let read = view.and_then(|view| {
                let read = reading(&view)?;
                view.confirm().map(|()| read)
            });
            match read {
                Ok(read) => return read,
                Err(Stale) => backoff.pause(),
            }
        }
    }

    /// Tries `step` on one control word after another until it applies, and writes its slots.
    #[inline]
    pub(super) fn update<T>(
        &self,
        rule: &Rule,
        step: impl FnMut(&View<'_>) -> Result<Step<T>, Stale>,
    ) -> Result<T, Frozen> {
        let (next, report) = self.commit(rule, step)?;
        // If that view is stale already, somebody else has completed the step.
        if let Some(Ok(view)) = next.map(|next| View::of(self, rule, next)) {
            view.complete();
        }
        report
    }

    /// The one way in which the ring changes: whatever the operation before left to be written is
    /// written, then the next control word takes the place of the one that the step was made from.
    /// Each lost race means that another thread's exchange succeeded. A step without a next control
    /// word stores nothing.
    #[inline]
    pub(super) fn commit<T>(
        &self,
        rule: &Rule,
        mut step: impl FnMut(&View<'_>) -> Result<Step<T>, Stale>,
    ) -> Result<Step<T>, Frozen> {
        let backoff = Backoff::new();
        loop {
            let control = self.load();
            if control.is_frozen() {
                return Err(Frozen);
            }
            let committed = View::of(self, rule, control).and_then(|view| {
                let (next, report) = step(&view)?;
                match next {
                    None => view.confirm()?,
                    Some(next) => {
                        view.complete();
                        self.exchange(control, next)?;
                    }
                }
                Ok((next, report))
            });
            match committed {
                Ok(committed) => return Ok(committed),
                Err(Stale) => backoff.pause(),
            }
        }
    }
}

/// What a step makes of a view: the next control word, if it changes, and what to report.
pub(super) type Step<T> = (Option<Control>, Result<T, Frozen>);

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("control", &self.load())
            .field("base", &Nanos::new(self.base))
            .field("capacity", &self.capacity())
            .finish()
    }
}
