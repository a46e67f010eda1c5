//! One slot of the ring: a unit's time, whether it was given back, and the lap that wrote it.
//!
//! ```text
//! | lap + 1: all other bits | stamp: as many bits as the period needs | void |
//! ```
//!
//! | field | unit | written by | transitions |
//! |---|---|---|---|
//! | lap | times the ring was gone round before; stored plus one, so zero is "never written" | whoever completes an admission | up only |
//! | stamp | low bits of nanoseconds since the ring's base | with the lap | none within a lap |
//! | void | the unit was given back | whoever completes a refund or credit | 0 to 1 within a lap |
//!
//! No slot ever holds the same value twice: laps only go up, and within a lap only `void` changes,
//! once. So an exchange by a helper that comes late fails.

use core::cmp::Ordering;

/// The contents of a slot, as one reader saw them. [`SlotLayout`] tells what they mean: without it
/// they cannot be printed by name, so a [`View`](super::view::View) prints units instead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

/// Where the stamp ends and the lap begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotLayout {
    stamp_bits: u32,
}

const VOID: u64 = 1;
const VOID_BITS: u32 = 1;

impl Slot {
    /// Of a slot that no lap has written.
    pub(super) const EMPTY: Self = Self(0);
}

impl SlotLayout {
    /// The longest period: 2.28 years. It leaves the lap 7 bits.
    pub(super) const MAX_PERIOD: u64 = 1 << 56;

    /// Just wide enough to tell apart the stamps of one period, 1 to
    /// [`MAX_PERIOD`](Self::MAX_PERIOD) ns.
    pub(super) const fn for_period(period: u64) -> Self {
        Self { stamp_bits: u64::BITS - (period - 1).leading_zeros() }
    }

    const fn stamp_mask(self) -> u64 {
        (1 << self.stamp_bits) - 1
    }

    const fn lap_shift(self) -> u32 {
        self.stamp_bits + VOID_BITS
    }

    /// The last lap that the lap's bits can tell.
    pub(super) const fn last_lap(self) -> u64 {
        (u64::MAX >> self.lap_shift()) - 1
    }

    /// A unit that counts, admitted at `stamp` in lap `lap`.
    pub(super) fn unit(self, lap: u32, stamp: u64) -> Slot {
        debug_assert!(u64::from(lap) <= self.last_lap(), "lap {lap} reaches out of the slot");
        let lap = (u64::from(lap) + 1) << self.lap_shift();
        Slot(lap | (stamp & self.stamp_mask()) << VOID_BITS)
    }

    /// The same unit, given back.
    pub(super) fn voided(self, slot: Slot) -> Slot {
        Slot(slot.0 | VOID)
    }

    pub(super) fn is_void(self, slot: Slot) -> bool {
        slot.0 & VOID != 0
    }

    /// How the lap that wrote the slot compares to `lap`.
    #[inline]
    pub(super) fn written(self, slot: Slot, lap: u32) -> Ordering {
        (slot.0 >> self.lap_shift()).cmp(&(u64::from(lap) + 1))
    }

    /// The whole stamp, given any later stamp that is less than 2^`stamp_bits` (so: less than a
    /// period) later.
    #[inline]
    pub(super) fn stamp(self, slot: Slot, later: u64) -> u64 {
        let age = later.wrapping_sub(slot.0 >> VOID_BITS) & self.stamp_mask();
        later.wrapping_sub(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slot_tells_its_parts() {
        let layout = SlotLayout::for_period(1_000);
        let slot = layout.unit(3, 5_017);
        assert_eq!(layout.written(slot, 2), Ordering::Greater);
        assert_eq!(layout.written(slot, 3), Ordering::Equal);
        assert_eq!(layout.written(slot, 4), Ordering::Less);
        assert_eq!(layout.written(Slot::EMPTY, 0), Ordering::Less);
        assert!(!layout.is_void(slot) && layout.is_void(layout.voided(slot)));
        assert_eq!(layout.stamp(layout.voided(slot), 5_017), 5_017);
    }

    #[test]
    fn the_longest_period_leaves_the_lap_seven_bits() {
        let layout = SlotLayout::for_period(SlotLayout::MAX_PERIOD);
        assert_eq!(layout, SlotLayout { stamp_bits: 56 });
        assert_eq!(layout.last_lap(), 126);
        assert_eq!(layout.written(layout.unit(126, u64::MAX), 126), Ordering::Equal);
    }

    #[test]
    fn the_shortest_period_needs_no_stamp() {
        let layout = SlotLayout::for_period(1);
        assert_eq!(layout, SlotLayout { stamp_bits: 0 });
        assert_eq!(layout.stamp(layout.unit(0, 7), 7), 7);
    }

    proptest! {
        #[test]
        fn a_stamp_within_a_period_comes_back_whole(
            period in 1..=SlotLayout::MAX_PERIOD,
            stamp in any::<u64>(),
            age in any::<u64>(),
            lap in 0..127_u32,
        ) {
            let later = stamp.saturating_add(age % period);
            let layout = SlotLayout::for_period(period);
            let slot = layout.unit(lap, stamp);
            prop_assert_eq!(layout.stamp(slot, later), stamp);
            prop_assert_eq!(layout.stamp(layout.voided(slot), later), stamp);
            prop_assert_eq!(layout.written(slot, lap), Ordering::Equal);
        }
    }
}
