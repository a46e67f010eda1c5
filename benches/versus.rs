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

use tollgate_benches::Subject;

mod scenarios;

use crate::scenarios::{Scenario, scenarios};

/// How long and how often each contender runs.
struct Effort {
    /// How often all contenders are made anew: each has another random hash seed then, and so
    /// other collisions and other mispredicted branches.
    generations: usize,
    rounds: usize,
    run: Duration,
}

impl Effort {
    const FULL: Self = Self { generations: 15, rounds: 31, run: Duration::from_millis(1) };
    const QUICK: Self = Self { generations: 4, rounds: 11, run: Duration::from_micros(500) };
    /// Under `cargo test`: only that everything runs and answers as it should.
    const SMOKE: Self = Self { generations: 1, rounds: 1, run: Duration::from_micros(10) };

    /// To bring many clients takes long: then once has to do.
    fn for_clients(&self, clients: usize) -> Self {
        match clients {
            ..100_000 => Self { ..*self },
            _ => Self { generations: 1, rounds: 2 * self.rounds, ..*self },
        }
    }
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
    /// Prints a line for each of ours against each peer, and gives the same as JSON lines.
    fn report(&self, series: &[Series]) -> String {
        let (ours, peers): (Vec<&Series>, Vec<&Series>) = series.iter().partition(|s| s.is_ours);
        let mut json = String::new();
        for (ours, peer) in ours.iter().flat_map(|&ours| peers.iter().map(move |&p| (ours, p))) {
            let ratios = ours.nanos.iter().zip(&peer.nanos).map(|(ours, peer)| ours / peer);
            let ratio = Quartiles::of(ratios.collect());
            let ns_ours = Quartiles::of(ours.nanos.clone());
            let ns_peer = Quartiles::of(peer.nanos.clone());
            let scenario = format!("{} {}", self.name, ours.name);
            println!(
                "{scenario:<40} {:<13} {:>7.1} {:>7.1} {:>6.3} {:.3}..{:.3}",
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
    fn of<K>(subject: &Subject<K>) -> Self {
        Self { name: subject.name, is_ours: subject.is_ours, nanos: Vec::new() }
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
    let all = is_set("--bench") && !is_set("--quick");
    let scenarios = scenarios().into_iter().filter(|scenario| all || !scenario.long);
    for scenario in scenarios.filter(|scenario| wanted(&scenario.name)) {
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
