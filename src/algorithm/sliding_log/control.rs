//! The control word: what the ring holds, and the last operation while it may be incomplete.
//!
//! ```text
//! | 127    | 126 ... 70 | 69    | 68 ... 52 | 51 ... 35 | 34 ... 18 | 17 ... 0 |
//! | frozen | stamp      | reach | note      | voids     | span      | tail     |
//! ```
//!
//! | field | unit | meaning | at its maximum |
//! |---|---|---|---|
//! | tail | place | where the next unit goes; never comes back to a place | freeze, replace |
//! | span | units | from the oldest unit kept to the tail, voided ones included | freeze, replace |
//! | voids | units | how many of the span were given back | at most the span |
//! | note | units | see below | the largest capacity |
//! | reach | flag | what a voiding covers: the units of one instant (0), or all up to the tail (1) | |
//! | stamp | ns since the ring's base | the latest time of the state: of the last admission, or of freezing | freeze, replace |
//! | frozen | flag | the word never changes again | |
//!
//! A frozen word without units needs no tail. It holds the upper bits of its time there: so a leap
//! of the clock beyond the last stamp needs one successor, not many.
//!
//! `note`, while not frozen: how far behind the tail the units that the last operation voided
//! begin; 0 means that the last operation was an admission. Frozen: units of room that whoever
//! froze the ring found missing; 0 for none.
//!
//! **No value comes twice.** An admission moves the tail forward. At one tail, each refund or
//! credit raises `voids`. Freezing is the last change. So `(frozen, tail, voids)`, compared in this
//! order, grows with every change: a word that reads the same has not changed in between.

use core::fmt;

/// The control word at one instant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Control(u128);

#[derive(Clone, Copy)]
struct Field {
    shift: u32,
    bits: u32,
}

const TAIL: Field = Field { shift: 0, bits: 18 };
const SPAN: Field = TAIL.then(17);
const VOIDS: Field = SPAN.then(17);
const NOTE: Field = VOIDS.then(17);
const REACH: Field = NOTE.then(1);
const STAMP: Field = REACH.then(57);
const FROZEN: Field = STAMP.then(1);

const _: () = assert!(FROZEN.shift + FROZEN.bits == u128::BITS, "the fields fill the word");
const _: () = assert!(SPAN.max() == NOTE.max() && SPAN.max() == VOIDS.max());
const _: () = assert!(STAMP.bits + TAIL.bits >= u64::BITS, "a whole time fits");
const _: () = assert!(TAIL.max() >= 2 * SPAN.max(), "the largest ring goes round twice");

impl Field {
    const fn then(self, bits: u32) -> Self {
        Self { shift: self.shift + self.bits, bits }
    }

    const fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline]
    const fn get(self, word: u128) -> u64 {
        (word >> self.shift) as u64 & self.max()
    }

    #[inline]
    fn put(self, value: u64) -> u128 {
        debug_assert!(value <= self.max(), "{value} needs more than {} bits", self.bits);
        u128::from(value) << self.shift
    }
}

/// How far behind the tail the units begin that the last operation voided, and how far they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Voiding {
    pub(super) back: u32,
    pub(super) reach: Reach,
}

/// What of the units from the first voided one on is voided too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The units with the same stamp.
    Instant,
    /// All of them.
    Tail,
}

/// Where the units lie: all of the control word that an admission replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) tail: u32,
    pub(super) span: u32,
    pub(super) voids: u32,
    pub(super) stamp: u64,
}

impl Extent {
    fn word(self) -> u128 {
        TAIL.put(u64::from(self.tail))
            | SPAN.put(u64::from(self.span))
            | VOIDS.put(u64::from(self.voids))
            | STAMP.put(self.stamp)
    }
}

impl Control {
    /// Bits of a place in the ring.
    pub(super) const TAIL_BITS: u32 = TAIL.bits;
    /// The most slots a ring can have, and the most units it can span.
    pub(super) const MAX_SPAN: u32 = SPAN.max() as u32;
    /// The latest stamp, 4.5 years after the ring's base.
    pub(super) const MAX_STAMP: u64 = STAMP.max();

    /// A ring that holds the units of `extent`, all of them written.
    #[inline]
    pub(super) fn admitted(extent: Extent) -> Self {
        Self(extent.word())
    }

    /// The same, with `count` more units given back.
    pub(super) fn voided(self, count: u32, voiding: Voiding) -> Self {
        let extent = Extent { voids: self.voids() + count, ..self.extent() };
        let reach = u64::from(voiding.reach == Reach::Tail);
        Self(extent.word() | NOTE.put(u64::from(voiding.back)) | REACH.put(reach))
    }

    /// The units of `extent`, frozen, with room for `missing` more wanted.
    pub(super) fn frozen(extent: Extent, missing: u32) -> Self {
        Self(extent.word() | NOTE.put(u64::from(missing)) | FROZEN.put(1))
    }

    /// Nothing, frozen at any time since the base, with room for `missing` wanted.
    pub(super) fn frozen_without_units(time: u64, missing: u32) -> Self {
        let (upper, stamp) = ((time >> STAMP.bits) as u32, time & STAMP.max());
        Self::frozen(Extent { tail: upper, span: 0, voids: 0, stamp }, missing)
    }

    /// The time of the state, since the base.
    #[inline]
    pub(super) const fn time(self) -> u64 {
        if self.is_frozen() && self.span() == 0 {
            TAIL.get(self.0) << STAMP.bits | self.stamp()
        } else {
            self.stamp()
        }
    }

    pub(super) const fn from_word(word: u128) -> Self {
        Self(word)
    }

    pub(super) const fn word(self) -> u128 {
        self.0
    }

    #[inline]
    pub(super) const fn is_frozen(self) -> bool {
        FROZEN.get(self.0) != 0
    }

    #[inline]
    pub(super) const fn tail(self) -> u32 {
        TAIL.get(self.0) as u32
    }

    #[inline]
    pub(super) const fn span(self) -> u32 {
        SPAN.get(self.0) as u32
    }

    #[inline]
    pub(super) const fn voids(self) -> u32 {
        VOIDS.get(self.0) as u32
    }

    #[inline]
    pub(super) const fn stamp(self) -> u64 {
        STAMP.get(self.0)
    }

    pub(super) const fn extent(self) -> Extent {
        Extent { tail: self.tail(), span: self.span(), voids: self.voids(), stamp: self.stamp() }
    }

    /// The units that the last operation voided, if it did and its slots may not tell yet.
    #[inline]
    pub(super) const fn voiding(self) -> Option<Voiding> {
        let back = NOTE.get(self.0) as u32;
        if back == 0 || self.is_frozen() {
            return None;
        }
        let reach = if REACH.get(self.0) == 0 { Reach::Instant } else { Reach::Tail };
        Some(Voiding { back, reach })
    }

    /// The room found missing by whoever froze the ring.
    pub(super) const fn missing(self) -> u32 {
        if self.is_frozen() { NOTE.get(self.0) as u32 } else { 0 }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("frozen", &self.is_frozen())
            .field("time", &self.time())
            .field("voiding", &self.voiding())
            .field("missing", &self.missing())
            .field("voids", &self.voids())
            .field("span", &self.span())
            .field("tail", &self.tail())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent =
        Extent { tail: 200_001, span: 100_002, voids: 3, stamp: Control::MAX_STAMP - 4 };

    #[test]
    fn a_control_word_tells_its_fields() {
        let control = Control::admitted(EXTENT);
        assert!(!control.is_frozen());
        assert_eq!(control.extent(), EXTENT);
        assert_eq!((control.voiding(), control.missing()), (None, 0));
        assert_eq!(Control::from_word(control.word()), control);
    }

    #[test]
    fn a_voiding_says_where_it_begins_and_how_far_it_goes() {
        for reach in [Reach::Instant, Reach::Tail] {
            let voiding = Voiding { back: Control::MAX_SPAN, reach };
            let control = Control::admitted(EXTENT).voided(2, voiding);
            assert_eq!(control.voiding(), Some(voiding));
            assert_eq!(control.extent(), Extent { voids: 5, ..EXTENT });
        }
    }

    #[test]
    fn an_admission_ends_a_voiding() {
        let voided = Control::admitted(EXTENT).voided(2, Voiding { back: 9, reach: Reach::Tail });
        assert_eq!(Control::admitted(voided.extent()).voiding(), None);
    }

    #[test]
    fn a_frozen_word_says_what_it_lacked() {
        let control = Control::frozen(EXTENT, 65_536);
        assert!(control.is_frozen());
        assert_eq!((control.voiding(), control.missing()), (None, 65_536));
        assert_eq!(control.extent(), EXTENT);
    }

    #[test]
    fn frozen_without_units_it_tells_any_time() {
        for time in [0, Control::MAX_STAMP, Control::MAX_STAMP + 1, u64::MAX] {
            let control = Control::frozen_without_units(time, 7);
            assert!(control.is_frozen());
            assert_eq!((control.time(), control.span(), control.missing()), (time, 0, 7));
        }
        assert_eq!(Control::frozen(EXTENT, 0).time(), EXTENT.stamp);
        assert_eq!(Control::admitted(EXTENT).time(), EXTENT.stamp);
    }

    #[test]
    fn prints_its_fields_by_name() {
        let text = alloc::format!("{:?}", Control::frozen(Extent { stamp: 6, ..EXTENT }, 1));
        assert_eq!(
            text,
            "Control { frozen: true, time: 6, voiding: None, missing: 1, voids: 3, \
             span: 100002, tail: 200001 }"
        );
    }
}
