//! Waiting for a turn, in paused time.
#![cfg(feature = "tokio")]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep};
use tollgate::{
    AlgorithmKind, AnyAlgorithm, Clock, Limiter, ManualClock, Nanos, Policies, Quota, WaitError,
};

/// Tokio's time, which stands still until everybody waits.
#[derive(Clone)]
struct Paused(Instant);

impl Paused {
    fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Paused {
    fn now(&self) -> Nanos {
        Nanos::from(self.0.elapsed())
    }
}

type Shared = Arc<Limiter<String, AnyAlgorithm, Paused>>;

const TOKEN_BUCKET: AlgorithmKind = AlgorithmKind::TokenBucket;

fn algorithm(kind: AlgorithmKind, per_second: u64, burst: u64) -> AnyAlgorithm {
    let quota = Quota::per_second(per_second).unwrap().with_burst(burst).unwrap();
    AnyAlgorithm::new(kind, quota).unwrap()
}

fn limiter(kind: AlgorithmKind, per_second: u64, burst: u64) -> Shared {
    let builder = Limiter::<String>::builder(algorithm(kind, per_second, burst));
    Arc::new(builder.clock(Paused::new()).build())
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// When each of `waits`, begun one after the other, has come to its end.
async fn leave(
    waits: impl IntoIterator<Item = impl Future<Output = ()> + Send + 'static>,
) -> Vec<(usize, Duration)> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (index, wait) in waits.into_iter().enumerate() {
        running.spawn(async move {
            wait.await;
            (index, start.elapsed())
        });
    }
    let mut left = Vec::new();
    while let Some(one) = running.join_next().await {
        left.push(one.unwrap());
    }
    left
}

fn times(left: &[(usize, Duration)]) -> Vec<u64> {
    left.iter().map(|(_, time)| time.as_millis() as u64).collect()
}

async fn waited(limiter: Shared, cost: u64) {
    limiter.until_allowed("a", cost).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_leave_in_order_at_the_exact_rate() {
    let leaky = AlgorithmKind::LeakyBucket { queue: 0 };
    for (kind, burst) in [(TOKEN_BUCKET, 1), (TOKEN_BUCKET, 10), (leaky, 1)] {
        let limiter = limiter(kind, 100, burst);
        let left = leave((0..1_000).map(|_| waited(limiter.clone(), 1))).await;
        let expected: Vec<_> =
            (0..1_000).map(|n| (n, millis(10 * (n as u64).saturating_sub(burst - 1)))).collect();
        assert_eq!(left, expected, "{kind:?}, burst {burst}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_wait_does_not_overtake() {
    let limiter = limiter(TOKEN_BUCKET, 10, 1);
    let waiting = tokio::spawn(leave((0..5).map({
        let limiter = limiter.clone();
        move |_| waited(limiter.clone(), 1)
    })));
    sleep(millis(50)).await;
    for _ in 0..4 {
        assert!(!limiter.is_allowed("a"));
        assert!(limiter.peek("a").retry_after() > tollgate::RetryAfter::Now);
        sleep(millis(100)).await;
    }
    assert_eq!(times(&waiting.await.unwrap()), [0, 100, 200, 300, 400]);
    sleep(millis(50)).await;
    assert!(limiter.is_allowed("a"));
}

#[tokio::test(start_paused = true)]
async fn dear_and_cheap_waits_keep_their_order() {
    let limiter = limiter(TOKEN_BUCKET, 10, 5);
    let left = leave([5, 3, 1, 5, 1].map(|cost| waited(limiter.clone(), cost))).await;
    assert_eq!(left.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(times(&left), [0, 300, 400, 900, 1_000]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_fails_at_once_and_charges_nothing() {
    let limiter = limiter(TOKEN_BUCKET, 10, 2);
    let never = limiter.until_allowed("a", 3).await.unwrap_err();
    assert_eq!(never, WaitError::Never { cost: 3, limit: 2 });
    assert_eq!(never.to_string(), "cost 3 is never granted: at most 2 at once");
    assert_eq!(limiter.clients(), 0);
    limiter.until_allowed("a", 0).await.unwrap();
    assert_eq!(limiter.clients(), 0);

    assert!(limiter.check_n("a", 2).is_admitted());
    let late = limiter.until_allowed("a", 2).within(millis(199)).await.unwrap_err();
    assert_eq!(late, WaitError::TooLate { wait: millis(200), patience: millis(199) });
    assert_eq!(late.to_string(), "the turn would come after 200ms: expected it within 199ms");
    assert_eq!(limiter.now(), Nanos::from(Duration::ZERO), "at once");
    limiter.until_allowed("a", 2).within(millis(200)).await.unwrap();
    assert_eq!(limiter.now(), Nanos::from(millis(200)));

    let blocked = AnyAlgorithm::new(TOKEN_BUCKET, tollgate::Allowance::Blocked).unwrap();
    let blocked = Limiter::<String>::builder(blocked).clock(Paused::new()).build();
    let never = blocked.until_allowed("a", 1).await.unwrap_err();
    assert_eq!(never, WaitError::Never { cost: 1, limit: 0 });
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<(), WaitError>> + Send + 'a>>;

/// A wait that has begun, or has come to its end.
fn begin<C>(limiter: &Limiter<String, AnyAlgorithm, C>, cost: u64) -> Option<Waiting<'_>>
where
    C: Clock + Sync,
{
    let mut wait = limiter.until_allowed("a", cost).into_future();
    let waits = wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    waits.then_some(wait)
}

fn paused() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_leaves_the_place_to_the_next() {
    let limiter = limiter(TOKEN_BUCKET, 10, 1);
    let mut waits: Vec<_> = (0..5).map(|_| begin(&limiter, 1)).collect();
    assert!(waits[0].is_none(), "the first one went at once");
    // In the middle: those behind keep their turns, and a newcomer gets the one that is free.
    drop(waits.remove(2));
    let newcomer = begin(&limiter, 1).unwrap();
    let last = begin(&limiter, 1).unwrap();
    let start = Instant::now();
    newcomer.await.unwrap();
    assert_eq!(start.elapsed(), millis(200));
    last.await.unwrap();
    assert_eq!(start.elapsed(), millis(500));
}

#[tokio::test(start_paused = true)]
async fn a_free_place_is_shared_by_cheaper_ones_and_too_small_for_dearer() {
    let limiter = limiter(TOKEN_BUCKET, 10, 4);
    let mut waits: Vec<_> = [4, 4, 1].map(|cost| begin(&limiter, cost)).into();
    // Four units are free, of which the last comes at 400 ms; the next free place is at 600.
    drop(waits.remove(1));
    advance(millis(150)).await;
    let start = Instant::now();
    let waits = [3, 2, 1].map(|cost| begin(&limiter, cost).unwrap());
    for (wait, turn) in waits.into_iter().zip([300, 700, 400]) {
        let wait = tokio::time::timeout_at(start + millis(turn - 150), wait);
        wait.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_is_not_given_back_into_another_state() {
    let limiter = limiter(TOKEN_BUCKET, 10, 1);
    let mut waits: Vec<_> = (0..4).map(|_| begin(&limiter, 1)).collect();
    drop(waits.remove(1));
    limiter.client("a").forget();
    // As good as new: the free place of the state that is gone is not taken.
    assert!(begin(&limiter, 1).is_none());
    let start = Instant::now();
    drop(waits);
    limiter.until_allowed("a", 1).await.unwrap();
    assert_eq!(start.elapsed(), millis(100));
}

#[test]
fn when_all_have_given_up_it_is_as_if_nobody_had_waited() {
    let strategy = (1..4_u64, Just((0..40).collect::<Vec<usize>>()).prop_shuffle());
    proptest!(|((burst, order) in strategy)| {
        let runtime = paused();
        let _context = runtime.enter();
        let clock = ManualClock::new();
        let each = algorithm(TOKEN_BUCKET, 10, burst);
        let limiter = Limiter::<String>::builder(each).clock(clock.clone()).build();
        assert!(limiter.check_n("a", burst).is_admitted());
        let before = limiter.peek("a");
        let mut waits: Vec<_> =
            (0..40).map(|n| Some(begin(&limiter, 1 + n % burst).unwrap())).collect();
        for index in order {
            waits[index].take();
        }
        prop_assert_eq!(limiter.peek("a"), before);
    });
}

#[derive(Clone, Debug)]
enum Step {
    Come(u64),
    GiveUp(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..=3_u64).prop_map(Step::Come),
        2 => any::<usize>().prop_map(Step::GiveUp),
        1 => (1..40_u64).prop_map(|tens| Step::Pass(tens * 10)),
    ]
}

/// Whoever comes and gives up: what leaves, leaves within the bucket's bound, and no wait is longer
/// than it would be if nobody had given up.
#[test]
fn nobody_leaves_too_soon_whoever_gives_up() {
    let leaky = AlgorithmKind::LeakyBucket { queue: 2 };
    let kinds = prop_oneof![Just(TOKEN_BUCKET), Just(leaky)];
    proptest!(|(kind in kinds, steps in prop::collection::vec(step(), 1..60))| {
        let burst = 3;
        let left = paused().block_on(async {
            let limiter = limiter(kind, 10, burst);
            let start = Instant::now();
            let mut running = Vec::new();
            for step in steps {
                match step {
                    Step::Come(cost) => {
                        let limiter = limiter.clone();
                        running.push(tokio::spawn(async move {
                            limiter.until_allowed("a", cost).await.unwrap();
                            (start.elapsed().as_millis() as u64, cost)
                        }));
                        tokio::task::yield_now().await;
                    }
                    Step::GiveUp(index) if !running.is_empty() => {
                        running[index % running.len()].abort();
                        tokio::task::yield_now().await;
                    }
                    Step::GiveUp(_) => {}
                    Step::Pass(time) => sleep(millis(time)).await,
                }
            }
            let mut left = Vec::new();
            for one in running {
                left.extend(one.await);
            }
            left
        });
        let mut left = left;
        left.sort_unstable();
        // A token bucket's burst leaves at once; after their delays, a leaky bucket's never do.
        for (first, &(from, _)) in left.iter().enumerate() {
            let mut units = 0;
            for &(to, cost) in &left[first..] {
                let room = match kind {
                    AlgorithmKind::TokenBucket => burst * 100 + (to - from),
                    // What the last one takes keeps only those after it waiting.
                    _ => cost * 100 + (to - from),
                };
                units += cost;
                prop_assert!(units * 100 <= room, "{units} units in {} ms: {left:?}", to - from);
            }
        }
    });
}

#[test]
fn threads_that_come_and_give_up_leave_nothing_behind() {
    let clock = ManualClock::new();
    let each = algorithm(TOKEN_BUCKET, 10, 1);
    let limiter = Limiter::<String>::builder(each).clock(clock).build();
    assert!(limiter.is_allowed("a"));
    let before = limiter.peek("a");
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let limiter = &limiter;
            scope.spawn(move || {
                let runtime = paused();
                let _context = runtime.enter();
                for round in 0..300 {
                    let mut waits: Vec<_> = (0..4).map(|_| begin(limiter, 1).unwrap()).collect();
                    while !waits.is_empty() {
                        drop(waits.swap_remove((round + thread) % waits.len()));
                    }
                }
            });
        }
    });
    assert_eq!(limiter.peek("a"), before);
}

#[tokio::test(start_paused = true)]
async fn windows_are_asked_again() {
    let log = AlgorithmKind::SlidingLog;
    let fixed = AlgorithmKind::FixedWindow { anchor: Default::default() };
    for kind in [log, fixed, AlgorithmKind::SlidingCounter] {
        let limiter = limiter(kind, 10, 10);
        let left = leave((0..40).map(|_| waited(limiter.clone(), 1))).await;
        let times = times(&left);
        let first = times[0] / 1_000 * 1_000;
        for (n, time) in times.iter().enumerate() {
            let after = first + 1_000 * (n as u64 / 10);
            assert!(*time >= after, "{kind:?}: the {n}th at {time}");
        }
        assert!(times[39] < 8_000, "{kind:?}: {times:?}");
    }
    let limiter = limiter(log, 10, 10);
    assert!(limiter.check_n("a", 10).is_admitted());
    let late = limiter.until_allowed("a", 1).within(millis(900)).await.unwrap_err();
    assert_eq!(late, WaitError::TooLate { wait: millis(1_000), patience: millis(900) });
}

#[tokio::test(start_paused = true)]
async fn jitter_only_puts_off() {
    let limiter = limiter(AlgorithmKind::SlidingLog, 5, 5);
    assert!(limiter.check_n("a", 5).is_admitted());
    let left = leave((0..5).map(|_| {
        let limiter = limiter.clone();
        async move { limiter.until_allowed("a", 1).jitter(millis(500)).await.unwrap() }
    }))
    .await;
    let times = times(&left);
    assert!(times.iter().all(|time| (1_000..=1_501).contains(time)), "{times:?}");
    assert!(times.iter().any(|time| *time != times[0]), "{times:?}");
    let start = Instant::now();
    let patient = limiter.until_allowed("a", 1).within(millis(1_600)).jitter(Duration::MAX);
    patient.await.unwrap();
    assert!(start.elapsed() <= millis(1_601));
}

#[tokio::test(start_paused = true)]
async fn the_cap_is_waited_for_after_the_client() {
    let each = algorithm(TOKEN_BUCKET, 10, 1);
    let limiter = Limiter::<String>::builder(each).global(algorithm(TOKEN_BUCKET, 5, 1));
    let limiter: Shared = Arc::new(limiter.clock(Paused::new()).build());
    let of = |key: &'static str| {
        let limiter = limiter.clone();
        async move { limiter.until_allowed(key, 1).await.unwrap() }
    };
    let left = leave([of("a"), of("a"), of("a"), of("b")]).await;
    // "b" is not kept waiting by the turns of "a" that have not come.
    assert_eq!(left.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 3, 1, 2]);
    assert_eq!(times(&left), [0, 200, 400, 600]);
    // What is given up is given back on both sides, and if the cap comes too late.
    let before = (limiter.peek("b"), limiter.peek("c"));
    let late = limiter.until_allowed("c", 1).within(millis(100)).await.unwrap_err();
    assert!(matches!(late, WaitError::TooLate { .. }), "{late}");
    drop(begin(&limiter, 1));
    assert_eq!((limiter.peek("b"), limiter.peek("c")), before);
}

#[tokio::test(start_paused = true)]
async fn waits_are_in_a_tier() {
    let policies = Policies::new("free", algorithm(TOKEN_BUCKET, 1, 1));
    let policies = policies.tier("premium", algorithm(TOKEN_BUCKET, 10, 1));
    let limiter = Limiter::<String>::with_policies(policies).clock(Paused::new()).build();
    let limiter = limiter.resolving(|key: &str| if key == "vip" { "premium" } else { "free" });
    let start = Instant::now();
    limiter.until_allowed("vip", 1).await.unwrap();
    limiter.until_allowed("vip", 1).await.unwrap();
    assert_eq!(start.elapsed(), millis(100));
    limiter.limiter().until_allowed("a", 1).tier("premium").await.unwrap();
    limiter.limiter().until_allowed("a", 1).tier("premium").await.unwrap();
    assert_eq!(start.elapsed(), millis(200));
}

#[tokio::test(start_paused = true)]
async fn turns_that_were_told_outlive_a_reload() {
    let limiter = limiter(TOKEN_BUCKET, 10, 1);
    let waits: Vec<_> = (0..4).map(|_| begin(&limiter, 1)).collect();
    limiter.reload(Policies::new("default", algorithm(TOKEN_BUCKET, 2, 1)));
    let start = Instant::now();
    let [_, one, two, three] = <[_; 4]>::try_from(waits).ok().unwrap();
    let newcomer = begin(&limiter, 1).unwrap();
    drop(two);
    one.unwrap().await.unwrap();
    assert_eq!(start.elapsed(), millis(100));
    three.unwrap().await.unwrap();
    assert_eq!(start.elapsed(), millis(300));
    newcomer.await.unwrap();
    assert!(start.elapsed() >= millis(400), "behind them: {:?}", start.elapsed());
}
