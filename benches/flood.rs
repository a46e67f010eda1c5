//! What known clients feel of a flood of unique keys at the cap on clients, and of a sweep.
//!
//! One thread checks 1,000 known clients again and again and keeps the time of each decision in a
//! histogram; meanwhile another thread does nothing, floods the limiter with keys that nobody has
//! seen, or sweeps idle clients. `cargo bench -p tollgate-benches --bench flood`

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this measures, and decides nothing"
)]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tollgate::{Limiter, Quota, TokenBucket};

/// The cap on clients, for both.
const CAP: usize = 100_000;
const KNOWN: usize = 1_000;
const LASTS: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|key| format!("{prefix}-{key:011}")).collect()
}

/// Checks the known keys for a while; the percentiles in ns.
fn measure(known: &[String], check: impl Fn(&str) -> bool, beside: impl Fn(&AtomicBool) + Sync) {
    let stop = AtomicBool::new(false);
    let mut told = Histogram::<u64>::new(3).expect("three digits are few");
    thread::scope(|scope| {
        scope.spawn(|| beside(&stop));
        let end = Instant::now() + LASTS;
        let mut before = Instant::now();
        'time: loop {
            for key in known {
                black_box(check(key));
                let after = Instant::now();
                told.saturating_record((after - before).as_nanos() as u64);
                before = after;
                if after >= end {
                    break 'time;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let at = |part| told.value_at_quantile(part);
    println!(
        "    p50 {:>6}  p99 {:>6}  p99.9 {:>7}  n {}",
        at(0.5),
        at(0.99),
        at(0.999),
        told.len()
    );
}

fn idle(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Floods with keys that were made before, each seen once a lap.
fn flood<'a>(
    unique: &'a [String],
    check: impl Fn(&str) -> bool + Sync + 'a,
) -> impl Fn(&AtomicBool) + Sync + 'a {
    move |stop| {
        let mut laps = unique.iter().cycle();
        while !stop.load(Ordering::Relaxed) {
            for key in laps.by_ref().take(64) {
                black_box(check(key));
            }
        }
    }
}

fn main() {
    let known = keys("kn", KNOWN);
    let unique = keys("un", 2_000_000);
    // Whoever comes is busy for ten seconds: the flood fills the limiter up and is then refused.
    let refill = Duration::from_secs(10);
    let quota = Quota::new(1, refill).and_then(|quota| quota.with_burst(1_000_000));
    let bucket = TokenBucket::<u64>::new(quota.expect("positive")).expect("small");
    for round in 1..=ROUNDS {
        println!("round {round}");
        let limiter = Limiter::<String, _>::builder(bucket).max_clients(CAP).build::<String>();
        let check = |key: &str| limiter.is_allowed(key);
        println!("  tollgate alone");
        measure(&known, check, idle);
        println!("  tollgate, flooded");
        measure(&known, check, flood(&unique, check));
        let stats = limiter.stats();
        println!("    {stats:?}");
        println!("  tollgate, swept");
        measure(&known, check, |stop| {
            while !stop.load(Ordering::Relaxed) {
                limiter.sweep(10_000);
            }
        });
        let peer = rate_net::RateLimiter::builder()
            .quota(1, refill)
            .burst(1_000_000)
            .try_build()
            .expect("a valid quota")
            .with_eviction(rate_net::Eviction::capacity(CAP));
        let check = |key: &str| peer.check(key).is_allow();
        println!("  rate-net alone");
        measure(&known, check, idle);
        println!("  rate-net, flooded");
        measure(&known, check, flood(&unique, check));
    }
}
