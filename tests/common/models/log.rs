//! The sliding log: every admitted request with its time.

use std::collections::VecDeque;

use super::{Model, Paid};

/// Units of one stamp are alike, whoever took them.
#[derive(Clone, Debug)]
struct Entry {
    stamp: u128,
    amount: u64,
}

/// Entries of the last period, oldest first. One stamped `s` is gone once the time is
/// `s + period`.
#[derive(Clone, Debug)]
pub struct Log {
    limit: u64,
    period: u128,
    entries: VecDeque<Entry>,
}

impl Log {
    pub fn new(limit: u64, period: u64) -> Self {
        Self { limit, period: u128::from(period), entries: VecDeque::new() }
    }
}

impl Model for Log {
    fn capacity(&self) -> u64 {
        self.limit
    }

    fn fits(&self, at: u128, cost: u64) -> bool {
        let running = self.entries.iter().filter(|entry| at < entry.stamp + self.period);
        let used: u128 = running.map(|entry| u128::from(entry.amount)).sum();
        used + u128::from(cost) <= u128::from(self.limit)
    }

    fn charge(&mut self, at: u128, cost: u64) -> Paid {
        while self.entries.front().is_some_and(|entry| entry.stamp + self.period <= at) {
            self.entries.pop_front();
        }
        match self.entries.back_mut() {
            Some(newest) if newest.stamp == at => newest.amount += cost,
            _ => self.entries.push_back(Entry { stamp: at, amount: cost }),
        }
        Paid { amount: cost, place: at }
    }

    fn refund(&mut self, _at: u128, paid: Paid) {
        for entry in self.entries.iter_mut().filter(|entry| entry.stamp == paid.place) {
            entry.amount = entry.amount.saturating_sub(paid.amount);
        }
    }

    fn credit(&mut self, _at: u128, mut amount: u64) {
        while let Some(newest) = self.entries.back_mut() {
            let back = newest.amount.min(amount);
            newest.amount -= back;
            amount -= back;
            if newest.amount > 0 {
                break;
            }
            self.entries.pop_back();
        }
    }
}
