//! Random quotas and random histories: what a client does, and when, aimed at the edges.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{Reading, RetryAfter};

use super::families::{FAMILIES, Family, Numbers};

/// Ten years, which every word lasts.
pub const LIFE: u64 = 10 * 365 * DAY;
const DAY: u64 = 86_400_000_000_000;
const SECOND: u64 = 1_000_000_000;

pub fn family() -> impl Strategy<Value = Family> {
    select(FAMILIES)
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// One of `edges`, the number before it, or the one after it.
fn around(edges: &'static [u64]) -> impl Strategy<Value = u64> {
    (select(edges), -1_i64..=1).prop_map(|(edge, by)| edge.saturating_add_signed(by).max(1))
}

/// An amount of units: small, common, at the edge of a field, or anything.
fn amount() -> impl Strategy<Value = u64> {
    const COMMON: &[u64] = &[1, 2, 10, 60, 100, 750, 1_000, 10_000, 700_000_000, 1_000_000_000];
    const EDGES: &[u64] =
        &[1 << 4, 1 << 15, 1 << 16, 1 << 31, 1 << 32, 1 << 34, 1 << 44, 1 << 62, 1 << 63, u64::MAX];
    prop_oneof![
        4 => 1..=12_u64,
        3 => select(COMMON),
        2 => around(EDGES),
        1 => 1..=u64::MAX,
    ]
}

/// A period in nanoseconds: a few, a common one, any up to a year, or an extreme one.
fn period() -> impl Strategy<Value = u64> {
    const COMMON: &[u64] =
        &[1_000_000, 40_000_000, 150_000_000, SECOND, 60 * SECOND, 3_600 * SECOND, DAY];
    const EDGES: &[u64] = &[365 * DAY, 3_650 * DAY, 1 << 62, 1 << 63, u64::MAX];
    prop_oneof![
        3 => 1..=20_u64,
        4 => select(COMMON),
        2 => around(COMMON),
        1 => 1..=365 * DAY,
        1 => around(EDGES),
    ]
}

pub fn numbers() -> impl Strategy<Value = Numbers> {
    (amount(), period(), amount()).prop_map(|(limit, period, capacity)| Numbers {
        limit,
        period,
        capacity,
    })
}

/// An algorithm and numbers that it takes: the whole u32 range, 1 ms to 365 days; of limits, as
/// much of the range as the algorithm takes at all.
pub fn usual() -> impl Strategy<Value = (Family, Numbers)> {
    let amount = || amount().prop_map(|amount| amount.min(u64::from(u32::MAX)));
    let period = period().prop_map(|period| period.clamp(1_000_000, 365 * DAY));
    (family(), amount(), period, amount()).prop_map(|(family, limit, period, capacity)| {
        (family, Numbers { limit: limit.min(family.most_limit()), period, capacity })
    })
}

/// A cost, seen from what a limit has left and what it can hold.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    Exactly(u64),
    /// What remains, or one beside it.
    Remaining(i64),
    /// The capacity, or one beside it.
    Capacity(i64),
    /// So many 256ths of the capacity.
    Share(u8),
}

impl Cost {
    pub fn of(self, reading: &Reading) -> u64 {
        match self {
            Self::Exactly(cost) => cost,
            Self::Remaining(by) => reading.remaining.saturating_add_signed(by),
            Self::Capacity(by) => reading.limit.saturating_add_signed(by),
            Self::Share(share) => (u128::from(reading.limit) * u128::from(share) / 256) as u64,
        }
    }
}

pub fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        4 => (0..=3_u64).prop_map(Cost::Exactly),
        3 => (-1..=1_i64).prop_map(Cost::Remaining),
        1 => (-1..=1_i64).prop_map(Cost::Capacity),
        3 => any::<u8>().prop_map(Cost::Share),
        1 => any::<u64>().prop_map(Cost::Exactly),
    ]
}

/// How time goes on to the next move.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Stay,
    By(u64),
    /// So many 64ths of the period.
    Part(u64),
    /// To the instant at which one unit, or the cost to come, is admitted; or 1 ns beside it.
    Retry(i64),
    /// To the instant at which all is as new, or 1 ns beside it.
    Reset(i64),
    /// To the next multiple of the period, or 1 ns beside it.
    Edge(i64),
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Stay),
        2 => (1..=3_u64).prop_map(Step::By),
        3 => (0..=200_u64).prop_map(Step::Part),
        3 => (-1..=1_i64).prop_map(Step::Retry),
        1 => (-1..=1_i64).prop_map(Step::Reset),
        2 => (-1..=1_i64).prop_map(Step::Edge),
        1 => (0..=LIFE / 20).prop_map(Step::By),
    ]
}

impl Step {
    /// The time after this step; it stays where the step would lead back or beyond ten years.
    pub fn from(self, now: u64, period: u64, peek: impl Fn() -> Reading) -> u64 {
        let wide = u128::from;
        let (then, by) = match self {
            Self::Stay => (wide(now), 0),
            Self::By(by) => (wide(now) + wide(by), 0),
            Self::Part(parts) => (wide(now) + wide(period) * wide(parts) / 64, 0),
            Self::Retry(by) => match peek().retry_after {
                RetryAfter::After(wait) => (wide(now) + wait.as_nanos(), by),
                _ => (wide(now), 0),
            },
            Self::Reset(by) => (wide(now) + peek().reset_after.as_nanos(), by),
            Self::Edge(by) => (wide(now - now % period) + wide(period), by),
        };
        match u64::try_from(then).ok().and_then(|then| then.checked_add_signed(by)) {
            Some(then) if (now..=LIFE).contains(&then) => then,
            _ => now,
        }
    }
}

/// What the client does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Acquire(Cost),
    /// If it leaves more than so many percent of the limit.
    AcquireLeaving(Cost, u8),
    Peek(Cost),
    /// One of the outstanding grants, by its number modulo how many there are.
    Refund(usize),
    Credit(Cost),
}

pub fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => cost().prop_map(Act::Acquire),
        1 => (cost(), 0..=100_u8).prop_map(|(cost, percent)| Act::AcquireLeaving(cost, percent)),
        1 => cost().prop_map(Act::Peek),
        2 => any::<usize>().prop_map(Act::Refund),
        1 => cost().prop_map(Act::Credit),
    ]
}

/// Where a history begins: at the origin, after some whole periods, or anywhere in five years.
pub fn start(period: u64) -> impl Strategy<Value = u64> {
    let periods = (0..=5_u64).prop_map(move |periods| (periods * (period / 5)).min(LIFE / 2));
    prop_oneof![2 => Just(0), 2 => periods, 1 => 0..=LIFE / 2]
}

/// How many cases to run: `PROPTEST_CASES` if set, else `usual`.
pub fn config(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(usual),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
