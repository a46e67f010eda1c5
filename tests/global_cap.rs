//! Two limits, one decision: the client's own, then the cap that all clients share.

mod common;

use std::time::Duration;

use tollgate::{AlgorithmKind, Allowance, AnyAlgorithm, Limiter, Nanos, Quota, RetryAfter};

use common::families::{FAMILIES, Numbers, Setup, each_limiter_of};
use common::subject::{Answer, Subject};

const SECOND: u64 = 1_000_000_000;
const AGES: u64 = 1_000_000 * SECOND;
/// An instant inside a window of a second, and inside one of ages.
const NOW: u64 = 3 * AGES + SECOND / 3;

/// Runs `test` over every algorithm and its twin, `each` for a client and `cap` for all.
fn each_capped(each: Numbers, cap: Numbers, test: impl Fn(&Setup)) {
    each_limiter_of(each, Some(cap), &test);
}

fn refusers(answer: Answer) -> (bool, bool) {
    assert_eq!(answer.admitted(), !answer.refused_by_client && !answer.refused_by_global);
    (answer.refused_by_client, answer.refused_by_global)
}

fn admitted(subject: &dyn Subject, key: &str, tries: u64, now: u64) -> u64 {
    (0..tries).filter(|_| subject.admits(key, 1, now)).count() as u64
}

#[test]
fn the_cap_holds_all_clients_together() {
    each_capped(Numbers::new(3, SECOND, 3), Numbers::new(5, SECOND, 5), |setup| {
        let subject = setup.make();
        assert_eq!(admitted(&*subject, "a", 9, NOW), 3, "{}", setup.name);
        assert_eq!(admitted(&*subject, "b", 9, NOW), 2, "{}", setup.name);
        assert_eq!(admitted(&*subject, "c", 9, NOW), 0, "{}", setup.name);
    });
}

#[test]
fn a_client_over_its_own_limit_burns_no_global_budget() {
    each_capped(Numbers::new(2, SECOND, 2), Numbers::new(5, SECOND, 5), |setup| {
        let subject = setup.make();
        assert_eq!(admitted(&*subject, "a", 100, NOW), 2, "{}", setup.name);
        for cost in [1, 2, 3, u64::MAX] {
            assert!(!subject.check("a", cost, NOW).admitted(), "{}", setup.name);
        }
        assert_eq!(admitted(&*subject, "b", 100, NOW), 2, "{}", setup.name);
        assert_eq!(admitted(&*subject, "c", 100, NOW), 1, "{}", setup.name);
    });
}

#[test]
fn a_cap_that_refuses_charges_no_client_and_makes_none() {
    each_capped(Numbers::new(5, AGES, 5), Numbers::new(3, SECOND, 3), |setup| {
        let subject = setup.make();
        assert_eq!(admitted(&*subject, "a", 3, NOW), 3, "{}", setup.name);
        for key in ["a", "b", "c"] {
            assert!(!subject.admits(key, 1, NOW), "{}", setup.name);
            assert_eq!(refusers(subject.check(key, 1, NOW)), (false, true), "{}", setup.name);
            assert!(subject.acquire(key, 1, NOW).is_err(), "{}", setup.name);
        }
        assert_eq!(subject.clients(), 1, "{}", setup.name);
        // The cap is as good as new: each client has all that it did not use.
        let later = NOW + 3 * SECOND;
        assert_eq!(admitted(&*subject, "a", 3, later), 2, "{}", setup.name);
        assert_eq!(admitted(&*subject, "b", 3, later), 1, "{}", setup.name);
        let later = later + 3 * SECOND;
        assert_eq!(admitted(&*subject, "b", 9, later), 3, "{}", setup.name);
        let later = later + 3 * SECOND;
        assert_eq!(admitted(&*subject, "b", 9, later), 1, "{}", setup.name);
    });
}

#[test]
fn a_decision_names_who_refused() {
    each_capped(Numbers::new(2, AGES, 2), Numbers::new(3, AGES, 3), |setup| {
        let subject = setup.make();
        assert_eq!(refusers(subject.check("a", 2, NOW)), (false, false), "{}", setup.name);
        assert_eq!(refusers(subject.check("a", 1, NOW)), (true, false), "{}", setup.name);
        assert_eq!(refusers(subject.check("a", 2, NOW)), (true, true), "{}", setup.name);
        assert_eq!(refusers(subject.check("b", 2, NOW)), (false, true), "{}", setup.name);
        assert_eq!(refusers(subject.check("b", 3, NOW)), (true, true), "{}", setup.name);
        assert_eq!(refusers(subject.check("b", 1, NOW)), (false, false), "{}", setup.name);
        assert_eq!(refusers(subject.check("b", 0, NOW)), (false, false), "{}", setup.name);
    });
}

#[test]
fn the_figures_are_those_of_the_limit_with_less_left() {
    each_capped(Numbers::new(4, AGES, 4), Numbers::new(5, AGES, 5), |setup| {
        let subject = setup.make();
        let figures = |answer: Answer| (answer.reading.limit, answer.reading.remaining);
        assert_eq!(figures(subject.check("a", 1, NOW)), (4, 3), "{}", setup.name);
        // 3 left to the client, 4 to all; then the cap has less.
        assert_eq!(figures(subject.check("b", 2, NOW)), (4, 2), "{}", setup.name);
        assert_eq!(figures(subject.peek("c", 1, NOW)), (5, 2), "{}", setup.name);
        assert_eq!(figures(subject.check("c", 1, NOW)), (5, 1), "{}", setup.name);
        assert_eq!(figures(subject.check("c", 2, NOW)), (5, 1), "{}", setup.name);
    });
}

#[test]
fn the_wait_is_the_longer_of_the_two() {
    let (short, long) = (Numbers::new(2, SECOND, 2), Numbers::new(2, AGES, 2));
    for (each, cap) in [(short, long), (long, short)] {
        each_capped(each, cap, |setup| {
            let subject = setup.make();
            assert!(subject.check("a", 2, NOW).admitted(), "{}", setup.name);
            for cost in [1, 2] {
                let answer = subject.check("a", cost, NOW);
                assert_eq!(refusers(answer), (true, true), "{}", setup.name);
                let RetryAfter::After(wait) = answer.reading.retry_after else {
                    panic!("{}: {answer:?}", setup.name);
                };
                let promised = NOW + wait.as_nanos() as u64;
                assert!(!subject.peek("a", cost, promised - 1).admitted(), "{}", setup.name);
                assert!(subject.peek("a", cost, promised).admitted(), "{}", setup.name);
            }
            assert!(subject.peek("a", 1, NOW).reading.reset_after > Duration::from_secs(10));
        });
    }
}

#[test]
fn what_one_of_the_two_can_never_grant_is_never() {
    each_capped(Numbers::new(5, SECOND, 5), Numbers::new(2, SECOND, 2), |setup| {
        let subject = setup.make();
        for cost in [3, 5, 6, u64::MAX] {
            let answer = subject.check("a", cost, NOW);
            assert_eq!(refusers(answer), (cost > 5, true), "{}", setup.name);
            assert_eq!(answer.reading.retry_after, RetryAfter::Never, "{}", setup.name);
        }
        assert_eq!(admitted(&*subject, "a", 9, NOW), 2, "{}: nothing was taken", setup.name);
    });
}

#[test]
fn a_refusal_delays_nobody() {
    each_capped(Numbers::new(5, AGES, 5), Numbers::new(1, AGES, 1), |setup| {
        let subject = setup.make();
        assert!(subject.check("a", 1, NOW).admitted(), "{}", setup.name);
        for answer in [subject.check("a", 1, NOW), subject.peek("a", 1, NOW)] {
            assert!(!answer.admitted(), "{}", setup.name);
            assert_eq!(answer.reading.delay, Duration::ZERO, "{}", setup.name);
        }
    });
}

#[test]
fn a_refund_pays_both_back() {
    each_capped(Numbers::new(3, AGES, 3), Numbers::new(4, AGES, 4), |setup| {
        let subject = setup.make();
        let refund = subject.acquire("a", 3, NOW).expect("it fits");
        assert!(!subject.admits("a", 1, NOW), "{}", setup.name);
        assert!(!subject.admits("b", 2, NOW), "{}", setup.name);
        refund(NOW);
        assert!(subject.admits("b", 2, NOW), "{}", setup.name);
        assert_eq!(admitted(&*subject, "a", 9, NOW), 2, "{}: what the cap has left", setup.name);
    });
}

#[test]
fn credit_is_the_clients_alone() {
    each_capped(Numbers::new(2, AGES, 2), Numbers::new(3, AGES, 3), |setup| {
        let subject = setup.make();
        assert!(subject.check("a", 2, NOW).admitted(), "{}", setup.name);
        subject.credit("a", 2, NOW);
        assert_eq!(admitted(&*subject, "a", 9, NOW), 1, "{}", setup.name);
        assert_eq!(refusers(subject.check("a", 1, NOW)), (false, true), "{}", setup.name);
    });
}

#[test]
fn a_peek_answers_for_both_and_writes_nothing() {
    each_capped(Numbers::new(2, AGES, 2), Numbers::new(3, AGES, 3), |setup| {
        let subject = setup.make();
        for key in ["a", "b", "b", "a"] {
            for cost in [0, 1, 2, 3, 4] {
                let first = subject.peek(key, cost, NOW);
                assert_eq!(first, subject.peek(key, cost, NOW), "{}", setup.name);
            }
            let (peeked, checked) = (subject.peek(key, 1, NOW), subject.check(key, 1, NOW));
            assert_eq!(refusers(peeked), refusers(checked), "{}", setup.name);
            assert_eq!(peeked.reading.retry_after, checked.reading.retry_after);
        }
        assert_eq!(subject.clients(), 2, "{}", setup.name);
    });
}

#[test]
fn the_cap_may_be_of_another_algorithm() {
    let (each, cap) = (Numbers::new(3, SECOND, 3), Numbers::new(4, AGES, 4));
    for client in FAMILIES {
        for global in FAMILIES {
            let builder = Limiter::<String, _>::builder(client.algorithm(each));
            let limiter = builder.global(global.algorithm(cap)).build::<String>();
            let total =
                |key| (0..9).filter(|_| limiter.is_allowed_at(key, Nanos::new(NOW))).count();
            let name = format!("{} under {}", client.name, global.name);
            assert_eq!((total("a"), total("b"), total("c")), (3, 1, 0), "{name}");
            let decision = limiter.check_at("d", Nanos::new(NOW));
            assert_eq!(decision.to_string().split(',').next(), Some("refused by global cap"));
        }
    }
}

#[test]
fn unlimited_and_blocked_stand_on_either_side() {
    let some =
        || AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_day(2).unwrap()).unwrap();
    let all = |allowance: Allowance| AnyAlgorithm::new(AlgorithmKind::TokenBucket, allowance);
    let (unlimited, blocked) =
        (|| all(Allowance::Unlimited).unwrap(), || all(Allowance::Blocked).unwrap());
    let count = |each, cap| {
        let limiter = Limiter::<String, _>::builder(each).global(cap).build::<String>();
        (0..9).filter(|_| limiter.is_allowed_at("a", Nanos::ZERO)).count()
    };
    assert_eq!(count(some(), unlimited()), 2);
    assert_eq!(count(unlimited(), some()), 2);
    assert_eq!(count(unlimited(), unlimited()), 9);
    assert_eq!(count(some(), blocked()), 0);
    assert_eq!(count(blocked(), some()), 0);
}
