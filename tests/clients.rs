//! The limiter around the algorithm: keys, clocks, clients, permits.

mod common;

use std::collections::hash_map::RandomState;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    AlgorithmKind, Allowance, AnyAlgorithm, Clock, CoarseClock, DirectLimiter, FixedWindow,
    Limiter, ManualClock, MonotonicClock, Nanos, Quota, RetryAfter, TokenBucket,
};

use common::families::{FAMILIES, Numbers, each_limiter};

const DAY: u64 = 86_400_000_000_000;
const THREE: Numbers = Numbers::new(3, DAY, 3);

#[test]
fn each_client_has_a_state_of_its_own() {
    each_limiter(|setup| {
        let subject = setup.make();
        let keys: Vec<String> = (0..50).map(|i| format!("client {i}")).collect();
        for expected in [setup.capacity, 0] {
            for key in &keys {
                let tries = 0..=setup.capacity;
                let admitted = tries.filter(|_| subject.admits(key, 1, 5)).count() as u64;
                assert_eq!(admitted, expected, "{}: {key}", setup.name);
            }
        }
        assert_eq!(subject.clients(), keys.len(), "{}", setup.name);
    });
}

#[test]
fn a_state_is_made_at_the_first_charge_and_not_before() {
    each_limiter(|setup| {
        let subject = setup.make();
        subject.peek("peeked", 1, 0);
        subject.credit("credited", 1, 0);
        assert_eq!(subject.clients(), 0, "{}", setup.name);
        assert!(subject.check("free", 0, 0).admitted(), "{}", setup.name);
        assert_eq!(subject.clients(), 0, "{}: cost 0 charges nothing", setup.name);
        assert!(!subject.check("refused", setup.capacity + 1, 0).admitted(), "{}", setup.name);
        assert!(subject.acquire("refused", u64::MAX, 0).is_err(), "{}", setup.name);
        assert_eq!(subject.clients(), 0, "{}: a refusal writes nothing", setup.name);
        assert!(subject.check("charged", 1, 0).admitted(), "{}", setup.name);
        assert_eq!(subject.clients(), 1, "{}", setup.name);
    });
}

#[test]
fn a_blocked_newcomer_makes_no_client() {
    for family in FAMILIES {
        let blocked = AnyAlgorithm::new((family.kind)(1), Allowance::Blocked).unwrap();
        let limiter = Limiter::<String, _>::new(blocked);
        assert!(!limiter.is_allowed("a") && limiter.check("b").is_refused());
        assert_eq!(limiter.clients(), 0, "{}", family.name);
    }
}

#[test]
fn keys_are_found_by_what_they_borrow_as() {
    for family in FAMILIES {
        let algorithm = family.algorithm(THREE);
        let names = Limiter::<String, _>::new(algorithm.clone());
        let owned = "alice".to_owned();
        assert!(names.is_allowed(&owned) && names.is_allowed(owned.as_str()));
        assert!(names.is_allowed("alice") && !names.is_allowed(&owned), "{}", family.name);
        assert_eq!(names.clients(), 1, "{}", family.name);

        let bytes = Limiter::<Vec<u8>, _>::new(algorithm.clone());
        assert!(bytes.check_n(&[1_u8, 2][..], 2).is_admitted());
        assert!(bytes.check_n(&vec![1_u8, 2], 2).is_refused(), "{}", family.name);

        let numbers = Limiter::<u64, _>::new(algorithm);
        assert!(numbers.check_n(&7, 3).is_admitted() && numbers.check(&7).is_refused());
        assert!(numbers.check_n(&8, 3).is_admitted(), "{}", family.name);
    }
}

#[test]
fn the_hasher_is_the_callers_choice() {
    let builder = Limiter::<String, _>::builder(FAMILIES[0].algorithm(THREE));
    let limiter = builder.hasher(RandomState::new()).build::<String>();
    assert_eq!((0..9).filter(|_| limiter.is_allowed("a")).count(), 3);
}

#[test]
fn the_clocks_time_and_the_time_given_are_answered_alike() {
    for family in FAMILIES {
        let (clock, numbers) = (ManualClock::new(), Numbers::new(3, 1_000, 3));
        let builder = Limiter::<String, _>::builder(family.algorithm(numbers));
        let clocked = builder.clock(clock.clone()).build::<String>();
        let timed = Limiter::<String, _>::new(family.algorithm(numbers));
        let one_clocked = DirectLimiter::new(family.algorithm(numbers), clock.clone());
        let one_timed = DirectLimiter::new(family.algorithm(numbers), ());
        for step in [0, 1, 400, 333, 1_000, 5_000, 1] {
            clock.advance(Duration::from_nanos(step));
            let now = clock.now();
            assert_eq!(clocked.now(), now);
            assert_eq!(clocked.peek("a"), timed.peek_n_at("a", 1, now), "{}", family.name);
            assert_eq!(clocked.check("a"), timed.check_at("a", now), "{}", family.name);
            assert_eq!(clocked.check_n("a", 2), timed.check_n_at("a", 2, now));
            assert_eq!(clocked.peek_n("a", 3), timed.peek_n_at("a", 3, now));
            assert_eq!(clocked.is_allowed("b"), timed.is_allowed_at("b", now));
            let permits = (clocked.acquire("b", 1), timed.acquire_at("b", 1, now));
            assert_eq!(permits.0.is_ok(), permits.1.is_ok(), "{}", family.name);
            if let (Ok(clocked), Ok(timed)) = permits {
                assert_eq!(clocked.decision(), timed.decision(), "{}", family.name);
                clocked.refund();
                timed.refund_at(now);
            }
            clocked.credit("a", 1);
            timed.credit_at("a", 1, now);
            assert_eq!(clocked.peek("b"), timed.peek_n_at("b", 1, now), "{}", family.name);

            assert_eq!(one_clocked.check(), one_timed.check_at(now, 1), "{}", family.name);
            assert_eq!(one_clocked.check_n(2), one_timed.check_at(now, 2), "{}", family.name);
            assert_eq!(one_clocked.is_allowed(), one_timed.is_allowed_at(now, 1));
            one_clocked.credit(2);
            one_timed.credit_at(now, 2);
            let grants = (one_clocked.acquire(1), one_timed.acquire_at(now, 1));
            assert_eq!(grants.0, grants.1, "{}", family.name);
            if let (Some(clocked), Some(timed)) = grants {
                one_clocked.refund(clocked);
                one_timed.refund_at(now, timed);
            }
            assert_eq!(one_clocked.peek_n(2), one_timed.peek_at(now, 2), "{}", family.name);
        }
    }
}

#[test]
fn the_systems_clocks_move_forward_only() {
    fn never_back(clock: &impl Clock) {
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last, "{now:?} after {last:?}");
            last = now;
        }
    }
    never_back(&MonotonicClock::new());
    let coarse = CoarseClock::new();
    never_back(&coarse);
    assert!(coarse.lag() > Duration::ZERO && coarse.lag() <= Duration::from_millis(10));
    // Until the coarse clock has moved: it does, within its lag and the scheduler's whim.
    let (start, precise) = (coarse.now(), MonotonicClock::new());
    while coarse.now() == start {
        assert!(precise.now() < Nanos::from(Duration::from_secs(10)), "it stands still");
        std::hint::spin_loop();
    }
}

#[test]
fn unlimited_and_blocked_are_answered_as_such() {
    for family in FAMILIES {
        let make = |allowance: Allowance| {
            Limiter::<u64, _>::new(AnyAlgorithm::new((family.kind)(1), allowance).unwrap())
        };
        let (unlimited, blocked) = (make(Allowance::Unlimited), make(Allowance::Blocked));
        for cost in [0, 1, 1_000, u64::MAX] {
            for now in [0, DAY, u64::MAX] {
                let open = unlimited.check_n_at(&1, cost, Nanos::new(now));
                assert!(open.is_admitted(), "{}", family.name);
                assert_eq!(open.retry_after(), RetryAfter::Now);
                assert_eq!((open.limit(), open.remaining()), (u64::MAX, u64::MAX));
                let shut = blocked.check_n_at(&1, cost, Nanos::new(now));
                assert_eq!(shut.is_admitted(), cost == 0, "{}", family.name);
                let never = if cost == 0 { RetryAfter::Now } else { RetryAfter::Never };
                assert_eq!(shut.retry_after(), never, "{}", family.name);
                assert_eq!((shut.limit(), shut.remaining()), (0, 0), "{}", family.name);
                assert_eq!(open.delay() + shut.delay(), Duration::ZERO);
                assert_eq!(open.reset_after() + shut.reset_after(), Duration::ZERO);
            }
        }
        blocked.credit(&1, u64::MAX);
        assert!(!blocked.is_allowed(&1), "{}: credit opens nothing", family.name);
        unlimited.acquire(&1, 5).unwrap().refund();
        assert!(unlimited.is_allowed(&1));
    }
}

#[test]
fn a_dropped_permit_keeps_its_charge_and_a_kept_one_can_be_refunded_elsewhere() {
    let bucket = TokenBucket::<u64>::new(Quota::per_day(3).unwrap()).unwrap();
    let limiter = Limiter::<String, _>::builder(bucket).clock(ManualClock::new()).build::<String>();
    drop(limiter.acquire("a", 1).unwrap());
    assert_eq!(limiter.peek("a").remaining(), 2);
    let permit = limiter.acquire("a", 2).unwrap();
    assert_eq!(permit.decision().remaining(), 0);
    assert!(format!("{permit:?}").contains("\"a\""));
    std::thread::scope(|scope| scope.spawn(move || permit.refund()).join().unwrap());
    assert_eq!(limiter.peek("a").remaining(), 2);
}

#[test]
fn a_limiter_is_shared_behind_an_arc() {
    fn shareable<T: Send + Sync + 'static>(shared: T) -> T {
        shared
    }
    let window = FixedWindow::<u64>::new(Quota::per_day(3).unwrap(), Default::default()).unwrap();
    let limiter = shareable(Arc::new(Limiter::<String, _>::new(window)));
    let other = Arc::clone(&limiter);
    let elsewhere = std::thread::spawn(move || other.check_n("a", 2).remaining()).join().unwrap();
    assert_eq!((elsewhere, limiter.check("a").remaining()), (1, 0));
    assert!(format!("{limiter:?}").contains("FixedWindow"));
}

#[test]
fn a_decision_reads_well_in_a_log() {
    let kind = AlgorithmKind::LeakyBucket { queue: 2 };
    let algorithm = AnyAlgorithm::new(kind, Quota::per_second(4).unwrap()).unwrap();
    let limiter = Limiter::<String, _>::builder(algorithm).clock(ManualClock::new());
    let limiter = limiter.build::<String>();
    assert_eq!(limiter.check("a").to_string(), "admitted, 2 of 3 left");
    assert_eq!(limiter.check("a").to_string(), "admitted, 1 of 3 left, after 250ms");
    assert_eq!(limiter.check_n("a", 2).to_string(), "refused by client limit, retry after 250ms");
    assert_eq!(limiter.check_n("a", 4).to_string(), "refused by client limit, retry never");
    let error: Box<dyn std::error::Error> = Box::new(limiter.acquire("a", 4).unwrap_err());
    assert_eq!(error.to_string(), "refused by client limit, retry never");
}

#[test]
fn every_algorithm_is_made_by_its_name() {
    for name in ["token_bucket", "leaky_bucket", "fixed_window", "sliding_counter"] {
        let kind: AlgorithmKind = name.parse().unwrap();
        assert_eq!(kind.to_string(), name);
        let limiter =
            Limiter::<u64, _>::new(AnyAlgorithm::new(kind, Quota::per_day(1).unwrap()).unwrap());
        assert!(limiter.is_allowed(&1) && !limiter.is_allowed(&1), "{name}");
    }
    for wrong in ["", "token bucket", "TOKEN_BUCKET", "gcra "] {
        assert!(wrong.parse::<AlgorithmKind>().is_err(), "{wrong:?}");
    }
}
