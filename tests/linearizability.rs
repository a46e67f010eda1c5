//! Recorded histories of real threads over the real map: each has a sequential explanation.
//!
//! A recorder notes when each call began and ended, what it asked and what it was answered. The
//! checker looks for an order of the calls, in which no call comes before one that had ended when it
//! began, such that the exact oracle gives the same answers (Wing and Gong, 1993). Histories are
//! short, so the search is small; there are many of them: `TOLLGATE_HISTORIES` for each test and
//! algorithm, 1,000 unless set. Most have calls that overlap, which a test of its own counts.

#![allow(clippy::disallowed_types, reason = "the recorder is no part of what it records")]

mod common;

use std::cell::Cell;
use std::env;
use std::hash::{Hash, Hasher};
use std::hint;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, RwLock};
use std::thread;

use tollgate::{
    AlgorithmKind, AnyAlgorithm, Limit, Limiter, ManualClock, Nanos, Policies, Quota, Reading,
    Stack,
};

use common::families::{FAMILIES, Family, Numbers};
use common::models::Paid;
use common::oracle::Oracle;

type Ours = Limiter<Key, AnyAlgorithm, ManualClock>;

const PERIOD: u64 = 1_000;
/// When a history begins; the client was seen long before, and is idle.
const START: u64 = 100 * PERIOD;
static KEY: Key = Key;

/// The client's key. When it is hashed or compared, which is within a call, other threads may go
/// first.
#[derive(Clone, Copy, Debug)]
struct Key;

thread_local! {
    static PAUSES: Cell<u64> = const { Cell::new(0) };
}

impl Key {
    fn pause() {
        let mut random = Random(PAUSES.get());
        if random.below(8) == 0 {
            thread::yield_now();
        }
        (0..random.below(100)).for_each(|_| hint::spin_loop());
        PAUSES.set(random.0);
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, _: &mut H) {
        Self::pause();
    }
}

impl PartialEq for Key {
    fn eq(&self, _: &Self) -> bool {
        Self::pause();
        true
    }
}

impl Eq for Key {}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Acquire(u64),
    /// Gives back the latest permit that the thread holds.
    Refund,
    Peek(u64),
    /// Of whoever was idle when the history began.
    Sweep,
    /// To the same limits, with a cap that nobody reaches or without: the client moves on.
    Reload(bool),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Admitted,
    Refused,
    Read(Reading),
    Done,
}

/// One call of a thread.
#[derive(Clone, Copy, Debug)]
struct Call {
    thread: usize,
    began: u64,
    ended: u64,
    now: u64,
    ask: Ask,
    answer: Answer,
}

impl Call {
    fn overlaps(&self, other: &Self) -> bool {
        self.began < other.ended && other.began < self.ended
    }
}

// The checker

/// What the calls are explained by: one oracle for each limit, all charged or none.
struct Sequential {
    limits: Vec<Oracle>,
    held: Vec<Vec<(Vec<Paid>, u64)>>,
}

impl Sequential {
    fn admits(&self, now: u64, cost: u64) -> bool {
        self.limits.iter().all(|limit| limit.admits(now, cost))
    }

    fn answer(&mut self, call: &Call) -> Answer {
        match call.ask {
            Ask::Acquire(cost) if !self.admits(call.now, cost) => Answer::Refused,
            Ask::Acquire(cost) => {
                let paid = self.limits.iter_mut().filter_map(|limit| limit.take(call.now, cost));
                self.held[call.thread].push((paid.collect(), cost));
                Answer::Admitted
            }
            Ask::Refund => {
                let Some((paid, _)) = self.held[call.thread].pop() else { return Answer::Done };
                self.limits
                    .iter_mut()
                    .zip(paid)
                    .for_each(|(limit, paid)| limit.refund(call.now, paid));
                Answer::Done
            }
            Ask::Peek(cost) if self.limits.len() == 1 => {
                Answer::Read(self.limits[0].peek(call.now, cost))
            }
            Ask::Peek(cost) => match self.admits(call.now, cost) {
                true => Answer::Admitted,
                false => Answer::Refused,
            },
            Ask::Sweep | Ask::Reload(_) => Answer::Done,
        }
    }
}

struct Checker<'h> {
    history: &'h [Call],
    fresh: &'h dyn Fn() -> Vec<Oracle>,
    excused: Excused,
}

/// Which refusals explain themselves, and which peeks tell nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Excused {
    None,
    /// Those that other calls overlap: they may have met a decision that was rolled back.
    Overlapped,
    /// All: the clocks differ, and who comes with a stale time may be refused.
    All,
}

/// A place in an order: a call and, of one that was refused, how many of the limits saw its time
/// before one refused. They were charged in vain; or, a log, rewritten without what had expired then.
type Placed = (usize, usize);

impl Checker<'_> {
    /// Whether some order explains the history.
    fn explains(&self) -> bool {
        self.search(&mut Vec::new())
    }

    fn search(&self, order: &mut Vec<Placed>) -> bool {
        if order.len() == self.history.len() {
            return true;
        }
        let placed = |call| order.iter().any(|&(other, _)| other == call);
        let open: Vec<usize> = (0..self.history.len()).filter(|&call| !placed(call)).collect();
        let first_end = open.iter().map(|&call| self.history[call].ended).min().unwrap_or(0);
        for next in open {
            if self.history[next].began > first_end {
                continue;
            }
            for seen in 0..=self.in_vain(next) {
                order.push((next, seen));
                if self.replays(order) && self.search(order) {
                    return true;
                }
                order.pop();
            }
        }
        false
    }

    /// How many limits may have seen the call's time in vain. It matters only if the time may be ahead
    /// of others'.
    fn in_vain(&self, call: usize) -> usize {
        let call = &self.history[call];
        let refused = matches!((call.ask, call.answer), (Ask::Acquire(_), Answer::Refused));
        match refused && self.excused == Excused::All && self.is_overlapped(call) {
            true => (self.fresh)().len(),
            false => 0,
        }
    }

    fn is_overlapped(&self, call: &Call) -> bool {
        self.history.iter().any(|other| other.began != call.began && call.overlaps(other))
    }

    /// Whether the oracle answers the last call of this order as it was answered.
    fn replays(&self, order: &[Placed]) -> bool {
        let held =
            vec![Vec::new(); 1 + self.history.iter().map(|call| call.thread).max().unwrap_or(0)];
        let mut oracle = Sequential { limits: (self.fresh)(), held };
        let mut same = true;
        for &(index, seen) in order {
            let call = &self.history[index];
            let excused = match self.excused {
                Excused::None => false,
                Excused::Overlapped => self.is_overlapped(call),
                Excused::All => true,
            };
            for limit in &mut oracle.limits[..seen] {
                // Nothing is given, but at that time.
                limit.credit(call.now, 0);
            }
            same = excused && !matches!(call.answer, Answer::Admitted | Answer::Done)
                || oracle.answer(call) == call.answer;
        }
        same
    }
}

// The recorder

/// The permits of a thread: what gives them back.
type Held<'s> = Vec<Box<dyn FnOnce(u64) + 's>>;

/// A way to decide, with permits that can be given back.
trait Subject: Sync {
    fn ask<'s>(&'s self, ask: Ask, now: u64, held: &mut Held<'s>) -> Answer;
}

fn at(now: u64) -> Nanos {
    Nanos::new(now)
}

impl Subject for (Ours, [Policies; 2]) {
    fn ask<'s>(&'s self, ask: Ask, now: u64, held: &mut Held<'s>) -> Answer {
        let (ours, policies) = self;
        let several = matches!(policies[0].tiers().next(), Some((_, policy)) if matches!(policy.algorithm(), AnyAlgorithm::Stack(_)));
        match ask {
            Ask::Acquire(cost) => match ours.acquire_at(&KEY, cost, at(now)) {
                Ok(permit) => {
                    held.push(Box::new(move |now| permit.refund_at(at(now))));
                    Answer::Admitted
                }
                Err(_) => Answer::Refused,
            },
            Ask::Refund => {
                held.pop().into_iter().for_each(|refund| refund(now));
                Answer::Done
            }
            Ask::Peek(cost) => {
                let decision = ours.client_at(&KEY, at(now)).explain(cost);
                match decision.limits().next() {
                    Some(limit) if !several => Answer::Read(limit.reading),
                    _ if decision.decision().is_admitted() => Answer::Admitted,
                    _ => Answer::Refused,
                }
            }
            Ask::Sweep => {
                ours.sweep_at(8, at(now));
                Answer::Done
            }
            Ask::Reload(capped) => {
                ours.reload_at(policies[usize::from(capped)].clone(), at(now));
                Answer::Done
            }
        }
    }
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What each thread will ask.
fn plans(random: &mut Random, reloads: bool) -> Vec<Vec<Ask>> {
    let threads = 2 + random.below(3) as usize;
    let calls = 10 / threads as u64;
    let mut ask = || match random.below(12) {
        0..6 => Ask::Acquire(1 + random.below(3)),
        6..8 => Ask::Refund,
        8 | 9 => Ask::Peek(random.below(3)),
        10 if reloads => Ask::Reload(random.below(2) == 0),
        _ => Ask::Sweep,
    };
    (0..threads).map(|_| (0..calls).map(|_| ask()).collect()).collect()
}

/// Where the threads have the time from.
enum Clocks {
    /// One clock. The first thread moves it, while nobody is between reading it and his answer.
    One(RwLock<u64>),
    /// A clock for each thread, and what it says at each call.
    Own(Vec<Vec<u64>>),
}

/// Where the pauses of each thread begin.
static PAUSES_OF_ALL: AtomicU64 = AtomicU64::new(1);

/// Lets the threads ask at once, by one clock.
fn record(subject: &dyn Subject, plans: &[Vec<Ask>]) -> Vec<Call> {
    record_by(&Clocks::One(RwLock::new(START)), subject, plans)
}

fn record_by(clocks: &Clocks, subject: &dyn Subject, plans: &[Vec<Ask>]) -> Vec<Call> {
    let (order, arrived) = (AtomicU64::new(0), AtomicUsize::new(0));
    let run = |thread: usize, plan: &[Ask]| {
        let (mut held, mut calls) = (Vec::new(), Vec::new());
        PAUSES.set((thread + 1) as u64 * PAUSES_OF_ALL.fetch_add(1, Ordering::Relaxed));
        // Not at a barrier: whom it wakes late finds that the others are done.
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < plans.len() {
            hint::spin_loop();
            thread::yield_now();
        }
        for (number, &ask) in plan.iter().enumerate() {
            let (now, time) = match clocks {
                Clocks::Own(times) => (times[thread][number], None),
                Clocks::One(clock) => {
                    // Not before the first: a subject may wait for the others within a call.
                    if thread == 0 && number > 0 {
                        *clock.write().unwrap() += PERIOD / 4;
                    }
                    let time = clock.read().unwrap();
                    (*time, Some(time))
                }
            };
            let began = order.fetch_add(1, Ordering::SeqCst);
            let answer = subject.ask(ask, now, &mut held);
            let ended = order.fetch_add(1, Ordering::SeqCst);
            drop(time);
            calls.push(Call { thread, began, ended, now, ask, answer });
        }
        calls
    };
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = plans
            .iter()
            .enumerate()
            .map(|(thread, plan)| scope.spawn(move || run(thread, plan)))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn histories() -> u64 {
    env::var("TOLLGATE_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000)
}

fn subject(algorithm: &AnyAlgorithm) -> (Ours, [Policies; 2]) {
    let huge = AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_second(1 << 30).unwrap());
    let policies = Policies::new("default", algorithm.clone());
    let both = [policies.clone(), policies.global(huge.unwrap())];
    let ours = Limiter::<Key>::with_policies(both[0].clone()).clock(ManualClock::new()).build();
    // It has a state, which is as good as new when the history begins.
    assert!(ours.is_allowed_at(&KEY, at(1)));
    (ours, both)
}

/// A limit and its oracle, which has seen what [`subject`] did.
fn limit(family: &Family, units: u64) -> (AnyAlgorithm, impl Fn() -> Oracle + use<>) {
    let numbers = Numbers::new(units, PERIOD, units);
    let algorithm = family.algorithm(numbers);
    let (rule, figures) = family.terms(numbers, &algorithm);
    let oracle = move || {
        let mut oracle = Oracle::new(rule, figures);
        oracle.take(1, 1);
        oracle
    };
    (algorithm, oracle)
}

#[test]
fn every_history_of_one_limit_has_an_explanation() {
    for family in FAMILIES {
        let (algorithm, oracle) = limit(family, 3);
        let mut random = Random(7);
        // What a window granted before a reload is not known again: see `refund_adopted`.
        let reloads = family.bursts;
        for number in 0..histories() {
            let subject = subject(&algorithm);
            let history = record(&subject, &plans(&mut random, reloads));
            let fresh = || vec![oracle()];
            let checker = Checker { history: &history, fresh: &fresh, excused: Excused::None };
            assert!(checker.explains(), "{} {number}: {history:#?}", family.name);
        }
    }
}

/// Several limits are several words: what a peek reads need not belong to one instant.
fn forget_peeks(history: &mut Vec<Call>) {
    history.retain(|call| !matches!(call.ask, Ask::Peek(_)));
}

#[test]
fn no_history_of_several_limits_admits_more_than_the_oracles() {
    let mut random = Random(11);
    for number in 0..histories() {
        let pick = |random: &mut Random| &FAMILIES[random.below(FAMILIES.len() as u64) as usize];
        let (first, second) = (limit(pick(&mut random), 3), limit(pick(&mut random), 4));
        let stack = Stack::new([Limit::new("a", first.0), Limit::new("b", second.0)]).unwrap();
        let subject = subject(&stack.into());
        let mut history = record(&subject, &plans(&mut random, false));
        forget_peeks(&mut history);
        let fresh = || vec![first.1(), second.1()];
        let checker = Checker { history: &history, fresh: &fresh, excused: Excused::Overlapped };
        assert!(checker.explains(), "{number}: {history:#?}");
    }
}

#[test]
fn one_thread_is_answered_exactly_by_several_limits() {
    let mut random = Random(13);
    for number in 0..histories() {
        let pick = |random: &mut Random| &FAMILIES[random.below(FAMILIES.len() as u64) as usize];
        let (first, second) = (limit(pick(&mut random), 3), limit(pick(&mut random), 4));
        let stack = Stack::new([Limit::new("a", first.0), Limit::new("b", second.0)]).unwrap();
        let subject = subject(&stack.into());
        let history = record(&subject, &plans(&mut random, false)[..1]);
        let fresh = || vec![first.1(), second.1()];
        let checker = Checker { history: &history, fresh: &fresh, excused: Excused::None };
        assert!(checker.explains(), "{number}: {history:#?}");
    }
}

// Clocks that differ

/// What a bad clock says at each of some calls: it stalls, goes on, goes back, leaps by years.
fn bad_clock(random: &mut Random, calls: usize) -> Vec<u64> {
    const YEAR: u64 = 365 * 86_400_000_000_000;
    let mut now = START + random.below(4 * PERIOD);
    let mut tell = || {
        let part = PERIOD / 4 * random.below(12);
        now = match random.below(8) {
            0 | 1 => now,
            2..5 => now.saturating_add(part),
            5 | 6 => now.saturating_sub(part),
            _ => [now.saturating_add(YEAR), now.saturating_sub(YEAR), START, 0, u64::MAX]
                [random.below(5) as usize],
        };
        now
    };
    (0..calls).map(|_| tell()).collect()
}

/// Threads that only acquire and peek, each by a bad clock of its own. (What a refund or a sweep is
/// worth at a bad time is asked in `hostile.rs` and `lifecycle.rs`, of one thread.)
fn record_by_bad_clocks(random: &mut Random, subject: &dyn Subject) -> Vec<Call> {
    let mut plans = plans(random, false);
    for ask in plans.iter_mut().flatten() {
        if matches!(ask, Ask::Refund | Ask::Sweep) {
            *ask = Ask::Acquire(1);
        }
    }
    let clocks = plans.iter().map(|plan| bad_clock(random, plan.len())).collect();
    record_by(&Clocks::Own(clocks), subject, &plans)
}

#[test]
fn by_clocks_that_differ_one_limit_admits_no_more_than_the_oracle() {
    for family in FAMILIES {
        let (algorithm, oracle) = limit(family, 3);
        let mut random = Random(17);
        for number in 0..histories() {
            let history = record_by_bad_clocks(&mut random, &subject(&algorithm));
            let fresh = || vec![oracle()];
            let checker = Checker { history: &history, fresh: &fresh, excused: Excused::All };
            assert!(checker.explains(), "{} {number}: {history:#?}", family.name);
        }
    }
}

#[test]
fn by_clocks_that_differ_several_limits_admit_no_more_than_the_oracles() {
    let mut random = Random(19);
    for number in 0..histories() {
        // A bucket that is charged in vain can be paid back more than is missing by then, which a time
        // that is behind the others' does not show.
        let exact: Vec<_> = FAMILIES.iter().filter(|family| !family.bursts).collect();
        let first = exact[random.below(exact.len() as u64) as usize];
        // A log that must grow tears the decision. What was charged before it is paid back, but a window
        // has moved on by then to a time that may be years ahead of the others'.
        let unbroken: Vec<_> =
            FAMILIES.iter().filter(|family| family.name != "sliding_log").collect();
        let families = [first, unbroken[random.below(unbroken.len() as u64) as usize]];
        let (first, second) = (limit(families[0], 3), limit(families[1], 4));
        let stack = Stack::new([Limit::new("a", first.0), Limit::new("b", second.0)]).unwrap();
        let mut history = record_by_bad_clocks(&mut random, &subject(&stack.into()));
        forget_peeks(&mut history);
        let fresh = || vec![first.1(), second.1()];
        let checker = Checker { history: &history, fresh: &fresh, excused: Excused::All };
        assert!(checker.explains(), "{number}: {families:?}: {history:#?}");
    }
}

// The checker itself

/// Reads whether there is room, waits for the other thread to have read too, and charges.
struct ReadsThenWrites(Ours, Barrier);

impl Subject for ReadsThenWrites {
    fn ask<'s>(&'s self, ask: Ask, now: u64, _: &mut Held<'s>) -> Answer {
        let Ask::Acquire(cost) = ask else { return Answer::Done };
        let room = self.0.peek_n_at(&KEY, cost, at(now)).is_admitted();
        self.1.wait();
        if room {
            self.0.client_at(&KEY, at(now)).charge(cost);
        }
        if room { Answer::Admitted } else { Answer::Refused }
    }
}

#[test]
fn a_subject_that_reads_and_then_writes_is_found_out() {
    let (algorithm, oracle) = limit(&FAMILIES[0], 3);
    let broken = ReadsThenWrites(subject(&algorithm).0, Barrier::new(2));
    let history = record(&broken, &[vec![Ask::Acquire(2)], vec![Ask::Acquire(2)]]);
    let fresh = || vec![oracle()];
    for excused in [Excused::None, Excused::Overlapped, Excused::All] {
        let checker = Checker { history: &history, fresh: &fresh, excused };
        assert!(!checker.explains(), "{excused:?}: {history:?}");
    }
}

/// Else the histories say nothing that one thread would not.
#[test]
fn many_histories_have_calls_that_overlap() {
    let (algorithm, _) = limit(&FAMILIES[0], 3);
    let mut random = Random(23);
    let overlap = |history: Vec<Call>| {
        let pairs = history.iter().flat_map(|one| history.iter().map(move |other| (one, other)));
        pairs.into_iter().any(|(one, other)| one.thread != other.thread && one.overlaps(other))
    };
    let mut record = || overlap(record(&subject(&algorithm), &plans(&mut random, true)));
    let overlapping = (0..200).filter(|_| record()).count();
    assert!(overlapping > 50, "{overlapping} of 200");
}

#[test]
fn the_checker_keeps_to_the_order_of_time() {
    let (_, oracle) = limit(&FAMILIES[0], 1);
    let fresh = || vec![oracle()];
    let call = |thread, began, ended, answer| Call {
        thread,
        began,
        ended,
        now: START,
        ask: Ask::Acquire(1),
        answer,
    };
    let explains =
        |history: &[Call]| Checker { history, fresh: &fresh, excused: Excused::None }.explains();
    assert!(explains(&[call(0, 0, 1, Answer::Admitted), call(1, 2, 3, Answer::Refused)]));
    assert!(!explains(&[call(0, 0, 1, Answer::Refused), call(1, 2, 3, Answer::Admitted)]));
    assert!(explains(&[call(0, 0, 3, Answer::Refused), call(1, 1, 2, Answer::Admitted)]));
    assert!(!explains(&[call(0, 0, 3, Answer::Admitted), call(1, 1, 2, Answer::Admitted)]));
}
