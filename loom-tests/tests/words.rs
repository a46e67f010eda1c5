//! Check-and-take, refund and freeze on one word, for every word algorithm.

#![cfg(tollgate_loom)]

use loom::sync::Arc;
use loom::thread;
use tollgate::{
    Algorithm, Anchor, FixedWindow, LeakyBucket, Nanos, Quota, SlidingCounter, TokenBucket,
};
use tollgate_loom_tests::explore;

const NOW: Nanos = Nanos::new(1);

/// Runs `model` once for each algorithm, with room for exactly `$limit` units at [`NOW`].
macro_rules! for_each_algorithm {
    ($test:ident, $limit:expr, $model:ident) => {
        #[test]
        fn $test() {
            let name = |algorithm| format!("{}/{algorithm}", stringify!($test));
            let limit = $limit;
            let quota = move || Quota::per_second(limit).unwrap();
            let fixed = move || FixedWindow::<u64>::new(quota(), Anchor::Aligned).unwrap();
            let anchored = move || FixedWindow::<u128>::new(quota(), Anchor::FirstRequest).unwrap();
            let leaky = move || LeakyBucket::<u64>::new(quota(), limit - 1).unwrap();
            $model(&name("token bucket"), move || TokenBucket::<u64>::new(quota()).unwrap());
            $model(&name("wide token bucket"), move || TokenBucket::<u128>::new(quota()).unwrap());
            $model(&name("leaky bucket"), leaky);
            $model(&name("fixed window"), fixed);
            $model(&name("anchored window"), anchored);
            $model(&name("sliding counter"), move || SlidingCounter::<u64>::new(quota()).unwrap());
        }
    };
}

fn admitted<A: Algorithm>(algorithm: &A, state: &A::State, cost: u64) -> u64 {
    algorithm.acquire(state, NOW, cost).unwrap().map_or(0, |_| cost)
}

/// Units that are admitted one by one until none is left.
fn left<A: Algorithm>(algorithm: &A, state: &A::State) -> u64 {
    (0..).take_while(|_| admitted(algorithm, state, 1) == 1).count() as u64
}

/// Two threads take; together with what is left they get the limit, exactly.
fn take_against_take<A>(name: &str, make: impl Fn() -> A + Send + Sync + 'static)
where
    A: Algorithm + Send + Sync + 'static,
    A::State: 'static,
{
    explore(name, move || {
        let algorithm = make();
        let shared = Arc::new((algorithm.fresh(Nanos::ZERO), algorithm));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || admitted(&shared.1, &shared.0, 1))
        };
        let mine = admitted(&shared.1, &shared.0, 1);
        let theirs = other.join().unwrap();
        let limit = shared.1.limit();
        assert_eq!(mine + theirs + left(&shared.1, &shared.0), limit);
        assert!(mine + theirs >= 1, "both were refused");
    });
}

for_each_algorithm!(take_against_take_at_the_last_unit, 1, take_against_take);
for_each_algorithm!(take_against_take_with_room_for_both, 3, take_against_take);

/// A refund against a take: what was given back is there once, whoever comes first.
fn refund_against_take<A>(name: &str, make: impl Fn() -> A + Send + Sync + 'static)
where
    A: Algorithm + Send + Sync + 'static,
    A::State: 'static,
    A::Grant: 'static,
{
    explore(name, move || {
        let algorithm = make();
        let state = algorithm.fresh(Nanos::ZERO);
        let grant = algorithm.acquire(&state, NOW, 1).unwrap().unwrap();
        let shared = Arc::new((state, algorithm));
        // The taker is the spawned thread: loom backtracks from a load to the exchange before it,
        // not from an exchange to a load that another load of its own thread followed.
        let taker = {
            let shared = shared.clone();
            thread::spawn(move || admitted(&shared.1, &shared.0, 1))
        };
        shared.1.refund(&shared.0, NOW, grant).unwrap();
        let taken = taker.join().unwrap();
        assert_eq!(taken + left(&shared.1, &shared.0), shared.1.limit());
    });
}

for_each_algorithm!(refund_against_take_at_the_last_unit, 1, refund_against_take);
for_each_algorithm!(refund_against_take_with_another_left, 2, refund_against_take);

/// A take against a freeze: either the take comes first and the word is not idle, or the word is
/// frozen and nothing is ever taken from it again (I6, I7).
fn take_against_freeze<A>(name: &str, make: impl Fn() -> A + Send + Sync + 'static)
where
    A: Algorithm + Send + Sync + 'static,
    A::State: 'static,
{
    explore(name, move || {
        let algorithm = make();
        let shared = Arc::new((algorithm.fresh(Nanos::ZERO), algorithm));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.1.freeze_if_idle(&shared.0, NOW))
        };
        let taken = shared.1.acquire(&shared.0, NOW, 1);
        let frozen = other.join().unwrap();
        assert_ne!(taken.is_ok(), frozen, "taken: {taken:?}");
        if frozen {
            assert!(shared.1.acquire(&shared.0, NOW, 1).is_err());
            let successor = shared.1.successor(&shared.0);
            assert_eq!(left(&shared.1, &successor), shared.1.limit());
        }
    });
}

for_each_algorithm!(take_against_freeze_of_an_idle_word, 1, take_against_freeze);
