//! The table of algorithms, and the limiters that each behaviour test runs over.

use std::collections::HashSet;
use std::time::Duration;

use tollgate::{
    AlgorithmKind, Anchor, AnyAlgorithm, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota,
    QuotaError, SlidingCounter, TokenBucket,
};

use super::oracle::{Figures, Rule};
use super::subject::{OneStream, Subject};
use super::twin::{Terms, Twin};

/// One algorithm: what the crate calls it and which model stands for it, for a capacity.
#[derive(Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    /// Whether its capacity is a number of its own, beside the limit per period.
    pub bursts: bool,
    pub kind: fn(u64) -> AlgorithmKind,
    pub rule: fn(u64) -> Rule,
}

#[rustfmt::skip]
pub const FAMILIES: &[Family] = &[
    Family { name: "token_bucket", bursts: true, kind: |_| AlgorithmKind::TokenBucket, rule: |burst| Rule::TokenBucket { burst } },
    Family { name: "leaky_bucket", bursts: true, kind: |places| AlgorithmKind::LeakyBucket { queue: places - 1 }, rule: |places| Rule::LeakyBucket { queue: places - 1 } },
    Family { name: "fixed_window", bursts: false, kind: |_| AlgorithmKind::FixedWindow { anchor: Anchor::Aligned }, rule: |_| Rule::FixedWindow },
    Family { name: "anchored_window", bursts: false, kind: |_| AlgorithmKind::FixedWindow { anchor: Anchor::FirstRequest }, rule: |_| Rule::AnchoredWindow },
    Family { name: "sliding_counter", bursts: false, kind: |_| AlgorithmKind::SlidingCounter, rule: |_| Rule::SlidingCounter },
    Family { name: "sliding_log", bursts: false, kind: |_| AlgorithmKind::SlidingLog, rule: |_| Rule::SlidingLog },
];

/// The algorithm of this kind in each word there is for it, by name.
pub fn words(
    kind: AlgorithmKind,
    quota: Quota,
) -> Vec<(&'static str, Result<AnyAlgorithm, QuotaError>)> {
    match kind {
        AlgorithmKind::TokenBucket => vec![
            ("u64", TokenBucket::new(quota).map(AnyAlgorithm::TokenBucket)),
            ("u128", TokenBucket::new(quota).map(AnyAlgorithm::WideTokenBucket)),
        ],
        AlgorithmKind::LeakyBucket { queue } => vec![
            ("u64", LeakyBucket::new(quota, queue).map(AnyAlgorithm::LeakyBucket)),
            ("u128", LeakyBucket::new(quota, queue).map(AnyAlgorithm::WideLeakyBucket)),
        ],
        AlgorithmKind::FixedWindow { anchor } => vec![
            ("u64", FixedWindow::new(quota, anchor).map(AnyAlgorithm::FixedWindow)),
            ("u128", FixedWindow::new(quota, anchor).map(AnyAlgorithm::WideFixedWindow)),
        ],
        AlgorithmKind::SlidingCounter => vec![
            ("u64", SlidingCounter::new(quota).map(AnyAlgorithm::SlidingCounter)),
            ("u128", SlidingCounter::new(quota).map(AnyAlgorithm::WideSlidingCounter)),
        ],
        kind => vec![("own", AnyAlgorithm::new(kind, quota))],
    }
}

/// `limit` per `period` nanoseconds, at most `capacity` at once (where that is a number of its own).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub limit: u64,
    pub period: u64,
    pub capacity: u64,
}

impl Numbers {
    pub const fn new(limit: u64, period: u64, capacity: u64) -> Self {
        Self { limit, period, capacity }
    }

    pub fn quota(self) -> Quota {
        let quota = Quota::new(self.limit, Duration::from_nanos(self.period)).unwrap();
        quota.with_burst(self.capacity).unwrap()
    }
}

impl Family {
    /// The most units at once.
    pub fn capacity(&self, numbers: Numbers) -> u64 {
        if self.bursts { numbers.capacity } else { numbers.limit }
    }

    /// The greatest limit that it takes, whatever the period: the log keeps each unit.
    pub fn most_limit(&self) -> u64 {
        if self.name == "sliding_log" { 1 << 16 } else { u64::MAX }
    }

    /// The longest period that it takes, in nanoseconds.
    pub fn most_period(&self) -> u64 {
        if self.name == "sliding_log" { 1 << 56 } else { u64::MAX }
    }

    pub fn kind_for(&self, numbers: Numbers) -> AlgorithmKind {
        (self.kind)(numbers.capacity)
    }

    pub fn algorithm(&self, numbers: Numbers) -> AnyAlgorithm {
        AnyAlgorithm::new(self.kind_for(numbers), numbers.quota()).unwrap()
    }

    /// The model's terms, at the rate that `algorithm` really tells.
    pub fn terms(&self, numbers: Numbers, algorithm: &AnyAlgorithm) -> Terms {
        let rate = match algorithm {
            AnyAlgorithm::TokenBucket(bucket) => Some(bucket.effective_rate()),
            AnyAlgorithm::WideTokenBucket(bucket) => Some(bucket.effective_rate()),
            AnyAlgorithm::LeakyBucket(bucket) => Some(bucket.effective_rate()),
            AnyAlgorithm::WideLeakyBucket(bucket) => Some(bucket.effective_rate()),
            _ => None,
        };
        let figures = match rate {
            Some(rate) => Figures { limit: rate.units(), nanos: rate.nanos() },
            None => Figures { limit: numbers.limit, nanos: numbers.period },
        };
        ((self.rule)(numbers.capacity), figures)
    }
}

type Maker = Box<dyn Fn() -> Box<dyn Subject> + Send + Sync>;

/// Something to test, and what it was made of.
pub struct Setup {
    pub name: String,
    pub family: Family,
    pub numbers: Numbers,
    /// The most units at once.
    pub capacity: u64,
    make: Maker,
}

impl Setup {
    /// A new one that has admitted nothing.
    pub fn make(&self) -> Box<dyn Subject> {
        (self.make)()
    }
}

/// Small numbers, a rate of several per nanosecond tick, common ones, and a capacity apart from
/// the limit.
pub const NUMBERS: &[Numbers] = &[
    Numbers::new(1, 1, 1),
    Numbers::new(1, 1_000_000_000, 1),
    Numbers::new(5, 1_000_000_000, 5),
    Numbers::new(7, 10, 7),
    Numbers::new(3, 1_000, 8),
    Numbers::new(7, 60_000_000_000, 3),
];

/// Runs `test` over every algorithm in every word, keyed and for one stream, and over its twin:
/// for tests that need one client only.
pub fn each_stream(test: impl Fn(&Setup)) {
    for &numbers in NUMBERS {
        each_limiter_of(numbers, None, &test);
        for (name, family, algorithm) in built(numbers) {
            let make = move || -> Box<dyn Subject> { Box::new(OneStream::new(algorithm.clone())) };
            run(format!("{name} for one stream"), family, numbers, Box::new(make), &test);
        }
    }
}

/// Runs `test` over every algorithm in every word and its twin, all of them keyed.
pub fn each_limiter(test: impl Fn(&Setup)) {
    for &numbers in NUMBERS {
        each_limiter_of(numbers, None, &test);
    }
}

/// [`each_limiter`] of these numbers, under a global cap of the same algorithm.
pub fn each_limiter_of(numbers: Numbers, cap: Option<Numbers>, test: &impl Fn(&Setup)) {
    let mut twins = HashSet::new();
    for (name, family, algorithm) in built(numbers) {
        let each = family.terms(numbers, &algorithm);
        let cap = cap.map(|cap| {
            let algorithm = family.algorithm(cap);
            (family.terms(cap, &algorithm), algorithm)
        });
        let cap_terms = cap.as_ref().map(|(terms, _)| *terms);
        if twins.insert((family.name, each)) {
            let twin = move || -> Box<dyn Subject> { Box::new(Twin::new(each, cap_terms)) };
            run(format!("twin of {name}"), family, numbers, Box::new(twin), test);
        }
        let make = move || -> Box<dyn Subject> {
            let builder = Limiter::<String, _>::builder(algorithm.clone());
            // Room for more than any test brings; a limiter for a million takes long to make.
            let builder = builder.clock(ManualClock::new()).max_clients(1_000);
            Box::new(match &cap {
                Some((_, cap)) => builder.global(cap.clone()).build::<String>(),
                None => builder.build::<String>(),
            })
        };
        run(name, family, numbers, Box::new(make), test);
    }
}

/// Every algorithm in every word that holds the numbers.
pub fn built(numbers: Numbers) -> Vec<(String, Family, AnyAlgorithm)> {
    let words = FAMILIES.iter().flat_map(|&family| {
        let words = words(family.kind_for(numbers), numbers.quota()).into_iter();
        words.filter_map(move |(word, built)| {
            Some((format!("{} in {word}, {numbers:?}", family.name), family, built.ok()?))
        })
    });
    words.collect()
}

fn run(name: String, family: Family, numbers: Numbers, make: Maker, test: &impl Fn(&Setup)) {
    let setup = Setup { name, family, numbers, capacity: family.capacity(numbers), make };
    test(&setup);
}
