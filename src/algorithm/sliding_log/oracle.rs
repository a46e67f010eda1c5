//! What the log is tested against, and with: a sequential oracle, and one client.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::decision::RetryAfter;

/// A log as one would write it under a mutex: every unit that counts, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    limit: u64,
    period: u64,
    pub(super) latest: u64,
    units: VecDeque<u64>,
}

impl Oracle {
    pub(super) fn new(limit: u64, period: u64, since: u64) -> Self {
        Self { limit, period, latest: since, units: VecDeque::new() }
    }

    /// What counts at `now`, or at the latest time of an admission.
    pub(super) fn at(&self, now: u64) -> Vec<u64> {
        let time = now.max(self.latest);
        self.units.iter().copied().filter(|unit| time - unit < self.period).collect()
    }

    pub(super) fn reading(&self, now: u64, cost: u64) -> Reading {
        let units = self.at(now);
        let used = units.len() as u64;
        let wait = |unit: u64| {
            let end = u128::from(unit) + u128::from(self.period) - u128::from(now);
            u64::try_from(end).unwrap_or(u64::MAX)
        };
        let retry_after = if cost == 0 {
            RetryAfter::Now
        } else if cost > self.limit {
            RetryAfter::Never
        } else {
            match (used + cost).saturating_sub(self.limit) {
                0 => RetryAfter::Now,
                excess => RetryAfter::After(Duration::from_nanos(wait(units[excess as usize - 1]))),
            }
        };
        Reading {
            admitted: retry_after == RetryAfter::Now,
            limit: self.limit,
            remaining: self.limit.saturating_sub(used),
            retry_after,
            reset_after: Duration::from_nanos(units.last().map_or(0, |&unit| wait(unit))),
            delay: Duration::ZERO,
        }
    }

    pub(super) fn check(&mut self, now: u64, cost: u64) -> (Option<(u64, u64)>, Reading) {
        let before = self.reading(now, cost);
        if !before.admitted || cost == 0 {
            return (before.admitted.then_some((now, 0)), before);
        }
        self.units = self.at(now).into();
        self.push(now, cost);
        let after =
            Reading { admitted: true, retry_after: RetryAfter::Now, ..self.reading(now, 1) };
        (Some((self.latest, cost)), after)
    }

    pub(super) fn refund(&mut self, now: u64, (stamp, amount): (u64, u64)) {
        let mut units = self.at(now);
        for _ in 0..amount {
            if let Some(at) = units.iter().rposition(|&unit| unit == stamp) {
                units.remove(at);
            }
        }
        self.retain(now, units);
    }

    pub(super) fn credit(&mut self, now: u64, amount: u64) {
        let mut units = self.at(now);
        units.truncate(units.len().saturating_sub(usize::try_from(amount).unwrap_or(usize::MAX)));
        self.retain(now, units);
    }

    pub(super) fn charge(&mut self, now: u64, cost: u64) {
        let cost = cost.min(self.limit);
        if cost > 0 {
            self.units = self.at(now).into();
            self.push(now, cost);
        }
    }

    pub(super) fn drain(&mut self, now: u64) {
        let left = self.limit.saturating_sub(self.at(now).len() as u64);
        self.check(now, left);
    }

    pub(super) fn penalize(&mut self, now: u64, until: u64) {
        let shut = until.saturating_sub(self.period);
        let mut units = self.at(now);
        let older = units.len().saturating_sub(self.limit as usize);
        let shut_already = units.len() >= self.limit as usize && units[older] >= shut;
        if until > now && !shut_already {
            units.clear();
            self.units = units.into();
            self.push(now.max(shut), self.limit);
        }
    }

    /// Takes `cost` at `now`; the oldest units make room.
    fn push(&mut self, now: u64, cost: u64) {
        self.latest = self.latest.max(now);
        self.units.extend((0..cost).map(|_| self.latest));
        let older = self.units.len().saturating_sub(self.limit as usize);
        self.units.drain(..older);
    }

    /// Keeps of the units that count at `now` those given; those that do not are as they were.
    fn retain(&mut self, now: u64, counting: Vec<u64>) {
        let expired = self.units.len() - self.at(now).len();
        self.units.truncate(expired);
        self.units.extend(counting);
    }
}

/// One client: its log, and what replaces it when it is frozen.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) log: SlidingLog,
    pub(super) state: Box<Log>,
    pub(super) replaced: u32,
}

impl Client {
    pub(super) fn new(log: SlidingLog, since: u64) -> Self {
        Self { log, state: Box::new(log.fresh(Nanos::new(since))), replaced: 0 }
    }

    pub(super) fn run<T, E>(
        &mut self,
        mut ask: impl FnMut(&SlidingLog, &Log) -> Result<T, E>,
    ) -> T {
        loop {
            match ask(&self.log, &self.state) {
                Ok(answer) => return answer,
                Err(_) => self.replace(),
            }
        }
    }

    pub(super) fn replace(&mut self) {
        let before = self.log.peek(&self.state, Nanos::ZERO, self.log.limit());
        *self.state = self.log.successor(&self.state);
        assert_eq!(self.log.peek(&self.state, Nanos::ZERO, self.log.limit()), before);
        self.replaced += 1;
    }

    pub(super) fn check(&mut self, now: u64, cost: u64) -> (Option<LogGrant>, Reading) {
        self.run(|log, state| log.check(state, Nanos::new(now), cost))
    }

    pub(super) fn acquire(&mut self, now: u64, cost: u64) -> Option<LogGrant> {
        self.run(|log, state| log.acquire(state, Nanos::new(now), cost))
    }

    pub(super) fn refund(&mut self, now: u64, grant: LogGrant) {
        self.run(|log, state| log.refund(state, Nanos::new(now), grant));
    }

    pub(super) fn credit(&mut self, now: u64, amount: u64) {
        self.run(|log, state| log.credit(state, Nanos::new(now), amount, 0));
    }

    /// Units left at `now`.
    pub(super) fn left(&self, now: u64) -> u64 {
        self.log.peek(&self.state, Nanos::new(now), 1).remaining
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.state.0, Kind::Plain(_))
    }

    /// Makes the log a ring, as the first batch or refund does.
    pub(super) fn into_ring(mut self) -> Self {
        if let Kind::Plain(plain) = &self.state.0 {
            let left = plain.leave_to_ring(&self.log.rule, Nanos::ZERO, |_| true);
            assert_eq!(left, Err(Frozen));
            self.replace();
        }
        assert!(!self.is_plain());
        self
    }

    pub(super) fn latest(&self) -> u64 {
        match &self.state.0 {
            Kind::Plain(plain) => plain.latest().get(),
            Kind::Ring(ring) => ring.latest().get(),
        }
    }

    pub(super) fn capacity(&self) -> u32 {
        match &self.state.0 {
            Kind::Plain(plain) => plain.capacity(),
            Kind::Ring(ring) => ring.capacity(),
        }
    }
}
