//! The packed word: its layout, the atomic cell, the one compare-and-swap loop, the frozen bit.
//!
//! A client's whole state under most algorithms is one word:
//!
//! ```text
//!  64-bit word   | 63     | 62 ............... 0 |
//! 128-bit word   | 127    | 126 .............. 0 |
//!                | frozen | payload              |
//! ```
//!
//! | bits | meaning | written by | legal transitions |
//! |---|---|---|---|
//! | frozen | the word will never change again | whoever retires or replaces the state | 0 to 1, once |
//! | payload | what the algorithm makes of it | whoever the algorithm admits, refunds or credits | any, while not frozen |
//!
//! The payload's fields, units and ranges are drawn at each algorithm.
//!
//! # Memory order
//! A word carries its whole meaning: what a reader concludes from it depends on no other memory.
//! So every access is `Relaxed`, and atomicity alone (each exchange sees the value it replaces)
//! gives the bound. The entry that holds the cell is published by the map.
//!
//! # ABA
//! A transition is a pure function of the payload, the time and the cost. If a word changes and
//! changes back between a load and its exchange, the exchange writes what the transition would
//! give for the value that is there: nothing is lost. Every exchange changes the word, so two
//! racers never both succeed from one value.

use core::fmt;
use core::ops::{Add, BitAnd, BitOr, Div, Mul, Not, Shl, Shr, Sub};

use crate::sync::{AtomicU64, AtomicU128, Backoff, Ordering};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
}

/// An unsigned integer that a word can be: `u64`, or `u128` for quotas that 63 bits cannot hold.
///
/// A `u64` word is lock-free on every target with 64-bit atomics. A `u128` word is lock-free where
/// the target has a 128-bit exchange (x86-64 with `cmpxchg16b`, aarch64, s390x, ...) and falls back
/// to a spin lock elsewhere; an x86-64 processor without AVX writes to the word's line even to read it.
pub trait Word:
    sealed::Sealed
    + Copy
    + Ord
    + fmt::Debug
    + Send
    + Sync
    + From<u64>
    + Into<u128>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
    + 'static
{
    /// Bits of payload: all but the frozen one.
    const PAYLOAD_BITS: u32;
    /// The greatest payload.
    const MAX: Self;

    #[doc(hidden)]
    type Atomic: fmt::Debug + Send + Sync;
    #[doc(hidden)]
    fn into_atomic(self) -> Self::Atomic;
    #[doc(hidden)]
    fn load(atomic: &Self::Atomic) -> Self;
    #[doc(hidden)]
    fn exchange(atomic: &Self::Atomic, seen: Self, next: Self) -> bool;

    /// The product, at most the greatest integer.
    #[must_use]
    fn saturating_mul(self, by: Self) -> Self;
    /// The difference, at least zero.
    #[must_use]
    fn saturating_sub(self, by: Self) -> Self;
    /// The quotient, rounded up. `by` is not zero.
    #[must_use]
    fn div_ceil(self, by: Self) -> Self;
    /// As 64 bits, at most `u64::MAX`.
    fn saturating_to_u64(self) -> u64;
    /// From 128 bits, if it fits the payload.
    fn from_u128(value: u128) -> Option<Self>;
}

macro_rules! word {
    ($integer:ty, $atomic:ty) => {
        impl Word for $integer {
            const PAYLOAD_BITS: u32 = <$integer>::BITS - 1;
            const MAX: Self = <$integer>::MAX >> 1;

            type Atomic = $atomic;

            fn into_atomic(self) -> Self::Atomic {
                <$atomic>::new(self)
            }

            #[inline]
            fn load(atomic: &Self::Atomic) -> Self {
                atomic.load(Ordering::Relaxed)
            }

            #[inline]
            fn exchange(atomic: &Self::Atomic, seen: Self, next: Self) -> bool {
                let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
                atomic.compare_exchange_weak(seen, next, success, failure).is_ok()
            }

            #[inline]
            fn saturating_mul(self, by: Self) -> Self {
                <$integer>::saturating_mul(self, by)
            }

            #[inline]
            fn saturating_sub(self, by: Self) -> Self {
                <$integer>::saturating_sub(self, by)
            }

            #[inline]
            fn div_ceil(self, by: Self) -> Self {
                <$integer>::div_ceil(self, by)
            }

            #[inline]
            fn saturating_to_u64(self) -> u64 {
                u64::try_from(self).unwrap_or(u64::MAX)
            }

            fn from_u128(value: u128) -> Option<Self> {
                Self::try_from(value).ok().filter(|&fits| fits <= Self::MAX)
            }
        }
    };
}

word!(u64, AtomicU64);
word!(u128, AtomicU128);

/// The state met was frozen: it has been, or is about to be, replaced. Look it up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frozen;

impl fmt::Display for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the state was frozen and must be looked up again")
    }
}

impl core::error::Error for Frozen {}

/// A word as it was at one instant: the payload and the frozen bit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot<W>(W);

impl<W: Word> Snapshot<W> {
    fn frozen_bit() -> W {
        !W::MAX
    }

    pub(crate) fn is_frozen(self) -> bool {
        self.0 > W::MAX
    }

    pub(crate) fn payload(self) -> W {
        self.0 & W::MAX
    }

    fn live(payload: W) -> Self {
        debug_assert!(payload <= W::MAX, "payload {payload:?} reaches into the frozen bit");
        Self(payload)
    }

    fn frozen(payload: W) -> Self {
        Self(payload | Self::frozen_bit())
    }
}

impl<W: Word> fmt::Debug for Snapshot<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("frozen", &self.is_frozen())
            .field("payload", &self.payload())
            .finish()
    }
}

/// What a transition makes of a word: the word after it, if it changes, and what to report.
pub(crate) type Step<W, T> = (Option<W>, T);

/// One atomic word: the whole state of a client under a [`WordAlgorithm`](crate::WordAlgorithm).
pub struct Cell<W: Word>(W::Atomic);

impl<W: Word> Cell<W> {
    pub(crate) fn new(payload: W) -> Self {
        Self(Snapshot::live(payload).0.into_atomic())
    }

    #[inline]
    pub(crate) fn load(&self) -> Snapshot<W> {
        Snapshot(W::load(&self.0))
    }

    /// Applies `transition` to the payload until no other thread interferes.
    ///
    /// Where it gives no next word nothing is written. Lock-free: a lost race means that another
    /// thread's exchange succeeded. `transition` may run several times.
    #[inline]
    pub(crate) fn update<T>(
        &self,
        mut transition: impl FnMut(W) -> Step<W, T>,
    ) -> Result<T, Frozen> {
        self.exchange_loop(|payload| {
            let (next, report) = transition(payload);
            (next.map(Snapshot::live), report)
        })
    }

    /// Freezes the word if `condition` holds of its payload, in one atomic step.
    ///
    /// `Ok(true)` if this call froze it, `Ok(false)` if the condition does not hold, `Err` if it
    /// was frozen before.
    pub(crate) fn freeze_if(&self, condition: impl Fn(W) -> bool) -> Result<bool, Frozen> {
        self.exchange_loop(|payload| {
            let freeze = condition(payload);
            (freeze.then(|| Snapshot::frozen(payload)), freeze)
        })
    }

    /// The one compare-and-swap loop of the crate.
    #[inline]
    fn exchange_loop<T>(
        &self,
        mut step: impl FnMut(W) -> (Option<Snapshot<W>>, T),
    ) -> Result<T, Frozen> {
        let backoff = Backoff::new();
        loop {
            let seen = self.load();
            if seen.is_frozen() {
                return Err(Frozen);
            }
            let (next, report) = step(seen.payload());
            let Some(next) = next else {
                return Ok(report);
            };
            debug_assert!(seen != next, "an exchange must change the word");
            if W::exchange(&self.0, seen.0, next.0) {
                return Ok(report);
            }
            backoff.pause();
        }
    }
}

impl<W: Word> fmt::Debug for Cell<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}

/// Where one field lies in a payload, and how wide it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    /// The field's greatest value.
    pub(crate) const fn max(self) -> u64 {
        match self.bits {
            0 => 0,
            bits => u64::MAX >> (u64::BITS - bits),
        }
    }

    #[inline]
    pub(crate) fn get<W: Word>(self, payload: W) -> u64 {
        ((payload >> self.shift) & W::from(self.max())).saturating_to_u64()
    }

    /// The field's part of a payload; a value beyond [`max`](Self::max) is stored as that.
    #[inline]
    pub(crate) fn put<W: Word>(self, value: u64) -> W {
        W::from(value.min(self.max())) << self.shift
    }
}

/// Lays fields side by side in a payload, lowest bits first. Widths are declared once, here;
/// shifts, masks and maxima follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    free: u32,
    used: u32,
}

impl Layout {
    pub(crate) const fn of<W: Word>() -> Self {
        Self { free: W::PAYLOAD_BITS, used: 0 }
    }

    /// The first field, for windows of `unit` ns, beside `counts` fields for values up to `limit`:
    /// wide enough for the clock's whole life, or for as much of it as the counts leave room.
    pub(crate) fn windows(mut self, unit: u64, limit: u64, counts: u32) -> (Field, Self) {
        let counts = counts * (u64::BITS - limit.leading_zeros());
        let life = u64::BITS - (u64::MAX / unit).leading_zeros();
        (self.field(life.min(self.free.saturating_sub(counts))), self)
    }

    /// The greatest value of each of `fields` equal fields beside one for values up to `max`.
    pub(crate) fn widest_beside(mut self, max: u64, fields: u32) -> u64 {
        self.field(u64::BITS - max.leading_zeros());
        self.field(self.free / fields).max()
    }

    /// The last field: all the bits that are left, at most 64.
    pub(crate) fn rest(mut self) -> Field {
        self.field(u64::BITS)
    }

    /// The last two fields: half of the bits that are left each, at most 64.
    pub(crate) const fn halves(mut self) -> (Field, Field) {
        // At most 64: `field` sees to it.
        let half = self.free / 2;
        (self.field(half), self.field(half))
    }

    const fn field(&mut self, bits: u32) -> Field {
        let most = if self.free < u64::BITS { self.free } else { u64::BITS };
        let field = Field { shift: self.used, bits: if bits < most { bits } else { most } };
        self.free -= field.bits;
        self.used += field.bits;
        field
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_snapshot_tells_its_bits() {
        let live = Snapshot::<u64>::live(7);
        assert!(!live.is_frozen());
        assert!(!Snapshot::live(<u64 as Word>::MAX).is_frozen(), "the widest payload");
        let frozen = Snapshot::<u64>::frozen(7);
        assert!(frozen.is_frozen());
        assert_eq!(frozen.payload(), 7);
        assert_eq!(format!("{frozen:?}"), "Snapshot { frozen: true, payload: 7 }");
        assert_eq!(Snapshot::<u128>::frozen(<u128 as Word>::MAX).payload(), u128::MAX >> 1);
        let cell = Cell::<u64>::new(7);
        assert_eq!(format!("{cell:?}"), "Snapshot { frozen: false, payload: 7 }");
        assert_eq!(Frozen.to_string(), "the state was frozen and must be looked up again");
    }

    #[test]
    fn a_refusing_transition_writes_nothing() {
        let cell = Cell::<u64>::new(5);
        assert_eq!(cell.update(|payload| (None, payload)), Ok(5));
        assert_eq!(cell.load().payload(), 5);
    }

    #[test]
    fn an_update_reports_and_stores() {
        let cell = Cell::<u128>::new(5);
        assert_eq!(cell.update(|payload| (Some(payload + 1), payload)), Ok(5));
        assert_eq!(cell.load().payload(), 6);
    }

    #[test]
    fn a_frozen_word_never_changes_again() {
        let cell = Cell::<u64>::new(5);
        assert_eq!(cell.freeze_if(|payload| payload == 4), Ok(false));
        assert_eq!(cell.freeze_if(|payload| payload == 5), Ok(true));
        assert_eq!(cell.freeze_if(|_| true), Err(Frozen));
        assert_eq!(cell.update(|payload| (Some(payload + 1), ())), Err(Frozen));
        assert_eq!(cell.load(), Snapshot::frozen(5));
    }

    #[test]
    fn fields_lie_side_by_side_and_saturate() {
        let (index, layout) = Layout::of::<u64>().windows(1 << 57, 100, 1);
        let count = layout.rest();
        assert_eq!(index.max(), 127);
        assert_eq!(count.max(), (1 << 56) - 1);
        let payload = index.put::<u64>(100) | count.put::<u64>(u64::MAX);
        assert!(payload <= <u64 as Word>::MAX);
        assert_eq!(index.get(payload), 100);
        assert_eq!(count.get(payload), count.max());
        assert_eq!(index.get::<u64>(index.put(1_000)), 127);
    }

    #[test]
    fn a_layout_never_reaches_beyond_the_payload() {
        let (index, layout) = Layout::of::<u64>().windows(1, 1, 1);
        assert_eq!((index.max(), layout.rest().max()), (u64::MAX >> 2, 1));
        let (index, layout) = Layout::of::<u64>().windows(1, u64::MAX, 2);
        assert_eq!(index.max(), 0);
        let (one, two) = layout.halves();
        assert_eq!((one.max(), two.max()), (u64::MAX >> 33, u64::MAX >> 33));
        let (index, layout) = Layout::of::<u128>().windows(1, 7, 1);
        assert_eq!((index.max(), layout.rest().max()), (u64::MAX, u64::MAX >> 1));
        assert_eq!(Layout::of::<u64>().widest_beside(100, 2), (1 << 28) - 1);
    }
}
