//! The workloads, each for a set of contenders.

use std::net::IpAddr;

use tollgate_benches::{
    KINDS, Key, Lap, Policy, Subject, algorithms, caps, client_keys, clocks, contenders,
    contenders_at_scale, logs, stacks, streams, zipf,
};

use crate::{Effort, Series};

/// One workload for all its contenders.
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) clients: usize,
    pub(crate) threads: u64,
    /// Only in a run that is not quick.
    pub(crate) long: bool,
    measure: Measure,
}

type Measure = Box<dyn Fn(&Effort) -> Vec<Series>>;

/// Makes contenders that have seen nobody.
type Set<K> = fn(Policy) -> Vec<Subject<K>>;

impl Scenario {
    /// Nanoseconds a decision, for each contender a list over the rounds.
    pub(crate) fn measure(&self, effort: &Effort) -> Vec<Series> {
        (self.measure)(effort)
    }

    /// Clients that are known already, who come in this order round and round.
    fn known<K: Key>(
        name: impl Into<String>,
        policy: Policy,
        keys: impl Fn() -> Vec<K> + 'static,
        clients: usize,
        threads: u64,
        set: impl Fn(Policy) -> Vec<Subject<K>> + 'static,
    ) -> Self {
        let measure = move |effort: &Effort| {
            let keys = keys();
            measure_known(effort, policy, &keys, threads, || set(policy))
        };
        Self { name: name.into(), clients, threads, long: false, measure: Box::new(measure) }
    }

    /// Clients that nobody has seen.
    fn first_sight<K: Key>(name: &str, clients: usize, set: Set<K>) -> Self {
        let measure = move |effort: &Effort| {
            let keys = client_keys::<K>(clients);
            let mut series = Vec::new();
            for round in 0..effort.rounds.min(7) {
                let mut subjects = set(Policy::ADMIT);
                series.resize_with(subjects.len(), || Series::of(&subjects[0]));
                for turn in 0..subjects.len() {
                    let index = (round + turn) % subjects.len();
                    let lap = subjects[index].first_sight(&keys);
                    lap.must_be(Policy::ADMIT, subjects[index].name);
                    if series[index].nanos.is_empty() {
                        series[index] = Series::of(&subjects[index]);
                    }
                    series[index].nanos.push(lap.nanos_per_decision());
                }
            }
            series
        };
        Self { name: name.into(), clients, threads: 1, long: false, measure: Box::new(measure) }
    }

    fn long(self) -> Self {
        Self { long: true, ..self }
    }
}

fn lap<K: Key>(
    subject: &mut Subject<K>,
    policy: Policy,
    (keys, threads): (&[K], u64),
    decisions: u64,
) -> Lap {
    let lap = match threads {
        1 => subject.lap(keys, decisions),
        threads => subject.lap_of_threads(threads, keys, decisions),
    };
    lap.must_be(policy, subject.name);
    lap
}

fn measure_known<K: Key>(
    effort: &Effort,
    policy: Policy,
    keys: &[K],
    threads: u64,
    set: impl Fn() -> Vec<Subject<K>>,
) -> Vec<Series> {
    let effort = effort.for_clients(keys.len());
    let mut series: Vec<Series> = Vec::new();
    for _ in 0..effort.generations {
        let mut subjects = set();
        if series.is_empty() {
            series = subjects.iter().map(Series::of).collect();
        }
        let decisions: Vec<u64> = subjects
            .iter_mut()
            .map(|subject| {
                // One that refuses is used up first, by as many requests as it admits at once.
                let visits = if policy.admits { 1 } else { policy.burst };
                (0..visits).for_each(|_| subject.introduce(keys));
                let trial = lap(subject, policy, (keys, threads), 2_000).nanos_per_decision();
                (effort.run.as_nanos() as f64 / trial) as u64 + 1
            })
            .collect();
        for round in 0..effort.rounds {
            for turn in 0..subjects.len() {
                let index = (round + turn) % subjects.len();
                let lap = lap(&mut subjects[index], policy, (keys, threads), decisions[index]);
                series[index].nanos.push(lap.nanos_per_decision());
            }
        }
    }
    series
}

/// All of them.
pub(crate) fn scenarios() -> Vec<Scenario> {
    const ANSWERS: [(&str, Policy); 2] = [("admitted", Policy::ADMIT), ("refused", Policy::REFUSE)];
    type Text = String;
    let keys = |count| move || client_keys::<Text>(count);
    let mut all = Vec::new();
    for (answer, policy) in ANSWERS {
        let named = |rest: &str| format!("{answer}-{rest}");
        for threads in [1, 2, 4, 8] {
            let name = named(&format!("1-{threads}threads"));
            all.push(Scenario::known(name, policy, keys(1), 1, threads, contenders));
        }
        let thousand = 1_000;
        all.push(Scenario::known(named("1000"), policy, keys(thousand), thousand, 1, contenders));
        let of_numbers = || client_keys::<u64>(1_000);
        let of_addresses = || client_keys::<IpAddr>(1_000);
        let set = contenders_at_scale;
        all.push(Scenario::known(named("1000-u64"), policy, of_numbers, thousand, 1, set));
        let set = contenders_at_scale;
        all.push(Scenario::known(named("1000-ip"), policy, of_addresses, thousand, 1, set));
        let by_zipf = || zipf(&client_keys::<Text>(1_000));
        let set = contenders_at_scale;
        all.push(Scenario::known(named("1000-zipf"), policy, by_zipf, thousand, 1, set));
        all.push(Scenario::known(named("stream"), policy, of_numbers, 1, 1, streams));
        all.push(Scenario::known(named("stream-2threads"), policy, of_numbers, 1, 2, streams));
        all.push(Scenario::known(named("stack"), policy, of_numbers, thousand, 1, stacks));
        #[cfg(feature = "metrics")]
        {
            use tollgate_benches::{counted, counted_checks, counted_stacks};
            let named = |rest: &str| format!("metrics-{answer}-{rest}");
            let one = || client_keys::<u64>(1);
            all.push(Scenario::known(named("1"), policy, one, 1, 1, counted));
            all.push(Scenario::known(named("1-2threads"), policy, one, 1, 2, counted));
            all.push(Scenario::known(named("1000"), policy, keys(thousand), thousand, 1, counted));
            let set = counted_checks;
            all.push(Scenario::known(named("check"), policy, of_numbers, thousand, 1, set));
            let set = counted_stacks;
            all.push(Scenario::known(named("stack"), policy, of_numbers, thousand, 1, set));
        }
    }
    all.push(Scenario::known("mixed-1000", Policy::FULL, keys(10_000), 10_000, 1, |policy| {
        contenders_at_scale(policy)
    }));
    for power in 3..=7 {
        let count = 10_usize.pow(power);
        let scenario = Scenario::known(
            format!("growth-10^{power}"),
            Policy::ADMIT,
            keys(count),
            count,
            1,
            contenders_at_scale,
        );
        all.push(if power == 7 { scenario.long() } else { scenario });
    }
    let by_zipf = || zipf(&client_keys::<Text>(1_000_000));
    let million = 1_000_000;
    let set = contenders_at_scale;
    all.push(Scenario::known("admitted-10^6-zipf", Policy::ADMIT, by_zipf, million, 1, set));
    all.push(Scenario::first_sight::<Text>("first-sight", 100_000, contenders_at_scale));
    all.push(Scenario::known("cap-1000", Policy::ADMIT, keys(1_000), 1_000, 1, caps));
    for kind in KINDS {
        let set = move |policy| algorithms::<u64>(kind, policy);
        let of_numbers = || client_keys::<u64>(1_000);
        let name = format!("admitted-1000-{kind}");
        all.push(Scenario::known(name, Policy::WINDOW, of_numbers, 1_000, 1, set));
    }
    for limit in [10, 100, 10_000] {
        let one = || client_keys::<u64>(1);
        let (hit, full) = (Policy::short_log(limit), Policy::full_log(limit));
        for threads in [1, 2] {
            let name = |what| format!("log-{limit}-{what}-{threads}threads");
            all.push(Scenario::known(name("admitted"), hit, one, 1, threads, logs));
            all.push(Scenario::known(name("refused"), full, one, 1, threads, logs));
        }
    }
    let one = || client_keys::<u64>(1);
    all.push(Scenario::known("clock", Policy::ADMIT, one, 1, 1, |_| clocks()));
    all
}
