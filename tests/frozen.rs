//! A state that was frozen is replaced by whoever meets it, and nothing is lost or won by it.
//!
//! Sweeping freezes idle states, and a reload freezes all of them.

mod common;

use std::sync::Barrier;
use std::thread;

use tollgate::{Algorithm, AnyAlgorithm, Frozen, Limiter, Nanos, Policies};

use common::asking::ask;
use common::families::{FAMILIES, Numbers, built};

const NOW: Nanos = Nanos::new(1_000_000_007);
const HUNDRED: Numbers = Numbers::new(100, 365 * 86_400_000_000_000, 100);

/// Runs `test` over every algorithm in every word.
fn each_algorithm<T>(test: impl Fn(String, AnyAlgorithm) -> T) {
    for (name, _, algorithm) in built(HUNDRED) {
        test(name, algorithm);
    }
}

#[test]
fn only_an_idle_state_freezes_and_only_once() {
    each_algorithm(|name, algorithm| {
        let mut state = algorithm.fresh(Nanos::ZERO);
        let grant = ask(&algorithm, &mut state, |state| algorithm.acquire(state, NOW, 1)).unwrap();
        assert!(!algorithm.freeze_if_idle(&state, NOW), "{name}");
        let reset = algorithm.peek(&state, NOW, 1).reset_after;
        let idle_from = NOW.saturating_add(reset);
        assert!(!algorithm.freeze_if_idle(&state, Nanos::new(idle_from.get() - 1)), "{name}");
        ask(&algorithm, &mut state, |state| algorithm.refund(state, NOW, grant));
        assert!(algorithm.freeze_if_idle(&state, NOW), "{name}: a refund made it idle");
        assert!(!algorithm.freeze_if_idle(&state, NOW), "{name}: it is frozen");

        let mut state = algorithm.fresh(Nanos::ZERO);
        let all = ask(&algorithm, &mut state, |state| algorithm.acquire(state, NOW, 100));
        assert!(all.is_some(), "{name}");
        let idle_from = NOW.saturating_add(algorithm.peek(&state, NOW, 1).reset_after);
        assert!(!algorithm.freeze_if_idle(&state, Nanos::new(idle_from.get() - 1)), "{name}");
        assert!(algorithm.freeze_if_idle(&state, idle_from), "{name}");
    });
}

#[test]
fn a_frozen_state_can_be_read_but_never_changes() {
    each_algorithm(|name, algorithm| {
        let mut state = algorithm.fresh(Nanos::ZERO);
        let grant = ask(&algorithm, &mut state, |state| algorithm.acquire(state, NOW, 7)).unwrap();
        ask(&algorithm, &mut state, |state| algorithm.refund(state, NOW, grant));
        assert!(algorithm.freeze_if_idle(&state, NOW), "{name}");
        let memory = format!("{state:?}");
        assert_eq!(algorithm.acquire(&state, NOW, 1), Err(Frozen.into()), "{name}");
        assert_eq!(algorithm.acquire(&state, NOW, 0), Err(Frozen.into()), "{name}");
        assert_eq!(algorithm.check(&state, NOW, 1), Err(Frozen.into()), "{name}");
        assert_eq!(algorithm.refund(&state, NOW, grant), Err(Frozen), "{name}");
        assert_eq!(algorithm.credit(&state, NOW, 1, 0), Err(Frozen), "{name}");
        let reading = algorithm.peek(&state, NOW, 100);
        assert!(reading.admitted && reading.remaining == 100, "{name}");
        assert!(algorithm.would_admit(&state, NOW, 100), "{name}");
        assert_eq!(memory, format!("{state:?}"), "{name}");
        let mut heir = algorithm.successor(&state);
        assert_eq!(algorithm.peek(&heir, NOW, 100), reading, "{name}");
        let all = ask(&algorithm, &mut heir, |heir| algorithm.acquire(heir, NOW, 100));
        assert!(all.is_some(), "{name}: it is live");
    });
}

/// Limiters of each algorithm, and two sets of policies to put in force by turns: a hundred in a
/// year, or in a year and two nanoseconds, which nobody can tell apart here.
fn each_reloaded(test: impl Fn(&str, &dyn Fn() -> Limiter<String>, &[Policies; 2])) {
    for family in FAMILIES {
        let slower = Numbers { period: HUNDRED.period + 2, ..HUNDRED };
        let policies = [HUNDRED, slower]
            .map(|numbers| Policies::new("default", family.algorithm(numbers)).max_clients(1_000));
        let make = || Limiter::<String, _>::with_policies(policies[0].clone()).build();
        test(family.name, &make, &policies);
    }
}

#[test]
fn every_operation_replaces_a_frozen_state_and_carries_on() {
    each_reloaded(|name, make, [these, those]| {
        let limiter = make();
        let freeze = || assert_eq!(limiter.reload_at(those.clone(), NOW), 1, "{name}");
        let again = || assert_eq!(limiter.reload_at(these.clone(), NOW), 1, "{name}");
        let left = || limiter.peek_n_at("a", 0, NOW).remaining();
        assert_eq!(limiter.check_n_at("a", 60, NOW).remaining(), 40, "{name}");
        freeze();
        assert_eq!(left(), 40, "{name}: a peek reads it");
        let permit = limiter.acquire_at("a", 30, NOW).unwrap();
        assert_eq!(permit.decision().remaining(), 10, "{name}");
        again();
        assert!(limiter.is_allowed_at("a", NOW), "{name}");
        assert_eq!(left(), 9, "{name}");
        freeze();
        limiter.credit_at("a", 1, NOW);
        assert_eq!(left(), 10, "{name}");
        again();
        assert!(!limiter.check_n_at("a", 11, NOW).is_admitted(), "{name}");
        permit.refund_at(NOW);
        assert!((10..=40).contains(&left()), "{name}: what can still be told apart");
        freeze();
        let rest = left();
        assert!(limiter.check_n_at("a", rest, NOW).is_admitted(), "{name}");
        assert!(!limiter.is_allowed_at("a", NOW), "{name}");
        assert_eq!(limiter.clients(), 1, "{name}");
    });
}

/// What four threads were admitted while another does `trouble` over and over.
fn admitted_beside(limiter: &Limiter<String>, trouble: impl Fn(usize) + Sync) -> usize {
    let barrier = Barrier::new(5);
    thread::scope(|scope| {
        let asking = || {
            barrier.wait();
            (0..100).filter(|_| limiter.is_allowed_at("a", NOW)).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(asking)).collect();
        barrier.wait();
        (0..20).for_each(&trouble);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

#[test]
fn a_client_that_is_swept_and_reloaded_meanwhile_is_granted_its_limit() {
    each_reloaded(|name, make, policies| {
        for _round in 0..30 {
            let limiter = make();
            // Given back again, it is idle when the threads begin.
            limiter.acquire_at("a", 9, NOW).unwrap().refund_at(NOW);
            let admitted = admitted_beside(&limiter, |turn| {
                limiter.sweep_at(10, NOW);
                limiter.reload_at(policies[turn % 2].clone(), NOW);
            });
            assert_eq!((admitted, limiter.clients()), (100, 1), "{name}");
        }
    });
}
