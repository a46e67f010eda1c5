//! What is decided is counted, each decision once, under the labels that the page names; and the
//! clients refused most are known.
#![cfg(feature = "metrics")]

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use allocation_counter::measure;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tollgate::metrics::Metrics;
use tollgate::{
    AnyAlgorithm, InFlight, Limit, Limiter, ManualClock, Nanos, PapayaRegistry, Policies, Quota,
    SlidingCounter, Stack, Sweeper, TokenBucket,
};

type Counted<K> =
    Limiter<K, AnyAlgorithm, ManualClock, PapayaRegistry<K, tollgate::Client<AnyAlgorithm>>>;

fn bucket(limit: u64) -> AnyAlgorithm {
    TokenBucket::<u64>::new(Quota::per_hour(limit).unwrap()).unwrap().into()
}

fn counter(limit: u64) -> AnyAlgorithm {
    SlidingCounter::<u64>::new(Quota::per_hour(limit).unwrap()).unwrap().into()
}

fn limiter<K: std::hash::Hash + Eq + Send + 'static>(
    policies: Policies,
    metrics: Metrics,
) -> Counted<K> {
    let clock = ManualClock::starting_at(Nanos::new(1 << 50));
    Limiter::<K, _>::with_policies(policies).clock(clock).metrics(metrics).build()
}

/// What a recorder is handed, by name with labels as Prometheus writes them.
fn published<K>(limiter: &Counted<K>) -> BTreeMap<String, DebugValue> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || limiter.publish_metrics());
    let of_key = |key: &metrics::Key| {
        let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
        format!("{}{{{}}}", key.name(), labels.collect::<Vec<_>>().join(","))
    };
    let all = snapshotter.snapshot().into_vec();
    all.into_iter().map(|(key, _, _, value)| (of_key(key.key()), value)).collect()
}

/// The counters that are not zero.
fn counters<K>(limiter: &Counted<K>) -> Vec<(String, u64)> {
    let counter = |(name, value)| match value {
        DebugValue::Counter(count) if count > 0 => Some((name, count)),
        _ => None,
    };
    published(limiter).into_iter().filter_map(counter).collect()
}

/// The sum of the counters of this name.
fn sum<K>(limiter: &Counted<K>, name: &str) -> u64 {
    let all = counters(limiter);
    all.iter().filter(|(key, _)| key.starts_with(name)).map(|(_, count)| count).sum()
}

fn named(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect()
}

#[test]
fn labels_are_those_of_the_page_and_exact() {
    let stack = Stack::new([
        Limit::new("hour", bucket(5)),
        Limit::new("parallel", InFlight::new(1).unwrap()),
        Limit::new("trial", counter(2)).shadow(),
    ]);
    let stack = AnyAlgorithm::from(stack.unwrap());
    let policies = Policies::new("free", bucket(1)).tier("premium", stack).global(bucket(9));
    let limiter = limiter::<String>(policies, Metrics::new("api"));
    let newcomer = limiter.client("newcomer").tier("premium");
    assert!(newcomer.acquire(6).is_err(), "beyond any hour");
    // The first is admitted, the second refused: in each way to ask.
    for _ in 0..2 {
        limiter.is_allowed("a");
        let _ = limiter.check("b");
        let _ = limiter.acquire("c", 1).map(drop);
    }
    let vip = limiter.client("vip");
    let premium = || limiter.client("vip").tier("premium");
    let held = premium().acquire(1).unwrap();
    assert!(!premium().is_allowed(1), "one at a time");
    assert!(premium().check(1).is_refused(), "one at a time");
    assert!(premium().acquire_explained(1).0.is_none(), "one at a time");
    drop(held);
    assert!(premium().check(2).is_admitted(), "and beyond the trial");
    assert!(!premium().check(3).is_admitted(), "beyond the hour");
    assert!(vip.peek(9).is_refused(), "a peek does not count");
    assert!(limiter.check_n("d", 1).is_admitted() && limiter.check("e").is_admitted());
    assert!(limiter.check("f").is_admitted() && limiter.check("g").is_refused(), "the cap");
    let expected = [
        ("tollgate_admitted_total{limiter=api,tier=free}", 6),
        ("tollgate_admitted_total{limiter=api,tier=premium}", 2),
        ("tollgate_created_total{limiter=api}", 7),
        ("tollgate_refused_total{limiter=api,tier=free,limit=client,algorithm=token_bucket}", 3),
        ("tollgate_refused_total{limiter=api,tier=free,limit=global}", 1),
        ("tollgate_refused_total{limiter=api,tier=premium,limit=hour,algorithm=token_bucket}", 2),
        ("tollgate_refused_total{limiter=api,tier=premium,limit=parallel,algorithm=in_flight}", 3),
        (
            "tollgate_would_have_refused_total{limiter=api,tier=premium,limit=trial,algorithm=sliding_counter}",
            1,
        ),
    ];
    assert_eq!(counters(&limiter), named(&expected));
    let all = published(&limiter);
    assert_eq!(all["tollgate_clients{limiter=api}"], DebugValue::Gauge(7.0.into()));
    assert!(all.contains_key("tollgate_decision_seconds{limiter=api}"));
    assert!(all.contains_key("tollgate_lost_races_total{limiter=api,tier=free}"));
}

#[test]
fn there_being_no_room_counts_by_itself() {
    let policies = Policies::new("free", bucket(1)).max_clients(1);
    let limiter = limiter::<u64>(policies, Metrics::new("api"));
    assert!(limiter.is_allowed(&1) && !limiter.is_allowed(&2));
    let expected = [
        ("tollgate_admitted_total{limiter=api,tier=free}", 1),
        ("tollgate_created_total{limiter=api}", 1),
        ("tollgate_refused_full_total{limiter=api}", 1),
    ];
    assert_eq!(counters(&limiter), named(&expected));
}

#[test]
fn a_limiter_that_was_not_asked_to_count_publishes_nothing() {
    let limiter = Limiter::<u64, _>::builder(bucket(1)).clock(ManualClock::new()).build::<u64>();
    limiter.is_allowed(&1);
    limiter.is_allowed(&1);
    assert!(published(&limiter).is_empty() && limiter.top_refused(1).is_empty());
}

#[test]
fn counts_go_on_after_a_reload() {
    let limiter = limiter::<u64>(Policies::new("free", bucket(1)), Metrics::new("api"));
    let (free, gold) = ("limiter=api,tier=free", "limiter=api,tier=gold");
    limiter.is_allowed(&1);
    // The same limit, another quota; another tier.
    limiter.reload(Policies::new("free", bucket(2)).tier("gold", bucket(2)));
    limiter.is_allowed(&2);
    limiter.client(&3).tier("gold").is_allowed(1);
    let admitted = |tier: &str| sum(&limiter, &format!("tollgate_admitted_total{{{tier}}}"));
    assert_eq!((admitted(free), admitted(gold)), (2, 1));
    // Another algorithm: its refusals are told apart, the others stay.
    limiter.is_allowed(&2);
    limiter.reload(Policies::new("free", counter(1)));
    limiter.is_allowed(&4);
    limiter.is_allowed(&4);
    let refused: Vec<_> =
        counters(&limiter).into_iter().filter(|(name, _)| name.contains("refused")).collect();
    let expected = [
        ("tollgate_refused_total{limiter=api,tier=free,limit=client,algorithm=sliding_counter}", 1),
        ("tollgate_refused_total{limiter=api,tier=free,limit=client,algorithm=token_bucket}", 1),
    ];
    assert_eq!(refused, named(&expected));
    assert_eq!((admitted(free), admitted(gold)), (3, 1));
}

/// So many threads at once make so many decisions of every kind; the counts are as many.
fn counted_by_threads(policies: Policies, threads: u64, decisions: u64) {
    let limiter = limiter::<u64>(policies, Metrics::new("api").top_refused(10));
    let start = Barrier::new(threads as usize);
    let admitted: u64 = thread::scope(|scope| {
        let decide = |seed: u64| {
            start.wait();
            let one = |turn: u64| {
                let key = (seed + turn) % 7;
                match turn % 4 {
                    0 => limiter.is_allowed(&key),
                    1 => limiter.check_n(&key, 2).is_admitted(),
                    2 => limiter.acquire(&key, 1).is_ok(),
                    _ => limiter.client(&key).tier("other").is_allowed(1),
                }
            };
            (0..decisions).filter(|&turn| one(turn)).count() as u64
        };
        let spawned: Vec<_> = (0..threads).map(|seed| scope.spawn(move || decide(seed))).collect();
        spawned.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(sum(&limiter, "tollgate_admitted_total"), admitted);
    assert_eq!(sum(&limiter, "tollgate_refused_total"), threads * decisions - admitted);
}

fn two_tiers() -> Policies {
    Policies::new("one", bucket(700)).tier("other", counter(800))
}

#[test]
fn every_decision_of_every_thread_counts_once() {
    counted_by_threads(two_tiers(), 4, 5_000);
    counted_by_threads(two_tiers().global(bucket(3_000)), 4, 5_000);
}

#[test]
fn so_it_does_with_more_threads_than_rows() {
    counted_by_threads(two_tiers(), 300, 40);
}

#[test]
fn a_thread_goes_on_where_the_last_owner_of_its_row_ended() {
    let limiter = limiter::<u64>(two_tiers(), Metrics::new("api"));
    for key in 0..500 {
        thread::scope(|scope| scope.spawn(|| limiter.is_allowed(&key)).join().unwrap());
    }
    assert_eq!(sum(&limiter, "tollgate_admitted_total"), 500);
}

fn times<K>(limiter: &Counted<K>) -> Vec<f64> {
    match &published(limiter)["tollgate_decision_seconds{limiter=api}"] {
        DebugValue::Histogram(times) => times.iter().map(|time| time.into_inner()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_decision_of_about_a_thousand_is_timed_and_told_once() {
    let limiter = limiter::<u64>(two_tiers(), Metrics::new("api"));
    (0..100_000).for_each(|turn| _ = limiter.is_allowed(&(turn % 10)));
    let told = times(&limiter);
    assert!((60..150).contains(&told.len()), "{}", told.len());
    assert!(told.iter().all(|&time| time > 0.0 && time < 0.1), "{told:?}");
    assert_eq!(times(&limiter).len(), 0);
}

/// A layer asks twice about who is not far from the limit; that is one decision.
#[cfg(feature = "tower")]
#[test]
fn a_request_that_a_layer_would_not_tell_of_counts_once() {
    use tollgate::Explained;
    use tollgate::tower::Admit;

    let planned = Limit::new("planned", bucket(1)).shadow();
    let stack = Stack::new([Limit::new("hour", bucket(100_000)), planned]).unwrap();
    let limiter =
        limiter::<u64>(Policies::new("free", AnyAlgorithm::from(stack)), Metrics::new("api"));
    for percent in [50, 100] {
        let mut explained = Explained::default();
        let quiet = (0..60_000).filter(|_| {
            let quiet = limiter.admit_quietly(&7, None, 1, percent);
            let _charge = (!quiet).then(|| limiter.admit(&7, None, 1, &mut explained));
            quiet
        });
        // The first is a newcomer's.
        assert_eq!(quiet.count(), if percent == 50 { 49_998 } else { 0 });
    }
    let told = times(&limiter).len();
    assert!((70..160).contains(&told), "{told} of 120,000 decisions");
    assert_eq!(sum(&limiter, "tollgate_admitted_total"), 100_000);
    assert_eq!(sum(&limiter, "tollgate_refused_total"), 20_000);
    assert_eq!(sum(&limiter, "tollgate_would_have_refused_total"), 99_999);
}

#[test]
fn counting_allocates_nothing_in_a_decision() {
    let limiter = limiter::<String>(two_tiers(), Metrics::new("api").top_refused(3));
    let keys: Vec<_> = (0..5).map(|key| format!("client-{key}")).collect();
    let decide = || {
        for turn in 0..20_000 {
            let key = &*keys[turn % keys.len()];
            limiter.is_allowed(key);
            let _ = limiter.check(key);
            let _ = limiter.acquire(key, 1).map(drop);
        }
    };
    // Everybody is known, the thread has its row, the places are taken.
    decide();
    assert!(limiter.top_refused(9).len() == 3);
    assert_eq!(measure(decide).count_total, 0);
    let before = limiter.top_refused(3);
    decide();
    assert_ne!(before, limiter.top_refused(3), "it has looked at some");
}

/// Keys with the frequencies of Zipf's law: the key `k` comes in proportion to `1 / (k + 1)`.
fn zipf(keys: usize, count: usize) -> impl Iterator<Item = u64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    (0..count).map(move |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = (random >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        sums.partition_point(|&below| below < at) as u64
    })
}

#[test]
fn the_clients_refused_most_are_named_within_the_bound() {
    const REFUSALS: usize = 1_000_000;
    const PLACES: usize = 200;
    let blocked = AnyAlgorithm::from(tollgate::Constant::Blocked);
    let limiter =
        limiter::<u64>(Policies::new("all", blocked), Metrics::new("api").top_refused(PLACES));
    let mut truth = vec![0_u64; 10_000];
    for key in zipf(truth.len(), REFUSALS) {
        truth[key as usize] += 1;
        assert!(!limiter.is_allowed(&key));
    }
    let told = limiter.top_refused(PLACES);
    assert_eq!(told.len(), PLACES);
    assert!(told.is_sorted_by(|one, other| one.count >= other.count));
    let bound = (REFUSALS / PLACES) as f64;
    // Six deviations of the sample; of what is seen a few times only, somewhat more.
    let sampled = |truth: u64| 6.0 * 8.0 * (truth.max(640) as f64).sqrt();
    for refused in &told {
        let truth = truth[refused.key as usize];
        let (count, error) = (refused.count as f64, refused.error as f64);
        assert!(error <= bound * 1.1, "{refused:?}");
        assert!(count - error <= truth as f64 + sampled(truth), "{refused:?} of {truth}");
        assert!(count >= truth as f64 - sampled(truth), "{refused:?} of {truth}");
    }
    for (key, &truth) in truth.iter().enumerate() {
        let known = told.iter().any(|refused| refused.key == key as u64);
        assert!(known || truth as f64 - sampled(truth) <= bound, "{key} of {truth}");
    }
    let first: Vec<_> = limiter.top_refused(3).iter().map(|refused| refused.key).collect();
    assert_eq!(first, [0, 1, 2]);
}

/// Tells when the gauge is handed over.
struct Told(Sender<()>);

impl metrics::Recorder for Told {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }
    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::noop()
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        if key.labels().any(|label| label.value() == "swept") {
            let _ = self.0.send(());
        }
        metrics::Gauge::noop()
    }

    fn register_histogram(
        &self,
        _: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[test]
fn a_sweeper_publishes() {
    let (tell, told) = channel();
    metrics::set_global_recorder(Told(tell)).unwrap();
    let limiter = Arc::new(limiter::<u64>(two_tiers(), Metrics::new("swept")));
    let sweeper = Sweeper::spawn(&limiter, Duration::from_millis(1), 10).unwrap();
    for _ in 0..3 {
        told.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    drop(sweeper);
}
