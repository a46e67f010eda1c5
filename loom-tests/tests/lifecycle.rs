//! The life of a client over the stand-in map: retirement, succession, reload, tiers, the cap on
//! clients.

#![cfg(tollgate_loom)]

use loom::sync::Arc;
use loom::thread;
use tollgate::{CarryOver, Limiter, Nanos, Policies, Policy};
use tollgate_loom_tests::limiters::{Modelled, NOW, bucket, cap, limiter, policies, window};
use tollgate_loom_tests::{StandIn, explore};

/// When a client that took one unit at [`NOW`] under one per second is as good as new.
const LATER: Nanos = Nanos::new(1_000_000_001);

fn spawn<T: 'static>(
    limiter: &Arc<Modelled>,
    act: impl FnOnce(&Modelled) -> T + 'static,
) -> thread::JoinHandle<T> {
    let limiter = limiter.clone();
    thread::spawn(move || act(&limiter))
}

/// Units admitted one by one at `now` until none is left.
fn left(limiter: &Modelled, now: Nanos) -> u64 {
    (0..).take_while(|_| limiter.is_allowed_at(&1, now)).count() as u64
}

#[test]
fn take_against_retire() {
    explore("take_against_retire", || {
        let limiter = limiter(policies(1));
        assert!(limiter.is_allowed_at(&1, NOW));
        let sweeper = spawn(&limiter, |limiter| limiter.sweep_at(8, LATER).retired);
        // Idle by then: retired before, or taken from first; admitted once either way.
        let taken = limiter.is_allowed_at(&1, LATER);
        let retired = sweeper.join().unwrap();
        assert!(taken, "retired {retired}");
        assert_eq!(left(&limiter, LATER), 0, "retired {retired}");
        assert_eq!(limiter.clients(), 1);
    });
}

#[test]
fn refund_against_retire() {
    explore("refund_against_retire", || {
        let limiter = limiter(policies(3));
        let permit = limiter.acquire_at(&1, 1, NOW).unwrap();
        assert!(limiter.check_n_at(&1, 2, NOW).is_admitted());
        // By then one of three units has come back, and the refund brings another: not idle yet.
        let third = Nanos::new(333_333_335);
        let sweeper = spawn(&limiter, move |limiter| limiter.sweep_at(8, third).retired);
        permit.refund_at(third);
        assert_eq!(sweeper.join().unwrap(), 0);
        assert_eq!(left(&limiter, third), 2);
    });
}

#[test]
fn refund_against_reload() {
    explore("refund_against_reload", || {
        let limiter = limiter(policies(2));
        let permit = limiter.acquire_at(&1, 1, NOW).unwrap();
        limiter.reload_at(policies(3), NOW);
        let other = spawn(&limiter, |limiter| limiter.is_allowed_at(&1, NOW));
        permit.refund_at(NOW);
        assert!(other.join().unwrap());
        // Two were held under the old policy and are under the new; one was taken.
        assert_eq!(left(&limiter, NOW), 1);
    });
}

#[test]
fn two_takers_on_a_frozen_word() {
    explore("two_takers_on_a_frozen_word", || {
        let limiter = limiter(policies(3));
        assert!(limiter.is_allowed_at(&1, NOW));
        // The next touch freezes the word and replaces it; so does the other.
        limiter.reload_at(policies(4), NOW);
        let other = spawn(&limiter, |limiter| limiter.is_allowed_at(&1, NOW));
        let mine = limiter.is_allowed_at(&1, NOW);
        let theirs = other.join().unwrap();
        assert!(mine && theirs);
        assert_eq!(left(&limiter, NOW), 0, "one of three was gone, and two were taken");
        assert_eq!(limiter.stats().migrated, 1);
    });
}

#[test]
fn reload_against_take_against_reload() {
    explore("reload_against_take_against_reload", || {
        let limiter = limiter(policies(1));
        assert!(limiter.is_allowed_at(&1, NOW));
        let other = spawn(&limiter, |limiter| limiter.is_allowed_at(&1, NOW));
        limiter.reload_at(policies(2), NOW);
        limiter.reload_at(policies(3), NOW);
        // Nothing was left, and a larger capacity fills no bucket.
        assert!(!other.join().unwrap());
        assert!(!limiter.is_allowed_at(&1, NOW));
        assert_eq!(limiter.peek_n_at(&1, 0, NOW).limit(), 3);
    });
}

#[test]
fn a_decision_after_the_reload_is_under_the_new_policy() {
    explore("a_decision_after_the_reload_is_under_the_new_policy", || {
        let limiter = limiter(policies(2));
        assert!(limiter.is_allowed_at(&1, NOW));
        let reset = Policy::new(bucket(1)).carry_over(CarryOver::Reset);
        let other = spawn(&limiter, |limiter| limiter.is_allowed_at(&1, NOW));
        limiter.reload_at(Policies::new("default", reset), NOW);
        let mine = limiter.is_allowed_at(&1, NOW);
        let theirs = other.join().unwrap();
        // Either the other took the second unit before the reload, or one of us the only one after.
        assert!(mine || theirs);
        assert_eq!(left(&limiter, NOW), 0);
        assert_eq!(limiter.peek_n_at(&1, 0, NOW).limit(), 1);
    });
}

#[test]
fn tier_change_against_take() {
    explore("tier_change_against_take", || {
        let limiter = limiter(policies(2).tier("premium", bucket(3)));
        assert!(limiter.is_allowed_at(&1, NOW));
        let other =
            spawn(&limiter, |limiter| limiter.client_at(&1, NOW).tier("premium").is_allowed(1));
        let mine = limiter.is_allowed_at(&1, NOW);
        assert!(other.join().unwrap());
        // Two used of two, or three of three: moving neither lost nor forgave a unit.
        let used = 2 + u64::from(mine);
        let premium = limiter.client_at(&1, NOW).tier("premium").peek(0);
        assert_eq!((premium.limit(), premium.remaining()), (3, 3 - used));
    });
}

#[test]
fn refund_against_tier_change() {
    explore("refund_against_tier_change", || {
        let limiter = limiter(policies(2).tier("premium", bucket(3)));
        let permit = limiter.acquire_at(&1, 1, NOW).unwrap();
        let other =
            spawn(&limiter, |limiter| limiter.client_at(&1, NOW).tier("premium").is_allowed(1));
        permit.refund_at(NOW);
        assert!(other.join().unwrap());
        // Given back before the move, during it or after it: one of three is used.
        let premium = limiter.client_at(&1, NOW).tier("premium").peek(0);
        assert_eq!((premium.limit(), premium.remaining()), (3, 2));
    });
}

#[test]
fn the_cap_moves_on_during_takes() {
    explore("the_cap_moves_on_during_takes", || {
        let limiter = limiter(policies(1).global(cap(1)));
        let other = spawn(&limiter, |limiter| limiter.check_n_at(&1, 1, NOW).is_admitted());
        limiter.reload_at(policies(1).global(cap(2)), NOW);
        let mine = limiter.check_n_at(&2, 1, NOW).is_admitted();
        // One unit was held before the change and is after it, whoever gets it.
        assert_ne!(other.join().unwrap(), mine);
    });
}

#[test]
fn a_take_keeps_its_unit_while_the_cap_moves_on() {
    explore("a_take_keeps_its_unit_while_the_cap_moves_on", || {
        // Windows, which cannot tell a unit that was taken under another policy.
        let windows = || Policies::new("default", window(3));
        let limiter = windows().global(cap(8));
        let limiter = Arc::new(Limiter::with_registry(limiter, (), StandIn::default()));
        assert!(limiter.is_allowed_at(&1, NOW));
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || {
                limiter.reload_at(windows(), NOW);
                limiter.reload_at(windows().global(cap(9)), NOW);
                limiter.is_allowed_at(&2, NOW)
            })
        };
        assert!(limiter.is_allowed_at(&1, NOW));
        assert!(other.join().unwrap());
        let read = limiter.client_at(&1, NOW).peek(0);
        assert_eq!((read.limit(), read.remaining()), (3, 1));
    });
}

#[test]
fn newcomers_against_the_cap_on_clients() {
    explore("newcomers_against_the_cap_on_clients", || {
        let limiter = limiter(policies(1).max_clients(1));
        let other = spawn(&limiter, |limiter| limiter.check_n_at(&1, 1, NOW));
        let mine = limiter.check_n_at(&2, 1, NOW);
        let theirs = other.join().unwrap();
        assert!(limiter.clients() <= 1);
        // Both may find the other about to come; never are both there.
        assert!(!(mine.is_admitted() && theirs.is_admitted()));
        assert!(mine.is_admitted() || mine.refused_because_full());
        let stats = limiter.stats();
        assert_eq!(stats.created - stats.retired, stats.clients);
    });
}
