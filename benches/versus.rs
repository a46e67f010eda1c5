//! Tollgate and its peers in turn, in one run: ratios that a noisy machine cannot tilt much.
//!
//! In each round of a scenario every contender runs once, one after the other, and the next round
//! begins with another of them. A run is shorter than a scheduler's time slice, so that most runs
//! are not interrupted. A ratio is taken within a round, between runs some milliseconds apart; what
//! is printed is the median over the rounds, and the quartiles as its spread.
//!
//! `-- --quick` for short rounds, `-- TEXT` for the scenarios whose name contains TEXT.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tollgate_benches::{Lap, Policy, Subject, client_keys, contenders};

/// One workload for all contenders.
struct Scenario {
    name: &'static str,
    policy: Policy,
    clients: usize,
    threads: u64,
}

const SCENARIOS: [Scenario; 7] = [
    Scenario { name: "admitted-1", policy: Policy::ADMIT, clients: 1, threads: 1 },
    Scenario { name: "admitted-1000", policy: Policy::ADMIT, clients: 1_000, threads: 1 },
    Scenario { name: "full-10000", policy: Policy::FULL, clients: 10_000, threads: 1 },
    Scenario { name: "refused-1", policy: Policy::REFUSE, clients: 1, threads: 1 },
    Scenario { name: "refused-1000", policy: Policy::REFUSE, clients: 1_000, threads: 1 },
    Scenario { name: "admitted-1-2threads", policy: Policy::ADMIT, clients: 1, threads: 2 },
    Scenario { name: "refused-1-2threads", policy: Policy::REFUSE, clients: 1, threads: 2 },
];

/// How long and how often each contender runs.
struct Effort {
    /// How often all contenders are made anew: each has another random hash seed then, and so
    /// other collisions and other mispredicted branches.
    generations: usize,
    rounds: usize,
    run: Duration,
}

impl Effort {
    const FULL: Self = Self { generations: 25, rounds: 41, run: Duration::from_millis(1) };
    const QUICK: Self = Self { generations: 9, rounds: 21, run: Duration::from_millis(1) };
    /// Under `cargo test`: only that everything runs and answers as it should.
    const SMOKE: Self = Self { generations: 1, rounds: 1, run: Duration::from_micros(10) };
}

/// The middle half of some measurements.
struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
}

impl Quartiles {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }

    fn to_json(&self) -> String {
        format!("[{:.4},{:.4},{:.4}]", self.low, self.median, self.high)
    }
}

impl Scenario {
    fn lap(&self, subject: &mut Subject, keys: &[String], decisions: u64) -> Lap {
        let lap = match self.threads {
            1 => subject.lap(keys, decisions),
            threads => subject.lap_of_threads(threads, keys, decisions),
        };
        lap.must_be(self.policy, subject.name);
        lap
    }

    /// Nanoseconds a decision, for each contender a list over the rounds.
    fn measure(&self, effort: &Effort) -> Vec<Series> {
        let keys = client_keys(self.clients);
        let mut series: Vec<Series> = Vec::new();
        for _ in 0..effort.generations {
            let mut subjects = contenders(self.policy);
            if series.is_empty() {
                series = subjects.iter().map(Series::of).collect();
            }
            let decisions: Vec<u64> = subjects
                .iter_mut()
                .map(|subject| {
                    subject.introduce(&keys);
                    let trial = self.lap(subject, &keys, 5_000).nanos_per_decision();
                    (effort.run.as_nanos() as f64 / trial) as u64 + 1
                })
                .collect();
            for round in 0..effort.rounds {
                for turn in 0..subjects.len() {
                    let index = (round + turn) % subjects.len();
                    let lap = self.lap(&mut subjects[index], &keys, decisions[index]);
                    series[index].nanos.push(lap.nanos_per_decision());
                }
            }
        }
        series
    }

    /// Prints a line for each of ours against each peer, and gives the same as JSON lines.
    fn report(&self, series: &[Series]) -> String {
        let (ours, peers): (Vec<&Series>, Vec<&Series>) = series.iter().partition(|s| s.is_ours);
        let mut json = String::new();
        for (ours, peer) in ours.iter().flat_map(|&ours| peers.iter().map(move |&p| (ours, p))) {
            let ratios = ours.nanos.iter().zip(&peer.nanos).map(|(ours, peer)| ours / peer);
            let ratio = Quartiles::of(ratios.collect());
            let ns_ours = Quartiles::of(ours.nanos.clone());
            let ns_peer = Quartiles::of(peer.nanos.clone());
            let scenario = format!("{}{}", self.name, ours.name.trim_start_matches("tollgate"));
            println!(
                "{scenario:<34} {:<10} {:>7.1} {:>7.1} {:>6.3} {:.3}..{:.3}",
                peer.name, ns_ours.median, ns_peer.median, ratio.median, ratio.low, ratio.high
            );
            writeln!(
                json,
                "{{\"scenario\":\"{scenario}\",\"peer\":\"{}\",\"clients\":{},\"threads\":{},\
                 \"rounds\":{},\"ns_ours\":{},\"ns_peer\":{},\"ratio\":{}}}",
                peer.name,
                self.clients,
                self.threads,
                ours.nanos.len(),
                ns_ours.to_json(),
                ns_peer.to_json(),
                ratio.to_json()
            )
            .expect("a string takes what is written");
        }
        json
    }
}

/// A contender's times, one for each round.
struct Series {
    name: &'static str,
    is_ours: bool,
    nanos: Vec<f64>,
}

impl Series {
    fn of(subject: &Subject) -> Self {
        Self { name: subject.name, is_ours: subject.is_ours(), nanos: Vec::new() }
    }
}

fn target() -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")))
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let is_set = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // `cargo bench` passes `--bench`, `cargo test` does not.
    let effort = match (is_set("--bench"), is_set("--quick")) {
        (false, _) => Effort::SMOKE,
        (true, true) => Effort::QUICK,
        (true, false) => Effort::FULL,
    };
    let wanted = |name: &str| {
        let mut filters = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
        filters.peek().is_none() || filters.any(|filter| name.contains(filter.as_str()))
    };
    println!("# scenario peer ns_ours ns_peer ratio spread (medians; quartiles of the ratio)");
    let mut json = String::new();
    for scenario in SCENARIOS.iter().filter(|scenario| wanted(scenario.name)) {
        json.push_str(&scenario.report(&scenario.measure(&effort)));
    }
    if is_set("--bench") {
        fs::create_dir_all(target())?;
        let path = target().join("versus.jsonl");
        fs::write(&path, json)?;
        println!("# written: {}", path.display());
    }
    Ok(())
}
