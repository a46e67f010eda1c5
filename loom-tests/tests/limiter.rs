//! The limiter's own protocol over the stand-in map: the insert race, and the global cap with its
//! give-back.

#![cfg(tollgate_loom)]

use loom::thread;
use tollgate_loom_tests::explore;
use tollgate_loom_tests::limiters::{NOW, cap, limiter, policies, remaining};

#[test]
fn two_threads_bring_the_same_new_client() {
    explore("two_threads_bring_the_same_new_client", || {
        let limiter = limiter(policies(1));
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.is_allowed_at(&7, NOW))
        };
        let mine = limiter.is_allowed_at(&7, NOW);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "one state, one unit: mine {mine}, theirs {theirs}");
        assert_eq!(limiter.clients(), 1);
    });
}

#[test]
fn the_cap_admits_its_last_unit_once_and_pays_the_loser_back() {
    explore("the_cap_admits_its_last_unit_once_and_pays_the_loser_back", || {
        let limiter = limiter(policies(1).global(cap(1)));
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.check_n_at(&1, 1, NOW))
        };
        let mine = limiter.check_n_at(&2, 1, NOW);
        let theirs = other.join().unwrap();
        assert!(mine.is_admitted() != theirs.is_admitted(), "{mine}; {theirs}");
        let (loser, key) = if mine.is_refused() { (mine, 2) } else { (theirs, 1) };
        assert!(loser.refused_by_global() && !loser.refused_by_client());
        // The loser's own unit is back: the cap alone stands in its way.
        let again = limiter.peek_n_at(&key, 1, NOW);
        assert!(again.refused_by_global() && !again.refused_by_client(), "{again}");
    });
}

#[test]
fn the_cap_pays_back_who_asked_for_yes_or_no() {
    explore("the_cap_pays_back_who_asked_for_yes_or_no", || {
        let limiter = limiter(policies(1).global(cap(2)));
        // Known clients, whose fast path this is; one of them has its unit back.
        assert!(limiter.is_allowed_at(&1, NOW));
        let permit = limiter.acquire_at(&2, 1, NOW).unwrap();
        limiter.credit_at(&1, 1, NOW);
        permit.refund_at(NOW);
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || limiter.is_allowed_at(&1, NOW))
        };
        let mine = limiter.is_allowed_at(&2, NOW);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "one unit: mine {mine}, theirs {theirs}");
        // The loser's own unit is back: the cap alone stands in its way.
        let again = limiter.peek_n_at(if mine { &1 } else { &2 }, 1, NOW);
        assert!(again.refused_by_global() && !again.refused_by_client(), "{again}");
    });
}

#[test]
fn a_permit_refunded_during_a_take_leaves_both_limits_exact() {
    explore("a_permit_refunded_during_a_take_leaves_both_limits_exact", || {
        let limiter = limiter(policies(2).global(cap(2)));
        let other = {
            let limiter = limiter.clone();
            thread::spawn(move || {
                if let Ok(permit) = limiter.acquire_at(&1, 1, NOW) {
                    permit.refund_at(NOW);
                }
            })
        };
        let mine = limiter.check_n_at(&1, 1, NOW);
        other.join().unwrap();
        assert!(mine.is_admitted(), "{mine}");
        assert_eq!(remaining(&limiter, 1), 1);
        assert_eq!(remaining(&limiter, 2), 1, "the cap keeps one unit");
    });
}
