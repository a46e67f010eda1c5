//! Windows at multiples of the period: the fixed window and the sliding counter.

use std::collections::BTreeMap;

use super::{Model, Paid};

/// What the window before counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighing {
    /// Nothing: a fixed window.
    CurrentOnly,
    /// As much of it as still overlaps: a sliding counter.
    PreviousByOverlap,
}

/// How much was used in which window.
#[derive(Clone, Debug)]
pub struct Windows {
    limit: u64,
    period: u128,
    weighing: Weighing,
    used: BTreeMap<u128, u64>,
}

impl Windows {
    pub fn new(limit: u64, period: u64, weighing: Weighing) -> Self {
        Self { limit, period: u128::from(period), weighing, used: BTreeMap::new() }
    }

    fn used_in(&self, window: u128) -> u128 {
        u128::from(self.used.get(&window).copied().unwrap_or(0))
    }

    fn put_back(&mut self, window: u128, amount: u64) {
        if let Some(used) = self.used.get_mut(&window) {
            *used = used.saturating_sub(amount);
        }
    }
}

impl Model for Windows {
    fn capacity(&self) -> u64 {
        self.limit
    }

    fn fits(&self, at: u128, cost: u64) -> bool {
        let window = at / self.period;
        let wanted = self.used_in(window) + u128::from(cost);
        let Some(room) = u128::from(self.limit).checked_sub(wanted) else {
            return false;
        };
        let before = match (self.weighing, window) {
            (Weighing::CurrentOnly, _) | (_, 0) => 0,
            (Weighing::PreviousByOverlap, _) => self.used_in(window - 1),
        };
        let overlap = self.period - at % self.period;
        // before * overlap / period <= room
        before * overlap <= room * self.period
    }

    fn charge(&mut self, at: u128, cost: u64) -> Paid {
        let window = at / self.period;
        self.used.retain(|&used, _| used + 1 >= window);
        *self.used.entry(window).or_default() += cost;
        Paid { amount: cost, place: window }
    }

    fn refund(&mut self, _at: u128, paid: Paid) {
        self.put_back(paid.place, paid.amount);
    }

    fn credit(&mut self, at: u128, amount: u64) {
        self.put_back(at / self.period, amount);
    }
}
