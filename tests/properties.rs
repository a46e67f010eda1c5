//! Random quotas and histories: every field of every answer equals the exact oracle's, so no
//! algorithm is ever over, or under, by a unit or a nanosecond.

pub(crate) mod common;

use proptest::prelude::*;
use tollgate::{
    Algorithm, AlgorithmKind, AnyAlgorithm, Limiter, ManualClock, Nanos, Quota, QuotaError, Rate,
    Reading,
};

use common::asking::ask;
use common::families::{Family, Numbers, words};
use common::moves::{Act, Cost, Step, act, config, cost, family, numbers, start, step, usual};
use common::oracle::{Oracle, told};
use common::subject::{Answer, Refund, Subject};
use common::twin::Twin;

/// Whether `got` is what `expected` says.
fn same(expected: Reading, got: Reading, now: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(told(expected, got, now), got);
    Ok(())
}

/// Plays the moves to the algorithm and to the oracle, and compares every answer.
pub(crate) fn play(
    algorithm: &AnyAlgorithm,
    mut oracle: Oracle,
    (mut now, period): (u64, u64),
    moves: &[(Step, Act)],
) -> Result<(), TestCaseError> {
    let mut state = algorithm.fresh(Nanos::ZERO);
    let mut held = Vec::new();
    for &(step, act) in moves {
        let wanted = |cost: Cost| cost.of(&oracle.peek(now, 1));
        now = match act {
            Act::Acquire(cost) | Act::AcquireLeaving(cost, _) | Act::Peek(cost) => {
                step.from(now, period, || oracle.peek(now, wanted(cost).max(1)))
            }
            _ => step.from(now, period, || oracle.peek(now, 1)),
        };
        let at = Nanos::new(now);
        let wanted = |cost: Cost| cost.of(&oracle.peek(now, 1));
        match act {
            Act::Acquire(cost) => {
                let cost = wanted(cost);
                let (paid, expected) = oracle.check(now, cost);
                let (grant, got) =
                    ask(algorithm, &mut state, |state| algorithm.check(state, at, cost));
                same(expected, got, now)?;
                prop_assert_eq!(paid.is_some(), grant.is_some());
                held.extend(paid.zip(grant));
            }
            Act::AcquireLeaving(cost, percent) => {
                let cost = wanted(cost);
                let found = oracle.peek(now, cost);
                let [left, limit] =
                    [found.remaining.saturating_sub(cost), found.limit].map(u128::from);
                let enough = found.admitted && left * 100 > limit * u128::from(percent);
                let paid = enough.then(|| oracle.check(now, cost).0).flatten();
                let grant = ask(algorithm, &mut state, |state| {
                    algorithm.acquire_leaving(state, at, cost, percent)
                });
                prop_assert_eq!(paid.is_some(), grant.is_some());
                held.extend(paid.zip(grant));
            }
            Act::Peek(cost) => {
                let cost = wanted(cost);
                same(oracle.peek(now, cost), algorithm.peek(&state, at, cost), now)?;
                let would = algorithm.would_admit(&state, at, cost);
                prop_assert_eq!(oracle.admits(now, cost), would);
            }
            Act::Refund(number) if !held.is_empty() => {
                let (paid, grant) = held.swap_remove(number % held.len());
                oracle.refund(now, paid);
                ask(algorithm, &mut state, |state| algorithm.refund(state, at, grant));
            }
            Act::Refund(_) => {}
            Act::Credit(cost) => {
                let amount = wanted(cost);
                oracle.credit(now, amount);
                ask(algorithm, &mut state, |state| algorithm.credit(state, at, amount, 0));
            }
        }
        same(oracle.peek(now, 1), algorithm.peek(&state, at, 1), now)?;
    }
    Ok(())
}

type History = Vec<(Step, Act)>;

fn history() -> impl Strategy<Value = (Family, Numbers, u64, History)> {
    prop_oneof![(family(), numbers()), usual()].prop_flat_map(|(family, numbers)| {
        let moves = prop::collection::vec((step(), act()), 1..30);
        (Just(family), Just(numbers), start(numbers.period), moves)
    })
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn every_field_equals_the_oracles((family, numbers, start, moves) in history()) {
        for (word, algorithm) in words(family.kind_for(numbers), numbers.quota()) {
            // What a word cannot hold it refuses to be made for: nothing to play then.
            let Ok(algorithm) = algorithm else { continue };
            let (rule, figures) = family.terms(numbers, &algorithm);
            let told = |error| match error {
                TestCaseError::Fail(text) => TestCaseError::fail(format!("in {word}: {text}")),
                reject => reject,
            };
            let oracle = Oracle::new(rule, figures);
            play(&algorithm, oracle, (start, numbers.period), &moves).map_err(told)?;
        }
    }
}

/// A client's move: whose, when, what.
type KeyedMove = (u8, Step, Act);

/// Moves of some clients under a cap that may be of another algorithm.
fn story() -> impl Strategy<Value = ([(Family, Numbers); 2], u64, Vec<KeyedMove>)> {
    [usual(), usual()].prop_flat_map(|limits| {
        let moves = prop::collection::vec((0..3_u8, step(), act()), 1..30);
        (Just(limits), start(limits[0].1.period), moves)
    })
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_limiter_with_a_cap_answers_as_its_twin((limits, start, moves) in story()) {
        let made = limits.map(|(family, numbers)| family.algorithm(numbers));
        let [each, cap] = [0, 1].map(|i| limits[i].0.terms(limits[i].1, &made[i]));
        let twin = Twin::new(each, Some(cap));
        let builder = Limiter::<String, _>::builder(made[0].clone()).clock(ManualClock::new());
        let ours = builder.global(made[1].clone()).max_clients(1_000).build::<String>();
        let mut now = start;
        let mut held: Vec<(Refund<'_>, Refund<'_>)> = Vec::new();
        let agree = |expected: Answer, got: Answer, now: u64| {
            same(expected.reading, got.reading, now)?;
            prop_assert_eq!(expected, Answer { reading: expected.reading, ..got });
            Ok(())
        };
        for (key, step, act) in moves {
            let key = ["a", "b", "c"][usize::from(key)];
            now = step.from(now, limits[0].1.period, || twin.peek(key, 1, now).reading);
            let wanted = |cost: Cost| cost.of(&twin.peek(key, 1, now).reading);
            match act {
                Act::Acquire(cost @ Cost::Share(_)) => {
                    let cost = wanted(cost);
                    match (twin.acquire(key, cost, now), Subject::acquire(&ours, key, cost, now)) {
                        (Ok(twins), Ok(ours)) => held.push((twins, ours)),
                        (Err(expected), Err(got)) => agree(expected, got, now)?,
                        (expected, _) => prop_assert!(false, "twin: {}", expected.is_ok()),
                    }
                }
                Act::Acquire(cost) | Act::AcquireLeaving(cost, _) => {
                    let cost = wanted(cost);
                    agree(twin.check(key, cost, now), Subject::check(&ours, key, cost, now), now)?;
                }
                Act::Peek(cost) => {
                    let cost = wanted(cost);
                    agree(twin.peek(key, cost, now), Subject::peek(&ours, key, cost, now), now)?;
                }
                Act::Refund(number) if !held.is_empty() => {
                    let (twins, ours) = held.swap_remove(number % held.len());
                    twins(now);
                    ours(now);
                }
                Act::Refund(_) => {}
                Act::Credit(cost) => {
                    let amount = wanted(cost);
                    Subject::credit(&twin, key, amount, now);
                    Subject::credit(&ours, key, amount, now);
                }
            }
            for key in ["a", "b", "c"] {
                agree(twin.peek(key, 1, now), Subject::peek(&ours, key, 1, now), now)?;
            }
            prop_assert_eq!(twin.clients(), Subject::clients(&ours));
        }
    }
}

/// The rate that a bucket really tells, if this is one.
fn effective(algorithm: &AnyAlgorithm) -> Option<Rate> {
    match algorithm {
        AnyAlgorithm::TokenBucket(bucket) => Some(bucket.effective_rate()),
        AnyAlgorithm::WideTokenBucket(bucket) => Some(bucket.effective_rate()),
        AnyAlgorithm::LeakyBucket(bucket) => Some(bucket.effective_rate()),
        AnyAlgorithm::WideLeakyBucket(bucket) => Some(bucket.effective_rate()),
        _ => None,
    }
}

/// Whether `told` is not faster than `exact` and near enough to it: within 1e-6 up to 1,000 per
/// second, 1e-4 up to a million, 1e-3 up to ten million, 2 % above. In whole numbers.
fn near_enough(told: Rate, exact: Rate) -> bool {
    let product = |left: u64, right: u64| u128::from(left) * u128::from(right);
    let up_to = |rate| product(exact.units(), 1_000_000_000) <= product(exact.nanos(), rate);
    let part = match () {
        () if up_to(1_000) => 1_000_000,
        () if up_to(1_000_000) => 10_000,
        () if up_to(10_000_000) => 1_000,
        () => 50,
    };
    // Both rates over the same denominator.
    let (told, exact) =
        (product(told.units(), exact.nanos()), product(exact.units(), told.nanos()));
    told <= exact && exact - told <= exact / part
}

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn any_numbers_make_a_quota_or_an_error(
        family in family(), numbers in numbers(), cost in cost(), now: u64,
    ) {
        let words_of = |numbers: Numbers| words(family.kind_for(numbers), numbers.quota());
        for (word, (_, made)) in words_of(numbers).into_iter().enumerate() {
            match made {
                Ok(algorithm) => {
                    prop_assert_eq!(Algorithm::limit(&algorithm), family.capacity(numbers));
                    let mut state = algorithm.fresh(Nanos::ZERO);
                    let now = Nanos::new(now);
                    let cost = cost.of(&algorithm.peek(&state, now, 1));
                    let (grant, reading) =
                        ask(&algorithm, &mut state, |state| algorithm.check(state, now, cost));
                    prop_assert_eq!(grant.is_some(), cost <= family.capacity(numbers));
                    prop_assert_eq!(grant.is_some(), reading.admitted);
                    let rate = numbers.quota().rate();
                    if let Some(told) = effective(&algorithm) {
                        prop_assert!(near_enough(told, rate), "{} for {}", told, rate);
                    }
                }
                Err(error) => {
                    let text = error.to_string();
                    prop_assert!(text.contains("; use "), "{}", text);
                    match error {
                        QuotaError::TooLarge { what: "limit", given, max, .. } => {
                            prop_assert!(given == numbers.limit && max < given, "{}", text);
                            let accepted = Numbers { limit: max.max(1), ..numbers };
                            let (_, accepted) = words_of(accepted).remove(word);
                            let next = matches!(
                                accepted,
                                Err(QuotaError::TooLarge { what: "period in ns", .. })
                            );
                            prop_assert!(max == 0 || accepted.is_ok() || next, "{}", text);
                        }
                        QuotaError::TooLarge { what: "burst" | "queue", given, max, .. } => {
                            prop_assert!(max < given, "{}", text);
                            let spare = family.capacity(numbers) - given;
                            let accepted = Numbers { capacity: (max + spare).max(1), ..numbers };
                            let (_, accepted) = words_of(accepted).remove(word);
                            let still = matches!(accepted, Err(QuotaError::TooLarge { .. }));
                            prop_assert!(max == 0 || !still, "{}", text);
                        }
                        QuotaError::TooLarge { what: "period in ns", given, max, .. } => {
                            prop_assert!(given == numbers.period && max < given, "{}", text);
                            let accepted = Numbers { period: max.max(1), capacity: 1, ..numbers };
                            let (_, accepted) = words_of(accepted).remove(word);
                            let still = matches!(
                                accepted,
                                Err(QuotaError::TooLarge { what: "period in ns", .. })
                            );
                            prop_assert!(max == 0 || !still, "{}", text);
                        }
                        QuotaError::RateNotRepresentable { given, nearest, .. } => {
                            prop_assert_eq!(given, numbers.quota().rate());
                            prop_assert!(nearest.is_none_or(|nearest| nearest <= given));
                        }
                        error => prop_assert!(false, "{}", error),
                    }
                }
            }
        }
    }

    #[test]
    fn the_usual_numbers_are_never_refused((family, numbers) in usual()) {
        let made = AnyAlgorithm::new(family.kind_for(numbers), numbers.quota());
        prop_assert!(made.is_ok(), "{:?}", made);
    }

    #[test]
    fn a_small_numerator_is_told_exactly(
        units in 1..=29_u64, factor in 1..=1_000_u64, nanos in 1..=10_000_000_000_u64,
    ) {
        let numbers = Numbers::new(units * factor, nanos * factor, 1);
        let bucket = AnyAlgorithm::new(AlgorithmKind::TokenBucket, numbers.quota()).unwrap();
        prop_assert!(matches!(bucket, AnyAlgorithm::TokenBucket(_)));
        prop_assert_eq!(effective(&bucket), Some(numbers.quota().rate()));
    }

    #[test]
    fn a_quota_keeps_and_prints_its_numbers(numbers in numbers()) {
        let quota = numbers.quota();
        prop_assert_eq!(quota.limit(), numbers.limit);
        prop_assert_eq!(quota.burst(), numbers.capacity);
        prop_assert_eq!(quota.period().as_nanos(), u128::from(numbers.period));
        prop_assert!(Quota::new(0, quota.period()).is_err() && quota.with_burst(0).is_err());
        let (units, nanos) = (quota.rate().units(), quota.rate().nanos());
        let [left, right] = [(units, numbers.period), (numbers.limit, nanos)]
            .map(|(left, right)| u128::from(left) * u128::from(right));
        prop_assert_eq!(left, right, "the rate is the quota's");
        let text = quota.to_string();
        let begins = format!("{} per ", numbers.limit);
        let ends = format!(", burst {}", numbers.capacity);
        prop_assert!(text.starts_with(&begins) && text.ends_with(&ends), "{}", text);
    }
}
