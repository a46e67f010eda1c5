//! How long decisions take: one of about 1,024 is timed.

use core::array;

use super::local::{self, Local};
use super::stripes::Stripes;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, MonotonicClock};

/// One decision in so many is timed.
const ONE_IN: u32 = 1_024;

/// Four buckets for each power of two, up to 2^25 ns, which is 34 ms; the last has what takes longer.
const BUCKETS: usize = 96;

/// The bucket of a time in ns.
fn bucket(nanos: u64) -> usize {
    let log = nanos.max(1).ilog2();
    match log {
        0 | 1 => nanos as usize,
        _ => ((log as usize - 1) * 4 + (nanos >> (log - 2) & 3) as usize).min(BUCKETS - 1),
    }
}

/// The middle of a bucket in ns: at most an eighth off.
fn middle(bucket: usize) -> f64 {
    match bucket {
        0..8 => bucket as f64,
        _ => (4.5 + (bucket % 4) as f64) * f64::from(1 << (bucket / 4 - 1)),
    }
}

/// A histogram of the times, in a row for each thread.
pub(super) struct Latency {
    clock: MonotonicClock,
    buckets: Stripes<BUCKETS>,
    /// What of each bucket was handed over.
    handed: [AtomicU64; BUCKETS],
}

impl Latency {
    pub(super) fn new() -> Self {
        Self {
            clock: MonotonicClock::new(),
            buckets: Stripes::new(),
            handed: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Whether the thread's decision is one of those that are timed.
    #[inline]
    pub(super) fn is_due(local: &Local) -> bool {
        local.decisions.is_due(local, ONE_IN)
    }

    /// The decision that was counted last was none.
    pub(super) fn uncount(local: &Local) {
        local.decisions.put_back();
    }

    #[cold]
    #[inline(never)]
    pub(super) fn time<T>(
        &self,
        decide: impl FnOnce() -> T,
        decided: impl FnOnce(&T) -> bool,
    ) -> T {
        let since = self.clock.now();
        let answer = decide();
        let time = self.clock.now().get() - since.get();
        let decided = decided(&answer);
        local::with(|local| match decided {
            true => self.buckets.add(local, bucket(time), 1),
            false => local.decisions.put_off(),
        });
        answer
    }

    /// Hands over each time, in seconds, with how many there are of it that were not handed over.
    pub(super) fn hand_over(&self, record: impl Fn(f64, u64)) {
        for (bucket, handed) in self.handed.iter().enumerate() {
            let sum = self.buckets.sum(bucket);
            // One exchange: of several who publish each hands over what no other has.
            let before = handed.fetch_max(sum, Ordering::Relaxed);
            if sum > before {
                record(middle(bucket) / 1e9, sum - before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_near_every_time_in_it() {
        for nanos in (0..4_096).chain((12..25).flat_map(|log| [1 << log, (1 << log) * 2 - 1])) {
            let middle = middle(bucket(nanos));
            let off = (middle - nanos as f64).abs();
            assert!(off <= nanos as f64 / 8.0, "{nanos}: {middle}");
        }
        assert_eq!(bucket((1 << 25) - 1), BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_are_in_order() {
        assert!((0..100_000).map(bucket).is_sorted_by(|a, b| *b == *a || *b == a + 1));
    }
}
