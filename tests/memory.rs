//! What clients cost, and that the map gives it back when they are gone.

use core::hash::Hash;
use std::time::Duration;

use allocation_counter::measure;
use tollgate::{Limiter, ManualClock, Quota, TokenBucket};

const CLIENTS: u64 = 250_000;

/// Bytes that clients hold, and what is left of them after all have been swept.
fn held_and_left<K: Hash + Eq + Clone + Send + Sync + 'static>(
    key: impl Fn(u64) -> K,
) -> (i64, i64) {
    let clock = ManualClock::new();
    let algorithm = TokenBucket::<u64>::new(Quota::per_second(10).unwrap()).unwrap();
    let limiter = Limiter::<K, _>::builder(algorithm).clock(clock.clone()).build::<K>();
    let held = measure(|| {
        for n in 0..CLIENTS {
            assert!(limiter.is_allowed(&key(n)));
        }
    });
    let given_back = measure(|| {
        clock.advance(Duration::from_secs(60));
        while limiter.clients() > 0 {
            assert!(limiter.sweep(CLIENTS as usize).retired > 0);
        }
    });
    (held.bytes_current, held.bytes_current + given_back.bytes_current)
}

#[test]
fn a_client_with_a_small_key_takes_at_most_64_bytes() {
    let (held, left) = held_and_left(|n| n);
    assert!(held <= 64 * CLIENTS as i64, "{held} bytes");
    assert!(left * 4 <= held, "{left} of {held} bytes are left");
}

#[test]
fn a_client_with_a_key_of_15_bytes_takes_at_most_110_bytes() {
    let (held, left) = held_and_left(|n| format!("client-{n:08}"));
    assert!(held <= 110 * CLIENTS as i64, "{held} bytes");
    assert!(left * 4 <= held, "{left} of {held} bytes are left");
}
