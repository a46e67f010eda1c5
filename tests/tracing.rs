//! One event for each refusal, at debug level.
#![cfg(feature = "tracing")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tollgate::{AnyAlgorithm, Limiter, ManualClock, Policies, Quota, TokenBucket};
use tracing_subscriber::filter::LevelFilter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged at `level` while all ways to ask are tried, each twice: admitted, then refused.
fn logged(level: LevelFilter, cap: Option<u64>) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let bucket = |limit| TokenBucket::<u64>::new(Quota::per_minute(limit).unwrap()).unwrap();
        let mut policies = Policies::new("free", bucket(1)).tier("premium", bucket(1));
        if let Some(cap) = cap {
            policies = policies.global(AnyAlgorithm::from(bucket(cap)));
        }
        let limiter = Limiter::<String, _>::with_policies(policies);
        let limiter = limiter.clock(ManualClock::new()).build();
        for _ in 0..2 {
            limiter.is_allowed("a");
            let _ = limiter.check("b");
            let _ = limiter.acquire("c", 1).map(drop);
            let _ = limiter.client("d").tier("premium").check(1);
        }
    });
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn each_refusal_is_told_once_and_without_the_key() {
    for cap in [None, Some(100)] {
        let text = logged(LevelFilter::DEBUG, cap);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        for line in &lines {
            assert!(line.contains("DEBUG tollgate: refused"), "{line}");
            assert!(line.contains("cost=1 limit=1 remaining=0 by_client=true"), "{line}");
            assert!(line.contains("retry_after=after 60s"), "{line}");
        }
        assert!(lines[3].contains("tier=\"premium\""), "{text}");
    }
    let text = logged(LevelFilter::DEBUG, Some(1));
    assert!(text.lines().any(|line| line.contains("by_global=true")), "{text}");
    assert_eq!(text.lines().count(), 7, "{text}");
}

#[test]
fn above_debug_nothing_is_told() {
    assert_eq!(logged(LevelFilter::INFO, None), "");
}
