//! A decision on a known client allocates nothing, whatever it answers (invariant I8).

mod common;

use allocation_counter::measure;
use tollgate::{
    Algorithm, AnyAlgorithm, DirectLimiter, InFlight, Limit, Limiter, ManualClock, Nanos, Stack,
};

use common::families::{Numbers, built};
use common::subject::Ours;

const YEAR: u64 = 365 * 86_400_000_000_000;
const BEFORE: Nanos = Nanos::new(YEAR / 3);
/// When what was admitted before no longer counts, where the period is a year.
const NOW: Nanos = Nanos::new(BEFORE.get() + YEAR);

/// Every algorithm in every word: for the usual numbers, and for some that need the wide one.
fn each_algorithm(test: impl Fn(&str, AnyAlgorithm)) {
    for numbers in [Numbers::new(10, YEAR, 10), Numbers::new(10, 1 << 62, 10)] {
        for (name, _, algorithm) in built(numbers) {
            test(&name, algorithm);
        }
    }
}

fn limiter(algorithm: AnyAlgorithm, cap: Option<AnyAlgorithm>) -> Ours {
    let builder = Limiter::<String, _>::builder(algorithm).clock(ManualClock::starting_at(NOW));
    let builder = builder.max_clients(100);
    match cap {
        Some(cap) => builder.global(cap).build::<String>(),
        None => builder.build::<String>(),
    }
}

/// Brings a log to its final form and room, which allocates: it grows up to its limit, and turns
/// when units first come back. Every other algorithm is final from the start.
fn warm_up<G>(
    algorithm: &AnyAlgorithm,
    acquire: impl Fn() -> G,
    refund: impl Fn(G),
    credit: impl Fn(),
) {
    if matches!(algorithm, AnyAlgorithm::SlidingLog(_)) {
        let grants: Vec<_> = (0..algorithm.limit()).map(|_| acquire()).collect();
        grants.into_iter().take(1).for_each(refund);
        credit();
    }
}

/// [`warm_up`] of the known client, and of the cap if there is one.
fn warm_up_known(limiter: &Ours, algorithm: &AnyAlgorithm) {
    let acquire = || limiter.acquire_at("known", 1, BEFORE).unwrap();
    let credit = || limiter.credit_at("known", 1, BEFORE);
    warm_up(algorithm, acquire, |permit| permit.refund_at(BEFORE), credit);
}

/// How many allocations `work` makes on this thread.
fn allocations(work: impl FnOnce()) -> u64 {
    measure(work).count_total
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| ()), 0);
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
    each_algorithm(|name, algorithm| {
        let limiter = limiter(algorithm.clone(), None);
        let newcomer = allocations(|| assert!(limiter.is_allowed("newcomer")));
        assert!(newcomer > 0, "{name}: a newcomer needs a key and an entry");
    });
}

/// Everything that can be asked of a known client that has spent all but two of its units.
fn ask_everything(limiter: &Ours, name: &str) {
    let hits = allocations(|| {
        assert!(limiter.is_allowed("known"));
        assert!(limiter.check("known").is_admitted());
        assert!(limiter.check_n("known", 0).is_admitted());
    });
    assert_eq!(hits, 0, "{name}: hits");
    let refusals = allocations(|| {
        assert!(!limiter.is_allowed("known"));
        assert!(limiter.check("known").is_refused());
        assert!(limiter.check_n("known", 5).is_refused());
        assert!(limiter.check_n("known", u64::MAX).is_refused());
        assert!(limiter.acquire("known", 1).is_err());
    });
    assert_eq!(refusals, 0, "{name}: refusals");
    let peeks = allocations(|| {
        assert!(limiter.peek("known").is_refused());
        assert!(limiter.peek_n("known", 0).is_admitted());
    });
    assert_eq!(peeks, 0, "{name}: peeks");
    let credits = allocations(|| limiter.credit("known", 3));
    assert_eq!(credits, 0, "{name}: credit");
}

#[test]
fn a_known_client_is_answered_without_allocating() {
    each_algorithm(|name, algorithm| {
        let limiter = limiter(algorithm.clone(), None);
        warm_up_known(&limiter, &algorithm);
        assert!(limiter.check_n("known", 8).is_admitted());
        ask_everything(&limiter, name);
        let refunds = allocations(|| {
            for cost in [1, 2, 3] {
                limiter.acquire("known", cost).unwrap().refund();
            }
        });
        assert!(refunds <= one_rewrite(&algorithm), "{name}: refunds");
    });
}

#[test]
fn nor_under_a_global_cap() {
    each_algorithm(|name, algorithm| {
        // The cap refuses in the first, the client in the second.
        let wider = built(Numbers::new(100, YEAR, 100))[0].2.clone();
        for cap in [algorithm.clone(), wider] {
            let limiter = limiter(algorithm.clone(), Some(cap));
            warm_up_known(&limiter, &algorithm);
            assert!(limiter.check_n("known", 8).is_admitted());
            ask_everything(&limiter, name);
        }
    });
}

#[test]
fn nor_does_one_stream() {
    each_algorithm(|name, algorithm| {
        let limiter = DirectLimiter::new(algorithm.clone(), ManualClock::starting_at(NOW));
        let acquire = || limiter.acquire_at(BEFORE, 1).unwrap();
        let refund = |grant| limiter.refund_at(BEFORE, grant);
        warm_up(&algorithm, acquire, refund, || limiter.credit_at(BEFORE, 1));
        let count = allocations(|| {
            assert!(limiter.is_allowed() && limiter.check_n(9).is_admitted());
            assert!(limiter.check().is_refused() && limiter.peek_n(1).is_refused());
            limiter.credit(4);
            let grant = limiter.acquire(4).unwrap();
            limiter.refund(grant);
            assert!(limiter.check_n(4).is_admitted());
        });
        assert!(count <= one_rewrite(&algorithm), "{name}");
    });
}

/// A log is rewritten when the places of units that came back have used up its room: once here, for
/// a third of its slots at least. It needs a ring, its holder, and the entry with its key.
fn one_rewrite(algorithm: &AnyAlgorithm) -> u64 {
    if matches!(algorithm, AnyAlgorithm::SlidingLog(_)) { 4 } else { 0 }
}

#[test]
fn nor_does_a_client_with_several_limits() {
    let numbers = Numbers::new(10, YEAR, 10);
    let limits = built(numbers).into_iter().filter(|(.., algorithm)| one_rewrite(algorithm) == 0);
    let names = ["a", "b", "c"];
    let limits = names
        .into_iter()
        .zip(limits.step_by(2))
        .map(|(name, (.., algorithm))| Limit::new(name, algorithm));
    let in_flight = Limit::new("open", InFlight::new(3).unwrap());
    let stack = AnyAlgorithm::from(Stack::new(limits.chain([in_flight])).unwrap());
    let limiter = limiter(stack, None);
    assert!(limiter.check_n("known", 8).is_admitted());
    ask_everything(&limiter, "a stack");
    let permits = allocations(|| {
        limiter.acquire("known", 1).unwrap().refund();
        limiter.acquire("known", 2).unwrap().settle(1);
        limiter.acquire("known", 1).unwrap().settle(2);
        limiter.client("known").credit(2);
        drop(limiter.acquire("known", 1).unwrap());
        let (permit, explained) = limiter.client("known").acquire_explained(9);
        assert!(permit.is_none() && explained.refusing().count() == 3);
    });
    assert_eq!(permits, 0);
}

#[test]
fn a_roll_of_the_window_allocates_nothing_either() {
    for (name, _, algorithm) in built(Numbers::new(3, 1_000, 3)) {
        let limiter = limiter(algorithm.clone(), None);
        assert!(limiter.is_allowed_at("known", Nanos::ZERO));
        let count = allocations(|| {
            let times = (0..5_000).step_by(100).map(Nanos::new);
            assert!(times.filter(|&now| limiter.is_allowed_at("known", now)).count() > 3);
        });
        assert_eq!(count, 0, "{name}");
    }
}
