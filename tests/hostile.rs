//! Clocks that go back, jump and stand still: no limit opens and nothing panics, whatever they say.

mod common;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{Algorithm, AnyAlgorithm, Nanos};

use common::asking::ask;
use common::families::{Family, Numbers, words};
use common::moves::{Act, act, config, family, numbers};
use common::oracle::{Figures, Oracle, Rule};

/// How a bad clock goes on.
#[derive(Clone, Copy, Debug)]
enum Jump {
    Stall,
    Forward(u64),
    Back(u64),
    /// So many 16ths of the period, forward or back.
    Part(i64),
    To(u64),
}

fn jump() -> impl Strategy<Value = Jump> {
    const ENDS: &[u64] = &[0, 1, 1 << 59, (1 << 62) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
    prop_oneof![
        3 => Just(Jump::Stall),
        2 => (1..=3_u64).prop_map(Jump::Forward),
        2 => (1..=3_u64).prop_map(Jump::Back),
        4 => (-40..=40_i64).prop_map(Jump::Part),
        1 => any::<u64>().prop_map(Jump::Forward),
        1 => any::<u64>().prop_map(Jump::Back),
        1 => any::<u64>().prop_map(Jump::To),
        2 => select(ENDS).prop_map(Jump::To),
    ]
}

impl Jump {
    fn from(self, now: u64, period: u64) -> u64 {
        match self {
            Self::Stall => now,
            Self::Forward(by) => now.saturating_add(by),
            Self::Back(by) => now.saturating_sub(by),
            Self::Part(parts) => {
                let by = u128::from(period) * u128::from(parts.unsigned_abs()) / 16;
                let by = u64::try_from(by).unwrap_or(u64::MAX);
                if parts < 0 { now.saturating_sub(by) } else { now.saturating_add(by) }
            }
            Self::To(then) => then,
        }
    }
}

fn history() -> impl Strategy<Value = (Family, Numbers, u64, Vec<(Jump, Act)>)> {
    let start = prop_oneof![0..=100_u64, any::<u64>()];
    (family(), numbers(), start, prop::collection::vec((jump(), act()), 1..24))
}

proptest! {
    #![proptest_config(config(1_000))]

    /// Each algorithm admits a request only if the exact oracle would, whose time is the latest at
    /// which anything was admitted.
    #[test]
    fn it_admits_nothing_that_the_latest_time_seen_would_not(
        (family, numbers, start, moves) in history()
    ) {
        for (word, algorithm) in words(family.kind_for(numbers), numbers.quota()) {
            let Ok(algorithm) = algorithm else { continue };
            let (rule, figures) = family.terms(numbers, &algorithm);
            let mut oracle = Oracle::new(rule, figures);
            let mut state = algorithm.fresh(Nanos::ZERO);
            let mut now = start;
            for &(jump, act) in &moves {
                now = jump.from(now, numbers.period);
                let Act::Acquire(cost) = act else { continue };
                let found = algorithm.peek(&state, Nanos::new(now), 1);
                let cost = cost.of(&found);
                let at = Nanos::new(now);
                let (grant, reading) =
                    ask(&algorithm, &mut state, |state| algorithm.check(state, at, cost));
                prop_assert!(reading.remaining <= reading.limit);
                prop_assert_eq!(reading.admitted, grant.is_some());
                if grant.is_some() {
                    let fits = oracle.take(now, cost);
                    prop_assert!(fits.is_some(), "{} in {word} at {now}: {cost}", family.name);
                }
            }
        }
    }

    /// With refunds and credits in between, the documented bound holds for the times given.
    #[test]
    fn its_bound_holds_for_the_times_given((family, numbers, start, moves) in history()) {
        for (word, algorithm) in words(family.kind_for(numbers), numbers.quota()) {
            let Ok(algorithm) = algorithm else { continue };
            let (rule, figures) = family.terms(numbers, &algorithm);
            let events = play(&algorithm, (start, numbers.period), &moves);
            let capacity = u128::from(family.capacity(numbers));
            if let Some(broken) = broken_bound(rule, figures, capacity, &events) {
                prop_assert!(false, "{} in {word}: {broken}: {events:?}", family.name);
            }
        }
    }
}

/// What happened, in the order in which it did.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// The time given or, if that is later, the latest given before with an admission.
    at: u128,
    /// The time given.
    stamp: u128,
    admitted: u128,
    back: u128,
}

fn play(algorithm: &AnyAlgorithm, start: (u64, u64), moves: &[(Jump, Act)]) -> Vec<Event> {
    let mut state = algorithm.fresh(Nanos::ZERO);
    let (mut now, period) = start;
    let (mut latest, mut held, mut events) = (0, Vec::new(), Vec::new());
    for &(jump, act) in moves {
        now = jump.from(now, period);
        let at = Nanos::new(now);
        let found = algorithm.peek(&state, at, 1);
        let (mut admitted, mut back) = (0, 0);
        match act {
            Act::Acquire(cost) => {
                let cost = cost.of(&found);
                let taken = ask(algorithm, &mut state, |state| algorithm.acquire(state, at, cost));
                if let Some(grant) = taken {
                    held.push((grant, cost));
                    admitted = cost;
                }
            }
            Act::Peek(cost) => {
                algorithm.peek(&state, at, cost.of(&found));
            }
            Act::Refund(number) if !held.is_empty() => {
                let (grant, cost) = held.swap_remove(number % held.len());
                ask(algorithm, &mut state, |state| algorithm.refund(state, at, grant));
                back = cost;
            }
            Act::Refund(_) => {}
            Act::Credit(cost) => {
                back = cost.of(&found);
                ask(algorithm, &mut state, |state| algorithm.credit(state, at, back, 0));
            }
        }
        let stamp = u128::from(now);
        if admitted > 0 {
            latest = stamp.max(latest);
        }
        let (admitted, back) = (u128::from(admitted), u128::from(back));
        events.push(Event { at: latest.max(stamp), stamp, admitted, back });
    }
    events
}

/// The admitted units of the events that are `inside`, less all that was given back from the first
/// to the last of them.
fn net(events: &[Event], inside: impl Fn(&Event) -> bool) -> u128 {
    let counts = |event: &Event| event.admitted > 0 && inside(event);
    let Some(first) = events.iter().position(counts) else { return 0 };
    let last = events.iter().rposition(counts).unwrap_or(first);
    let between = &events[first..=last];
    let taken: u128 =
        between.iter().filter(|event| counts(event)).map(|event| event.admitted).sum();
    taken.saturating_sub(between.iter().map(|event| event.back).sum())
}

/// The interval in which more was admitted than the algorithm's documentation says, if there is
/// one.
fn broken_bound(
    rule: Rule,
    Figures { limit, nanos }: Figures,
    capacity: u128,
    events: &[Event],
) -> Option<String> {
    let (units, nanos) = (u128::from(limit), u128::from(nanos));
    let admitted: Vec<_> = events.iter().filter(|event| event.admitted > 0).collect();
    let told = |what: &str, from: u128, to: u128, net: u128| {
        Some(format!("{net} units from {from} to {to}, where {what}"))
    };
    for first in &admitted {
        for last in &admitted {
            match rule {
                // In an interval of length t at most capacity + rate * t.
                Rule::TokenBucket { .. } | Rule::LeakyBucket { .. } => {
                    let (from, to) = (first.stamp, last.stamp);
                    let Some(length) = to.checked_sub(from) else { continue };
                    let net = net(events, |event| (from..=to).contains(&event.stamp));
                    let most = capacity + length.saturating_mul(units) / nanos;
                    if net > most {
                        return told("burst and rate allow fewer", from, to, net);
                    }
                }
                // In a window at most the limit; so at most twice that in any one period.
                Rule::FixedWindow | Rule::SlidingCounter => {
                    let from = first.at - first.at % nanos;
                    let to = from + nanos;
                    let window = net(events, |event| (from..to).contains(&event.at));
                    if window > capacity {
                        return told("this is one window", from, to, window);
                    }
                    let to = first.at + nanos;
                    let any = net(events, |event| (first.at..to).contains(&event.at));
                    if any > 2 * capacity {
                        return told("this is one period", first.at, to, any);
                    }
                }
                Rule::AnchoredWindow => {
                    let to = first.at + nanos;
                    let net = net(events, |event| (first.at..to).contains(&event.at));
                    if net > 2 * capacity {
                        return told("this is one period", first.at, to, net);
                    }
                }
                Rule::SlidingLog => {
                    let to = first.at + nanos;
                    let net = net(events, |event| (first.at..to).contains(&event.at));
                    if net > capacity {
                        return told("this is one period", first.at, to, net);
                    }
                }
            }
        }
    }
    None
}

#[test]
fn the_bound_can_be_seen_to_break() {
    let event = |at, admitted, back| Event { at, stamp: at, admitted, back };
    let figures = Figures { limit: 1, nanos: 10 };
    let bucket = Rule::TokenBucket { burst: 2 };
    let fine = [event(0, 2, 0), event(5, 0, 1), event(10, 2, 0)];
    assert_eq!(broken_bound(bucket, figures, 2, &fine), None);
    assert!(broken_bound(bucket, figures, 2, &[event(0, 2, 0), event(9, 1, 0)]).is_some());
    let window = [event(10, 1, 0), event(19, 1, 0)];
    assert!(broken_bound(Rule::FixedWindow, figures, 1, &window).is_some());
    assert_eq!(broken_bound(Rule::FixedWindow, figures, 1, &[window[1], event(20, 1, 0)]), None);
    assert!(broken_bound(Rule::SlidingLog, figures, 1, &[window[1], event(20, 1, 0)]).is_some());
    let anchored = [event(0, 1, 0), event(5, 1, 0), event(9, 1, 0)];
    assert!(broken_bound(Rule::AnchoredWindow, figures, 1, &anchored).is_some());
}
