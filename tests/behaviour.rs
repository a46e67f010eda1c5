//! What every algorithm does for one client: over each algorithm in each word, keyed and for one
//! stream, and over the mutex twin.

mod common;

use std::time::Duration;

use tollgate::RetryAfter;

use common::families::{Setup, each_stream};
use common::subject::{Answer, Subject};

const KEY: &str = "client";

/// An instant inside a period that is not the first.
fn start(setup: &Setup) -> u64 {
    setup.numbers.period * 1_000 + setup.numbers.period / 3
}

/// Every cost up to the capacity, the first above it, and the greatest.
fn costs(setup: &Setup) -> Vec<u64> {
    (0..=setup.capacity + 1).chain([u64::MAX]).collect()
}

/// Some instants from `now` on, the last of which is long after.
fn later(setup: &Setup, now: u64) -> Vec<u64> {
    let period = setup.numbers.period;
    let steps = [0, 1, period / 4, period / 2, period - 1, period, period + 1, 2 * period];
    let mut times: Vec<_> = steps.iter().map(|step| now + step).collect();
    times.sort_unstable();
    times.dedup();
    times.push(now + 100 * period);
    times
}

/// A limiter whose client paid `used` units at `now`.
fn after_use(setup: &Setup, used: u64, now: u64) -> Box<dyn Subject> {
    let subject = setup.make();
    assert!(subject.check(KEY, used, now).admitted(), "{}: {used} at once", setup.name);
    subject
}

/// Everything that can be seen of the client from `now` on without changing it.
fn portrait(setup: &Setup, subject: &dyn Subject, now: u64) -> Vec<(u64, u64, Answer)> {
    let (period, capacity) = (setup.numbers.period, setup.capacity);
    let times = [0, 1, period / 2, period, 2 * period].into_iter().map(|step| now + step);
    let costs = [1, capacity.div_ceil(2), capacity, u64::MAX];
    let seen = times.flat_map(|now| costs.into_iter().map(move |cost| (now, cost)));
    seen.map(|(now, cost)| (now, cost, subject.peek(KEY, cost, now))).collect()
}

/// Runs `test` for every state that one charge at the start leaves, seen from some later instants.
fn each_state(test: impl Fn(&Setup, &dyn Fn() -> Box<dyn Subject>, u64)) {
    each_stream(|setup| {
        for used in 0..=setup.capacity {
            for now in later(setup, start(setup)) {
                test(setup, &|| after_use(setup, used, start(setup)), now);
            }
        }
    });
}

fn wait(answer: Answer) -> u64 {
    match answer.reading.retry_after {
        RetryAfter::After(wait) => wait.as_nanos() as u64,
        other => panic!("no wait but {other}: {answer:?}"),
    }
}

#[test]
fn a_new_client_may_use_the_whole_capacity_and_no_more() {
    each_stream(|setup| {
        let (subject, now) = (setup.make(), start(setup));
        for left in (0..setup.capacity).rev() {
            let answer = subject.check(KEY, 1, now);
            assert!(answer.admitted(), "{}: {left} left", setup.name);
            assert_eq!(answer.reading.limit, setup.capacity, "{}", setup.name);
            assert_eq!(answer.reading.remaining, left, "{}", setup.name);
            assert_eq!(answer.reading.retry_after, RetryAfter::Now, "{}", setup.name);
            assert!(!answer.refused_by_client && !answer.refused_by_global);
        }
        let answer = subject.check(KEY, 1, now);
        assert!(!answer.admitted() && answer.refused_by_client, "{}", setup.name);
        assert!(!answer.refused_by_global, "{}", setup.name);
        assert_eq!(answer.reading.delay, Duration::ZERO, "{}", setup.name);
        assert!(!subject.admits(KEY, 1, now), "{}", setup.name);
    });
}

#[test]
fn what_remains_is_admitted_and_one_more_is_not() {
    each_state(|setup, make, now| {
        let remaining = make().peek(KEY, 0, now).reading.remaining;
        assert!(remaining <= setup.capacity, "{}", setup.name);
        let (whole, single) = (make(), make());
        assert!(!whole.check(KEY, remaining + 1, now).admitted(), "{}", setup.name);
        assert!(whole.check(KEY, remaining, now).admitted(), "{} at {now}", setup.name);
        assert!(!whole.check(KEY, 1, now).admitted(), "{}", setup.name);
        let admitted = (0..=setup.capacity).filter(|_| single.admits(KEY, 1, now)).count();
        assert_eq!(admitted as u64, remaining, "{} at {now}", setup.name);
    });
}

#[test]
fn a_refusal_writes_nothing() {
    each_state(|setup, make, now| {
        let subject = make();
        let before = (portrait(setup, &*subject, now), subject.memory());
        let remaining = subject.peek(KEY, 0, now).reading.remaining;
        for cost in costs(setup).into_iter().filter(|&cost| cost > remaining) {
            assert!(!subject.check(KEY, cost, now).admitted(), "{}", setup.name);
            assert!(!subject.admits(KEY, cost, now), "{}", setup.name);
            assert!(subject.acquire(KEY, cost, now).is_err(), "{}", setup.name);
        }
        let after = (portrait(setup, &*subject, now), subject.memory());
        assert_eq!(before, after, "{} at {now}", setup.name);
    });
}

#[test]
fn cost_zero_is_admitted_and_charges_nothing() {
    each_state(|setup, make, now| {
        let subject = make();
        let before = (portrait(setup, &*subject, now), subject.memory());
        let answer = subject.check(KEY, 0, now);
        assert!(answer.admitted(), "{}", setup.name);
        assert_eq!(answer.reading.delay, Duration::ZERO, "{}", setup.name);
        let refund = subject.acquire(KEY, 0, now).expect("cost 0");
        refund(now);
        let after = (portrait(setup, &*subject, now), subject.memory());
        assert_eq!(before, after, "{} at {now}", setup.name);
    });
}

#[test]
fn a_cost_above_the_capacity_is_refused_for_ever() {
    each_state(|setup, make, now| {
        let subject = make();
        for cost in [setup.capacity + 1, setup.capacity + 2, u64::MAX - 1, u64::MAX] {
            let answer = subject.check(KEY, cost, now);
            assert!(!answer.admitted(), "{}", setup.name);
            assert_eq!(answer.reading.retry_after, RetryAfter::Never, "{}", setup.name);
        }
    });
}

#[test]
fn the_capacity_itself_has_a_finite_wait() {
    each_stream(|setup| {
        let subject = after_use(setup, 1, start(setup));
        let answer = subject.check(KEY, setup.capacity, start(setup));
        assert!(!answer.admitted() && wait(answer) > 0, "{}", setup.name);
    });
}

#[test]
fn at_the_promised_instant_it_is_admitted_and_one_nanosecond_before_it_is_not() {
    each_state(|setup, make, now| {
        for cost in 1..=setup.capacity {
            let subject = make();
            let answer = subject.check(KEY, cost, now);
            if answer.admitted() {
                continue;
            }
            let promised = now + wait(answer);
            assert!(promised > now, "{}: a refusal promises no wait of zero", setup.name);
            let early = subject.check(KEY, cost, promised - 1);
            assert!(!early.admitted(), "{}: {cost} 1 ns early", setup.name);
            assert!(subject.check(KEY, cost, promised).admitted(), "{}: {cost}", setup.name);
        }
    });
}

#[test]
fn after_the_reset_it_answers_as_a_new_one_and_one_nanosecond_before_it_does_not() {
    each_state(|setup, make, now| {
        let (subject, new) = (make(), setup.make());
        let reset = now + subject.peek(KEY, 1, now).reading.reset_after.as_nanos() as u64;
        let (seen, fresh) = (portrait(setup, &*subject, reset), portrait(setup, &*new, reset));
        assert_eq!(seen, fresh, "{} at its reset", setup.name);
        if reset > now {
            let before = portrait(setup, &*subject, reset - 1);
            assert_ne!(before, portrait(setup, &*new, reset - 1), "{} before it", setup.name);
        }
    });
}

#[test]
fn a_peek_answers_as_the_check_after_it() {
    each_state(|setup, make, now| {
        for cost in costs(setup) {
            let subject = make();
            let memory = subject.memory();
            let peeked = subject.peek(KEY, cost, now);
            assert_eq!(peeked, subject.peek(KEY, cost, now), "{}", setup.name);
            assert_eq!(memory, subject.memory(), "{}: a peek writes nothing", setup.name);
            let mut checked = subject.check(KEY, cost, now);
            if checked.admitted() {
                checked.reading.remaining += cost;
                let reset = checked.reading.reset_after;
                assert!(reset >= peeked.reading.reset_after, "{}", setup.name);
                checked.reading.reset_after = peeked.reading.reset_after;
            }
            assert_eq!(peeked, checked, "{}: cost {cost} at {now}", setup.name);
        }
    });
}

#[test]
fn a_refund_takes_the_charge_back_exactly() {
    each_state(|setup, make, now| {
        let subject = make();
        let before = portrait(setup, &*subject, now);
        let remaining = subject.peek(KEY, 0, now).reading.remaining;
        for cost in 1..=remaining {
            let refund = subject.acquire(KEY, cost, now).expect("it remains");
            assert_eq!(subject.peek(KEY, 0, now).reading.remaining, remaining - cost);
            refund(now);
            assert_eq!(before, portrait(setup, &*subject, now), "{}: {cost}", setup.name);
        }
    });
}

#[test]
fn a_later_refund_leaves_what_would_be_without_the_charge() {
    each_stream(|setup| {
        let (now, period) = (start(setup), setup.numbers.period);
        for first in 1..setup.capacity {
            for cost in 1..=setup.capacity - first {
                // Not so late that without the charge the bucket would have filled up.
                for delay in [0, 1, period * first / setup.numbers.limit / 2] {
                    let (charged, spared) =
                        (after_use(setup, first, now), after_use(setup, first, now));
                    let refund = charged.acquire(KEY, cost, now).expect("it fits");
                    refund(now + delay);
                    let seen = portrait(setup, &*charged, now + delay);
                    let without = portrait(setup, &*spared, now + delay);
                    assert_eq!(seen, without, "{}: {cost} after {delay}", setup.name);
                }
            }
        }
    });
}

#[test]
fn a_refund_of_what_has_come_back_by_itself_does_nothing() {
    each_stream(|setup| {
        for cost in 1..=setup.capacity {
            let subject = setup.make();
            let now = start(setup);
            let refund = subject.acquire(KEY, cost, now).expect("it fits");
            let reset = now + subject.peek(KEY, 1, now).reading.reset_after.as_nanos() as u64;
            let later = reset + setup.numbers.period / 2;
            refund(later);
            let seen = portrait(setup, &*subject, later);
            assert_eq!(seen, portrait(setup, &*setup.make(), later), "{}", setup.name);
        }
    });
}

#[test]
fn a_refund_after_the_window_leaves_later_windows_alone() {
    each_stream(|setup| {
        if setup.family.bursts {
            return;
        }
        let (subject, now) = (setup.make(), start(setup));
        let refund = subject.acquire(KEY, setup.capacity, now).expect("it fits");
        let later = now + 3 * setup.numbers.period;
        assert!(subject.check(KEY, setup.capacity, later).admitted(), "{}", setup.name);
        let before = (portrait(setup, &*subject, later), subject.memory());
        refund(later);
        let after = (portrait(setup, &*subject, later), subject.memory());
        assert_eq!(before, after, "{}", setup.name);
    });
}

#[test]
fn credit_gives_back_what_it_says_and_never_beyond_full() {
    each_stream(|setup| {
        let now = start(setup);
        for used in 0..=setup.capacity {
            for amount in costs(setup) {
                let subject = after_use(setup, used, now);
                subject.credit(KEY, amount, now);
                let remaining = subject.peek(KEY, 0, now).reading.remaining;
                let expected = (setup.capacity - used).saturating_add(amount);
                assert_eq!(remaining, expected.min(setup.capacity), "{}", setup.name);
                if remaining == setup.capacity {
                    let seen = portrait(setup, &*subject, now);
                    assert_eq!(seen, portrait(setup, &*setup.make(), now), "{}", setup.name);
                }
            }
        }
    });
}

#[test]
fn a_time_seen_before_opens_nothing() {
    each_stream(|setup| {
        let (now, period) = (start(setup), setup.numbers.period);
        let subject = after_use(setup, setup.capacity, now);
        let promised = now + wait(subject.peek(KEY, 1, now));
        for back in [0, 1, period / 2, period, period + 1, 10 * period, now] {
            let stale = now - back;
            let answer = subject.check(KEY, 1, stale);
            assert!(!answer.admitted(), "{}: {back} back", setup.name);
            assert_eq!(answer.reading.remaining, 0, "{}: {back} back", setup.name);
            assert!(stale + wait(answer) >= now, "{}: {back} back", setup.name);
        }
        assert!(!subject.check(KEY, 1, promised - 1).admitted(), "{}", setup.name);
        assert!(subject.check(KEY, 1, promised).admitted(), "{}", setup.name);
    });
}

#[test]
fn a_clock_that_jitters_makes_nothing() {
    each_stream(|setup| {
        let (subject, now) = (setup.make(), start(setup));
        assert!(subject.check(KEY, 1, now).admitted(), "{}", setup.name);
        let times = (0..100).map(|i| now - [0, setup.numbers.period / 2, 1][i % 3]);
        let admitted = times.filter(|&now| subject.admits(KEY, 1, now)).count() as u64;
        assert!(admitted < setup.capacity, "{}: {admitted} more", setup.name);
        let admitted = admitted + (0..100).filter(|_| subject.admits(KEY, 1, now)).count() as u64;
        assert_eq!(admitted, setup.capacity - 1, "{}", setup.name);
    });
}

#[test]
fn what_is_given_back_is_not_there_again_at_a_time_seen_before() {
    each_stream(|setup| {
        let (now, period) = (start(setup), setup.numbers.period);
        for credit in [false, true] {
            let subject = setup.make();
            let refund = subject.acquire(KEY, setup.capacity, now).expect("it fits");
            match credit {
                true => subject.credit(KEY, u64::MAX, now),
                false => refund(now),
            }
            let back = now - 10 * setup.capacity * period;
            let admitted = [back, now, back, now - 1, now].into_iter().map(|now| {
                (0..=setup.capacity).filter(|_| subject.admits(KEY, 1, now)).count() as u64
            });
            assert_eq!(admitted.sum::<u64>(), setup.capacity, "{}", setup.name);
        }
    });
}

#[test]
fn idling_earns_the_capacity_and_not_more() {
    each_stream(|setup| {
        for used in [1, setup.capacity] {
            for periods in [100, 10_000, 1_000_000] {
                let subject = after_use(setup, used, start(setup));
                let now = start(setup) + periods * setup.numbers.period;
                let tries = 0..2 * setup.capacity + 2;
                let admitted = tries.filter(|_| subject.admits(KEY, 1, now)).count() as u64;
                assert_eq!(admitted, setup.capacity, "{} after {periods}", setup.name);
            }
        }
    });
}

#[test]
fn the_origin_is_a_time_like_any_other() {
    each_stream(|setup| {
        let subject = after_use(setup, setup.capacity, 0);
        let answer = subject.check(KEY, 1, 0);
        assert!(!answer.admitted(), "{}", setup.name);
        assert!(!subject.check(KEY, 1, wait(answer) - 1).admitted(), "{}", setup.name);
        assert!(subject.check(KEY, 1, wait(answer)).admitted(), "{}", setup.name);
    });
}
