//! The exact sequential oracle: every field of a decision, found by asking the model.
//!
//! A model only tells whether a cost fits at a time. Everything else is searched for, not computed:
//! remaining is the greatest cost that fits, retry-after the first time at which the cost fits,
//! reset-after the first at which the whole capacity fits. So no formula of the crate is repeated
//! here. A state's time is the later of the time given and the latest at which it changed.

use std::time::Duration;

use tollgate::{Reading, RetryAfter};

use super::models::{Anchored, Leaky, Log, Model, Paid, Tokens, Weighing, Windows};
use super::moves::LIFE;

/// Which model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    TokenBucket { burst: u64 },
    LeakyBucket { queue: u64 },
    FixedWindow,
    AnchoredWindow,
    SlidingCounter,
    SlidingLog,
}

/// `limit` units per `nanos`: the figures of a quota, or of the rate that a word really tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Figures {
    pub limit: u64,
    pub nanos: u64,
}

/// One client's state, or the global cap's.
pub struct Oracle {
    model: Box<dyn Model>,
    latest: u128,
}

impl Oracle {
    pub fn new(rule: Rule, Figures { limit, nanos }: Figures) -> Self {
        let model: Box<dyn Model> = match rule {
            Rule::TokenBucket { burst } => Box::new(Tokens::new(burst, limit, nanos)),
            Rule::LeakyBucket { queue } => Box::new(Leaky::new(queue, limit, nanos)),
            Rule::FixedWindow => Box::new(Windows::new(limit, nanos, Weighing::CurrentOnly)),
            Rule::AnchoredWindow => Box::new(Anchored::new(limit, nanos)),
            Rule::SlidingCounter => {
                Box::new(Windows::new(limit, nanos, Weighing::PreviousByOverlap))
            }
            Rule::SlidingLog => Box::new(Log::new(limit, nanos)),
        };
        Self { model, latest: 0 }
    }

    /// The state's time.
    fn time(&self, now: u64) -> u128 {
        self.latest.max(u128::from(now))
    }

    fn fits(&self, at: u128, cost: u64) -> bool {
        cost == 0 || (cost <= self.model.capacity() && self.model.fits(at, cost))
    }

    /// Whether `cost` would be admitted.
    pub fn admits(&self, now: u64, cost: u64) -> bool {
        self.fits(self.time(now), cost)
    }

    /// Takes `cost` if it fits. Cost 0 changes nothing.
    pub fn take(&mut self, now: u64, cost: u64) -> Option<Paid> {
        if !self.admits(now, cost) {
            return None;
        }
        if cost == 0 {
            return Some(Paid { amount: 0, place: 0 });
        }
        self.latest = self.time(now);
        Some(self.model.charge(self.latest, cost))
    }

    /// [`take`](Self::take) and what it answers.
    pub fn check(&mut self, now: u64, cost: u64) -> (Option<Paid>, Reading) {
        let before = self.peek(now, cost);
        let paid = self.take(now, cost);
        let (at, now) = (self.time(now), u128::from(now));
        let after = Reading {
            remaining: self.remaining(at),
            reset_after: until(self.fresh_from(at), now),
            ..before
        };
        (paid, after)
    }

    /// What [`check`](Self::check) would answer, with what is held now.
    pub fn peek(&self, now: u64, cost: u64) -> Reading {
        let (at, now) = (self.time(now), u128::from(now));
        let admitted = self.fits(at, cost);
        let waits = admitted && cost > 0 && self.model.queues();
        Reading {
            admitted,
            limit: self.model.capacity(),
            remaining: self.remaining(at),
            retry_after: match admitted {
                true => RetryAfter::Now,
                false if cost > self.model.capacity() => RetryAfter::Never,
                false => RetryAfter::After(until(first(at, |at| self.fits(at, cost)), now)),
            },
            reset_after: until(self.fresh_from(at), now),
            delay: if waits { until(self.fresh_from(at), now) } else { Duration::ZERO },
        }
    }

    pub fn refund(&mut self, now: u64, paid: Paid) {
        if paid.amount > 0 {
            self.latest = self.time(now);
            self.model.refund(self.latest, paid);
        }
    }

    pub fn credit(&mut self, now: u64, amount: u64) {
        self.latest = self.time(now);
        self.model.credit(self.latest, amount);
    }

    fn remaining(&self, at: u128) -> u64 {
        let refused = first(1, |cost| match u64::try_from(cost) {
            Ok(cost) => !self.fits(at, cost),
            Err(_) => true,
        });
        (refused - 1) as u64
    }

    fn fresh_from(&self, at: u128) -> u128 {
        first(at, |at| self.fits(at, self.model.capacity()))
    }
}

/// What `expected` is told as. A wait that ends after more than ten years may be told as never: the
/// word need not last so long.
pub fn told(expected: Reading, got: Reading, now: u64) -> Reading {
    match expected.retry_after {
        RetryAfter::After(wait)
            if got.retry_after == RetryAfter::Never
                && u128::from(now) + wait.as_nanos() > u128::from(LIFE) =>
        {
            Reading { retry_after: RetryAfter::Never, ..expected }
        }
        _ => expected,
    }
}

/// From `now` to `then`; a time beyond the clock's last is told as that.
fn until(then: u128, now: u128) -> Duration {
    Duration::from_nanos((then.min(u128::from(u64::MAX)) - now) as u64)
}

/// The first number from `from` on for which `holds`, which once true stays true.
pub fn first(from: u128, holds: impl Fn(u128) -> bool) -> u128 {
    if holds(from) {
        return from;
    }
    let (mut fails, mut step) = (from, 1_u128);
    while !holds(fails.saturating_add(step)) {
        fails = fails.saturating_add(step);
        if fails == u128::MAX {
            return fails;
        }
        step = step.saturating_mul(2);
    }
    let mut holding = fails.saturating_add(step);
    while holding - fails > 1 {
        let middle = fails + (holding - fails) / 2;
        if holds(middle) { holding = middle } else { fails = middle }
    }
    holding
}
