//! Several limits as one decision: all or none, whatever comes in between.

#![cfg(tollgate_loom)]

use loom::sync::Arc;
use loom::thread;
use tollgate::{AllOf, InFlight, Limit, Limiter, Nanos, Policies, Stack};
use tollgate_loom_tests::explore;
use tollgate_loom_tests::limiters::{
    NOW, Stacked, cap, each_remaining, limiter, policies, remaining, stack, stacked,
};

/// When a client that took one unit at [`NOW`] under one per second is as good as new.
const LATER: Nanos = Nanos::new(1_000_000_001);

fn spawn<T: 'static>(
    limiter: &Arc<Stacked>,
    act: impl FnOnce(&Stacked) -> T + 'static,
) -> thread::JoinHandle<T> {
    let limiter = limiter.clone();
    thread::spawn(move || act(&limiter))
}

fn takes(limiter: &Stacked) -> bool {
    limiter.is_allowed_at(&1, NOW)
}

#[test]
fn rollback_against_take() {
    explore("rollback_against_take", || {
        let limiter = stacked(Policies::new("default", stack(&[("wide", 2), ("tight", 1)])));
        let other = spawn(&limiter, |limiter| limiter.check_n_at(&1, 1, NOW).is_admitted());
        let mine = takes(&limiter);
        let theirs = other.join().unwrap();
        // One at least: the limit with two units refuses nobody.
        assert!(mine != theirs, "mine {mine}, theirs {theirs}");
        assert_eq!(each_remaining(&limiter, 1), [1, 0]);
    });
}

#[test]
fn rollback_against_refund() {
    explore("rollback_against_refund", || {
        let limiter = stacked(Policies::new("default", stack(&[("wide", 2), ("tight", 1)])));
        let permit = limiter.acquire_at(&1, 1, NOW).unwrap();
        let other = spawn(&limiter, takes);
        permit.refund_at(NOW);
        let left = 1 - u64::from(other.join().unwrap());
        assert_eq!(each_remaining(&limiter, 1), [1 + left, left]);
    });
}

#[test]
fn two_composites_in_opposite_order() {
    explore("two_composites_in_opposite_order", || {
        let (users, routes) = (limiter(policies(1)), limiter(policies(1)));
        let other = {
            let (users, routes) = (users.clone(), routes.clone());
            thread::spawn(move || {
                let limits = (routes.client_at(&2, NOW), users.client_at(&1, NOW));
                limits.acquire_all(1).is_ok()
            })
        };
        let limits = (users.client_at(&1, NOW), routes.client_at(&2, NOW));
        let mine = limits.acquire_all(1).is_ok();
        let theirs = other.join().unwrap();
        // Both may lose, each to the other's first charge; then nothing is gone.
        assert!(!(mine && theirs));
        let left = 1 - u64::from(mine || theirs);
        assert_eq!((remaining(&users, 1), remaining(&routes, 2)), (left, left));
    });
}

#[test]
fn settle_against_take() {
    explore("settle_against_take", || {
        let limiter = stacked(Policies::new("default", stack(&[("first", 3), ("second", 3)])));
        let permit = limiter.acquire_at(&1, 3, NOW).unwrap();
        let other = spawn(&limiter, takes);
        permit.settle_at(1, NOW);
        let left = 2 - u64::from(other.join().unwrap());
        assert_eq!(each_remaining(&limiter, 1), [left, left]);
    });
}

#[test]
fn stack_reload_against_take() {
    explore("stack_reload_against_take", || {
        let policies = |extra: u64| {
            Policies::new("default", stack(&[("first", 2 + extra), ("second", 2 + extra)]))
        };
        let limiter = stacked(policies(0));
        assert!(takes(&limiter));
        let other = spawn(&limiter, takes);
        limiter.reload_at(policies(1), NOW);
        let mine = takes(&limiter);
        let theirs = other.join().unwrap();
        // One was left before the reload, and after it: a larger capacity fills no bucket. A decision
        // that the reload interrupts gives back what it took before it starts over; meanwhile the
        // other may be refused.
        assert!(!(mine && theirs));
        let left = 1 - u64::from(mine || theirs);
        assert_eq!(each_remaining(&limiter, 1), [left, left]);
    });
}

#[test]
fn stack_retire_against_take() {
    explore("stack_retire_against_take", || {
        let limiter = stacked(Policies::new("default", stack(&[("first", 1), ("second", 1)])));
        assert!(takes(&limiter));
        let sweeper = spawn(&limiter, |limiter| limiter.sweep_at(8, LATER).retired);
        let taken = limiter.is_allowed_at(&1, LATER);
        let retired = sweeper.join().unwrap();
        assert!(taken, "retired {retired}");
        assert!(!limiter.is_allowed_at(&1, LATER), "retired {retired}");
        assert_eq!(limiter.clients(), 1);
    });
}

/// One permit at one time, and units enough.
fn in_flight() -> Stack {
    let parallel = Limit::new("parallel", InFlight::new(1).unwrap());
    Stack::new([parallel, Limit::new("units", cap(2))]).unwrap()
}

#[test]
fn release_against_take() {
    explore("release_against_take", || {
        let limiter = stacked(Policies::new("default", in_flight()));
        let permit = limiter.acquire_at(&1, 1, NOW).unwrap();
        let other = spawn(&limiter, |limiter| {
            let permit = limiter.acquire_at(&1, 1, NOW).ok();
            let held = permit.is_some();
            drop(permit);
            held
        });
        drop(permit);
        let left = 1 - u64::from(other.join().unwrap());
        assert_eq!(each_remaining(&limiter, 1), [1, left], "no place leaks");
    });
}

#[test]
fn release_against_reload() {
    explore("release_against_reload", || {
        let limiter = stacked(Policies::new("default", in_flight()));
        let permit = limiter.acquire_at(&1, 1, NOW).unwrap();
        let parallel = Limit::new("parallel", InFlight::new(1).unwrap());
        let next = Stack::new([Limit::new("units", cap(3)), parallel]).unwrap();
        let other = spawn(&limiter, takes);
        limiter.reload_at(Policies::new("default", next), NOW);
        drop(permit);
        let left = 1 - u64::from(other.join().unwrap());
        assert_eq!(each_remaining(&limiter, 1), [left, 1], "no place leaks");
    });
}

#[test]
fn two_permits_against_one_place() {
    explore("two_permits_against_one_place", || {
        let limiter: Arc<Limiter<u8, InFlight, (), _>> = Arc::new(Limiter::with_registry(
            Policies::new("default", InFlight::new(1).unwrap()),
            (),
            tollgate_loom_tests::StandIn::default(),
        ));
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || {
                let permit = limiter.acquire_at(&1, 1, NOW).ok();
                let alone = permit.is_none() || !limiter.is_allowed_at(&1, NOW);
                drop(permit);
                alone
            })
        };
        let permit = limiter.acquire_at(&1, 1, NOW).ok();
        let alone = permit.is_none() || !limiter.is_allowed_at(&1, NOW);
        drop(permit);
        let other_alone = other.join().unwrap();
        assert!(alone && other_alone, "never two at one time");
        assert!(limiter.is_allowed_at(&1, NOW), "every place came back");
    });
}
