//! The sliding log: the plain one, the ring, and how the one becomes the other.
//!
//! Periods are 10 ns and stamps differ, so that a slot read too early, too late or for another
//! lap shows as a unit that expires at the wrong time.

#![cfg(tollgate_loom)]

use std::time::Duration;

use loom::sync::{Arc, Mutex};
use loom::thread;
use tollgate::{Algorithm, Log, LogGrant, Nanos, Quota, SlidingLog};
use tollgate_loom_tests::explore;

const PERIOD: u64 = 10;

fn at(nanos: u64) -> Nanos {
    Nanos::new(nanos)
}

/// A log, and a state of it that several threads share.
struct Shared {
    log: SlidingLog,
    state: Log,
}

fn log(limit: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(limit, Duration::from_nanos(PERIOD)).unwrap()).unwrap()
}

/// A fresh log that is a ring: a charge is what a plain log leaves to one.
fn ring(log: &SlidingLog) -> Log {
    let plain = log.fresh(at(0));
    assert!(log.charge(&plain, at(0), 1, 0).is_err());
    log.successor(&plain)
}

impl Shared {
    fn plain(limit: u64) -> Arc<Self> {
        let log = log(limit);
        Arc::new(Self { state: log.fresh(at(0)), log })
    }

    fn ring(limit: u64) -> Arc<Self> {
        let log = log(limit);
        Arc::new(Self { state: ring(&log), log })
    }

    fn acquire(&self, now: u64, cost: u64) -> Option<LogGrant> {
        self.log.acquire(&self.state, at(now), cost).unwrap()
    }

    fn refund(&self, now: u64, grant: LogGrant) {
        self.log.refund(&self.state, at(now), grant).unwrap();
    }

    fn used(&self, now: u64) -> u64 {
        self.log.limit() - self.log.peek(&self.state, at(now), 1).remaining
    }

    /// The books balance: at every time what is used is what was granted and has not expired.
    fn assert_holds(&self, grants: &[Option<LogGrant>]) {
        assert_holds(&self.log, &self.state, grants);
    }
}

fn assert_holds(log: &SlidingLog, state: &Log, grants: &[Option<LogGrant>]) {
    let grants: Vec<_> = grants.iter().flatten().collect();
    let latest = grants.iter().map(|grant| grant.stamp().get()).max().unwrap_or(0);
    for now in latest..=latest + PERIOD {
        let live = grants.iter().filter(|grant| now - grant.stamp().get() < PERIOD);
        let granted: u64 = live.map(|grant| grant.amount()).sum();
        let used = log.limit() - log.peek(state, at(now), 1).remaining;
        assert_eq!(used, granted, "at {now}: {grants:?}");
    }
}

/// Explores a model twice, with the roles of its two threads exchanged. Loom backtracks from a
/// load to the exchange before it, but not always the other way round.
fn explore_both(name: &'static str, body: impl Fn(Roles) + Clone + Send + Sync + 'static) {
    for roles in [Roles::AsGiven, Roles::Exchanged] {
        let body = body.clone();
        explore(&format!("{name}/{roles:?}"), move || body(roles));
    }
}

#[derive(Clone, Copy, Debug)]
enum Roles {
    AsGiven,
    Exchanged,
}

impl Roles {
    /// Runs both at once, one of them on the thread that calls.
    fn race<S: 'static, A: 'static, B: 'static>(
        self,
        shared: &Arc<S>,
        a: impl FnOnce(&S) -> A + 'static,
        b: impl FnOnce(&S) -> B + 'static,
    ) -> (A, B) {
        match self {
            Self::AsGiven => {
                let b = spawn(shared, b);
                (a(shared), b.join().unwrap())
            }
            Self::Exchanged => {
                let a = spawn(shared, a);
                let b = b(shared);
                (a.join().unwrap(), b)
            }
        }
    }
}

fn spawn<S: 'static, T: 'static>(
    shared: &Arc<S>,
    body: impl FnOnce(&S) -> T + 'static,
) -> thread::JoinHandle<T> {
    let shared = shared.clone();
    thread::spawn(move || body(&shared))
}

#[test]
fn log_ring_take_against_take_at_the_last_unit() {
    explore_both("log_ring_take_against_take_at_the_last_unit", |roles| {
        let shared = Shared::ring(1);
        let (a, b) = roles.race(&shared, |log| log.acquire(1, 1), |log| log.acquire(2, 1));
        assert!(a.is_some() != b.is_some(), "{a:?}, {b:?}");
        shared.assert_holds(&[a, b]);
    });
}

#[test]
fn log_ring_cost_against_cost() {
    explore_both("log_ring_cost_against_cost", |roles| {
        let shared = Shared::ring(4);
        let (a, b) = roles.race(&shared, |log| log.acquire(1, 3), |log| log.acquire(2, 3));
        assert!(a.is_some() != b.is_some(), "{a:?}, {b:?}");
        shared.assert_holds(&[a, b]);
    });
}

#[test]
fn log_ring_take_against_refund() {
    explore_both("log_ring_take_against_refund", |roles| {
        let shared = Shared::ring(3);
        let refunded = shared.acquire(1, 2).unwrap();
        let kept = shared.acquire(2, 1);
        // When the unit is taken, the two have expired or were given back: there is room.
        let refund = move |log: &Shared| log.refund(3, refunded);
        let (taken, ()) = roles.race(&shared, |log| log.acquire(11, 1), refund);
        assert!(taken.is_some());
        shared.assert_holds(&[kept, taken]);
        let next = shared.acquire(11, 1);
        assert!(next.is_some());
        shared.assert_holds(&[kept, taken, next]);
    });
}

#[test]
fn log_ring_refund_against_refund() {
    explore_both("log_ring_refund_against_refund", |roles| {
        let shared = Shared::ring(3);
        let [a, b, kept] = [1, 1, 2].map(|now| shared.acquire(now, 1));
        let refund = |grant: Option<LogGrant>| move |log: &Shared| log.refund(2, grant.unwrap());
        roles.race(&shared, refund(a), refund(b));
        shared.assert_holds(&[kept]);
    });
}

/// The administrator's credit is one step, whatever it gives back.
#[test]
fn log_ring_take_against_credit() {
    explore_both("log_ring_take_against_credit", |roles| {
        let shared = Shared::ring(3);
        let [first, _] = [1, 2].map(|now| shared.acquire(now, 1));
        let credit = |log: &Shared| log.log.credit(&log.state, at(3), 2, 0).unwrap();
        let (taken, ()) = roles.race(&shared, |log| log.acquire(3, 1), credit);
        // The two newest went: the two that were there, or the second and the one just taken.
        let kept = if shared.used(11) == 1 { taken } else { first };
        shared.assert_holds(&[kept]);
    });
}

#[test]
fn log_ring_take_against_freeze() {
    explore_both("log_ring_take_against_freeze", |roles| {
        let shared = Shared::ring(2);
        shared.acquire(1, 1).unwrap();
        let (taken, frozen) = roles.race(
            &shared,
            |shared| shared.log.acquire(&shared.state, at(11), 1),
            |shared| shared.log.freeze_if_idle(&shared.state, at(11)),
        );
        assert_ne!(taken.is_ok(), frozen, "{taken:?}");
        if frozen {
            assert!(shared.log.acquire(&shared.state, at(99), 1).is_err());
            assert_holds(&shared.log, &shared.log.successor(&shared.state), &[]);
        } else {
            shared.assert_holds(&[taken.unwrap()]);
        }
    });
}

/// What the registry does for one client: whoever meets a frozen state replaces it.
struct Entry {
    log: SlidingLog,
    state: Mutex<Arc<Log>>,
}

impl Entry {
    fn new(log: SlidingLog, state: Log) -> Arc<Self> {
        Arc::new(Self { log, state: Mutex::new(Arc::new(state)) })
    }

    fn ask<T, E>(&self, ask: impl Fn(&SlidingLog, &Log) -> Result<T, E>) -> T {
        loop {
            let state = self.state.lock().unwrap().clone();
            if let Ok(answer) = ask(&self.log, &state) {
                return answer;
            }
            let successor = Arc::new(self.log.successor(&state));
            let mut current = self.state.lock().unwrap();
            if Arc::ptr_eq(&current, &state) {
                *current = successor;
            }
        }
    }

    fn acquire(&self, now: u64, cost: u64) -> Option<LogGrant> {
        self.ask(|log, state| log.acquire(state, at(now), cost))
    }

    fn assert_holds(&self, grants: &[Option<LogGrant>]) {
        assert_holds(&self.log, &self.state.lock().unwrap(), grants);
    }
}

#[test]
fn log_ring_growth_against_take() {
    explore_both("log_ring_growth_against_take", |roles| {
        let entry = Entry::new(log(6), ring(&log(6)));
        let before = entry.acquire(1, 3);
        let (a, b) = roles.race(&entry, |entry| entry.acquire(2, 1), |entry| entry.acquire(3, 1));
        assert!(a.is_some() && b.is_some());
        entry.assert_holds(&[before, a, b]);
    });
}

#[test]
fn log_ring_two_takes_around_an_expiry() {
    explore_both("log_ring_two_takes_around_an_expiry", |roles| {
        let shared = Shared::ring(2);
        let first = shared.acquire(0, 1);
        let later = |log: &Shared| (log.acquire(10, 1), log.used(19));
        let (a, (b, used)) = roles.race(&shared, |log| log.acquire(9, 1), later);
        let (stamp, used_at_19): (_, &[u64]) = match a.unwrap().stamp().get() {
            9 => (9, &[1]),
            other => (other, &[1, 2]),
        };
        assert!(used_at_19.contains(&used), "{used} used, the other stamped {stamp}");
        assert!(b.is_some());
        shared.assert_holds(&[first, a, b]);
    });
}

/// A writer that stops between its exchange and its slot, while others go round the ring.
#[test]
fn log_ring_late_writer_against_the_next_lap() {
    explore_both("log_ring_late_writer_against_the_next_lap", |roles| {
        let shared = Shared::ring(3);
        let around = |log: &Shared| [10, 11, 12, 20, 21].map(|now| log.acquire(now, 1));
        let (late, grants) = roles.race(&shared, |log| log.acquire(0, 1), around);
        shared.assert_holds(&[&grants[..], &[late]].concat());
    });
}

/// A refund that stops between its exchange and its slots, while others go round the ring.
#[test]
fn log_ring_late_refund_against_the_next_lap() {
    explore_both("log_ring_late_refund_against_the_next_lap", |roles| {
        let shared = Shared::ring(2);
        let refunded = shared.acquire(0, 1).unwrap();
        let refund = move |log: &Shared| log.refund(0, refunded);
        // 16: the stamp's low bits come again.
        let around = |log: &Shared| [10, 16, 20].map(|now| log.acquire(now, 1));
        let ((), grants) = roles.race(&shared, refund, around);
        shared.assert_holds(&grants);
    });
}

/// A third thread looks: whoever sees the second admission sees the first one's slots.
#[test]
fn log_ring_slots_are_seen_with_the_next_admission() {
    explore("log_ring_slots_are_seen_with_the_next_admission", || {
        let shared = Shared::ring(4);
        // In the order in which loom tries them first: what is stale is then read stale.
        let first = spawn(&shared, |log| log.acquire(1, 2));
        let second = spawn(&shared, |log| log.acquire(2, 1));
        let reader = spawn(&shared, |log| log.used(11));
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        let used = reader.join().unwrap();
        let expected: &[u64] = match first.unwrap().stamp().get() {
            1 => &[0, 1],
            _ => &[0, 1, 3],
        };
        assert!(expected.contains(&used), "{used} used; {first:?}, {second:?}");
        shared.assert_holds(&[first, second]);
    });
}

/// A reader meets a refund halfway: it reads the ring before or after, not a mixture.
#[test]
fn log_ring_reading_against_refund() {
    explore_both("log_ring_reading_against_refund", |roles| {
        let shared = Shared::ring(4);
        let [first, second, third, fourth] = [0, 5, 6, 7].map(|now| shared.acquire(now, 1));
        shared.refund(7, third.unwrap());
        let refund = move |log: &Shared| log.refund(7, first.unwrap());
        let (used, ()) = roles.race(&shared, |log| log.used(10), refund);
        // The first unit has expired or was refunded: either way two are left.
        assert_eq!(used, 2);
        shared.assert_holds(&[second, fourth]);
    });
}

#[test]
fn log_plain_take_against_take_at_the_last_unit() {
    explore_both("log_plain_take_against_take_at_the_last_unit", |roles| {
        let shared = Shared::plain(1);
        let (a, b) = roles.race(&shared, |log| log.acquire(1, 1), |log| log.acquire(2, 1));
        assert!(a.is_some() != b.is_some(), "{a:?}, {b:?}");
        shared.assert_holds(&[a, b]);
    });
}

#[test]
fn log_plain_two_takes_around_an_expiry() {
    explore_both("log_plain_two_takes_around_an_expiry", |roles| {
        let shared = Shared::plain(2);
        let first = shared.acquire(0, 1);
        let (a, b) = roles.race(&shared, |log| log.acquire(9, 1), |log| log.acquire(10, 1));
        assert!(a.is_some() && b.is_some(), "{a:?}, {b:?}");
        shared.assert_holds(&[first, a, b]);
    });
}

/// A taker that stops between the two slots that it looks at, while others go round: the phase is
/// the same again, the stamps are not.
#[test]
fn log_plain_late_taker_against_the_next_laps() {
    explore_both("log_plain_late_taker_against_the_next_laps", |roles| {
        let shared = Shared::plain(2);
        let _ = [0, 0].map(|now| shared.acquire(now, 1));
        let around = |log: &Shared| [10, 10, 20].map(|now| log.acquire(now, 1));
        let (late, grants) = roles.race(&shared, |log| log.acquire(40, 1), around);
        shared.assert_holds(&[&grants[..], &[late]].concat());
    });
}

#[test]
fn log_plain_take_against_freeze() {
    explore_both("log_plain_take_against_freeze", |roles| {
        let shared = Shared::plain(2);
        shared.acquire(1, 1).unwrap();
        let (taken, frozen) = roles.race(
            &shared,
            |shared| shared.log.acquire(&shared.state, at(11), 1),
            |shared| shared.log.freeze_if_idle(&shared.state, at(11)),
        );
        assert_ne!(taken.is_ok(), frozen, "{taken:?}");
        if frozen {
            assert!(shared.log.acquire(&shared.state, at(99), 1).is_err());
            assert_eq!(shared.log.owed(&shared.log.successor(&shared.state), at(11)), 0);
        } else {
            shared.assert_holds(&[taken.unwrap()]);
        }
    });
}

#[test]
fn log_plain_growth_against_take() {
    explore_both("log_plain_growth_against_take", |roles| {
        let entry = Entry::new(log(6), log(6).fresh(at(0)));
        let before = [0, 1, 1, 1].map(|now| entry.acquire(now, 1));
        // All four slots are taken: at 9 the log must grow; at 10 one of them is free.
        let (a, b) = roles.race(&entry, |entry| entry.acquire(9, 1), |entry| entry.acquire(10, 1));
        assert!(a.is_some() && b.is_some());
        entry.assert_holds(&[&before[..], &[a, b]].concat());
    });
}

/// A batch makes the log a ring; a single unit goes before or after.
#[test]
fn log_plain_take_against_batch() {
    explore_both("log_plain_take_against_batch", |roles| {
        let entry = Entry::new(log(3), log(3).fresh(at(0)));
        let before = entry.acquire(1, 1);
        let (a, b) = roles.race(&entry, |entry| entry.acquire(2, 1), |entry| entry.acquire(3, 2));
        assert!(a.is_some() != b.is_some(), "{a:?}, {b:?}");
        entry.assert_holds(&[before, a, b]);
    });
}

/// A refund makes the log a ring, with the units that are taken meanwhile.
#[test]
fn log_plain_take_against_refund() {
    explore_both("log_plain_take_against_refund", |roles| {
        let entry = Entry::new(log(3), log(3).fresh(at(0)));
        let [refunded, kept] = [1, 2].map(|now| entry.acquire(now, 1));
        let refunded = refunded.unwrap();
        let refund =
            move |entry: &Entry| entry.ask(|log, state| log.refund(state, at(2), refunded));
        let (taken, ()) = roles.race(&entry, |entry| entry.acquire(3, 1), refund);
        assert!(taken.is_some());
        entry.assert_holds(&[kept, taken]);
    });
}

/// A reader meets two units, one of which takes the slot of an expired one: what it reads is of
/// one instant.
#[test]
fn log_plain_reading_against_takes() {
    explore("log_plain_reading_against_takes", || {
        let shared = Shared::plain(3);
        let [_, second] = [0, 5].map(|now| shared.acquire(now, 1));
        let taker = spawn(&shared, |log| [10, 11].map(|now| log.acquire(now, 1)));
        let reader = spawn(&shared, |shared| {
            let reading = shared.log.peek(&shared.state, at(14), 1);
            (3 - reading.remaining, reading.reset_after.as_nanos())
        });
        let taken = taker.join().unwrap();
        let read = reader.join().unwrap();
        assert!([(1, 1), (2, 6), (3, 7)].contains(&read), "used, reset after: {read:?}");
        shared.assert_holds(&[&taken[..], &[second]].concat());
    });
}
