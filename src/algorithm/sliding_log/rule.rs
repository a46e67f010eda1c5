//! The quota as the log uses it.

use super::control::Control;
use super::slot::SlotLayout;

/// The limit, the period, and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    limit: u32,
    period: u64,
    layout: SlotLayout,
    /// A log has all the slots that it may ever need from the start.
    whole: bool,
}

/// Slots of a new log that grows.
const FIRST_SLOTS: u32 = 4;

impl Rule {
    /// The greatest limit: twice as many slots, less one, are still a span.
    pub(super) const MAX_LIMIT: u32 = Control::MAX_SPAN / 2 + 1;
    /// The longest period.
    pub(super) const MAX_PERIOD: u64 = SlotLayout::MAX_PERIOD;

    /// `limit` is 1 to [`MAX_LIMIT`](Self::MAX_LIMIT), `period` 1 to
    /// [`MAX_PERIOD`](Self::MAX_PERIOD).
    pub(super) const fn new(limit: u32, period: u64, whole: bool) -> Self {
        Self { limit, period, layout: SlotLayout::for_period(period), whole }
    }

    #[inline]
    pub(super) const fn limit(&self) -> u32 {
        self.limit
    }

    #[inline]
    pub(super) const fn period(&self) -> u64 {
        self.period
    }

    #[inline]
    pub(super) const fn layout(&self) -> SlotLayout {
        self.layout
    }

    /// Slots that hold `limit` units and as many voided ones, less one, among them.
    const fn most_slots(&self) -> u32 {
        2 * self.limit - 1
    }

    /// Slots of a plain log that holds `used` units and has room for one more: doubling, so that
    /// copying costs O(1) a unit.
    pub(super) fn plain_slots(&self, used: u32) -> u32 {
        if self.whole {
            return self.limit;
        }
        (used + 1).next_power_of_two().max(FIRST_SLOTS).min(self.limit)
    }

    /// Slots of a ring that holds `used` units and has room for `missing` more.
    ///
    /// Doubling, so that copying costs O(1) a unit. A ring is larger than the limit only where
    /// units were given back: then a third is left free at least, or as many slots as the limit.
    pub(super) fn slots(&self, used: u32, missing: u32, voids: u32) -> u32 {
        if self.whole {
            return self.most_slots().max(used);
        }
        let needed = (used + missing).min(self.limit).max(used);
        let (ample, most) = match voids {
            0 => (needed, self.limit),
            _ => (needed + needed / 2, self.most_slots()),
        };
        let slots = ample.next_power_of_two().max(FIRST_SLOTS).min(most);
        slots.max(needed)
    }
}
