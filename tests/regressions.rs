//! What users of other limiters ran into, and what happens here. Each test names the behaviour and
//! where it was reported (owner/repo#number).

mod common;

use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tollgate::{
    AlgorithmKind, Anchor, AnyAlgorithm, DirectLimiter, LeakyBucket, Limiter, ManualClock, Nanos,
    Quota, RetryAfter, SlidingCounter, TokenBucket,
};

use common::families::{FAMILIES, Numbers, each_limiter_of, each_stream};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 86_400 * SECOND;

fn bucket(limit: u64, period: u64, burst: u64) -> DirectLimiter<AnyAlgorithm> {
    let quota = Numbers::new(limit, period, burst).quota();
    DirectLimiter::new(AnyAlgorithm::new(AlgorithmKind::TokenBucket, quota).unwrap(), ())
}

fn after(nanos: u64) -> RetryAfter {
    RetryAfter::After(Duration::from_nanos(nanos))
}

/// How many of `tries` are admitted at `now`.
fn admitted(limiter: &DirectLimiter<AnyAlgorithm>, now: u64, tries: u64) -> u64 {
    (0..tries).filter(|_| limiter.is_allowed_at(Nanos::new(now), 1)).count() as u64
}

// Concurrency.

/// golang/go#71360, tikv/pd#10745, cadence-workflow/cadence#6030: a stale time put the last update
/// back, and the limit was exceeded thousands of times over.
#[test]
fn shuffled_timestamps_mint_nothing() {
    each_stream(|setup| {
        let (subject, period) = (setup.make(), setup.numbers.period);
        let begin = 1_000 * period;
        // 997 stamps of one period, each once, out of order.
        let stamps = (0..997_u64).map(|i| begin + (period - 1) * (i * 631 % 997) / 997);
        let admitted = stamps.filter(|&now| subject.admits("a", 1, now)).count() as u64;
        let most = match setup.family.bursts {
            true => setup.capacity + setup.numbers.limit,
            false => setup.capacity,
        };
        assert!(admitted >= setup.capacity && admitted <= most, "{}: {admitted}", setup.name);
    });
}

/// praxis-proxy/praxis#1116: an exchange that writes the same value succeeds for every racer, so
/// one token was spent many times.
#[test]
fn the_last_unit_is_spent_once() {
    each_limiter_of(Numbers::new(1, DAY, 1), None, &|setup| {
        for _round in 0..30 {
            let (subject, barrier) = (setup.make(), Barrier::new(4));
            let winners = Mutex::new(0);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        barrier.wait();
                        if subject.admits("a", 1, DAY / 2) {
                            *winners.lock().unwrap() += 1;
                        }
                    });
                }
            });
            assert_eq!(winners.into_inner().unwrap(), 1, "{}", setup.name);
        }
    });
}

/// udoprog/leaky-bucket#39: dropping what was acquired wrote a stale snapshot back.
#[test]
fn dropping_a_permit_writes_nothing() {
    each_limiter_of(Numbers::new(5, DAY, 5), None, &|setup| {
        let subject = setup.make();
        let permit = subject.acquire("a", 1, 0).expect("it fits");
        assert!(subject.check("a", 3, 0).admitted(), "{}", setup.name);
        let before = subject.peek("a", 1, 0);
        drop(permit);
        assert_eq!(subject.peek("a", 1, 0), before, "{}", setup.name);
    });
}

/// twitter/rustcommon#64: a refill added after a separate load gave phantom tokens under
/// contention.
#[test]
fn tokens_that_come_while_others_are_taken_are_counted_once() {
    let clock = ManualClock::new();
    let quota = Numbers::new(1_000, SECOND, 1_000_000).quota();
    let limiter = DirectLimiter::new(TokenBucket::<u64>::new(quota).unwrap(), clock.clone());
    assert!(limiter.check_n(1_000_000).is_admitted());
    let (barrier, total) = (Barrier::new(4), Mutex::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                let mut taken = 0;
                for _ in 0..1_000 {
                    clock.advance(Duration::from_micros(300));
                    taken += u64::from(limiter.is_allowed());
                }
                while limiter.is_allowed() {
                    taken += 1;
                }
                *total.lock().unwrap() += taken;
            });
        }
    });
    while limiter.is_allowed() {
        *total.lock().unwrap() += 1;
    }
    // 4 * 1,000 * 300 us at a token per ms.
    assert_eq!(total.into_inner().unwrap(), 1_200);
}

/// tower-rs/tower#764, tokio-rs/axum#2634: a limit inside a cloned service limited nothing.
#[test]
fn clones_of_the_handle_share_the_limit() {
    let limiter = Arc::new(Limiter::<u64, _>::new(FAMILIES[0].algorithm(Numbers::new(3, DAY, 3))));
    let clones = [Arc::clone(&limiter), Arc::clone(&limiter)];
    let each = clones.map(|clone| (0..3).filter(|_| clone.is_allowed_at(&1, Nanos::ZERO)).count());
    assert_eq!(each, [3, 0]);
}

/// joshrotenberg/tower-resilience#394: the burst was added anew each period.
#[test]
fn a_burst_is_stored_once_and_not_each_period() {
    let limiter = bucket(2, SECOND, 10);
    assert_eq!(admitted(&limiter, 0, 20), 10);
    let each_second: Vec<_> = (1..=5).map(|s| admitted(&limiter, s * SECOND, 20)).collect();
    assert_eq!(each_second, [2; 5]);
}

// Precision, overflow, burst.

/// boinkor-net/governor#107 and #249, udoprog/leaky-bucket#30: one more than the capacity, or as
/// much as one liked, after idling. uber-go/ratelimit#90, #106, #122: after idling the limit was
/// gone, or the slack was.
#[test]
fn idling_gives_the_capacity_and_no_more() {
    each_stream(|setup| {
        for idle in [1, 2, 3, 1_000, 100_000] {
            let subject = setup.make();
            assert!(subject.check("a", setup.capacity, 0).admitted());
            let now = 10 * setup.capacity * setup.numbers.period * idle;
            let admitted = (0..=setup.capacity).filter(|_| subject.admits("a", 1, now)).count();
            assert_eq!(admitted as u64, setup.capacity, "{}", setup.name);
            assert!(!subject.admits("a", 1, now), "{}", setup.name);
        }
    });
}

/// boinkor-net/governor#203: rates above 1e9 per second refused everything, later 600,000,000 per
/// second behaved as 1e9.
#[test]
fn rates_near_and_above_one_per_nanosecond_are_exact() {
    for (limit, per_10_ns) in [(600_000_000, 6), (700_000_000, 7), (2_000_000_000, 20)] {
        let limiter = bucket(limit, SECOND, 50);
        assert_eq!(admitted(&limiter, 0, 99), 50);
        assert_eq!(admitted(&limiter, 10, 99), per_10_ns, "{limit}");
        assert_eq!(admitted(&limiter, 20, 99), per_10_ns, "{limit}");
        let each_ns: u64 = (21..=1_020).map(|now| admitted(&limiter, now, 9)).sum();
        assert_eq!(each_ns, 100 * per_10_ns, "{limit}");
    }
}

/// boinkor-net/governor#102, #157: what remains was wrong once time had passed.
#[test]
fn what_remains_grows_with_the_time() {
    let limiter = bucket(1, SECOND, 5);
    assert!(limiter.is_allowed_at(Nanos::ZERO, 5));
    for second in 0..=9 {
        let now = Nanos::new(second * SECOND + SECOND / 2);
        assert_eq!(limiter.peek_at(now, 1).remaining(), second.min(5));
    }
}

/// boinkor-net/governor#11: one more than the burst was "not yet", and its future never finished.
#[test]
fn one_more_than_the_burst_is_never_and_the_burst_is_later() {
    each_stream(|setup| {
        let subject = setup.make();
        assert!(subject.check("a", 1, 0).admitted());
        let wait = |cost| subject.peek("a", cost, 0).reading.retry_after;
        assert_eq!(wait(setup.capacity + 1), RetryAfter::Never, "{}", setup.name);
        assert!(matches!(wait(setup.capacity), RetryAfter::After(_)), "{}", setup.name);
    });
}

/// bucket4j/bucket4j#51: elapsed time times limit overflowed, and everything was refused.
#[test]
fn a_long_idle_bucket_is_full() {
    for hours in [12, 24 * 365, 9 * 24 * 365] {
        let limiter = bucket(700_000, 3_600 * SECOND, 700_000);
        assert!(limiter.is_allowed_at(Nanos::ZERO, 700_000));
        let now = Nanos::new(hours * 3_600 * SECOND);
        assert!(limiter.check_at(now, 700_000).is_admitted(), "{hours}");
        assert_eq!(limiter.check_at(now, 1).retry_after(), after(5_142_858));
    }
}

/// golang/go#71154: a tiny limit overflowed the wait to none, and the limiter was jammed open.
#[test]
fn a_tiny_rate_stays_shut() {
    for family in FAMILIES {
        // The log's longest period is 2.28 years: it is asked as long as a year is left of that.
        let period = family.most_period().min(10_000_000_000_000_000_000);
        let numbers = Numbers::new(1, period, 1);
        let limiter = DirectLimiter::new(family.algorithm(numbers), ());
        assert!(limiter.is_allowed_at(Nanos::ZERO, 1), "{}", family.name);
        let times = [0, 1, SECOND, 365 * DAY, 9 * 365 * DAY].into_iter();
        for now in times.filter(|now| now + 365 * DAY < period) {
            let decision = limiter.check_at(Nanos::new(now), 1);
            assert!(decision.is_refused(), "{} at {now}", family.name);
            let wait = decision.retry_after();
            assert!(wait > after(365 * DAY), "{} at {now}: {wait}", family.name);
        }
    }
}

/// golang/go#34861, #46579: 0.9999 of a token, and nanoseconds cut off.
#[test]
fn thirds_of_a_second_do_not_drift() {
    // A burst of two: a full bucket would keep no part of the token to come.
    let limiter = bucket(3, SECOND, 2);
    assert!(limiter.is_allowed_at(Nanos::ZERO, 2));
    for second in 0..1_000 {
        for third in [333_333_334, 666_666_667, 1_000_000_000] {
            let now = second * SECOND + third;
            assert_eq!(admitted(&limiter, now - 1, 1), 0, "{now}");
            assert_eq!(admitted(&limiter, now, 2), 1, "{now}");
        }
    }
}

/// golang/go#47221, #39984, #68541: limit 0 divided by zero, or drained the burst.
#[test]
fn nothing_and_everything_are_no_numbers() {
    assert!(Quota::per_second(0).is_err() && Quota::new(5, Duration::ZERO).is_err());
    assert!(Quota::per_second(5).unwrap().with_burst(0).is_err());
}

/// google/guava#1707, #1974, #5372, #7130: unused permits were stored whether one wanted or not,
/// and a huge cost passed at once.
#[test]
fn strict_pacing_stores_nothing_and_a_huge_cost_never_passes() {
    let pacing = LeakyBucket::<u64>::new(Quota::per_second(10).unwrap(), 0).unwrap();
    let limiter = DirectLimiter::new(pacing, ());
    for now in [0, 1_000 * SECOND, 1_000 * SECOND + 100_000_000] {
        assert!(limiter.is_allowed_at(Nanos::new(now), 1));
        assert!(!limiter.is_allowed_at(Nanos::new(now + 99_999_999), 1));
    }
    assert_eq!(limiter.check_at(Nanos::MAX, 1_000).retry_after(), RetryAfter::Never);
}

/// symfony/symfony#65193: an enormous burst overflowed, and was cut when stored.
#[test]
fn an_enormous_burst_is_kept_or_refused_but_never_cut() {
    for burst in [1 << 32, 1 << 53, (1 << 63) - 1, u64::MAX] {
        let quota = Numbers::new(1, 365 * DAY, burst).quota();
        match AnyAlgorithm::new(AlgorithmKind::TokenBucket, quota) {
            Ok(algorithm) => {
                let limiter = DirectLimiter::new(algorithm, ());
                assert_eq!(limiter.peek_at(Nanos::ZERO, 1).remaining(), burst);
                assert!(limiter.is_allowed_at(Nanos::ZERO, burst));
                assert!(!limiter.is_allowed_at(Nanos::ZERO, 1));
            }
            Err(error) => assert!(error.to_string().contains("smaller burst"), "{error}"),
        }
    }
}

/// scylladb/seastar#1723: rounding biased the rate, and a wait of zero made a busy loop.
#[test]
fn who_waits_as_told_is_admitted_each_time_and_gets_the_exact_rate() {
    for (limit, period) in [(3, 10), (7, 11), (29, 1_000), (750, SECOND), (7, MINUTE)] {
        let limiter = bucket(limit, period, 2);
        assert!(limiter.is_allowed_at(Nanos::ZERO, 2));
        let (mut now, mut count) = (0, 0);
        while now < 100 * period {
            // At these rates there is never more than one at once, so each time it waits.
            let RetryAfter::After(wait) = limiter.check_at(Nanos::new(now), 1).retry_after() else {
                panic!("{limit} per {period}: a wait of nothing");
            };
            now += wait.as_nanos() as u64;
            assert!(limiter.is_allowed_at(Nanos::new(now), 1), "{limit} per {period} at {now}");
            count += 1;
        }
        assert_eq!(count, 100 * limit, "{limit} per {period}");
    }
}

/// apache/apisix#7804, openresty/lua-resty-limit-traffic#50: milliseconds were too coarse.
#[test]
fn a_million_per_second_is_one_each_microsecond() {
    let limiter = bucket(1_000_000, SECOND, 1);
    for micro in 0..5_000 {
        assert_eq!(admitted(&limiter, micro * 1_000, 3), 1);
        assert_eq!(admitted(&limiter, micro * 1_000 + 999, 3), 0);
    }
}

/// AaronErhardt/actix-governor#49, varun29ankuS/shodh-memory#58, rwilliamspbg-ops/Ghostlink#226:
/// `per_second(n)` meant one per n seconds. traefik/traefik#4549, #8330, #10298: what average,
/// period and burst mean was unclear.
#[test]
fn per_second_means_so_many_each_second_and_a_quota_says_so() {
    let quota = Quota::per_second(5).unwrap().with_burst(10).unwrap();
    assert_eq!(quota.to_string(), "5 per 1s, burst 10");
    let limiter = DirectLimiter::new(TokenBucket::<u64>::new(quota).unwrap(), ());
    let count = |now| (0..99).filter(|_| limiter.is_allowed_at(Nanos::new(now), 1)).count();
    assert_eq!([count(0), count(SECOND), count(2 * SECOND)], [10, 5, 5]);
}

/// upstash/ratelimit-js#156: what was refused drained tokens all the same.
#[test]
fn what_is_refused_drains_nothing() {
    each_limiter_of(Numbers::new(10, DAY, 10), None, &|setup| {
        let subject = setup.make();
        assert!(subject.check("a", 8, 0).admitted(), "{}", setup.name);
        for _ in 0..100 {
            assert!(!subject.check("a", 5, 0).admitted(), "{}", setup.name);
        }
        assert!(subject.check("a", 2, 0).admitted(), "{}", setup.name);
    });
}

// Clocks.

/// sethvargo/go-limiter#41, ProfessionalWiki/MediaWiki-MCP-Server#557, apache/pulsar#23930: a clock
/// that leapt forward and back refilled what it should not have.
#[test]
fn a_leap_and_its_return_give_one_refill() {
    each_stream(|setup| {
        let (subject, now) = (setup.make(), 1_000 * setup.numbers.period);
        let count = |now| {
            let tries = 0..2 * setup.capacity;
            tries.filter(|_| subject.admits("a", 1, now)).count() as u64
        };
        let leap = now + 100 * setup.capacity * setup.numbers.period;
        let counts =
            [count(now), count(leap), count(now), count(leap), count(now + 1), count(leap)];
        let once = setup.capacity;
        assert_eq!(counts, [once, once, 0, 0, 0, 0], "{}", setup.name);
    });
}

// Composition, refunds, waits.

/// golang/go#56924, #69419, thrasher-corp/gocryptotrader#2371: cancelling gave too little back, or
/// nothing. udoprog/leaky-bucket#17, get-convex/rate-limiter#44, bandwidth-throttle/token-bucket#25:
/// two limits granted, the third refused, and nobody could undo the two.
#[test]
fn what_was_granted_for_nothing_is_given_back_whole() {
    each_limiter_of(Numbers::new(5, DAY, 5), None, &|setup| {
        let subject = setup.make();
        let first = subject.acquire("first", 5, 0).expect("it fits");
        let second = subject.acquire("second", 3, 0).expect("it fits");
        assert!(subject.check("third", 5, 0).admitted(), "{}", setup.name);
        assert!(subject.acquire("third", 1, 0).is_err(), "{}", setup.name);
        first(1);
        second(1);
        for key in ["first", "second"] {
            assert_eq!(subject.peek(key, 0, 1).reading.remaining, 5, "{}", setup.name);
        }
    });
}

/// brandur/redis-cell#56, fastify/fastify-rate-limit#325, hashicorp/boundary#4094: the seconds of
/// Retry-After were rounded down, and the client was refused again.
#[test]
fn the_seconds_told_are_enough_and_never_none() {
    for family in FAMILIES {
        for period in [SECOND - 1, SECOND, SECOND + 1, 1, MINUTE + 1] {
            let limiter = DirectLimiter::new(family.algorithm(Numbers::new(1, period, 1)), ());
            let now = 1_000 * period;
            assert!(limiter.is_allowed_at(Nanos::new(now), 1));
            let told = limiter.check_at(Nanos::new(now), 1).retry_after().as_secs_ceil().unwrap();
            assert!(told >= 1, "{}", family.name);
            assert!(limiter.is_allowed_at(Nanos::new(now + told * SECOND), 1), "{}", family.name);
        }
    }
}

/// dotnet/runtime#92557, #129036, #77991, dotnet/aspnetcore#52411, go-chi/httprate#47: the wait was
/// the whole window, or missing.
#[test]
fn a_wait_ends_with_the_window_and_counts_what_has_come_already() {
    let minute = |kind| AnyAlgorithm::new(kind, Quota::per_minute(60).unwrap()).unwrap();
    let wait = |kind, cost| {
        let limiter = DirectLimiter::new(minute(kind), ());
        let full = Nanos::new(5 * MINUTE + 15 * SECOND);
        assert!(limiter.is_allowed_at(full, 60));
        limiter.check_at(full.saturating_add(Duration::from_millis(30_400)), cost).retry_after()
    };
    let aligned = AlgorithmKind::FixedWindow { anchor: Anchor::Aligned };
    let anchored = AlgorithmKind::FixedWindow { anchor: Anchor::FirstRequest };
    assert_eq!(wait(aligned, 1), after(14_600_000_000));
    assert_eq!(wait(anchored, 1), after(29_600_000_000));
    assert_eq!(wait(AlgorithmKind::TokenBucket, 31), after(600_000_000));
    // Of 60 in the window before, 59 are left one second into the next.
    assert_eq!(wait(AlgorithmKind::SlidingCounter, 1), after(15_600_000_000));
}

/// rack/rack-attack#121: twice the limit at the edge of a fixed window. It is so here too, and
/// said; the counter does not.
#[test]
fn only_a_fixed_window_admits_twice_the_limit_at_its_edge() {
    let around = |algorithm: AnyAlgorithm| {
        let limiter = DirectLimiter::new(algorithm, ());
        admitted(&limiter, 6 * MINUTE - 1, 9) + admitted(&limiter, 6 * MINUTE, 9)
    };
    let quota = Quota::per_minute(5).unwrap();
    let aligned = AlgorithmKind::FixedWindow { anchor: Anchor::Aligned };
    assert_eq!(around(AnyAlgorithm::new(aligned, quota).unwrap()), 10);
    let counter = SlidingCounter::new(quota).unwrap();
    assert_eq!(around(AnyAlgorithm::SlidingCounter(counter)), 5);
}

#[test]
fn an_error_never_names_a_bound_that_was_kept() {
    // One unit takes longer to come back than a 64-bit word can tell, whatever the queue.
    let quota = Quota::new(1, Duration::from_nanos(u64::MAX)).unwrap();
    let bucket = LeakyBucket::<u64>::new(quota, 0).unwrap_err().to_string();
    assert!(bucket.starts_with("period in ns 18446744073709551615: at most "), "{bucket}");
    let bucket = TokenBucket::<u64>::new(quota).unwrap_err().to_string();
    assert!(bucket.starts_with("period in ns 18446744073709551615: at most "), "{bucket}");
}
