//! A window that begins with the first charged request.

use super::{Model, Paid};

/// The running window, if anything in it is still charged.
#[derive(Clone, Debug)]
pub struct Anchored {
    limit: u64,
    period: u128,
    start: u128,
    used: u64,
}

impl Anchored {
    pub fn new(limit: u64, period: u64) -> Self {
        Self { limit, period: u128::from(period), start: 0, used: 0 }
    }

    fn used_at(&self, at: u128) -> u64 {
        if at < self.start + self.period { self.used } else { 0 }
    }
}

impl Model for Anchored {
    fn capacity(&self) -> u64 {
        self.limit
    }

    fn fits(&self, at: u128, cost: u64) -> bool {
        u128::from(self.used_at(at)) + u128::from(cost) <= u128::from(self.limit)
    }

    fn charge(&mut self, at: u128, cost: u64) -> Paid {
        self.used = self.used_at(at);
        if self.used == 0 {
            self.start = at;
        }
        self.used += cost;
        Paid { amount: cost, place: self.start }
    }

    fn refund(&mut self, _at: u128, paid: Paid) {
        if paid.place == self.start {
            self.used = self.used.saturating_sub(paid.amount);
        }
    }

    fn credit(&mut self, at: u128, amount: u64) {
        self.used = self.used_at(at).saturating_sub(amount);
    }
}
