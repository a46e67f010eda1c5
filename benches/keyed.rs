//! One thread, clients that are known: each contender on its own, by criterion.
//!
//! The clients are walked in a shuffled order. Keys are made, and counts are checked, outside the
//! timed region.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_benches::{Policy, client_keys, contenders};

fn keyed(criterion: &mut Criterion) {
    for (answer, policy) in [("admitted", Policy::ADMIT), ("refused", Policy::REFUSE)] {
        for clients in [1, 1_000] {
            let keys = client_keys::<String>(clients);
            let mut group = criterion.benchmark_group(format!("{answer}/{clients}"));
            for mut subject in contenders(policy) {
                subject.introduce(&keys);
                group.bench_function(subject.name, |bencher| {
                    bencher.iter_custom(|decisions| {
                        let lap = subject.lap(&keys, decisions);
                        lap.must_be(policy, subject.name);
                        lap.elapsed
                    });
                });
            }
            group.finish();
        }
    }
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(50)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! { name = benches; config = settings(); targets = keyed }
criterion_main!(benches);
