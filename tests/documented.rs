//! The numbers that the documentation states.

mod common;

use std::time::Duration;

use tollgate::{
    Algorithm, AlgorithmKind, Anchor, AnyAlgorithm, DirectLimiter, FixedWindow, LeakyBucket, Nanos,
    Quota, QuotaError, SlidingCounter, TokenBucket,
};

use common::asking::ask;
use common::families::{FAMILIES, Family, Numbers, built, words};
use common::oracle::Oracle;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const DAY: u64 = 86_400 * SECOND;
const YEAR: u64 = 365 * DAY;
const TEN_YEARS: u64 = 3_652 * DAY;

fn quota(limit: u64, period: u64) -> Quota {
    Quota::new(limit, Duration::from_nanos(period)).unwrap()
}

/// Takes all that is to be had at `now`, one unit at a time, `most` at most.
fn take_all<A: Algorithm>(limiter: &DirectLimiter<A>, now: u64, most: usize) -> u64 {
    let tries = std::iter::repeat_with(|| limiter.is_allowed_at(Nanos::new(now), 1));
    tries.take(most).take_while(|&admitted| admitted).count() as u64
}

#[test]
fn each_algorithm_takes_the_whole_u32_range_from_a_millisecond_to_a_year() {
    for family in FAMILIES {
        // All but the log, which keeps each unit.
        let most = u64::from(u32::MAX).min(family.most_limit());
        for limit in [1, most] {
            for period in [MILLI, YEAR] {
                for capacity in [1, most] {
                    let numbers = Numbers::new(limit, period, capacity);
                    let made = AnyAlgorithm::new(family.kind_for(numbers), numbers.quota());
                    let made = made.unwrap_or_else(|error| panic!("{}: {error}", family.name));
                    let mut state = made.fresh(Nanos::ZERO);
                    let capacity = family.capacity(numbers);
                    let mut take = |cost| {
                        ask(&made, &mut state, |state| made.acquire(state, Nanos::ZERO, cost))
                    };
                    assert!(take(capacity).is_some());
                    assert!(take(1).is_none());
                }
            }
        }
    }
}

#[test]
fn a_quota_is_one_per_year_to_billions_per_second() {
    for (limit, period) in [(1, YEAR), (1_000_000_000, SECOND), (20_000_000_000, SECOND)] {
        for family in FAMILIES {
            let numbers = Numbers::new(limit, period, 10);
            let made = AnyAlgorithm::new(family.kind_for(numbers), numbers.quota());
            assert_eq!(made.is_ok(), limit <= family.most_limit(), "{}", family.name);
        }
    }
    assert!(Quota::new(u64::MAX, Duration::from_nanos(u64::MAX)).is_ok());
    let too_long = Quota::new(1, Duration::from_nanos(u64::MAX) + Duration::from_nanos(1));
    assert!(matches!(too_long, Err(QuotaError::PeriodTooLong { .. })));
}

#[test]
fn a_narrow_fixed_window_holds_limits_below_2_32_from_150_ms() {
    let narrow = |limit, period, anchor| FixedWindow::<u64>::new(quota(limit, period), anchor);
    assert!(narrow((1 << 32) - 1, 150 * MILLI, Anchor::Aligned).is_ok());
    assert!(narrow((1 << 32) - 1, 150 * MILLI / 2, Anchor::Aligned).is_err());
    for period in [1, SECOND, YEAR] {
        assert!(narrow(15, period, Anchor::FirstRequest).is_ok());
        assert!(narrow(16, period, Anchor::FirstRequest).is_err());
        assert!(FixedWindow::<u128>::new(quota(16, period), Anchor::FirstRequest).is_ok());
    }
}

#[test]
fn a_sliding_counter_holds_the_limits_that_it_says() {
    assert!(SlidingCounter::<u64>::new(quota((1 << 15) - 1, 40 * MILLI)).is_ok());
    assert!(SlidingCounter::<u64>::new(quota(1 << 15, 40 * MILLI / 2)).is_err());
    assert!(SlidingCounter::<u128>::new(quota((1 << 34) - 1, 1)).is_ok());
    assert!(SlidingCounter::<u128>::new(quota(1 << 34, 1)).is_err());
    assert!(SlidingCounter::<u128>::new(quota((1 << 44) - 1, MILLI)).is_ok());
    assert!(SlidingCounter::<u128>::new(quota(1 << 44, MILLI)).is_err());
}

#[test]
fn a_narrow_bucket_is_exact_up_to_29_units_per_nanosecond_fraction() {
    for units in [1, 2, 28, 29] {
        let rate = quota(units, SECOND + 7).rate();
        let bucket = TokenBucket::<u64>::new(quota(units, SECOND + 7)).unwrap();
        assert_eq!(bucket.effective_rate(), rate);
        let bucket = LeakyBucket::<u64>::new(quota(units, SECOND + 7), 3).unwrap();
        assert_eq!(bucket.effective_rate(), rate);
    }
    let narrow = TokenBucket::<u64>::new(quota(31, SECOND + 7)).unwrap().effective_rate();
    assert!(narrow < quota(31, SECOND + 7).rate());
    let wide = TokenBucket::<u128>::new(quota(31, SECOND + 7)).unwrap().effective_rate();
    assert_eq!(wide, quota(31, SECOND + 7).rate());
}

/// Whether the algorithm answers as the exact oracle around `now`.
fn is_exact_at(family: Family, numbers: Numbers, algorithm: &AnyAlgorithm, now: u64) -> bool {
    let (rule, figures) = family.terms(numbers, algorithm);
    let (mut oracle, mut state) = (Oracle::new(rule, figures), algorithm.fresh(Nanos::ZERO));
    let steps = [0, 1, numbers.period / 3, numbers.period / 2, numbers.period, numbers.period];
    let times = steps.into_iter().scan(now.saturating_sub(3 * numbers.period), |now, step| {
        *now += step;
        Some(*now)
    });
    times.take_while(|&time| time <= now).chain([now, now]).all(|now| {
        let cost = oracle.peek(now, 1).remaining.div_ceil(2).max(1);
        let (_, expected) = oracle.check(now, cost);
        let at = Nanos::new(now);
        let (_, got) = ask(algorithm, &mut state, |state| algorithm.check(state, at, cost));
        (expected.admitted, expected.remaining) == (got.admitted, got.remaining)
    })
}

#[test]
fn every_word_lasts_ten_years() {
    let periods = [1, 20, MILLI, SECOND, DAY, 229 * DAY, 243 * DAY, YEAR, 5 * YEAR, 9 * YEAR];
    for period in periods {
        for limit in [1, 3, 15] {
            let numbers = Numbers::new(limit, period, limit);
            for (name, family, algorithm) in built(numbers) {
                for now in [TEN_YEARS - 1, TEN_YEARS - period / 2 - 1, TEN_YEARS - period] {
                    assert!(is_exact_at(family, numbers, &algorithm, now), "{name} at {now}");
                }
            }
        }
    }
}

#[test]
fn a_bucket_lasts_292_years_at_scale_1_and_584_in_the_wide_word() {
    let (numbers, bucket) = (Numbers::new(1, SECOND, 5), FAMILIES[0]);
    let narrow = AnyAlgorithm::TokenBucket(TokenBucket::new(numbers.quota()).unwrap());
    assert!(is_exact_at(bucket, numbers, &narrow, 292 * YEAR));
    for limit in [1, 29, 999_999_937] {
        let numbers = Numbers::new(limit, SECOND, 5);
        let wide = AnyAlgorithm::WideTokenBucket(TokenBucket::new(numbers.quota()).unwrap());
        assert!(is_exact_at(bucket, numbers, &wide, u64::MAX - 1), "{limit}");
    }
}

#[test]
fn after_its_life_a_word_errs_on_the_side_of_refusing() {
    for numbers in [Numbers::new(3, 1, 3), Numbers::new(7, SECOND, 7), Numbers::new(5, YEAR, 5)] {
        for (name, family, algorithm) in built(numbers) {
            let limiter = DirectLimiter::new(algorithm, ());
            for now in [u64::MAX - 1, u64::MAX] {
                let admitted = take_all(&limiter, now, 100);
                let most = family.capacity(numbers) + numbers.limit / numbers.period;
                assert!(admitted <= most, "{name} at {now}: {admitted}");
            }
            let more = take_all(&limiter, u64::MAX, 100);
            assert_eq!(more, 0, "{name}: the last instant goes on and on");
        }
    }
}

#[test]
fn the_bound_in_any_period_is_what_the_table_says() {
    let numbers = Numbers::new(10, SECOND, 6);
    for family in FAMILIES {
        // As much as can be had in one half-open period: at the end of a window and on through the
        // next, or full at its beginning and on as it refills.
        let most = (0..10).map(|tenth| {
            let limiter = DirectLimiter::new(family.algorithm(numbers), ());
            let begin = 7 * SECOND + tenth * SECOND / 10;
            // A window that is older than the period counts for the anchored kind.
            let early = begin - SECOND / 2;
            let first = take_all(&limiter, early, 1);
            let period = (0..1_000).map(|i| take_all(&limiter, begin + i * SECOND / 1_000, 100));
            (first, period.sum::<u64>())
        });
        let most = most.map(|(_, most)| most).max().unwrap();
        let (least, bound) = match family.name {
            "token_bucket" | "leaky_bucket" => (6 + 9, 6 + 10),
            "fixed_window" | "anchored_window" => (2 * 10 - 1, 2 * 10),
            "sliding_counter" => (10, 2 * 10 - 1),
            "sliding_log" => (10, 10),
            name => panic!("{name}: the table says nothing"),
        };
        assert!((least..=bound).contains(&most), "{}: {most}", family.name);
    }
}

#[test]
fn work_leaves_a_leaky_bucket_evenly_spaced() {
    for queue in [0, 1, 5] {
        let limiter =
            DirectLimiter::new(LeakyBucket::<u64>::new(quota(3, 100), queue).unwrap(), ());
        let mut leaving = Vec::new();
        for now in 0..5_000 {
            let decision = limiter.check_at(Nanos::new(now), 1);
            assert!(decision.is_admitted() || decision.delay().is_zero());
            if decision.is_admitted() {
                leaving.push(now + decision.delay().as_nanos() as u64);
            }
        }
        // An interval is 33 1/3 ns, and each leaves at a whole nanosecond.
        for (earlier, pair) in leaving.windows(2).enumerate() {
            let gap = pair[1] - pair[0];
            assert!((33..=34).contains(&gap), "queue {queue}, {earlier}: {gap}");
        }
        for four in leaving.windows(4) {
            assert!(four[3] - four[0] >= 100, "queue {queue}: {four:?}");
        }
        // Without a queue nothing comes in between two whole nanoseconds: it is 34 each time.
        let least = if queue == 0 { 5_000 / 34 } else { 5_000 * 3 / 100 };
        assert!(leaving.len() >= least, "queue {queue}: {}", leaving.len());
    }
}

#[test]
fn a_leap_forward_is_believed() {
    for family in FAMILIES {
        let limiter = DirectLimiter::new(family.algorithm(Numbers::new(2, SECOND, 2)), ());
        assert_eq!(take_all(&limiter, 0, 9), 2, "{}", family.name);
        assert_eq!(take_all(&limiter, 9 * YEAR, 9), 2, "{}", family.name);
    }
}

#[test]
fn time_saturates() {
    let max = Nanos::MAX;
    assert_eq!(max.get(), u64::MAX);
    assert_eq!(max.saturating_add(Duration::MAX), max);
    assert_eq!(Nanos::ZERO.saturating_add(Duration::from_nanos(5)), Nanos::new(5));
    assert_eq!(Nanos::ZERO.saturating_since(max), Duration::ZERO);
    assert_eq!(max.saturating_since(Nanos::ZERO), Duration::from_nanos(u64::MAX));
    assert_eq!(Nanos::from(Duration::MAX), max);
    assert_eq!(Nanos::default(), Nanos::ZERO);
    assert_eq!(Duration::from_nanos(u64::MAX).as_secs() / (365 * 86_400), 584, "years");
}

#[test]
fn the_narrowest_word_that_holds_the_quota_is_chosen() {
    for family in FAMILIES {
        for numbers in [Numbers::new(10, SECOND, 10), Numbers::new(1 << 33, SECOND, 1 << 33)] {
            let kind = family.kind_for(numbers);
            let chosen = AnyAlgorithm::new(kind, numbers.quota()).ok();
            assert_eq!(chosen.is_some(), numbers.limit <= family.most_limit(), "{}", family.name);
            let words = words(kind, numbers.quota());
            let narrowest = words.into_iter().find_map(|(_, made)| made.ok());
            assert_eq!(chosen, narrowest, "{}", family.name);
        }
    }
    let kind = AlgorithmKind::FixedWindow { anchor: Anchor::default() };
    let aligned = AlgorithmKind::FixedWindow { anchor: Anchor::Aligned };
    assert_eq!((kind, "fixed_window".parse()), (aligned, Ok(aligned)));
}
