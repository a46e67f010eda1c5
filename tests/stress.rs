//! Real threads that start together, and an exact end state.

mod common;

use std::sync::{Barrier, Mutex};
use std::thread;

use tollgate::{DirectLimiter, Limiter, ManualClock, Nanos};

use common::families::{FAMILIES, Family, Numbers, built, each_limiter_of};

const THREADS: u64 = 8;
const YEAR: u64 = 365 * 86_400_000_000_000;
/// An instant inside a window, long before its end.
const NOW: u64 = YEAR / 3;

/// A hundred in a year: none comes back while the test runs at one instant.
const HUNDRED: Numbers = Numbers::new(100, YEAR, 100);
/// The same, but no 64-bit word holds it.
const HUGE: Numbers = Numbers::new(1 << 40, YEAR, 1 << 40);

/// What each of the threads gives, started together.
fn together<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(threads as usize);
    thread::scope(|scope| {
        let start = |thread| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread)
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn total(counts: Vec<u64>) -> u64 {
    counts.into_iter().sum()
}

#[test]
fn eight_threads_with_a_hundred_checks_each_are_admitted_a_hundred_times() {
    each_limiter_of(HUNDRED, None, &|setup| {
        for _round in 0..5 {
            let subject = setup.make();
            let admitted = together(THREADS, |_| {
                (0..100).filter(|_| subject.admits("client", 1, NOW)).count() as u64
            });
            assert_eq!(total(admitted), 100, "{}", setup.name);
            assert_eq!(subject.peek("client", 1, NOW).reading.remaining, 0, "{}", setup.name);
            assert_eq!(subject.clients(), 1, "{}", setup.name);
        }
    });
}

#[test]
fn one_stream_is_shared_as_exactly() {
    for (name, _, algorithm) in built(HUNDRED) {
        let limiter = DirectLimiter::new(algorithm, ManualClock::starting_at(Nanos::new(NOW)));
        let admitted =
            together(THREADS, |_| (0..100).filter(|_| limiter.is_allowed()).count() as u64);
        assert_eq!(total(admitted), 100, "{name}");
        assert_eq!(limiter.peek_n(1).remaining(), 0, "{name}");
    }
}

#[test]
fn mixed_costs_add_up_to_the_limit() {
    for numbers in [HUNDRED, HUGE] {
        each_limiter_of(numbers, None, &|setup| {
            let subject = setup.make();
            // Ever smaller costs until not even one unit is admitted: what was taken is the limit.
            let taken = together(THREADS, |thread| {
                let (mut cost, mut taken) = (setup.capacity / (thread + 2), 0);
                while cost > 0 {
                    match subject.check("client", cost, NOW).admitted() {
                        true => taken += cost,
                        false => cost /= 2,
                    }
                }
                taken
            });
            assert_eq!(total(taken), setup.capacity, "{}", setup.name);
            assert!(!subject.admits("client", 1, NOW), "{}", setup.name);
        });
    }
}

#[test]
fn taking_and_giving_back_ends_full() {
    for numbers in [HUNDRED, HUGE] {
        each_limiter_of(numbers, None, &|setup| {
            let subject = setup.make();
            // One unit stays taken, so that a refund beyond full would show.
            assert!(subject.check("client", 1, NOW).admitted(), "{}", setup.name);
            together(THREADS, |thread| {
                for round in 1..=200 {
                    let cost = 1 + (thread * round) % (setup.capacity / 4);
                    if let Ok(refund) = subject.acquire("client", cost, NOW) {
                        refund(NOW);
                    }
                }
            });
            let left = subject.peek("client", 1, NOW).reading.remaining;
            assert_eq!(left, setup.capacity - 1, "{}", setup.name);
        });
    }
}

#[test]
fn no_more_than_the_limit_is_held_at_once() {
    each_limiter_of(HUNDRED, None, &|setup| {
        let subject = setup.make();
        // What is held is added here after it was taken, and subtracted before it is given back.
        let held = Mutex::new(0_u64);
        let most = together(THREADS, |thread| {
            let mut most = 0;
            for round in 1..=100 {
                let cost = 1 + (thread * 7 + round) % 60;
                if let Ok(refund) = subject.acquire("client", cost, NOW) {
                    *held.lock().unwrap() += cost;
                    thread::yield_now();
                    most = most.max(*held.lock().unwrap());
                    *held.lock().unwrap() -= cost;
                    refund(NOW);
                }
            }
            most
        });
        assert!(most.iter().all(|&most| most <= setup.capacity), "{}: {most:?}", setup.name);
        let left = subject.peek("client", 1, NOW).reading.remaining;
        assert_eq!(left, setup.capacity, "{}", setup.name);
    });
}

#[test]
fn credit_beside_admissions_is_counted_once() {
    each_limiter_of(HUNDRED, None, &|setup| {
        let subject = setup.make();
        assert!(subject.check("client", 100, NOW).admitted(), "{}", setup.name);
        // Eighty come back, one at a time, while the threads take what they can get.
        let admitted = together(THREADS, |_| {
            for _ in 0..10 {
                subject.credit("client", 1, NOW);
            }
            (0..100).filter(|_| subject.admits("client", 1, NOW)).count() as u64
        });
        assert_eq!(total(admitted), 80, "{}", setup.name);
        assert_eq!(subject.peek("client", 1, NOW).reading.remaining, 0, "{}", setup.name);
    });
}

#[test]
fn threads_that_race_on_a_new_client_make_one_state() {
    for family in FAMILIES {
        let limiter = Limiter::<String, _>::new(family.algorithm(HUNDRED));
        for round in 1..=200 {
            let key = format!("newcomer {round}");
            let at = Nanos::new(NOW);
            let admitted = together(2, |_| {
                (0..100).filter(|_| limiter.is_allowed_at(key.as_str(), at)).count() as u64
            });
            assert_eq!(total(admitted), 100, "{}", family.name);
            assert_eq!(limiter.clients(), round, "{}", family.name);
        }
    }
}

#[test]
fn many_newcomers_at_once_have_a_state_each() {
    for family in FAMILIES {
        let limiter = Limiter::<u64, _>::new(family.algorithm(Numbers::new(3, YEAR, 3)));
        let admitted = together(4, |thread| {
            // Each thread brings every client once, in an order of its own, while the map grows.
            let keys = (0..2_000).map(|i| i * [1, 3, 7, 9][thread as usize] % 2_000);
            keys.filter(|key| limiter.is_allowed_at(key, Nanos::new(NOW))).count() as u64
        });
        assert_eq!((total(admitted), limiter.clients()), (3 * 2_000, 2_000), "{}", family.name);
    }
}

/// Threads on clients of their own, more than the cap admits; then each client has all that it was
/// not granted.
fn race_for_the_cap(client: Family, cap: Family) {
    let (each, all) = (HUNDRED, Numbers::new(150, 1_000_000_000, 150));
    let builder = Limiter::<String, _>::builder(client.algorithm(each));
    let limiter = builder.global(cap.algorithm(all)).build::<String>();
    let name = format!("{} under {}", client.name, cap.name);
    let (now, later) = (Nanos::new(NOW), Nanos::new(NOW + 10_000_000_000));
    let admitted = together(THREADS, |thread| {
        let key = format!("client {thread}");
        (0..100).filter(|_| limiter.is_allowed_at(key.as_str(), now)).count() as u64
    });
    assert_eq!(admitted.iter().sum::<u64>(), 150, "{name}");
    // By then the cap is full again each time, and the clients' year has hardly begun.
    for (thread, admitted) in admitted.into_iter().enumerate() {
        let key = format!("client {thread}");
        let later = later.saturating_add(std::time::Duration::from_secs(10 * thread as u64));
        let left = (0..120).filter(|_| limiter.is_allowed_at(key.as_str(), later)).count() as u64;
        assert_eq!(left, 100 - admitted, "{name}: {key}");
    }
}

#[test]
fn the_cap_is_shared_exactly_and_who_lost_the_race_is_paid_back() {
    for &client in FAMILIES {
        for &cap in FAMILIES {
            race_for_the_cap(client, cap);
        }
    }
}

#[test]
fn refunds_under_a_cap_end_with_both_full() {
    let cap = Numbers::new(60, YEAR, 60);
    each_limiter_of(HUNDRED, Some(cap), &|setup| {
        let subject = setup.make();
        together(THREADS, |thread| {
            let key = format!("client {}", thread % 3);
            for cost in 1..=100 {
                if let Ok(refund) = subject.acquire(&key, 1 + cost % 20, NOW) {
                    refund(NOW);
                }
            }
        });
        assert!(subject.check("client 0", 60, NOW).admitted(), "{}", setup.name);
        assert!(!subject.admits("client 1", 1, NOW), "{}", setup.name);
    });
}
