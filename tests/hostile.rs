//! Clocks that go back, jump and stand still: no limit opens and nothing panics, whatever they say, and
//! nothing stays shut. (Threads whose clocks differ: `linearizability.rs`.)

mod common;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{AnyAlgorithm, Limit, Limiter, ManualClock, Nanos, Stack};

use common::families::{Family, Numbers, built, words};
use common::moves::{Act, LIFE, act, config, cost, family, numbers, step};
use common::oracle::{Figures, Oracle, Rule, told};
use common::subject::{Answer, Ours, Subject};
use common::twin::Terms;

const CLIENT: &str = "client";

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

/// One client's limits: one, or several of a stack.
type Limits = Vec<(Family, Numbers)>;

fn history() -> impl Strategy<Value = (Limits, u64, Vec<(Jump, Act)>)> {
    let limits = prop::collection::vec((family(), numbers()), 1..4);
    let start = prop_oneof![0..=100_u64, any::<u64>()];
    (limits, start, prop::collection::vec((jump(), act()), 1..24))
}

/// A limiter, and the terms of each of its client's limits.
struct Target {
    name: String,
    ours: Ours,
    limits: Vec<(Terms, u64)>,
}

/// A single limit in each of its words, several in a stack.
fn targets(limits: &Limits) -> Vec<Target> {
    let target = |name, algorithm: AnyAlgorithm, limits| {
        let builder = Limiter::<String, _>::builder(algorithm).clock(ManualClock::new());
        Target { name, ours: builder.max_clients(8).build(), limits }
    };
    let terms = |(family, numbers): (Family, Numbers), algorithm: &AnyAlgorithm| {
        (family.terms(numbers, algorithm), family.capacity(numbers))
    };
    if let &[(family, numbers)] = limits.as_slice() {
        let made = words(family.kind_for(numbers), numbers.quota()).into_iter();
        let made = made.filter_map(|(word, made)| Some((word, made.ok()?)));
        let each = made.map(|(word, algorithm)| {
            let limits = vec![terms((family, numbers), &algorithm)];
            target(format!("{} in {word}", family.name), algorithm, limits)
        });
        return each.collect();
    }
    let made = limits.iter().map(|(family, numbers)| {
        AnyAlgorithm::new(family.kind_for(*numbers), numbers.quota()).ok()
    });
    let Some(made) = made.collect::<Option<Vec<_>>>() else { return Vec::new() };
    let terms = limits.iter().zip(&made).map(|(&limit, made)| terms(limit, made)).collect();
    let stack = Stack::new(
        ["one", "two", "three"].into_iter().zip(made).map(|(name, made)| Limit::new(name, made)),
    );
    vec![target(format!("{limits:?}"), stack.unwrap().into(), terms)]
}

proptest! {
    #![proptest_config(config(1_000))]

    /// A request is admitted only if the exact oracle of each limit would, whose time is the latest
    /// at which anything was admitted.
    #[test]
    fn it_admits_nothing_that_the_latest_time_seen_would_not((limits, start, moves) in history()) {
        for Target { name, ours, limits: terms } in targets(&limits) {
            let oracle = |&((rule, figures), _): &(Terms, _)| Oracle::new(rule, figures);
            let mut oracles: Vec<_> = terms.iter().map(oracle).collect();
            let (subject, mut now): (&dyn Subject, _) = (&ours, start);
            for &(jump, act) in &moves {
                now = jump.from(now, limits[0].1.period);
                let (Act::Acquire(cost) | Act::AcquireLeaving(cost, _)) = act else { continue };
                let cost = cost.of(&subject.peek(CLIENT, 1, now).reading);
                let Answer { reading, .. } = subject.check(CLIENT, cost, now);
                prop_assert!(reading.remaining <= reading.limit);
                if reading.admitted {
                    let fits = oracles.iter_mut().all(|oracle| oracle.take(now, cost).is_some());
                    prop_assert!(fits, "{name} at {now}: {cost}");
                }
            }
        }
    }

    /// With refunds and credits in between, each documented bound holds for the times given.
    #[test]
    fn its_bound_holds_for_the_times_given((limits, start, moves) in history()) {
        for Target { name, ours, limits: terms } in targets(&limits) {
            let events = play(&ours, (start, u64::MAX), limits[0].1.period, &moves);
            for ((rule, figures), capacity) in terms {
                if let Some(broken) = broken_bound(rule, figures, capacity.into(), &events) {
                    prop_assert!(false, "{name}: {broken}: {events:?}");
                }
            }
        }
    }

    /// However the clock went on, once it has gone on properly from its latest time for as long as
    /// the limits take to be as new, every answer is what the documentation says.
    #[test]
    fn it_is_as_documented_once_the_clock_behaves(
        (limits, start, moves) in history(),
        proper in prop::collection::vec((step(), cost()), 1..12),
    ) {
        let period = limits[0].1.period;
        for Target { name, ours, limits } in targets(&limits) {
            let events = play(&ours, (start, LIFE / 2), period, &moves);
            let latest = events.iter().map(|event| event.stamp).max().unwrap_or(0);
            let recovers = limits.iter().map(|&(terms, capacity)| recovers_in(terms, capacity));
            let then = latest + recovers.max().unwrap_or(0);
            let Some(mut now) = u64::try_from(then).ok().filter(|&then| then <= LIFE) else {
                continue;
            };
            let oracle = |&((rule, figures), _): &(Terms, _)| Oracle::new(rule, figures);
            let mut oracles: Vec<_> = limits.iter().map(oracle).collect();
            for &(step, cost) in &proper {
                let explained = ours.client_at(CLIENT, Nanos::new(now)).explain(1);
                for (limit, oracle) in explained.limits().zip(&oracles) {
                    let expected = told(oracle.peek(now, 1), limit.reading, now);
                    prop_assert_eq!(limit.reading, expected, "{} at {}", &name, now);
                }
                now = step.from(now, period, || oracles[0].peek(now, 1));
                let cost = cost.of(&oracles[0].peek(now, 1));
                let at = Nanos::new(now);
                let fits = oracles.iter().all(|oracle| oracle.admits(now, cost));
                prop_assert_eq!(ours.check_n_at(CLIENT, cost, at).is_admitted(), fits, "{} at {}", &name, now);
                if fits {
                    oracles.iter_mut().for_each(|oracle| assert!(oracle.take(now, cost).is_some()));
                }
            }
        }
    }
}

/// How long a limit takes to be as new, whatever it granted, in nanoseconds.
fn recovers_in((rule, Figures { limit, nanos }): Terms, capacity: u64) -> u128 {
    let nanos = u128::from(nanos);
    match rule {
        Rule::TokenBucket { .. } | Rule::LeakyBucket { .. } => {
            (u128::from(capacity) * nanos).div_ceil(limit.into())
        }
        Rule::FixedWindow | Rule::AnchoredWindow | Rule::SlidingLog => nanos,
        // A window and the one after, in which it still weighs.
        Rule::SlidingCounter => 2 * nanos,
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

/// Plays the moves from `start` on, to no later time than `end`.
fn play(
    subject: &dyn Subject,
    (start, end): (u64, u64),
    period: u64,
    moves: &[(Jump, Act)],
) -> Vec<Event> {
    let mut now = start.min(end);
    let (mut latest, mut held, mut events) = (0, Vec::new(), Vec::new());
    for &(jump, act) in moves {
        now = jump.from(now, period).min(end);
        let found = subject.peek(CLIENT, 1, now).reading;
        let (mut admitted, mut back) = (0, 0);
        match act {
            Act::Acquire(cost) | Act::AcquireLeaving(cost, _) => {
                let cost = cost.of(&found);
                if let Ok(refund) = subject.acquire(CLIENT, cost, now) {
                    held.push((refund, cost));
                    admitted = cost;
                }
            }
            Act::Peek(cost) => {
                subject.peek(CLIENT, cost.of(&found), now);
            }
            Act::Refund(number) if !held.is_empty() => {
                let (refund, cost) = held.swap_remove(number % held.len());
                refund(now);
                back = cost;
            }
            Act::Refund(_) => {}
            Act::Credit(cost) => {
                back = cost.of(&found);
                subject.credit(CLIENT, back, now);
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

/// A leap forward is believed for good, by the states that were charged in it and, once there was a
/// sweep in it, by all that are made: what they have is all there is until the clock gets there.
#[test]
fn a_leap_that_is_taken_back_is_waited_out() {
    const SECOND: u64 = 1_000_000_000;
    let (now, leap) = (1_000 * SECOND, 1_000_000 * SECOND);
    let had = |subject: &dyn Subject, client: &str, now: u64| {
        (0..9).filter(|_| subject.admits(client, 1, now)).count()
    };
    for (name, _, algorithm) in built(Numbers::new(3, SECOND, 3)) {
        let ours: Ours = Limiter::<String, _>::builder(algorithm)
            .max_clients(8)
            .clock(ManualClock::new())
            .build();
        for client in ["charged", "other"] {
            assert_eq!(had(&ours, client, now), 3, "{name}");
        }
        assert_eq!(had(&ours, "charged", leap), 3, "{name}");
        let back = now + 2 * SECOND;
        assert_eq!(had(&ours, "other", back), 3, "{name}: who was not there knows nothing of it");
        assert_eq!(had(&ours, "charged", back), 0, "{name}");
        assert_eq!(ours.sweep_at(8, Nanos::new(leap)).retired, 1, "{name}");
        for client in ["other", "new"] {
            let little = had(&ours, client, back);
            assert!(little <= 3, "{name}: {client}: {little}");
            assert_eq!(had(&ours, client, back + 100 * SECOND), 0, "{name}: {client}");
        }
        // Two windows later, for the counter's sake.
        for client in ["charged", "other", "new"] {
            assert_eq!(had(&ours, client, leap + 2 * SECOND), 3, "{name}: {client}");
        }
    }
}
