//! Places around the ring: a lap and an index, so that any capacity works without a division.

/// A place that a unit can take: `index` of the slots, the `lap`-th time round. Places only ever
/// go forward; none comes twice in the life of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) lap: u32,
    pub(super) index: u32,
}

/// The number of slots, and how a place is packed: `lap` above `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Circle {
    capacity: u32,
    index_bits: u32,
}

impl Circle {
    /// `capacity` is 1 to 2^31.
    #[inline]
    pub(super) const fn of(capacity: u32) -> Self {
        Self { capacity, index_bits: u32::BITS - (capacity - 1).leading_zeros() }
    }

    pub(super) const fn capacity(self) -> u32 {
        self.capacity
    }

    /// The last lap whose places fit in `bits`.
    pub(super) const fn last_lap(self, bits: u32) -> u32 {
        ((1 << bits) - 1) >> self.index_bits
    }

    #[inline]
    pub(super) const fn unpack(self, place: u32) -> Place {
        Place { lap: place >> self.index_bits, index: place & ((1 << self.index_bits) - 1) }
    }

    #[inline]
    pub(super) const fn pack(self, place: Place) -> u32 {
        place.lap << self.index_bits | place.index
    }

    /// `units` further on, at most one capacity.
    #[inline]
    pub(super) const fn forward(self, from: Place, units: u32) -> Place {
        let index = from.index + units;
        if index < self.capacity {
            Place { lap: from.lap, index }
        } else {
            Place { lap: from.lap + 1, index: index - self.capacity }
        }
    }

    /// `units` back, at most one capacity, and never to before the first place.
    #[inline]
    pub(super) const fn back(self, from: Place, units: u32) -> Place {
        if units <= from.index {
            Place { lap: from.lap, index: from.index - units }
        } else {
            Place { lap: from.lap - 1, index: from.index + self.capacity - units }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_slot_is_a_lap_of_its_own() {
        let circle = Circle::of(1);
        assert_eq!(circle.last_lap(18), (1 << 18) - 1);
        assert_eq!(circle.forward(Place { lap: 4, index: 0 }, 1), Place { lap: 5, index: 0 });
        assert_eq!(circle.back(Place { lap: 4, index: 0 }, 1), Place { lap: 3, index: 0 });
    }

    #[test]
    fn the_largest_ring_goes_round_twice() {
        assert_eq!(Circle::of((1 << 17) - 1).last_lap(18), 1);
        assert_eq!(Circle::of(1 << 16).last_lap(18), 3);
    }

    proptest! {
        #[test]
        fn places_go_as_numbers_do(capacity in 1..=131_071_u32, at in any::<u32>(), by in any::<u32>()) {
            let circle = Circle::of(capacity);
            let number = |place: Place| place.lap * capacity + place.index;
            let (at, by) = (at % (2 * capacity), by % (capacity + 1));
            let place = Place { lap: at / capacity, index: at % capacity };
            let on = circle.forward(place, by);
            prop_assert!(on.index < capacity);
            prop_assert_eq!(number(on), at + by);
            prop_assert_eq!(circle.back(on, by), place);
            prop_assert_eq!(circle.unpack(circle.pack(on)), on);
        }
    }
}
