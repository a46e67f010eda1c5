//! The life of a client: retirement, the cap on clients, tiers, reload, the rarer verbs.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    AlgorithmKind, Anchor, AnyAlgorithm, CarryOver, Limiter, ManualClock, Nanos, Policies, Policy,
    Quota, RetryAfter, Sweeper, WhenFull,
};

type Keyed = Limiter<String, AnyAlgorithm, ManualClock>;

const KINDS: [AlgorithmKind; 6] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyBucket { queue: 3 },
    AlgorithmKind::FixedWindow { anchor: Anchor::Aligned },
    AlgorithmKind::FixedWindow { anchor: Anchor::FirstRequest },
    AlgorithmKind::SlidingCounter,
    AlgorithmKind::SlidingLog,
];

fn algorithm(kind: AlgorithmKind, limit: u64) -> AnyAlgorithm {
    AnyAlgorithm::new(kind, Quota::per_second(limit).unwrap()).unwrap()
}

fn policies(kind: AlgorithmKind, limit: u64) -> Policies {
    Policies::new("default", algorithm(kind, limit)).max_clients(1_000)
}

fn limiter(policies: Policies) -> Keyed {
    Limiter::<String, AnyAlgorithm>::with_policies(policies).clock(ManualClock::new()).build()
}

fn ms(millis: u64) -> Nanos {
    Nanos::new(millis * 1_000_000)
}

fn remaining(limiter: &Keyed, key: &str, now: Nanos) -> u64 {
    limiter.peek_n_at(key, 0, now).remaining()
}

// Retirement

#[test]
fn an_idle_client_is_retired_and_one_that_owes_is_not() {
    for kind in KINDS {
        let limiter = limiter(policies(kind, 4));
        assert!(limiter.is_allowed_at("idle", ms(0)));
        assert!(limiter.check_n_at("owes", 3, ms(2_900)).is_admitted());
        let swept = limiter.sweep_at(100, ms(2_950));
        assert_eq!((swept.looked, swept.retired), (2, 1), "{kind}");
        let stats = limiter.stats();
        assert_eq!((stats.clients, stats.created, stats.retired), (1, 2, 1), "{kind}");
        assert_eq!(limiter.sweep_at(100, ms(10_000)).retired, 1, "{kind}");
        assert_eq!(limiter.clients(), 0, "{kind}");
    }
}

#[test]
fn a_sweep_goes_on_where_it_stopped() {
    let limiter = limiter(policies(AlgorithmKind::TokenBucket, 1));
    for client in 0..100 {
        assert!(limiter.is_allowed_at(&client.to_string(), ms(0)));
    }
    // Busy clients stay, so each step must move on to others; idle ones go.
    assert_eq!(limiter.sweep_at(60, ms(0)).looked, 60);
    let mut retired = 0;
    for _ in 0..10 {
        let swept = limiter.sweep_at(15, ms(1_000));
        assert!(swept.looked <= 15);
        retired += swept.retired;
    }
    assert_eq!((retired, limiter.clients()), (100, 0));
}

#[test]
fn newcomers_sweep_without_being_asked() {
    let limiter = limiter(policies(AlgorithmKind::TokenBucket, 1).max_clients(1_000_000));
    for client in 0..20_000u64 {
        // A second apart: each was idle before the next came.
        assert!(limiter.is_allowed_at(&client.to_string(), ms(client * 1_000)));
    }
    assert!(limiter.clients() < 5_000, "{} clients", limiter.clients());
}

#[test]
fn clients_that_come_again_soon_are_not_retired_by_newcomers() {
    let limiter = limiter(policies(AlgorithmKind::TokenBucket, 1).max_clients(1_000_000));
    for lap in 0..5 {
        for client in 0..10_000u64 {
            // A lap takes five seconds, in each of which the client is idle for four.
            assert!(limiter.is_allowed_at(&client.to_string(), ms(lap * 5_000 + client / 2)));
        }
    }
    let stats = limiter.stats();
    assert_eq!((stats.created, stats.retired), (10_000, 0));
}

#[test]
fn a_permit_refunded_after_the_retirement_harms_nothing() {
    for kind in KINDS {
        let limiter = limiter(policies(kind, 4));
        let permit = limiter.acquire_at("a", 2, ms(0)).unwrap();
        assert_eq!(limiter.sweep_at(10, ms(5_000)).retired, 1, "{kind}");
        permit.refund_at(ms(5_000));
        let full = remaining(&limiter, "a", ms(5_000));
        assert!(limiter.check_n_at("a", full, ms(5_000)).is_admitted(), "{kind}");
        assert!(limiter.check_at("a", ms(5_000)).is_refused(), "{kind}");
    }
}

#[test]
fn a_stale_clock_gains_nothing_by_a_retirement() {
    for kind in KINDS {
        let limiter = limiter(policies(kind, 4));
        let full = remaining(&limiter, "a", ms(0));
        assert!(limiter.check_n_at("a", full, ms(1_500)).is_admitted());
        assert_eq!(limiter.sweep_at(10, ms(9_000)).retired, 1);
        // A caller that still lives at 1.5 s finds no more than it left.
        let mut admitted = 0;
        while limiter.is_allowed_at("a", ms(1_500)) {
            admitted += 1;
        }
        // What it does get counts where the state now lives, at 9 s.
        let now = remaining(&limiter, "a", ms(9_000));
        assert!(admitted + now <= full, "{kind}: {admitted} + {now} of {full}");
    }
}

#[test]
fn the_background_sweeper_stops_when_dropped() {
    // Marked real-clock test: it waits for a thread, not for a time.
    let policy = algorithm(AlgorithmKind::TokenBucket, 1_000_000);
    let limiter = Arc::new(Limiter::<String>::new(policy));
    assert!(limiter.is_allowed("a"));
    let sweeper = Sweeper::spawn(&limiter, Duration::from_micros(50), 10).unwrap();
    while limiter.clients() > 0 {
        thread::yield_now();
    }
    drop(sweeper);
    assert_eq!(Arc::strong_count(&limiter), 1);
}

// The cap on clients

#[test]
fn when_full_idle_clients_make_room_and_busy_ones_do_not() {
    for kind in KINDS {
        let limiter = limiter(policies(kind, 2).max_clients(3));
        for client in ["a", "b", "c"] {
            assert!(limiter.check_n_at(client, 2, ms(0)).is_admitted());
        }
        let refused = limiter.check_at("new", ms(0));
        assert!(refused.is_refused() && refused.refused_because_full(), "{kind}: {refused}");
        assert_eq!((limiter.clients(), limiter.stats().refused_full), (3, 1), "{kind}");
        // The retry-after is true.
        let RetryAfter::After(wait) = refused.retry_after() else {
            panic!("{kind}: {refused}");
        };
        let opens = Nanos::from(wait);
        let before = Nanos::new(opens.get() - 1);
        assert!(limiter.check_at("new", before).refused_because_full(), "{kind}");
        assert!(limiter.check_at("new", opens).is_admitted(), "{kind}");
        assert!(limiter.clients() <= 3, "{kind}");
    }
}

#[test]
fn a_client_that_owes_is_never_replaced_by_a_fresh_one() {
    let limiter = limiter(policies(AlgorithmKind::TokenBucket, 5).max_clients(10));
    assert!(limiter.check_n_at("debtor", 5, ms(0)).is_admitted());
    for client in 0..10_000 {
        let _ = limiter.check_at(&client.to_string(), ms(10));
    }
    assert!(limiter.check_at("debtor", ms(10)).refused_by_client());
    assert!(limiter.clients() <= 10);
}

#[test]
fn a_newcomer_who_is_idle_soon_makes_room_though_all_others_are_busy() {
    let bucket = algorithm(AlgorithmKind::TokenBucket, 1);
    let limiter = limiter(Policies::new("default", bucket).max_clients(2));
    for key in ["owes", "owes more"] {
        assert!(limiter.is_allowed_at(key, ms(0)));
        limiter.client_at(key, ms(0)).charge(1_000);
    }
    assert!(limiter.check_at("late", ms(10)).refused_because_full());
    // A place is free, and its new owner owes for a second only.
    limiter.client_at("owes", ms(20)).forget();
    assert!(limiter.is_allowed_at("brief", ms(20)));
    assert!(limiter.check_at("late", ms(30)).refused_because_full());
    assert!(limiter.is_allowed_at("late", ms(1_021)));
}

#[test]
fn the_builder_may_choose_to_admit_newcomers_unlimited() {
    let policies = policies(AlgorithmKind::TokenBucket, 1).max_clients(1);
    let limiter = limiter(policies.when_full(WhenFull::Admit));
    assert!(limiter.is_allowed_at("a", ms(0)));
    for _ in 0..3 {
        assert!(limiter.is_allowed_at("b", ms(0)));
    }
    limiter.acquire_at("b", 1, ms(0)).unwrap().refund_at(ms(0));
    assert!(!limiter.is_allowed_at("a", ms(0)));
    assert_eq!((limiter.clients(), limiter.stats().admitted_full), (1, 4));
}

#[test]
fn racing_newcomers_never_exceed_the_cap() {
    let limiter = limiter(policies(AlgorithmKind::TokenBucket, 1).max_clients(50));
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (limiter, barrier) = (&limiter, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for client in 0..500 {
                    let _ = limiter.check_at(&format!("{thread}-{client}"), ms(0));
                    assert!(limiter.sweep_at(0, ms(0)).looked == 0);
                }
            });
        }
    });
    assert_eq!(limiter.clients(), 50);
    let stats = limiter.stats();
    assert_eq!(stats.created - stats.retired, 50);
}

// Tiers

fn tiered() -> Policies {
    let tier = |limit| algorithm(AlgorithmKind::TokenBucket, limit);
    let counter = algorithm(AlgorithmKind::SlidingCounter, 20);
    Policies::new("free", tier(2)).tier("premium", tier(10)).tier("partner", counter)
}

#[test]
fn each_tier_has_its_own_policy_and_algorithm() {
    let limiter = limiter(tiered());
    let limit = |key, tier| limiter.client_at(key, ms(0)).tier(tier).check(1).limit();
    assert_eq!((limit("a", "free"), limit("b", "premium"), limit("c", "partner")), (2, 10, 20));
    // Unnamed or unknown: the default.
    assert_eq!(limiter.check_at("new", ms(0)).limit(), 2);
    assert_eq!(limit("x", "no such tier"), 2);
    assert_eq!(limit("b", "no such tier"), 2);
}

#[test]
fn a_client_takes_its_debt_along_and_back() {
    let limiter = limiter(tiered());
    let at = |tier| limiter.client_at("a", ms(0)).tier(tier);
    assert!(at("premium").check(8).is_admitted());
    assert!(at("free").check(1).is_refused(), "eight used of two");
    assert_eq!(at("premium").check(0).remaining(), 2);
    assert_eq!(at("partner").check(1).remaining(), 11);
    assert_eq!(at("premium").check(1).remaining(), 0);
    for _ in 0..20 {
        assert!(at("free").check(1).is_refused());
        assert!(at("premium").check(1).is_refused());
    }
}

#[test]
fn peeking_in_another_tier_moves_nobody() {
    let limiter = limiter(tiered());
    assert!(limiter.is_allowed_at("a", ms(0)));
    assert_eq!(limiter.client_at("a", ms(0)).tier("premium").peek(0).remaining(), 9);
    assert_eq!(limiter.peek_n_at("a", 0, ms(0)).limit(), 2);
    assert_eq!(limiter.stats().migrated, 0);
}

// Reload

#[test]
fn the_same_policies_change_nothing() {
    let limiter = limiter(tiered());
    assert!(limiter.check_n_at("a", 2, ms(0)).is_admitted());
    for _ in 0..3 {
        assert_eq!(limiter.reload_at(tiered(), ms(100)), 0);
    }
    assert!(limiter.check_at("a", ms(0)).is_refused());
    assert_eq!(limiter.stats().migrated, 0);
    assert_eq!(limiter.policies(), tiered());
}

#[test]
fn only_tiers_that_changed_migrate() {
    let limiter = limiter(tiered());
    assert!(limiter.client_at("a", ms(0)).tier("free").is_allowed(1));
    assert!(limiter.client_at("b", ms(0)).tier("premium").is_allowed(1));
    let faster = tiered().tier("premium", algorithm(AlgorithmKind::TokenBucket, 50));
    assert_eq!(limiter.reload_at(faster, ms(0)), 1);
    assert!(limiter.is_allowed_at("a", ms(0)));
    assert_eq!(limiter.client_at("b", ms(0)).tier("premium").check(1).limit(), 50);
    assert_eq!(limiter.stats().migrated, 1);
}

#[test]
fn what_accrued_is_paid_at_the_rate_that_was_in_force() {
    let limiter = limiter(policies(AlgorithmKind::TokenBucket, 10));
    assert!(limiter.check_n_at("a", 10, ms(0)).is_admitted());
    // 100 ms at 10 a second, 100 ms at 20, 100 ms at 40: the client is touched only at the end.
    limiter.reload_at(policies(AlgorithmKind::TokenBucket, 20), ms(100));
    limiter.reload_at(policies(AlgorithmKind::TokenBucket, 40), ms(200));
    assert_eq!(remaining(&limiter, "a", ms(300)), 1 + 2 + 4);
    assert!(limiter.check_n_at("a", 7, ms(300)).is_admitted());
    assert!(limiter.check_at("a", Nanos::new(324_999_999)).is_refused());
    assert!(limiter.check_at("a", ms(325)).is_admitted());
}

#[test]
fn each_carry_over_keeps_what_it_says() {
    let reload = |kind, carry_over| {
        let limiter = limiter(policies(kind, 10));
        assert!(limiter.check_n_at("a", 2, ms(0)).is_admitted());
        let policy = Policy::new(algorithm(kind, 20)).carry_over(carry_over);
        limiter.reload_at(Policies::new("default", policy), ms(0));
        remaining(&limiter, "a", ms(0))
    };
    let bucket = AlgorithmKind::TokenBucket;
    assert_eq!(reload(bucket, CarryOver::Keep), 8, "a bucket keeps its tokens");
    assert_eq!(reload(bucket, CarryOver::Proportional), 16);
    assert_eq!(reload(bucket, CarryOver::Reset), 20);
    let window = AlgorithmKind::FixedWindow { anchor: Anchor::Aligned };
    for kind in [window, AlgorithmKind::SlidingCounter] {
        assert_eq!(reload(kind, CarryOver::Keep), 18, "a window keeps its count");
        assert_eq!(reload(kind, CarryOver::Proportional), 16);
        assert_eq!(reload(kind, CarryOver::Reset), 20);
    }
}

#[test]
fn a_tier_that_is_gone_leaves_its_clients_to_the_default() {
    let limiter = limiter(tiered());
    assert!(limiter.client_at("a", ms(0)).tier("premium").check(2).is_admitted());
    limiter.reload_at(Policies::new("free", algorithm(AlgorithmKind::TokenBucket, 3)), ms(0));
    let decision = limiter.check_at("a", ms(0));
    assert_eq!((decision.limit(), decision.remaining()), (3, 0));
}

#[test]
fn a_cap_can_come_change_and_go() {
    let cap = |limit| algorithm(AlgorithmKind::TokenBucket, limit);
    let kind = AlgorithmKind::TokenBucket;
    let limiter = limiter(policies(kind, 100));
    assert!(limiter.check_n_at("a", 50, ms(0)).is_admitted());
    limiter.reload_at(policies(kind, 100).global(cap(5)), ms(0));
    assert!(limiter.check_n_at("a", 5, ms(0)).is_admitted());
    assert!(limiter.check_at("b", ms(0)).refused_by_global());
    limiter.reload_at(policies(kind, 100).global(cap(8)), ms(0));
    assert!(limiter.check_at("b", ms(0)).refused_by_global(), "a larger cap fills no bucket");
    limiter.reload_at(policies(kind, 100), ms(0));
    assert!(limiter.check_n_at("a", 45, ms(0)).is_admitted());
    assert!(limiter.check_at("a", ms(0)).refused_by_client());
}

#[test]
fn a_permit_outlives_a_reload() {
    for kind in KINDS {
        let limiter = limiter(policies(kind, 10));
        let permit = limiter.acquire_at("a", 2, ms(0)).unwrap();
        let full = remaining(&limiter, "a", ms(0)) + 2;
        let quota = Quota::new(10, Duration::from_millis(900)).unwrap();
        limiter.reload_at(Policies::new("default", AnyAlgorithm::new(kind, quota).unwrap()), ms(0));
        assert_eq!(remaining(&limiter, "a", ms(0)), full - 2, "{kind}");
        permit.refund_at(ms(0));
        assert!(remaining(&limiter, "a", ms(0)) <= full, "{kind}");
    }
}

// The rarer verbs

#[test]
fn forget_drain_and_penalize_do_what_they_say() {
    for kind in KINDS {
        let limiter = limiter(policies(kind, 4));
        let client = || limiter.client_at("a", ms(0));
        let full = client().peek(0).remaining();
        client().drain();
        assert_eq!(client().peek(0).remaining(), 0, "{kind}");
        assert_eq!(limiter.sweep_at(10, ms(0)).retired, 0, "{kind}");
        client().forget();
        assert_eq!(client().peek(0).remaining(), full, "{kind}");
        client().penalize(Duration::from_secs(90));
        assert_eq!(limiter.sweep_at(10, ms(89_000)).retired, 0, "{kind}");
        // A log remembers its units and no penalty: a larger limit opens what it adds.
        let limit = if kind == AlgorithmKind::SlidingLog { 4 } else { 5 };
        let quota = Quota::new(limit, Duration::from_millis(1_000)).unwrap();
        let policy = AnyAlgorithm::new(kind, quota).unwrap();
        limiter.reload_at(Policies::new("default", policy).max_clients(999), ms(1_000));
        assert!(limiter.check_at("a", Nanos::new(89_999_999_999)).is_refused(), "{kind}");
        assert!(limiter.check_at("a", ms(92_000)).is_admitted(), "{kind}");
        client().forget();
        assert_eq!((limiter.clients(), client().peek(0).is_admitted()), (0, true), "{kind}");
    }
}

#[test]
fn a_bucket_opens_on_the_nanosecond_after_a_penalty() {
    for kind in [KINDS[0], KINDS[1], KINDS[3]] {
        let limiter = limiter(policies(kind, 4));
        limiter.client_at("a", ms(10)).penalize(Duration::from_secs(3));
        assert!(limiter.check_at("a", Nanos::new(3_009_999_999)).is_refused(), "{kind}");
        assert!(limiter.check_at("a", ms(3_010)).is_admitted(), "{kind}");
    }
}

// All of it at once

#[derive(Clone, Debug)]
enum Act {
    Check { cost: u64 },
    Acquire { cost: u64 },
    Refund,
    Credit { amount: u64 },
    Tier { name: usize, cost: u64 },
    Penalize { millis: u64 },
    Forget,
    Reload { set: usize },
    Wait { millis: u64 },
}

fn acts() -> impl Strategy<Value = Vec<(usize, Act, bool)>> {
    let act = prop_oneof![
        4 => (0..6u64).prop_map(|cost| Act::Check { cost }),
        2 => (0..4u64).prop_map(|cost| Act::Acquire { cost }),
        1 => Just(Act::Refund),
        1 => (0..4u64).prop_map(|amount| Act::Credit { amount }),
        2 => (0..4usize, 0..4u64).prop_map(|(name, cost)| Act::Tier { name, cost }),
        1 => (0..2_000u64).prop_map(|millis| Act::Penalize { millis }),
        1 => Just(Act::Forget),
        1 => (0..4usize).prop_map(|set| Act::Reload { set }),
        4 => prop_oneof![0..50u64, 0..1_500u64, 5_000..20_000u64]
            .prop_map(|millis| Act::Wait { millis }),
    ];
    prop::collection::vec((0..3usize, act, any::<bool>()), 1..60)
}

/// Four sets of policies to move between: other limits, other algorithms, a tier that goes.
fn set(kind: AlgorithmKind, set: usize) -> Policies {
    let policies = match set {
        0 => Policies::new("free", algorithm(kind, 4)).tier("premium", algorithm(kind, 9)),
        1 => Policies::new("free", algorithm(kind, 7))
            .tier("premium", algorithm(AlgorithmKind::TokenBucket, 5)),
        2 => Policies::new("free", algorithm(AlgorithmKind::SlidingCounter, 3)),
        _ => {
            let policy = Policy::new(algorithm(kind, 6)).carry_over(CarryOver::Proportional);
            Policies::new("premium", policy).tier("free", algorithm(kind, 2))
        }
    };
    policies.max_clients(100)
}

proptest! {
    /// I6: with sweeps between any two steps every decision is what it is without.
    #[test]
    fn sweeps_are_invisible(kind in prop::sample::select(&KINDS[..]), acts in acts()) {
        let (swept, plain) = (limiter(set(kind, 0)), limiter(set(kind, 0)));
        let keys = ["a", "b", "c"].map(String::from);
        let mut now = ms(3);
        let mut permits = HashMap::new();
        for (client, act, sweep) in acts {
            let key = &keys[client];
            match act {
                Act::Check { cost } => {
                    let decisions = [&swept, &plain].map(|l| l.check_n_at(key.as_str(), cost, now));
                    prop_assert_eq!(decisions[0], decisions[1], "{} at {:?}", kind, now);
                }
                Act::Tier { name, cost } => {
                    permits.remove(&client);
                    let name = ["free", "premium", "free", "unknown"][name];
                    let decisions = [&swept, &plain]
                        .map(|l| l.client_at(key.as_str(), now).tier(name).check(cost));
                    prop_assert_eq!(decisions[0], decisions[1], "{} at {:?}", kind, now);
                }
                Act::Acquire { cost } => {
                    let taken = [&swept, &plain].map(|l| l.acquire_at(key.as_str(), cost, now));
                    let [one, two] = taken;
                    prop_assert_eq!(one.is_ok(), two.is_ok());
                    if let (Ok(one), Ok(two)) = (one, two) {
                        permits.insert(client, [one, two]);
                    }
                }
                Act::Refund => {
                    for permit in permits.remove(&client).into_iter().flatten() {
                        permit.refund_at(now);
                    }
                }
                Act::Credit { amount } => {
                    for l in [&swept, &plain] {
 l.credit_at(key.as_str(), amount, now);
}
                }
                Act::Penalize { millis } => {
                    let time = Duration::from_millis(millis);
                    for l in [&swept, &plain] {
 l.client_at(key.as_str(), now).penalize(time);
}
                }
                Act::Forget => {
                    for l in [&swept, &plain] {
 l.client_at(key.as_str(), now).forget();
}
                }
                Act::Reload { set: index } => {
                    // A permit of a client that has no state when the policy changes is void.
                    permits.clear();
                    for l in [&swept, &plain] {
 l.reload_at(set(kind, index), now);
}
                }
                Act::Wait { millis } => now = now.saturating_add(Duration::from_millis(millis)),
            }
            if sweep {
                swept.sweep_at(100, now);
            }
            let peeks = [&swept, &plain].map(|l| l.peek_n_at(key.as_str(), 1, now));
            prop_assert_eq!(peeks[0], peeks[1], "{} at {:?}", kind, now);
        }
    }
}

/// A limiter that is pinned all the while sees newcomers, retirements, and reloads as they happen.
#[test]
fn a_pinned_limiter_answers_as_any_other() {
    for kind in KINDS {
        let (limiter, plain) = (limiter(set(kind, 0)), limiter(set(kind, 0)));
        let pinned = limiter.pin();
        for turn in 0..200 {
            // Now and then all have been idle for long.
            let (key, now) =
                (["a", "b", "c"][turn % 3], ms((turn * 40 + turn / 9 * 20_000) as u64));
            if turn % 9 == 0 {
                limiter.sweep_at(100, now);
            }
            let cost = turn as u64 % 4;
            let decision = pinned.check_n_at(key, cost, now);
            assert_eq!(decision, plain.check_n_at(key, cost, now), "{kind}, turn {turn}");
            let allowed = pinned.is_allowed_at(key, now);
            assert_eq!(allowed, plain.is_allowed_at(key, now), "{kind}, turn {turn}");
            if turn % 31 == 0 {
                limiter.reload_at(set(kind, turn / 31 % 4), now);
                plain.reload_at(set(kind, turn / 31 % 4), now);
            }
        }
        assert!(limiter.stats().retired > 0, "{kind}");
    }
}

/// Threads take, sweep and reload at once, on the real map. The clock stands still, so nothing
/// accrues: each client is admitted exactly its limit, however often it was frozen and replaced.
#[test]
fn taking_sweeping_and_reloading_at_once_admit_exactly_the_limit() {
    for kind in KINDS {
        let kind = match kind {
            AlgorithmKind::LeakyBucket { .. } => AlgorithmKind::LeakyBucket { queue: 999 },
            other => other,
        };
        // A cap that comes and goes and never refuses: every client moves on, and keeps all.
        let round = |round: u64| match round % 2 {
            0 => policies(kind, 1_000),
            _ => policies(kind, 1_000)
                .global(algorithm(AlgorithmKind::TokenBucket, 1_000_000 + round)),
        };
        let limiter = limiter(round(0));
        let now = ms(500);
        let barrier = Barrier::new(8);
        let admitted: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..8u64)
                .map(|thread| {
                    let (limiter, barrier, round) = (&limiter, &barrier, &round);
                    scope.spawn(move || {
                        barrier.wait();
                        let mut admitted = 0;
                        for turn in 0..2_000u64 {
                            match thread {
                                6 => drop(limiter.sweep_at(10, now)),
                                7 => drop(limiter.reload_at(round(turn), now)),
                                _ => admitted += u64::from(limiter.is_allowed_at("a", now)),
                            }
                        }
                        admitted
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, 1_000, "{kind}");
        assert_eq!(limiter.clients(), 1, "{kind}");
    }
}
