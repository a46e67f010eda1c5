//! Token bucket and leaky bucket, in exact fractions of a unit.

use super::{Model, Paid};

/// Units per nanoseconds, as a fraction.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    units: u128,
    nanos: u128,
}

impl Flow {
    fn new(units: u64, nanos: u64) -> Self {
        Self { units: u128::from(units), nanos: u128::from(nanos) }
    }

    /// Whole units, in parts of `1 / nanos` of a unit.
    fn parts(self, units: u64) -> u128 {
        u128::from(units) * self.nanos
    }

    /// The parts that flow in the time from `from` to `to`.
    fn between(self, from: u128, to: u128) -> u128 {
        (to - from).saturating_mul(self.units)
    }
}

/// Tokens that fill up.
#[derive(Clone, Debug)]
pub struct Tokens {
    capacity: u64,
    flow: Flow,
    parts: u128,
    at: u128,
}

impl Tokens {
    /// Full, with `capacity` tokens, and `units` new ones in `nanos`.
    pub fn new(capacity: u64, units: u64, nanos: u64) -> Self {
        let flow = Flow::new(units, nanos);
        Self { capacity, flow, parts: flow.parts(capacity), at: 0 }
    }

    fn parts_at(&self, at: u128) -> u128 {
        let filled = self.parts.saturating_add(self.flow.between(self.at, at));
        filled.min(self.flow.parts(self.capacity))
    }

    fn put(&mut self, at: u128, amount: u64) {
        let parts = self.parts_at(at).saturating_add(self.flow.parts(amount));
        self.parts = parts.min(self.flow.parts(self.capacity));
        self.at = at;
    }
}

impl Model for Tokens {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn fits(&self, at: u128, cost: u64) -> bool {
        self.flow.parts(cost) <= self.parts_at(at)
    }

    fn charge(&mut self, at: u128, cost: u64) -> Paid {
        self.parts = self.parts_at(at) - self.flow.parts(cost);
        self.at = at;
        Paid { amount: cost, place: 0 }
    }

    fn refund(&mut self, at: u128, paid: Paid) {
        self.put(at, paid.amount);
    }

    fn credit(&mut self, at: u128, amount: u64) {
        self.put(at, amount);
    }
}

/// A level that drains.
#[derive(Clone, Debug)]
pub struct Leaky {
    places: u64,
    flow: Flow,
    level: u128,
    at: u128,
}

impl Leaky {
    /// Empty, with `queue` places behind the one in service; `units` leave in `nanos`.
    pub fn new(queue: u64, units: u64, nanos: u64) -> Self {
        Self { places: queue + 1, flow: Flow::new(units, nanos), level: 0, at: 0 }
    }

    fn level_at(&self, at: u128) -> u128 {
        self.level.saturating_sub(self.flow.between(self.at, at))
    }

    fn lift_out(&mut self, at: u128, amount: u64) {
        self.level = self.level_at(at).saturating_sub(self.flow.parts(amount));
        self.at = at;
    }
}

impl Model for Leaky {
    fn capacity(&self) -> u64 {
        self.places
    }

    fn fits(&self, at: u128, cost: u64) -> bool {
        self.level_at(at) <= self.flow.parts(self.places - cost)
    }

    fn charge(&mut self, at: u128, cost: u64) -> Paid {
        self.level = self.level_at(at) + self.flow.parts(cost);
        self.at = at;
        Paid { amount: cost, place: 0 }
    }

    fn refund(&mut self, at: u128, paid: Paid) {
        self.lift_out(at, paid.amount);
    }

    fn credit(&mut self, at: u128, amount: u64) {
        self.lift_out(at, amount);
    }

    fn queues(&self) -> bool {
        true
    }
}
