//! The timed loop, the same for every contender.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench is no algorithm")]

use std::fmt;
use std::hint::{self, black_box};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::{Contender, Policy};

/// Decisions before the time starts.
const WARM_UP: u64 = 2_000;

/// What one run of the loop came to.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    /// From the first thread's first decision to the last thread's last.
    pub elapsed: Duration,
    /// Decisions of each thread.
    pub decisions: u64,
    /// Threads that decided at the same time.
    pub threads: u64,
    /// Requests admitted to all threads together.
    pub admitted: u64,
}

impl Lap {
    /// Time for a decision as each thread sees it.
    pub fn nanos_per_decision(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.decisions as f64
    }

    /// Checks that the run was what it claims to be: all admitted, or all refused.
    ///
    /// # Panics
    /// If it was not; then its time means nothing.
    pub fn must_be(&self, policy: Policy, name: &str) {
        let all = self.decisions * self.threads;
        let expected = if policy.admits { all } else { 0 };
        assert_eq!(self.admitted, expected, "{name} admitted so many of {all} under {policy:?}");
    }
}

/// A contender whose timed loop is compiled for it: no call in the loop is indirect.
pub struct Subject<K> {
    /// What it is called in the results.
    pub name: &'static str,
    /// Whether others are compared to it; else it is one of those that it is compared to.
    pub is_ours: bool,
    contender: Box<dyn Timed<K>>,
    turns: u64,
}

impl<K: Sync + 'static> Subject<K> {
    /// One of ours.
    pub fn ours(name: &'static str, contender: impl Contender<K> + 'static) -> Self {
        Self { name, is_ours: true, contender: Box::new(contender), turns: 0 }
    }

    /// A peer of ours.
    pub fn peer(name: &'static str, contender: impl Contender<K> + 'static) -> Self {
        Self { is_ours: false, ..Self::ours(name, contender) }
    }

    /// Lets every client be seen at least once, which under [`Policy::REFUSE`] uses its limit up.
    pub fn introduce(&mut self, keys: &[K]) {
        self.contender.run(keys, 0, 0, keys.len() as u64);
    }

    /// The first sight of all of these clients. Not for keys that it has seen.
    pub fn first_sight(&mut self, keys: &[K]) -> Lap {
        let decisions = keys.len() as u64;
        let span = self.contender.run(keys, 0, 0, decisions);
        Lap { elapsed: span.end - span.start, decisions, threads: 1, admitted: span.admitted }
    }

    /// `decisions` decisions by the calling thread, over the keys round and round.
    /// The warm-up before them is not timed, and not in the result.
    pub fn lap(&mut self, keys: &[K], decisions: u64) -> Lap {
        let first = self.take_turns(decisions);
        let span = self.contender.run(keys, first, WARM_UP, decisions);
        let elapsed = span.end - span.start;
        Lap { elapsed, decisions, threads: 1, admitted: span.admitted }
    }

    /// `decisions` decisions by each of `threads` threads at the same time. The threads are made,
    /// and wait for each other, before the time starts.
    pub fn lap_of_threads(&mut self, threads: u64, keys: &[K], decisions: u64) -> Lap {
        let first = self.take_turns(decisions);
        let contender = &*self.contender;
        // Not `Barrier`: waking a thread that sleeps takes as long as a thousand decisions.
        let ready = AtomicU64::new(0);
        let spans: Vec<Span> = thread::scope(|scope| {
            let work = || {
                ready.fetch_add(1, Ordering::Relaxed);
                while ready.load(Ordering::Relaxed) < threads {
                    hint::spin_loop();
                }
                contender.run(keys, first, WARM_UP, decisions)
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no contender panics")).collect()
        });
        let start = spans.iter().map(|span| span.start).min().expect("at least one thread");
        let end = spans.iter().map(|span| span.end).max().expect("at least one thread");
        let admitted = spans.iter().map(|span| span.admitted).sum();
        Lap { elapsed: end - start, decisions, threads, admitted }
    }

    fn take_turns(&mut self, turns: u64) -> u64 {
        let first = self.turns;
        self.turns += WARM_UP + turns;
        first
    }
}

impl<K> fmt::Debug for Subject<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

struct Span {
    start: Instant,
    end: Instant,
    admitted: u64,
}

trait Timed<K>: Send + Sync {
    fn run(&self, keys: &[K], first_turn: u64, warm_up: u64, decisions: u64) -> Span;
}

impl<K, C: Contender<K>> Timed<K> for C {
    #[inline(never)]
    fn run(&self, keys: &[K], first_turn: u64, warm_up: u64, decisions: u64) -> Span {
        // Goes on where the run before stopped, so that short runs too come by every client.
        let mut next = (first_turn % keys.len() as u64) as usize;
        let mut request = |turn: u64| {
            let key = black_box(&keys[next]);
            next = if next + 1 == keys.len() { 0 } else { next + 1 };
            (key, turn)
        };
        // The contender before may have used the caches up; each starts with its own clients there.
        black_box(self.admitted((first_turn..first_turn + warm_up).map(&mut request)));
        let first_turn = first_turn + warm_up;
        let start = Instant::now();
        let admitted = self.admitted((first_turn..first_turn + decisions).map(request));
        let end = Instant::now();
        Span { start, end, admitted: black_box(admitted) }
    }
}
