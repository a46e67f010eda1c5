//! The log against the oracle, and at its edges.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::control::Control;
use super::oracle::{Client, Oracle};
use super::*;
use crate::algorithm::AnyState;
use crate::carry::CarryOver;

pub(super) fn log(limit: u64, period: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(limit, Duration::from_nanos(period)).unwrap()).unwrap()
}

/// A client whose log is plain, and one whose log is a ring.
fn both(limit: u64, period: u64) -> [Client; 2] {
    let client = || Client::new(log(limit, period), 0);
    [client(), client().into_ring()]
}

#[derive(Clone, Debug)]
enum Op {
    Check { cost: u64 },
    Acquire { cost: u64 },
    Refund { which: usize },
    Settle { which: usize, back: u32 },
    Credit { amount: u64 },
    Charge { cost: u64 },
    Drain,
    Penalize { ahead: u64 },
    Forget,
    Peek { cost: u64 },
    Idle,
}

/// Mostly what a proxy does. `plain`: only single units, and nothing comes back.
fn op(period: u64, plain: bool) -> BoxedStrategy<Op> {
    let cost = match plain {
        true => prop_oneof![9 => Just(1), 1 => Just(0)].boxed(),
        false => prop_oneof![6 => Just(1), 3 => 0..12_u64, 1 => Just(u64::MAX)].boxed(),
    };
    let usual = prop_oneof![
        6 => cost.clone().prop_map(|cost| Op::Check { cost }),
        6 => cost.prop_map(|cost| Op::Acquire { cost }),
        2 => prop_oneof![0..12_u64, Just(u64::MAX)].prop_map(|cost| Op::Peek { cost }),
        1 => Just(Op::Idle),
    ];
    if plain {
        return usual.boxed();
    }
    let amount = prop_oneof![0..9_u64, Just(u64::MAX)];
    // Beyond the last stamp of a ring a penalty is cut short: not with the longest periods.
    let ahead = if period < 1 << 50 { 3 * period } else { period };
    prop_oneof![
        30 => usual,
        6 => any::<usize>().prop_map(|which| Op::Refund { which }),
        4 => (any::<usize>(), 0..4_u32).prop_map(|(which, back)| Op::Settle { which, back }),
        2 => amount.clone().prop_map(|amount| Op::Credit { amount }),
        1 => amount.prop_map(|cost| Op::Charge { cost }),
        1 => Just(Op::Drain),
        1 => (0..=ahead).prop_map(|ahead| Op::Penalize { ahead }),
        1 => Just(Op::Forget),
    ]
    .boxed()
}

/// Steps of time: mostly forward by less than a period, sometimes none, back, or a leap.
pub(super) fn step(period: u64) -> impl Strategy<Value = i128> {
    let period = i128::from(period);
    prop_oneof![
        6 => 0..=period / 3 + 1,
        4 => Just(0),
        2 => period - 1..=period + 1,
        2 => -2 * period..=0,
        1 => 0..=3 * period,
    ]
}

pub(super) fn later(now: u64, step: i128) -> u64 {
    (i128::from(now) + step).clamp(0, i128::from(u64::MAX)) as u64
}

type History = Vec<(i128, Op)>;

/// A limit, a period, and what happens.
fn history(
    periods: impl Strategy<Value = u64> + 'static,
    plain: bool,
) -> impl Strategy<Value = (u64, u64, History)> {
    (1..12_u64, periods).prop_flat_map(move |(limit, period)| {
        let steps = (step(period), op(period, plain));
        (Just(limit), Just(period), prop::collection::vec(steps, 1..120))
    })
}

/// Every answer of the log is the oracle's.
fn agree(log: SlidingLog, since: u64, history: History) -> Result<Client, TestCaseError> {
    let (limit, period) = (log.limit(), log.rule.period());
    let mut client = Client::new(log, since);
    let mut oracle = Oracle::new(limit, period, since);
    let mut grants: Vec<(LogGrant, (u64, u64))> = Vec::new();
    let mut now = since;
    for (step, op) in history {
        now = later(now, step);
        let at = Nanos::new(now);
        match op {
            Op::Check { cost } | Op::Acquire { cost } => {
                let expected = oracle.check(now, cost);
                let grant = if let Op::Check { .. } = op {
                    let (grant, reading) = client.check(now, cost);
                    prop_assert_eq!(reading, expected.1, "check {} at {}", cost, now);
                    grant
                } else {
                    client.acquire(now, cost)
                };
                let plain = grant.map(|grant| (grant.stamp.get(), u64::from(grant.amount)));
                prop_assert_eq!(plain, expected.0, "acquire {} at {}", cost, now);
                grants.extend(grant.zip(expected.0));
            }
            Op::Refund { which } if !grants.is_empty() => {
                let (grant, expected) = grants.swap_remove(which % grants.len());
                client.refund(now, grant);
                oracle.refund(now, expected);
            }
            Op::Settle { which, back } if !grants.is_empty() => {
                let which = which % grants.len();
                let (grant, expected) = &mut grants[which];
                let back = back.min(grant.amount);
                client.refund(now, LogGrant { amount: back, ..*grant });
                oracle.refund(now, (expected.0, u64::from(back)));
                grant.amount -= back;
                expected.1 -= u64::from(back);
            }
            Op::Refund { .. } | Op::Settle { .. } => {}
            Op::Credit { amount } => {
                client.credit(now, amount);
                oracle.credit(now, amount);
            }
            Op::Charge { cost } => {
                client.run(|log, state| log.charge(state, at, cost, 0));
                oracle.charge(now, cost);
            }
            Op::Drain => {
                client.run(|log, state| log.drain(state, at));
                oracle.drain(now);
            }
            Op::Penalize { ahead } => {
                let until = now.saturating_add(ahead);
                client.run(|log, state| log.penalize(state, at, Nanos::new(until)));
                oracle.penalize(now, until);
            }
            Op::Forget => {
                client.run(|log, state| log.credit(state, at, u64::MAX, 0));
                oracle.credit(now, u64::MAX);
            }
            Op::Peek { cost } => {
                let expected = oracle.reading(now, cost);
                prop_assert_eq!(client.log.peek(&client.state, at, cost), expected);
                let would = client.log.would_admit(&client.state, at, cost);
                prop_assert_eq!(would, expected.admitted);
            }
            Op::Idle => {
                let idle = oracle.latest <= now && oracle.at(now).is_empty();
                prop_assert_eq!(client.log.is_idle(&client.state, at), idle);
                prop_assert_eq!(client.log.freeze_if_idle(&client.state, at), idle);
                if idle {
                    client.replace();
                    // The time of freezing, if that was kept, as near as the stamp could tell.
                    let latest = client.latest();
                    prop_assert!(oracle.latest <= latest && latest <= oracle.latest.max(now));
                    oracle.latest = latest;
                }
            }
        }
        let held = client.log.peek(&client.state, at, 1);
        prop_assert_eq!(held, oracle.reading(now, 1), "after {:?} at {}", op, now);
        prop_assert_eq!(client.log.owed(&client.state, at), oracle.at(now).len() as u64);
        // No more slots than the limit, unless units were given back.
        let most = if client.is_plain() { limit } else { 2 * limit - 1 };
        prop_assert!(u64::from(client.capacity()) <= most);
    }
    Ok(client)
}

proptest! {
    #[test]
    fn equals_the_oracle((limit, period, history) in history(1..40_u64, false), since in 0..99_u64) {
        agree(log(limit, period), since, history)?;
    }

    #[test]
    fn a_plain_log_equals_the_oracle(
        (limit, period, history) in history(1..40_u64, true),
        since in 0..99_u64,
    ) {
        prop_assert!(agree(log(limit, period), since, history)?.is_plain());
    }

    #[test]
    fn equals_the_oracle_at_the_ends_of_time(
        (limit, period, mut history) in history((1 << 55)..=Rule::MAX_PERIOD, false),
        since in any::<u64>(),
        leap in any::<u64>(),
    ) {
        history.insert(history.len() / 2, (i128::from(leap), Op::Check { cost: 1 }));
        agree(log(limit, period), since, history)?;
    }

    #[test]
    fn with_all_slots_from_the_start_equals_the_oracle(
        (limit, period, history) in history(1..40_u64, false),
    ) {
        let quota = Quota::new(limit, Duration::from_nanos(period)).unwrap();
        agree(SlidingLog::preallocated(quota).unwrap(), 0, history)?;
    }

    #[test]
    fn with_all_slots_from_the_start_a_plain_log_is_never_replaced(
        (limit, period, mut history) in history(1..40_u64, true),
    ) {
        history.retain(|(_, op)| !matches!(op, Op::Idle));
        let quota = Quota::new(limit, Duration::from_nanos(period)).unwrap();
        let client = agree(SlidingLog::preallocated(quota).unwrap(), 0, history)?;
        prop_assert_eq!(client.replaced, 0);
    }
}

#[test]
fn a_unit_counts_for_exactly_one_period() {
    for mut client in both(2, 100) {
        assert!(client.acquire(7, 1).is_some() && client.acquire(9, 1).is_some());
        let (refused, reading) = client.check(106, 1);
        assert_eq!((refused, reading.retry_after), (None, RetryAfter::nanos(1)));
        assert_eq!(reading.reset_after, Duration::from_nanos(3));
        assert_eq!(client.left(107), 1);
        assert!(client.acquire(107, 1).is_some());
        assert_eq!(client.check(107, 1).1.retry_after, RetryAfter::nanos(2));
    }
}

#[test]
fn each_cost_is_told_its_own_wait() {
    for mut client in both(5, 100) {
        for now in [10, 20, 30, 40, 50] {
            assert!(client.acquire(now, 1).is_some());
        }
        for cost in 1..=5 {
            let (refused, reading) = client.check(60, cost);
            assert_eq!(refused, None);
            assert_eq!(reading.retry_after, RetryAfter::nanos(50 + 10 * (cost - 1)));
        }
        assert_eq!(client.check(60, 6).1.retry_after, RetryAfter::Never);
        assert_eq!(client.check(60, u64::MAX).1.retry_after, RetryAfter::Never);
        let (grant, reading) = client.check(60, 0);
        assert!(grant.is_some() && reading.admitted);
        assert_eq!(reading.remaining, 0);
        assert!(client.is_plain() == (client.replaced == 1), "refusals replace nothing");
    }
}

#[test]
fn a_stale_time_is_answered_as_the_latest() {
    for mut client in both(2, 100) {
        assert!(client.acquire(50, 1).is_some());
        let (grant, reading) = client.check(20, 1);
        assert_eq!(grant.unwrap().stamp(), Nanos::new(50));
        // Seen from the time given, both units expire at 150.
        assert_eq!(reading.reset_after, Duration::from_nanos(130));
        assert_eq!(client.check(20, 1).1.retry_after, RetryAfter::nanos(130));
        assert_eq!(client.acquire(149, 1), None);
        assert!(client.acquire(150, 2).is_some());
    }
}

#[test]
fn what_a_refund_gives_back_is_that_admission() {
    let mut client = Client::new(log(4, 100), 0);
    let first = client.acquire(10, 2).unwrap();
    let second = client.acquire(20, 1).unwrap();
    let third = client.acquire(30, 1).unwrap();
    assert_eq!((first.amount(), first.stamp()), (2, Nanos::new(10)));
    assert_eq!(
        [0, 1, 2, u64::MAX].map(|used| client.log.excess(first, used).amount()),
        [2, 1, 0, 0]
    );
    client.refund(35, second);
    assert_eq!((client.left(35), client.left(109), client.left(110)), (1, 1, 3));
    client.refund(35, third);
    assert_eq!(client.left(35), 2);
    // Expired: nothing happens, also for later units.
    assert!(client.acquire(111, 1).is_some());
    client.refund(111, first);
    assert_eq!(client.left(111), 3);
}

#[test]
fn a_credit_gives_the_newest_back_and_never_more_than_all() {
    let mut client = Client::new(log(4, 100), 0);
    client.acquire(10, 2).unwrap();
    client.acquire(20, 2).unwrap();
    client.credit(30, 3);
    assert_eq!((client.left(30), client.left(110)), (3, 4));
    client.credit(30, u64::MAX);
    client.credit(30, 1);
    assert_eq!(client.left(30), 4);
}

#[test]
fn single_units_keep_a_log_plain_and_the_first_batch_or_refund_makes_it_a_ring() {
    let mut client = Client::new(log(100, 1_000), 0);
    let grants: Vec<_> = (0..100).filter_map(|now| client.acquire(now, 1)).collect();
    assert_eq!(grants.len(), 100);
    assert!(client.is_plain());
    assert_eq!(client.acquire(100, 2), None);
    assert!(client.is_plain(), "a refusal changes nothing");
    client.refund(100, grants[40]);
    assert!(!client.is_plain());
    assert_eq!(client.left(100), 1);

    let mut client = Client::new(log(100, 1_000), 0);
    assert!(client.acquire(0, 100).is_some());
    assert!(!client.is_plain());
}

#[test]
fn what_changes_nothing_leaves_a_log_plain() {
    let mut client = Client::new(log(2, 100), 0);
    client.credit(0, 1);
    let first = client.acquire(0, 1).unwrap();
    client.acquire(50, 1).unwrap();
    client.refund(100, first);
    let drain = |client: &mut Client, at| client.run(|log, state| log.drain(state, Nanos::new(at)));
    drain(&mut client, 99);
    assert!(client.is_plain());
    assert_eq!(client.left(100), 1);
    drain(&mut client, 100);
    assert!(!client.is_plain());
    assert_eq!(client.left(100), 0);
}

#[test]
fn beyond_the_last_time_of_a_plain_log_a_ring_takes_over() {
    let last = (1 << 61) - 2;
    let mut client = Client::new(log(3, 100), 0);
    for at in [0, last - 1, last] {
        assert!(client.acquire(at, 1).is_some());
        assert!(client.is_plain());
    }
    assert_eq!((client.left(last), client.left(last + 99)), (1, 2));
    assert!(client.acquire(last + 1, 1).is_some());
    assert!(!client.is_plain());
    assert_eq!([98, 99, 100, 101].map(|after| client.left(last + after)), [0, 1, 2, 3]);
}

#[test]
fn a_penalty_shuts_the_log_until_its_end_and_a_shorter_one_lifts_nothing() {
    for mut client in both(3, 100) {
        let mut penalize = |now, until| {
            client.run(|log, state| log.penalize(state, Nanos::new(now), Nanos::new(until)));
            [until - 1, until].map(|at| client.left(at))
        };
        assert_eq!(penalize(10, 500), [0, 3]);
        assert_eq!(penalize(20, 600), [0, 3]);
        penalize(30, 400);
        assert_eq!([client.left(599), client.left(600)], [0, 3]);
        // Shorter than a period: a whole one.
        client.run(|log, state| log.penalize(state, Nanos::new(700), Nanos::new(701)));
        assert_eq!([client.left(799), client.left(800)], [0, 3]);
    }
}

#[test]
fn a_penalty_of_four_years_can_always_be_told() {
    let year = 365 * 86_400 * 1_000_000_000_u64;
    for mut client in both(3, 100) {
        assert!(client.acquire(5, 2).is_some());
        let now = Control::MAX_STAMP - 5;
        assert!(client.acquire(now, 2).is_some());
        let until = now + 4 * year;
        client.run(|log, state| log.penalize(state, Nanos::new(now), Nanos::new(until)));
        assert_eq!([now, until - 1, until].map(|at| client.left(at)), [0, 0, 3]);
        let ever = Nanos::MAX;
        client.run(|log, state| log.penalize(state, Nanos::new(now), ever));
        assert_eq!(client.left(now + Control::MAX_STAMP), 0);
    }
}

#[test]
fn a_charge_is_never_refused_and_the_newest_units_are_kept() {
    for mut client in both(3, 100) {
        assert!(client.acquire(10, 1).is_some() && client.acquire(20, 2).is_some());
        client.run(|log, state| log.charge(state, Nanos::new(30), 1, 0));
        assert_eq!([client.left(110), client.left(119), client.left(120)], [0, 0, 2]);
        client.run(|log, state| log.charge(state, Nanos::new(40), u64::MAX, 0));
        assert_eq!([client.left(139), client.left(140)], [0, 3]);
    }
}

/// Freezes the log; no verb has an answer then.
fn assert_answers_frozen(client: &Client, grant: LogGrant) {
    let (log, state, at) = (client.log, &*client.state, Nanos::new(20));
    log.freeze(state);
    assert!(state.is_frozen());
    for cost in [0, 1, u64::MAX] {
        assert_eq!(log.acquire(state, at, cost), Err(Frozen.into()));
        assert_eq!(log.check(state, at, cost), Err(Frozen.into()));
    }
    assert_eq!(log.refund(state, at, grant), Err(Frozen));
    assert_eq!(log.credit(state, at, 1, 0), Err(Frozen));
    assert_eq!(log.charge(state, at, 1, 0), Err(Frozen));
    assert_eq!(log.drain(state, at), Err(Frozen));
    assert_eq!(log.penalize(state, at, Nanos::new(99)), Err(Frozen));
    assert_eq!(log.credit(state, at, u64::MAX, 0), Err(Frozen));
    assert!(!log.freeze_if_idle(state, Nanos::MAX));
    log.freeze(state);
}

#[test]
fn what_is_frozen_answers_frozen_and_can_be_read() {
    for mut client in both(3, 100) {
        let grant = client.acquire(10, 2).unwrap();
        assert_answers_frozen(&client, grant);
        assert_eq!((client.left(20), client.log.owed(&client.state, Nanos::new(20))), (1, 2));
        client.replace();
        assert!(client.acquire(20, 1).is_some());
        assert_eq!(client.acquire(109, 1), None);
    }
}

#[test]
fn so_does_a_plain_log_that_is_frozen() {
    let mut client = Client::new(log(3, 100), 0);
    let grant = client.acquire(10, 1).unwrap();
    assert_answers_frozen(&client, grant);
    assert!(client.is_plain());
    assert_eq!((client.left(20), client.left(110)), (2, 3));
}

#[test]
fn room_is_half_as_much_again_once_units_come_back() {
    let rule = Rule::new(1_000, 100, false);
    assert_eq!(rule.slots(10, 1, 0), 16);
    assert_eq!(rule.slots(10, 1, 1), 16);
    assert_eq!(rule.slots(20, 2, 1), 64);
    assert_eq!(rule.slots(20, 1, 1), 32);
}

#[test]
fn a_client_with_three_requests_is_small() {
    for mut client in both(10_000, 1_000_000_000) {
        for now in 0..3 {
            assert!(client.acquire(now, 1).is_some());
        }
        let slots = client.capacity() as usize * size_of::<u64>();
        let bytes = size_of::<AnyState>() + size_of::<Log>() + slots;
        assert!(bytes <= 128, "{bytes} bytes");
    }
}

#[test]
fn a_full_log_has_exactly_as_many_slots_as_the_limit() {
    for mut client in both(1_000, 1_000_000) {
        for now in 0..1_000 {
            assert!(client.acquire(now, 1).is_some());
        }
        assert_eq!((client.acquire(1_000, 1), client.capacity()), (None, 1_000));
    }
}

#[test]
fn the_largest_quota_is_exact() {
    let year = 365 * 86_400 * 1_000_000_000_u64;
    let limit = u64::from(Rule::MAX_LIMIT);
    assert_eq!(limit, 65_536);
    for mut client in both(limit, year) {
        let half = client.acquire(1, limit / 2).unwrap();
        for now in 0..limit / 2 {
            assert!(client.acquire(2 + now, 1).is_some());
        }
        assert_eq!(client.check(year, 1).1.retry_after, RetryAfter::nanos(1));
        client.refund(year, half);
        assert_eq!(client.left(year), limit / 2);
        assert!(client.acquire(year, limit / 2).is_some());
        assert_eq!(client.acquire(year + 1, 1), None);
        assert!(client.acquire(year + 2, 1).is_some());
        assert_eq!(client.acquire(year + 2, 1), None);
        assert!(client.acquire(2 * year, limit / 2 - 1).is_some());
        assert_eq!(client.left(2 * year), limit / 2);
        assert!(client.acquire(3 * year, limit).is_some());
    }
}

#[test]
fn what_is_too_large_is_refused_with_the_remedy() {
    let error = |limit, period| {
        let quota = Quota::new(limit, Duration::from_nanos(period)).unwrap();
        SlidingLog::new(quota).unwrap_err().to_string()
    };
    let text = "limit 65537: at most 65536 here; use sliding_counter";
    assert_eq!(error(65_537, 1), text);
    assert!(error(u64::MAX, 1).starts_with("limit 18446744073709551615: at most 65536 here"));
    let text = "period in ns 72057594037927937: at most 72057594037927936 here; \
                use sliding_counter";
    assert_eq!(error(1, (1 << 56) + 1), text);
    assert_eq!(log(3, 1_000_000_000).to_string(), "3 per 1s, sliding window log");
}

#[test]
fn a_ring_is_replaced_when_its_places_run_out() {
    // The longest period leaves a slot 127 laps; the shortest, the control word 2^18 places.
    let once_each = |period, units: u64| {
        let mut client = Client::new(log(4, period), 0).into_ring();
        let before = client.replaced;
        for _ in 0..units {
            let grant = client.acquire(5, 1).unwrap();
            assert_eq!(client.left(5), 3);
            client.refund(5, grant);
            assert_eq!(client.left(5), 4);
        }
        client.replaced - before
    };
    assert_eq!(once_each(Rule::MAX_PERIOD, 5_070), 9);
    assert_eq!(once_each(1, 300_000), 1);
}

#[test]
fn giving_back_behind_an_older_unit_costs_a_copy_now_and_then() {
    for limit in [2, 3, 10, 1_000] {
        let mut client = Client::new(log(limit, 1_000_000), 0).into_ring();
        assert!(client.acquire(0, limit - 1).is_some());
        let (before, rounds) = (client.replaced, 10_000);
        for now in 0..rounds {
            let grant = client.acquire(now, 1).unwrap();
            assert_eq!(client.acquire(now, 1), None);
            client.refund(now, grant);
        }
        let copied = u64::from(client.replaced - before) * limit;
        assert!(copied <= 2 * rounds, "limit {limit}: {copied} units copied in {rounds} rounds");
    }
}

#[test]
fn no_leap_of_the_clock_needs_many_replacements() {
    for leap in [Control::MAX_STAMP - 1, Control::MAX_STAMP + 1, u64::MAX] {
        for mut client in both(4, Rule::MAX_PERIOD) {
            assert!(client.acquire(3, 4).is_some());
            let before = client.replaced;
            assert!(client.acquire(leap, 4).is_some());
            assert_eq!(client.acquire(leap, 1), None);
            assert!(client.replaced - before <= 1);
        }
    }
}

#[test]
fn at_the_last_stamp_units_that_count_are_carried_over() {
    for period in [10, Rule::MAX_PERIOD] {
        for mut client in both(3, period) {
            let last = Control::MAX_STAMP;
            assert!(client.acquire(last - 4, 2).is_some());
            for now in [last + 3, last + period - 5] {
                assert_eq!(client.left(now), 1);
                assert_eq!(client.acquire(now, 2), None);
            }
            assert!(client.acquire(last + 3, 1).is_some());
            assert_eq!([period - 5, period - 4].map(|at| client.left(last + at)), [0, 2]);
        }
    }
}

fn adopted(old: &Client, new: SlidingLog, at: u64, carry_over: CarryOver) -> Client {
    let change = Change { at: Nanos::new(at), carry_over, moved: false };
    old.log.freeze(&old.state);
    let state = new.adopt(&old.log, &old.state, change).into();
    Client { log: new, state, replaced: 0 }
}

#[test]
fn a_change_of_the_limit_keeps_every_unit() {
    for mut client in both(10, 100) {
        for now in 0..5 {
            assert!(client.acquire(now, 1).is_some());
        }
        let four = adopted(&client, log(4, 100), 5, CarryOver::Keep);
        assert_eq!((four.left(5), four.left(101), four.left(102)), (0, 1, 2));
        assert!(four.log.peek(&four.state, Nanos::new(5), 0).admitted, "nothing costs nothing");
        let six = adopted(&four, log(6, 100), 5, CarryOver::Keep);
        assert_eq!((six.left(5), six.left(100)), (1, 2));
        let none = adopted(&six, log(6, 100), 5, CarryOver::Reset);
        assert_eq!(none.left(5), 6);
    }
}

#[test]
fn a_proportional_change_keeps_the_part_used() {
    for mut client in both(10, 100) {
        for now in [0, 10, 20, 30] {
            assert!(client.acquire(now, 1).is_some());
        }
        let half = adopted(&client, log(5, 100), 40, CarryOver::Proportional);
        assert_eq!([40, 109, 110, 129, 130].map(|at| half.left(at)), [3, 3, 4, 4, 5]);
        let twice = adopted(&client, log(20, 100), 40, CarryOver::Proportional);
        assert_eq!([40, 99, 100, 110, 130].map(|at| twice.left(at)), [12, 12, 14, 16, 20]);
    }
}

#[test]
fn a_change_of_the_period_counts_what_counted_until_then() {
    for mut client in both(4, 100) {
        for now in [0, 50, 90] {
            assert!(client.acquire(now, 1).is_some());
        }
        let longer = adopted(&client, log(4, 1_000), 120, CarryOver::Keep);
        assert_eq!([120, 1_049, 1_050, 1_090].map(|at| longer.left(at)), [2, 2, 3, 4]);
        let shorter = adopted(&client, log(4, 40), 120, CarryOver::Keep);
        assert_eq!([120, 129, 130].map(|at| shorter.left(at)), [3, 3, 4]);
    }
}

#[test]
fn states_print_their_parts_by_name() {
    let [plain, ring] = both(2, 100).map(|mut client| {
        client.acquire(7, 1).unwrap();
        alloc::format!("{:?}", client.state)
    });
    assert!(
        plain.contains("newest: Mark { frozen: false, need: Plain, phase: true, stamp: Some(7)")
    );
    assert!(ring.contains("Control { frozen: false, time: 7, voiding: None"), "{ring}");
}
