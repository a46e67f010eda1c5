//! Counters that no two threads write: a row for each thread, added up by whoever reads.

use alloc::boxed::Box;
use core::array;
use std::thread;

use crossbeam_utils::CachePadded;

use super::local::{Local, STRIPES};
use crate::sync::{AtomicU64, Ordering};

type Row<const N: usize> = CachePadded<[AtomicU64; N]>;

fn row<const N: usize>() -> Row<N> {
    CachePadded::new(array::from_fn(|_| AtomicU64::new(0)))
}

/// `N` counters in rows that lie on cache lines of their own: four for each processor (16 at least,
/// 256 at most), each of one thread, and one for all threads beyond.
///
/// Relaxed: each counter is a number of its own and orders nothing. A sum read while others count
/// lies between the true one before and the true one after.
pub(super) struct Stripes<const N: usize> {
    own: Box<[Row<N>]>,
    shared: Row<N>,
}

impl<const N: usize> Stripes<N> {
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(4, usize::from);
        let own = (4 * processors).clamp(16, STRIPES);
        Self { own: (0..own).map(|_| row()).collect(), shared: row() }
    }

    #[inline]
    pub(super) fn add(&self, local: &Local, counter: usize, by: u64) {
        match self.own.get(local.stripe()) {
            Some(row) => {
                // No exchange: nobody else writes here.
                let sum = row[counter].load(Ordering::Relaxed).wrapping_add(by);
                row[counter].store(sum, Ordering::Relaxed);
            }
            None => self.add_shared(counter, by),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_shared(&self, counter: usize, by: u64) {
        self.shared[counter].fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn sum(&self, counter: usize) -> u64 {
        let rows = self.own.iter().chain([&self.shared]);
        rows.map(|row| row[counter].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}
