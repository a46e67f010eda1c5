//! Several limits as one decision, against one exact oracle for each limit; and permits that settle.

pub(crate) mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    Algorithm, AlgorithmKind, AllOf, Anchor, AnyAlgorithm, CarryOver, Change, Counts, Decision,
    DirectLimiter, Frozen, InFlight, Interrupted, Limit, Limiter, ManualClock, Nanos, OnDrop,
    Permit, Policies, Quota, Reading, RetryAfter, Stack, StackError,
};

use common::families::{Family, Numbers};
use common::models::Paid;
use common::moves::{Step, config, step, usual};
use common::oracle::{Oracle, told};

type Stacked = Limiter<String, Stack, ManualClock>;

const NOW: Nanos = Nanos::new(1_000_000_000);
const NAMES: [&str; 3] = ["one", "two", "three"];

fn limiter(stack: Stack) -> Stacked {
    Limiter::<String, _>::builder(stack).clock(ManualClock::starting_at(NOW)).build()
}

fn bucket(limit: u64) -> AnyAlgorithm {
    AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_second(limit).unwrap()).unwrap()
}

fn later(nanos: u64) -> Nanos {
    NOW.saturating_add(Duration::from_nanos(nanos))
}

/// What each limit has left.
fn left<A: Algorithm>(limiter: &Limiter<String, A, ManualClock>, key: &str) -> Vec<u64> {
    limiter.client(key).explain(0).limits().map(|limit| limit.reading.remaining).collect()
}

// Against the oracle

/// One limit as the oracle sees it.
struct Part {
    oracle: Oracle,
    requests: bool,
    shadow: bool,
}

impl Part {
    fn cost(&self, cost: u64) -> u64 {
        if self.requests { cost.min(1) } else { cost }
    }
}

/// The limits of one client, decided one after the other by one thread.
struct Sequential {
    parts: Vec<Part>,
    parallel: u64,
    held: u64,
}

/// What an admitted request paid to each, and what it cost.
type Bill = (Vec<Option<Paid>>, u64);

impl Sequential {
    fn admits(&self, now: u64, cost: u64) -> bool {
        let mut enforced = self.parts.iter().filter(|part| !part.shadow);
        cost == 0
            || self.held < self.parallel
                && enforced.all(|part| part.oracle.admits(now, part.cost(cost)))
    }

    fn take(&mut self, now: u64, cost: u64) -> Option<Bill> {
        if !self.admits(now, cost) {
            return None;
        }
        self.held += cost.min(1);
        let pay = |part: &mut Part| part.oracle.take(now, part.cost(cost));
        Some((self.parts.iter_mut().map(pay).collect(), cost))
    }

    fn refund(&mut self, now: u64, (paid, cost): Bill) {
        self.held -= cost.min(1);
        for (part, paid) in self.parts.iter_mut().zip(paid) {
            paid.into_iter().for_each(|paid| part.oracle.refund(now, paid));
        }
    }

    fn settle(&mut self, now: u64, (paid, cost): Bill, actual: u64) {
        self.held -= cost.min(1);
        for (part, paid) in self.parts.iter_mut().zip(paid) {
            if let Some(paid) = paid.filter(|_| !part.requests) {
                part.oracle.refund(now, Paid { amount: paid.amount - actual, ..paid });
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Acquire(u64),
    Refund(usize),
    Settle(usize, u64),
    Drop(usize),
    Sweep,
}

pub(crate) type Story = (Vec<(Family, Numbers, bool, bool)>, u64, Vec<(Step, Act)>);

fn story() -> impl Strategy<Value = Story> {
    let limit = (usual(), any::<bool>(), prop::bool::weighted(0.2));
    let limit =
        limit.prop_map(|((family, numbers), requests, shadow)| (family, numbers, requests, shadow));
    let act = prop_oneof![
        4 => (0..6_u64).prop_map(Act::Acquire),
        1 => any::<usize>().prop_map(Act::Refund),
        1 => (any::<usize>(), 0..6_u64).prop_map(|(which, actual)| Act::Settle(which, actual)),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => Just(Act::Sweep),
    ];
    (prop::collection::vec(limit, 1..4), 1..4_u64, prop::collection::vec((step(), act), 1..40))
}

/// The limit in a stack, and as the oracle sees it.
fn part(
    name: &'static str,
    (family, numbers, requests, shadow): (Family, Numbers, bool, bool),
) -> (Limit, Part) {
    let algorithm = family.algorithm(numbers);
    let (rule, figures) = family.terms(numbers, &algorithm);
    let oracle = Oracle::new(rule, figures);
    let counts = if requests { Counts::Requests } else { Counts::Cost };
    let limit = Limit::new(name, algorithm).counts(counts);
    (if shadow { limit.shadow() } else { limit }, Part { oracle, requests, shadow })
}

pub(crate) fn play((limits, parallel, moves): Story) -> Result<(), TestCaseError> {
    let in_flight = Limit::new("parallel", InFlight::new(parallel).unwrap());
    let period = limits[0].1.period;
    let (limits, parts): (Vec<_>, _) =
        NAMES.into_iter().zip(limits).map(|(name, limit)| part(name, limit)).unzip();
    let ours = limiter(Stack::new(limits.into_iter().chain([in_flight])).unwrap());
    let mut oracle = Sequential { parts, parallel, held: 0 };
    let mut held: Vec<(Permit<_, _, _>, Bill)> = Vec::new();
    let mut now = NOW.get();
    for (step, act) in moves {
        now = step.from(now, period, || oracle.parts[0].oracle.peek(now, 1));
        let at = Nanos::new(now);
        match act {
            Act::Acquire(cost) => {
                let expected = oracle.take(now, cost);
                let (permit, explained) = ours.client_at("a", at).acquire_explained(cost);
                let decision = explained.decision();
                prop_assert_eq!(decision.is_admitted(), expected.is_some(), "{}", explained);
                let missed = expected.as_ref().is_some_and(|(paid, _)| paid.contains(&None));
                prop_assert_eq!(decision.would_have_been_refused(), missed);
                prop_assert_eq!(explained.refusing().count() > 0, decision.is_refused());
                held.extend(permit.zip(expected));
            }
            Act::Sweep => {
                ours.sweep_at(8, at);
            }
            Act::Refund(which) if !held.is_empty() => {
                let (permit, bill) = held.swap_remove(which % held.len());
                permit.refund_at(at);
                oracle.refund(now, bill);
            }
            Act::Settle(which, actual) if !held.is_empty() => {
                let (permit, bill) = held.swap_remove(which % held.len());
                let actual = actual.min(bill.1);
                permit.settle_at(actual, at);
                oracle.settle(now, bill, actual);
            }
            Act::Drop(which) if !held.is_empty() => {
                let (permit, (_, cost)) = held.swap_remove(which % held.len());
                drop(permit);
                oracle.held -= cost.min(1);
            }
            Act::Refund(_) | Act::Settle(..) | Act::Drop(_) => {}
        }
        let explained = ours.client_at("a", at).explain(1);
        for (limit, part) in explained.limits().zip(&oracle.parts) {
            let expected = told(part.oracle.peek(now, 1), limit.reading, now);
            prop_assert_eq!(limit.reading, expected, "{} at {}", limit.name, now);
            prop_assert_eq!(limit.enforced, !part.shadow);
        }
        let parallel = explained.limits().last().unwrap().reading;
        prop_assert_eq!(parallel.remaining, oracle.parallel - oracle.held);
        prop_assert_eq!(explained.decision().is_admitted(), oracle.admits(now, 1));
        prop_assert_eq!(ours.peek_n_at("a", 1, at), explained.decision());
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn every_answer_equals_the_oracles(story in story()) {
        play(story)?;
    }
}

// The reading of all

#[test]
fn the_reading_of_a_stack_is_that_of_its_limits() {
    let window = AlgorithmKind::FixedWindow { anchor: Anchor::Aligned };
    let hour = AnyAlgorithm::new(window, Quota::per_hour(5).unwrap()).unwrap();
    let stack = Stack::new([Limit::new("second", bucket(3)), Limit::new("hour", hour)]).unwrap();
    assert_eq!((stack.limit(), stack.limits().len()), (3, 2));
    let ours = limiter(stack);
    assert_eq!(ours.check_n("a", 2).remaining(), 1);
    assert_eq!(left(&ours, "a"), [1, 3]);
    let refused = ours.client("a").explain(2);
    assert_eq!(refused.refusing().map(|limit| limit.name).collect::<Vec<_>>(), ["second"]);
    assert_eq!(refused.decision().remaining(), 1);
    // Two seconds later the other one binds.
    let later = ours.client_at("a", later(2_000_000_000));
    assert_eq!(later.check(3).remaining(), 0);
    let refused = later.explain(1);
    assert_eq!(refused.refusing().count(), 2);
    let binding = refused.binding().unwrap();
    assert_eq!((binding.name, binding.allowance.to_string()), ("hour", "5 per 1h".into()));
    assert_eq!(refused.decision().retry_after(), binding.reading.retry_after);
    assert_eq!(binding.reading.retry_after, RetryAfter::After(Duration::from_secs(3_597)));
    let second = refused.limits().next().unwrap();
    assert_eq!(second.more_after, RetryAfter::After(Duration::from_nanos(333_333_334)));
    assert_eq!(second.reading.reset_after, Duration::from_secs(1));
    assert!(
        refused
            .to_string()
            .starts_with("refused by client limit, retry after 3597s; second: 0 of 3")
    );
}

#[test]
fn a_refusal_by_one_limit_charges_no_other() {
    let ours = limiter(
        Stack::new([Limit::new("wide", bucket(9)), Limit::new("tight", bucket(2))]).unwrap(),
    );
    assert!(ours.check_n("a", 3).is_refused());
    assert!(!ours.is_allowed("a") || left(&ours, "a") == [8, 1]);
    assert!(ours.check_n("a", 2).is_refused());
    assert_eq!(left(&ours, "a"), [8, 1]);
    assert_eq!(ours.check_n("a", 3).retry_after(), RetryAfter::Never);
}

#[test]
fn limits_that_make_no_stack_are_told() {
    assert_eq!(Stack::new([]).unwrap_err(), StackError::Empty);
    let seven = ["a", "b", "c", "d", "e", "f", "g"].map(|name| Limit::new(name, bucket(1)));
    let error = Stack::new(seven).unwrap_err();
    assert_eq!(error.to_string(), "7 limits: expected 1 to 6");
    let error = Stack::new([Limit::new("a", bucket(1)), Limit::new("a", bucket(2))]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "limit \"a\" is there twice: expected a name of its own for each"
    );
    let inner = Stack::new([Limit::new("a", bucket(1))]).unwrap();
    assert_eq!(Stack::new([Limit::new("b", inner)]).unwrap_err(), StackError::Nested { name: "b" });
}

#[test]
fn a_stack_stands_wherever_one_algorithm_can() {
    let stack = Stack::new([Limit::new("a", bucket(2)), Limit::new("b", bucket(3))]).unwrap();
    let stream = DirectLimiter::new(stack.clone(), ManualClock::starting_at(NOW));
    assert!(stream.is_allowed());
    let grant = stream.acquire(1).unwrap();
    assert!(!stream.is_allowed());
    stream.refund(grant);
    stream.credit(1);
    assert!(stream.check_n(2).is_admitted());
    // As the global cap, and for the choice at run time.
    let any = AnyAlgorithm::from(stack);
    let ours = Limiter::<String, _>::builder(bucket(9))
        .global(any.clone())
        .clock(ManualClock::starting_at(NOW));
    let ours = ours.build::<String>();
    assert!(ours.check_n("x", 2).is_admitted());
    let (none, explained) = ours.client("y").acquire_explained(1);
    assert!(none.is_none() && explained.decision().refused_by_global());
    assert_eq!(
        explained.limits().map(|limit| limit.name).collect::<Vec<_>>(),
        ["client", "a", "b"]
    );
    let ours = Limiter::<String, _>::new(any);
    assert!(ours.check_n("x", 2).is_admitted() && !ours.is_allowed("x"));
}

/// Found by fuzzing: a log that had grown for a request was cut back when another log of the same
/// client was replaced before the request had taken the room; and so on, for ever.
#[test]
fn logs_that_grow_and_turn_in_turn_come_to_an_end() {
    let log = |nanos| {
        let quota = Quota::new(10, Duration::from_nanos(nanos)).unwrap();
        AnyAlgorithm::new(AlgorithmKind::SlidingLog, quota).unwrap()
    };
    let ours = limiter(
        Stack::new([Limit::new("slow", log(1_000_000_000)), Limit::new("quick", log(1))]).unwrap(),
    );
    let first = ours.acquire_at("a", 1, later(1)).unwrap();
    let _second = ours.acquire_at("a", 5, later(2)).unwrap();
    first.settle_at(0, later(4));
    assert!(ours.acquire_at("a", 5, later(4)).is_ok());
    assert!(ours.acquire_at("a", 1, later(4)).is_err());
}

// Permits

#[test]
fn a_permit_settles_both_ways() {
    let ours = limiter(
        Stack::new([
            Limit::new("requests", bucket(9)).counts(Counts::Requests),
            Limit::new("tokens", bucket(100)),
        ])
        .unwrap(),
    );
    ours.acquire("a", 60).unwrap().settle(10);
    assert_eq!(left(&ours, "a"), [8, 90]);
    ours.acquire("a", 60).unwrap().settle(60);
    assert_eq!(left(&ours, "a"), [7, 30]);
    // More than was charged, and more than there is.
    ours.acquire("a", 30).unwrap().settle(130);
    assert_eq!(left(&ours, "a"), [6, 0]);
    let wait = ours.client("a").explain(1).limits().nth(1).unwrap().reading.retry_after;
    assert_eq!(wait, RetryAfter::After(Duration::from_millis(1_010)), "the debt is paid off first");
    ours.acquire_at("a", 1, later(1_010_000_000)).unwrap().commit();
}

#[test]
fn a_settled_permit_charges_the_cap_too() {
    let ours = Limiter::<String, _>::builder(bucket(100)).global(bucket(100));
    let ours = ours.clock(ManualClock::starting_at(NOW)).build::<String>();
    ours.acquire("a", 10).unwrap().settle(30);
    assert_eq!(left(&ours, "b"), [100, 70]);
    ours.acquire("a", 10).unwrap().settle(5);
    assert_eq!(left(&ours, "a"), [65, 65]);
    ours.client("a").charge(5);
    assert_eq!(left(&ours, "a"), [60, 60]);
}

#[test]
fn a_permit_dropped_keeps_or_gives_back_as_chosen() {
    let built = |on_drop| {
        let ours = Limiter::<String, _>::builder(bucket(5)).on_drop(on_drop);
        ours.clock(ManualClock::starting_at(NOW)).build::<String>()
    };
    let commits = built(OnDrop::Commit);
    drop(commits.acquire("a", 2).unwrap());
    assert_eq!(left(&commits, "a"), [3]);
    let refunds = built(OnDrop::Refund);
    drop(refunds.acquire("a", 2).unwrap());
    assert_eq!(left(&refunds, "a"), [5]);
    refunds.acquire("a", 2).unwrap().commit();
    assert_eq!(left(&refunds, "a"), [3]);
    // A decision without a permit is final either way.
    assert!(refunds.check_n("a", 3).is_admitted());
    assert_eq!(left(&refunds, "a"), [0]);
}

#[test]
fn a_permit_can_own_its_limiter_and_its_key() {
    let ours = Arc::new(limiter(
        Stack::new([Limit::new("a", bucket(3)), Limit::new("b", InFlight::new(1).unwrap())])
            .unwrap(),
    ));
    let permit = ours.acquire_owned("a".into(), 2).unwrap();
    assert_eq!((permit.cost(), left(&ours, "a")), (2, vec![1, 0]));
    assert!(ours.acquire_owned("a".into(), 1).is_err());
    thread::spawn(move || permit.settle_at(1, NOW)).join().unwrap();
    assert_eq!(left(&ours, "a"), [2, 1]);
}

#[test]
fn a_permit_that_outlives_its_client_harms_nothing() {
    let stack = |limit| {
        Stack::new([
            Limit::new("rate", bucket(limit)),
            Limit::new("open", InFlight::new(2).unwrap()),
        ])
        .unwrap()
    };
    let policies = |limit| {
        Policies::new("default", stack(limit))
            .tier("other", Stack::new([Limit::new("rate", bucket(9))]).unwrap())
    };
    let ours = Limiter::<String, _>::with_policies(policies(5))
        .clock(ManualClock::starting_at(NOW))
        .build::<String>();
    let permits = [(); 2].map(|()| ours.acquire("a", 1).unwrap());
    // Forgotten: the new state owes nothing to old permits, and gets nothing from them.
    ours.client("a").forget();
    let fresh = ours.acquire("a", 1).unwrap();
    drop(permits);
    assert_eq!(left(&ours, "a"), [4, 1]);
    // Reloaded: its place comes back.
    ours.reload(policies(6));
    assert_eq!(left(&ours, "a"), [4, 1]);
    drop(fresh);
    assert_eq!(left(&ours, "a"), [4, 2]);
    // Away to a tier without such a limit, and back.
    let away = ours.acquire("a", 1).unwrap();
    assert!(ours.client("a").tier("other").is_allowed(1));
    let back = ours.acquire("a", 1).unwrap();
    drop(away);
    assert_eq!(left(&ours, "a"), [2, 1], "the place of the old permit went with the state");
    drop(back);
    assert_eq!(left(&ours, "a"), [2, 2]);
    // A client with a permit in flight is not idle, whatever the time.
    let held = ours.acquire("a", 1).unwrap();
    assert_eq!(ours.sweep_at(8, later(60_000_000_000)).retired, 0);
    drop(held);
    assert_eq!(ours.sweep_at(8, later(120_000_000_000)).retired, 1);
}

#[test]
fn what_is_there_is_taken() {
    let ours = limiter(
        Stack::new([
            Limit::new("requests", bucket(4)).counts(Counts::Requests),
            Limit::new("tokens", bucket(10)),
        ])
        .unwrap(),
    );
    assert_eq!(ours.client("a").acquire_up_to(7).unwrap().cost(), 7);
    assert_eq!(ours.client("a").acquire_up_to(0).unwrap().cost(), 0);
    assert_eq!(ours.client("a").acquire_up_to(7).unwrap().cost(), 3);
    let refused = ours.client("a").acquire_up_to(7).unwrap_err();
    assert_eq!(refused.retry_after(), RetryAfter::After(Duration::from_millis(100)));
    assert_eq!(left(&ours, "a"), [2, 0]);
}

#[test]
fn concurrent_takers_of_what_is_there_get_it_all_and_no_more() {
    let ours = limiter(
        Stack::new([Limit::new("a", bucket(1_000)), Limit::new("b", bucket(900))]).unwrap(),
    );
    let granted: u64 = thread::scope(|scope| {
        let take = || {
            let takes = std::iter::from_fn(|| ours.client("k").acquire_up_to(7).ok());
            takes.map(|permit| permit.cost()).sum::<u64>()
        };
        let takers = [scope.spawn(take), scope.spawn(take), scope.spawn(take)];
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    assert_eq!(granted, 900);
    assert_eq!(left(&ours, "k"), [100, 0]);
}

// The stack as an algorithm

/// Two limits of units, one that counts requests, one in shadow.
fn four() -> Stack {
    let requests = Limit::new("requests", bucket(2)).counts(Counts::Requests);
    let shadow = Limit::new("shadow", bucket(1)).shadow();
    Stack::new([Limit::new("few", bucket(3)), Limit::new("many", bucket(5)), requests, shadow])
        .unwrap()
}

/// What each limit of a state has left, and how long it waits for one unit.
fn each(stack: &Stack, state: &<Stack as Algorithm>::State) -> Vec<(u64, RetryAfter)> {
    let mut all = Vec::new();
    stack.peek_each(state, NOW, 1, &mut |limit| {
        assert_eq!(limit.enforced, limit.name != "shadow");
        all.push((limit.reading.remaining, limit.reading.retry_after));
    });
    all
}

fn units(stack: &Stack, state: &<Stack as Algorithm>::State) -> Vec<u64> {
    each(stack, state).iter().map(|(left, _)| *left).collect()
}

#[test]
fn every_verb_reaches_every_limit() {
    let stack = four();
    let state = stack.fresh(NOW);
    assert!(stack.is_idle(&state, NOW) && !stack.holds());
    assert!(stack.would_admit(&state, NOW, 3) && !stack.would_admit(&state, NOW, 4));
    let grant = stack.acquire(&state, NOW, 2).unwrap().unwrap();
    assert_eq!((stack.owed(&state, NOW), units(&stack, &state)), (2, vec![1, 3, 1, 1]));
    assert!(!stack.is_idle(&state, NOW) && !stack.freeze_if_idle(&state, NOW));
    for part in 0..stack.limits().len() {
        stack.credit(&state, NOW, 1, part).unwrap();
    }
    assert_eq!(units(&stack, &state), [2, 4, 1, 1], "requests are no units");
    stack.refund(&state, NOW, grant).unwrap();
    assert_eq!(units(&stack, &state), [3, 5, 2, 1]);

    stack.penalize(&state, NOW, later(9)).unwrap();
    assert!(
        each(&stack, &state)
            .iter()
            .all(|one| *one == (0, RetryAfter::After(Duration::from_nanos(9))))
    );
    let state = stack.fresh(NOW);
    stack.drain(&state, NOW).unwrap();
    assert_eq!(units(&stack, &state), [0; 4]);
    // A refusal by what is frozen is no answer.
    stack.freeze(&state);
    assert!(stack.acquire(&state, NOW, 1).is_err());

    let state = stack.fresh(NOW);
    assert!(stack.freeze_if_idle(&state, NOW) && stack.acquire(&state, NOW, 1).is_err());
}

#[test]
fn limits_of_new_names_begin_with_what_was_used_and_the_others_go_on() {
    let change = Change { at: NOW, carry_over: CarryOver::Keep, moved: false };
    let (old, new) = (Stack::new([Limit::new("few", bucket(3))]).unwrap(), four());
    let state = old.fresh(NOW);
    let grant = old.acquire(&state, NOW, 2).unwrap().unwrap();
    old.freeze(&state);
    let state = new.adopt(&old, &state, change);
    assert_eq!(units(&new, &state), [1, 3, 2, 0]);
    new.refund_adopted(&state, NOW, grant).unwrap();
    assert_eq!(units(&new, &state), [3, 3, 2, 0]);
}

#[test]
fn a_stack_tells_itself() {
    let stack = four();
    assert_eq!((Algorithm::name(&stack), Algorithm::limit(&stack)), ("stack", 3));
    let told: Vec<_> =
        stack.limits().iter().map(|limit| (limit.name(), limit.enforced_percent())).collect();
    assert_eq!(told, [("few", 100), ("many", 100), ("requests", 100), ("shadow", 0)]);
    assert_eq!(stack.name_of_part(2), ("requests", "token_bucket"));
    let places = Limit::new("places", InFlight::new(2).unwrap()).counts(Counts::Requests);
    let some = Limit::new("some", bucket(7)).enforced_for(30);
    let text =
        Stack::new(stack.limits().iter().cloned().chain([places, some])).unwrap().to_string();
    let parts: Vec<_> = text.split("; ").collect();
    assert_eq!(parts.len(), 6, "{text}");
    assert!(parts[0].starts_with("few: 3 per ") && parts[0].ends_with("token bucket"), "{text}");
    assert!(parts[2].ends_with("token bucket, counting requests"), "{text}");
    assert!(parts[3].ends_with("token bucket, in shadow"), "{text}");
    assert!(!parts[4].contains("counting"), "{text}");
    assert!(parts[5].ends_with("token bucket, enforced for 30 %"), "{text}");

    // Where nothing counts cost, requests are what the reading is of.
    let requests = Limit::new("requests", bucket(2)).counts(Counts::Requests);
    let stack = Stack::new([requests]).unwrap();
    let read = stack.peek(&stack.fresh(NOW), NOW, 1);
    assert_eq!((Algorithm::limit(&stack), read.limit, read.remaining), (2, 2, 2));
    // Elsewhere they bound nothing but whether there is any.
    let stack = four();
    let state = stack.fresh(NOW);
    assert!(stack.acquire(&state, NOW, 0).unwrap().is_some());
    let read = stack.peek(&state, NOW, 0);
    assert_eq!((read.limit, read.remaining), (3, 3));
    assert!((0..2).all(|_| stack.acquire(&state, NOW, 1).unwrap().is_some()));
    let read = stack.peek(&state, NOW, 0);
    assert_eq!((read.limit, read.remaining), (2, 0));
}

#[test]
fn a_decision_that_met_a_frozen_limit_tells_so() {
    assert!(Interrupted::<()>::from(Frozen).to_string().contains(&Frozen.to_string()));
}

// Shadow, share of clients, in flight

#[test]
fn a_limit_in_shadow_refuses_nobody_and_tells() {
    let ours = limiter(
        Stack::new([Limit::new("now", bucket(5)), Limit::new("next", bucket(2)).shadow()]).unwrap(),
    );
    assert!(!ours.check_n("a", 2).would_have_been_refused());
    let decision = ours.check("a");
    assert!(decision.is_admitted() && decision.would_have_been_refused());
    assert!(ours.is_allowed("a"));
    assert_eq!(ours.stats().would_have_refused, 2);
    let explained = ours.client("a").explain(1);
    assert_eq!(explained.refusing().count(), 0);
    assert!(explained.to_string().ends_with("next: 0 of 2 left, would have refused"));
    // A request that is refused anyway counts as that.
    assert!(ours.check_n("a", 2).is_refused());
    assert_eq!(ours.stats().would_have_refused, 2);
}

#[test]
fn a_share_of_clients_is_chosen_by_key_and_only_grows() {
    let enforced = |percent| {
        let ours =
            limiter(Stack::new([Limit::new("new", bucket(1)).enforced_for(percent)]).unwrap());
        let key = |n: &u32| ours.check_n(&n.to_string(), 2).is_refused();
        (0..2_000).filter(key).collect::<Vec<u32>>()
    };
    let (quarter, half) = (enforced(25), enforced(50));
    assert_eq!((enforced(0).len(), enforced(100).len()), (0, 2_000));
    assert!((400..600).contains(&quarter.len()), "{}", quarter.len());
    assert!((900..1_100).contains(&half.len()), "{}", half.len());
    assert!(quarter.iter().all(|key| half.contains(key)));
    assert_eq!(quarter, enforced(25));
}

#[test]
fn a_client_stays_in_its_share_through_reload_and_tier() {
    let share = |limit| Stack::new([Limit::new("new", bucket(limit)).enforced_for(50)]).unwrap();
    let single = bucket(9);
    let policies = |limit| {
        Policies::new("default", AnyAlgorithm::from(share(limit))).tier("plain", single.clone())
    };
    let ours = Limiter::<String>::with_policies(policies(1))
        .clock(ManualClock::starting_at(NOW))
        .build::<String>();
    for n in 0..50_u32 {
        let key = n.to_string();
        let enforced = ours.peek_n(&key, 2).is_refused();
        assert!(ours.client(&key).is_allowed(1));
        assert!(ours.client(&key).tier("plain").is_allowed(1));
        assert_eq!(ours.peek_n(&key, 2).is_refused(), enforced, "seen from the tier");
        ours.reload(policies(1 + u64::from(n % 2)));
        assert_eq!(ours.check_n(&key, 3).is_refused(), enforced, "after reload and tier");
    }
}

#[test]
fn a_decision_without_a_permit_holds_no_place() {
    let ours = limiter(
        Stack::new([Limit::new("open", InFlight::new(1).unwrap()), Limit::new("rate", bucket(9))])
            .unwrap(),
    );
    assert!((0..3).all(|_| ours.is_allowed("a")) && ours.check("a").is_admitted());
    let permit = ours.acquire("a", 1).unwrap();
    let refused = ours.check("a");
    assert_eq!(refused.retry_after(), RetryAfter::OnRelease);
    assert_eq!(refused.retry_after().to_string(), "when a permit ends");
    assert_eq!(left(&ours, "a"), [0, 4], "a refusal by one charges no other");
    permit.refund();
    assert_eq!(left(&ours, "a"), [1, 5]);
    // A later limit that refuses leaks no place.
    assert!(ours.check_n("a", 6).is_refused());
    assert_eq!(left(&ours, "a"), [1, 5]);
}

// Limits at keys of their own

#[test]
fn limits_at_keys_of_their_own_are_all_charged_or_none() {
    let clock = ManualClock::starting_at(NOW);
    let users = Limiter::<String, _>::builder(bucket(5)).clock(clock.clone()).build::<String>();
    let routes = Limiter::<String, _>::builder(bucket(3)).clock(clock.clone()).build::<String>();
    let all = Limiter::<u8, _>::builder(bucket(4)).clock(clock).build::<u8>();
    let limits = |user| (users.client(user), routes.client("/r"), all.client(&0));
    let permits = limits("a").acquire_all(2).unwrap();
    let refused = limits("b").acquire_all(2).unwrap_err();
    let refusals = refused.map(|decision| decision.is_refused());
    assert_eq!(refusals, [false, true, false]);
    assert_eq!((left(&users, "b"), left(&routes, "/r")), (vec![5], vec![1]));
    assert_eq!(all.peek_n(&0, 0).remaining(), 2);
    permits.1.refund();
    assert!(limits("b").peek_all(2).iter().all(Decision::is_admitted));
    assert!(limits("b").acquire_all(2).is_ok());
    assert!((users.client("a"), routes.client("/r")).acquire_all(1).is_ok());
}

#[test]
fn threads_in_opposite_order_charge_each_limit_exactly() {
    let (left_side, right_side) = (limiter_of(bucket(1_000)), limiter_of(bucket(1_000)));
    let admitted: u64 = thread::scope(|scope| {
        let forth = || {
            (0..900)
                .filter(|_| (left_side.client("l"), right_side.client("r")).acquire_all(1).is_ok())
                .count() as u64
        };
        let back = || {
            (0..900)
                .filter(|_| (right_side.client("r"), left_side.client("l")).acquire_all(1).is_ok())
                .count() as u64
        };
        let threads = [scope.spawn(forth), scope.spawn(back), scope.spawn(forth)];
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(admitted <= 1_000);
    assert_eq!(
        (left(&left_side, "l"), left(&right_side, "r")),
        (vec![1_000 - admitted], vec![1_000 - admitted])
    );
}

fn limiter_of(algorithm: AnyAlgorithm) -> Limiter<String, AnyAlgorithm, ManualClock> {
    Limiter::<String, _>::builder(algorithm).clock(ManualClock::starting_at(NOW)).build()
}

/// Real threads take, refund, settle and drop under several limits, while one sweeps and reloads:
/// at the end every unit and every place is accounted for.
#[test]
fn threads_account_for_every_unit_and_place() {
    let window = AlgorithmKind::FixedWindow { anchor: Anchor::Aligned };
    let day = AnyAlgorithm::new(window, Quota::per_day(1 << 40).unwrap()).unwrap();
    let stack = |extra: u64| {
        Stack::new([
            Limit::new("rate", bucket(1_000_000 + extra)),
            Limit::new("day", day.clone()),
            Limit::new(
                "log",
                AnyAlgorithm::new(AlgorithmKind::SlidingLog, Quota::per_day(1 << 15).unwrap())
                    .unwrap(),
            )
            .counts(Counts::Requests),
            Limit::new("open", InFlight::new(3).unwrap()),
        ])
        .unwrap()
    };
    let ours = limiter(stack(0));
    let turn = |thread: u64| {
        let mut used = 0;
        for n in 0..2_000_u64 {
            let Ok(permit) = ours.acquire("k", 1 + n % 5) else { continue };
            match (n + thread) % 3 {
                0 => permit.refund(),
                1 => {
                    used += 1;
                    permit.settle(1);
                }
                _ => {
                    used += permit.cost();
                    permit.commit();
                }
            }
        }
        used
    };
    let used: u64 = thread::scope(|scope| {
        let threads = [0, 1, 2].map(|thread| scope.spawn(move || turn(thread)));
        for _ in 0..50 {
            ours.sweep(8);
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let left = left(&ours, "k");
    assert_eq!((left[0], left[1], left[3]), (1_000_000 - used, (1 << 40) - used, 3));
    let readings: Vec<Reading> =
        ours.client("k").explain(0).limits().map(|limit| limit.reading).collect();
    assert!(readings.iter().all(|reading| reading.admitted));
}
