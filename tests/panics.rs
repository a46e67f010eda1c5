//! Panics of the user's own code, in a key or in a clock, poison nothing.

mod common;

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use tollgate::tower::Admit;
use tollgate::{
    AlgorithmKind, AnyAlgorithm, Clock, Explained, InFlight, Limit, Limiter, Nanos, OnDrop,
    Policies, Quota, Stack,
};

use common::families::{FAMILIES, Numbers};

const YEAR: u64 = 365 * 86_400_000_000_000;
/// An instant inside a window, long before its end.
const NOW: Nanos = Nanos::new(YEAR / 3);
/// A hundred in a year: none comes back while the test runs at one instant.
const HUNDRED: Numbers = Numbers::new(100, YEAR, 100);

/// A hundred by each algorithm, and by several limits of one client: all but the log, whose growth
/// can make a decision start over, and hash its key again when it has charged the others.
fn hundreds() -> Vec<(&'static str, AnyAlgorithm)> {
    let each = FAMILIES.iter().map(|family| (family.name, family.algorithm(HUNDRED)));
    let words = each.clone().filter(|&(name, _)| name != "sliding_log");
    let limits = words.map(|(name, algorithm)| Limit::new(name, algorithm));
    let stack = Stack::new(limits).unwrap();
    each.chain([("stack", stack.into())]).collect()
}

/// Each of [`hundreds`], alone and under a global cap of two hundred.
fn each_policy(test: impl Fn(&str, Policies)) {
    let cap = AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_day(200).unwrap()).unwrap();
    for (name, algorithm) in hundreds() {
        let policies = Policies::new("default", algorithm);
        test(name, policies.clone());
        test(&format!("{name} under a cap"), policies.global(cap.clone()));
    }
}

fn panics(work: impl FnOnce()) -> bool {
    panic::catch_unwind(AssertUnwindSafe(work)).is_err()
}

// Keys

/// Where a key panics, and how often it does not before that.
type Trouble = Option<(Place, u32)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Hash,
    Eq,
    Clone,
}

/// A key that panics if told to. All have the same hash, so that they are compared.
#[derive(Debug)]
struct Fragile {
    name: u64,
    trouble: Arc<Mutex<Trouble>>,
}

impl Fragile {
    fn pass(&self, place: Place) {
        let mut trouble = self.trouble.lock().unwrap();
        let Some((here, before)) = &mut *trouble else { return };
        if *here != place {
            return;
        }
        let now = *before == 0;
        *before = before.saturating_sub(1);
        drop(trouble);
        assert!(!now, "told to");
    }
}

impl Hash for Fragile {
    fn hash<H: Hasher>(&self, _: &mut H) {
        self.pass(Place::Hash);
    }
}

impl PartialEq for Fragile {
    fn eq(&self, other: &Self) -> bool {
        self.pass(Place::Eq);
        self.name == other.name
    }
}

impl Eq for Fragile {}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        self.pass(Place::Clone);
        Self { name: self.name, trouble: self.trouble.clone() }
    }
}

/// How many clients have been charged: as many as are told, which is as many as there are, when those
/// that were not have been swept.
fn count(limiter: &Limiter<Fragile>) -> usize {
    // One that was left frozen is replaced by the first sweep, and retired by the second.
    for _ in 0..2 {
        let told = limiter.clients();
        assert_eq!(limiter.sweep_at(usize::MAX, NOW).looked, told);
    }
    limiter.clients()
}

/// What the global cap has left, if there is one.
fn left_of_all(limiter: &Limiter<Fragile>, key: &Fragile) -> Option<u64> {
    let explained = limiter.client_at(key, NOW).explain(0);
    let cap = explained.limits().find(|limit| limit.name == "global");
    cap.map(|cap| cap.reading.remaining)
}

#[test]
fn a_newcomer_whose_key_panics_anywhere_is_as_if_it_had_not_come() {
    each_policy(|name, policies| {
        let limiter = Limiter::<Fragile>::with_policies(policies.max_clients(2)).build::<Fragile>();
        let trouble = Arc::new(Mutex::new(None));
        let key = |name| Fragile { name, trouble: trouble.clone() };
        let (known, newcomer) = (key(1), key(2));
        let left = |key| limiter.peek_n_at(key, 1, NOW).remaining();
        assert!(limiter.is_allowed_at(&known, NOW), "{name}");
        for place in [Place::Hash, Place::Eq, Place::Clone] {
            let of_all = left_of_all(&limiter, &known);
            // At its first time in this place, at its second, and so on, until there is none.
            for before in 0.. {
                let what = format!("{name}: {place:?} after {before}");
                *trouble.lock().unwrap() = Some((place, before));
                let panicked = panics(|| {
                    assert!(limiter.check_n_at(&newcomer, 5, NOW).is_admitted(), "{what}");
                });
                *trouble.lock().unwrap() = None;
                if !panicked {
                    assert!(before > 0, "{what}");
                    break;
                }
                assert_eq!(count(&limiter), 1, "{what}");
                assert_eq!((left(&known), left(&newcomer)), (99, 100), "{what}");
                assert_eq!(left_of_all(&limiter, &known), of_all, "{what}");
            }
            assert_eq!((count(&limiter), left(&newcomer)), (2, 95), "{name}: {place:?}");
            assert_eq!(left_of_all(&limiter, &known), of_all.map(|left| left - 5), "{name}");
            limiter.client_at(&newcomer, NOW).forget();
        }
        // There is room for two, as there was.
        assert!(limiter.is_allowed_at(&newcomer, NOW), "{name}");
        assert!(limiter.check_at(&key(3), NOW).refused_because_full(), "{name}");
        assert_eq!((count(&limiter), left(&known)), (2, 99), "{name}");
    });
}

#[test]
fn a_key_that_panics_breaks_nothing_for_others() {
    each_policy(|name, policies| {
        let limiter = Limiter::<Fragile>::with_policies(policies).build::<Fragile>();
        let trouble = Arc::new(Mutex::new(None));
        let key = |name| Fragile { name, trouble: trouble.clone() };
        let (known, other) = (key(1), key(2));
        assert!(limiter.is_allowed_at(&known, NOW), "{name}");
        let permit = limiter.acquire_at(&known, 9, NOW).unwrap();
        for place in [Place::Hash, Place::Eq] {
            let attempts: [&dyn Fn(); 4] = [
                &|| assert!(limiter.check_n_at(&known, 5, NOW).is_admitted()),
                &|| assert!(limiter.acquire_at(&known, 5, NOW).is_ok()),
                &|| limiter.credit_at(&known, 5, NOW),
                &|| limiter.client_at(&known, NOW).forget(),
            ];
            for attempt in attempts {
                *trouble.lock().unwrap() = Some((place, 0));
                assert!(panics(attempt), "{name}: {place:?}");
                *trouble.lock().unwrap() = None;
                assert_eq!(limiter.peek_n_at(&known, 1, NOW).remaining(), 90, "{name}: {place:?}");
            }
        }
        permit.refund_at(NOW);
        assert!(limiter.check_n_at(&other, 100, NOW).is_admitted(), "{name}");
        let admitted = (0..200).filter(|_| limiter.is_allowed_at(&known, NOW)).count();
        assert_eq!((admitted, limiter.clients()), (99, 2), "{name}");
    });
}

/// A key that panics whenever it is hashed, if its number is a multiple of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Third(u32);

impl Hash for Third {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(self.0 % 3 > 0, "told to");
        self.0.hash(state);
    }
}

#[test]
fn keys_that_panic_while_the_map_grows_and_shrinks_are_not_missed() {
    let bucket = FAMILIES[0].algorithm(HUNDRED);
    let limiter = Limiter::<Third, _>::builder(bucket).max_clients(4_000).build::<Third>();
    let later = NOW.saturating_add(std::time::Duration::from_secs(366 * 86_400));
    for at in [NOW, later] {
        thread::scope(|scope| {
            for thread in 0..3 {
                let limiter = &limiter;
                scope.spawn(move || {
                    for number in (0..6_000).filter(|number| number / 3 % 3 == thread) {
                        let key = Third(number);
                        let mut admitted = false;
                        let panicked = panics(|| admitted = limiter.is_allowed_at(&key, at));
                        assert_eq!((panicked, admitted), (number % 3 == 0, number % 3 > 0));
                    }
                });
            }
        });
        // The second time there was no room, but that which idle clients made.
        assert_eq!(limiter.clients(), 4_000);
    }
    let after = later.saturating_add(std::time::Duration::from_secs(366 * 86_400));
    assert_eq!(limiter.sweep_at(usize::MAX, after).retired, 4_000);
    assert_eq!(limiter.clients(), 0);
}

// Clocks

thread_local! {
    /// Whether the clock panics, in this thread.
    static FAULTY: Cell<bool> = const { Cell::new(false) };
}

/// A clock that stands still, and panics where it is told to.
#[derive(Debug)]
struct Faulty;

impl Clock for Faulty {
    fn now(&self) -> Nanos {
        assert!(!FAULTY.get(), "told to");
        NOW
    }
}

/// Whether it panics with a clock that does.
fn panics_without_time(work: impl FnOnce()) -> bool {
    FAULTY.set(true);
    let panicked = panics(work);
    FAULTY.set(false);
    panicked
}

#[test]
fn a_clock_that_panics_takes_nothing_while_other_threads_decide() {
    each_policy(|name, policies| {
        let limiter = Limiter::<u64>::with_policies(policies).clock(Faulty).build::<u64>();
        let start = Barrier::new(4);
        let admitted: usize = thread::scope(|scope| {
            let run = |_| {
                scope.spawn(|| {
                    start.wait();
                    let decide = |round| {
                        if round % 3 == 0 {
                            assert!(panics_without_time(|| assert!(
                                limiter.check_n(&1, 7).is_admitted()
                            )));
                            assert!(panics_without_time(|| assert!(limiter.is_allowed(&1))));
                        }
                        limiter.is_allowed(&1)
                    };
                    (0..60).filter(|&round| decide(round)).count()
                })
            };
            let threads: Vec<_> = (0..4).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((admitted, limiter.clients()), (100, 1), "{name}");
    });
}

/// Two at once of a hundred.
fn two_at_once() -> AnyAlgorithm {
    let bucket = FAMILIES[0].algorithm(HUNDRED);
    let parallel = InFlight::new(2).unwrap();
    Stack::new([Limit::new("parallel", parallel), Limit::new("all", bucket)]).unwrap().into()
}

/// How many are in flight, and what is used of the hundred.
fn in_use(limiter: &Limiter<u64, AnyAlgorithm, Faulty>) -> (u64, u64) {
    let explained = limiter.client(&1).explain(0);
    let mut left = explained.limits().map(|limit| limit.reading.remaining);
    (2 - left.next().unwrap(), 100 - left.next().unwrap())
}

#[test]
fn a_permit_that_is_ended_without_the_time_ends_all_the_same() {
    for (on_drop, used) in [(OnDrop::Commit, 5), (OnDrop::Refund, 0)] {
        let limiter = || {
            let builder = Limiter::<u64, _>::builder(two_at_once()).clock(Faulty);
            builder.on_drop(on_drop).build::<u64>()
        };
        let ours = limiter();
        let permit = ours.acquire(&1, 5).unwrap();
        assert!(panics_without_time(|| permit.refund()));
        assert_eq!(in_use(&ours), (0, used), "{on_drop:?}");

        let ours = limiter();
        let permit = ours.acquire(&1, 5).unwrap();
        assert!(panics_without_time(|| permit.settle(3)));
        assert_eq!(in_use(&ours), (0, used), "{on_drop:?}");

        // And so does the charge of a request that is served.
        let ours = limiter();
        let charge = ours.admit(&1, None, 5, &mut Explained::default());
        assert!(panics_without_time(|| Admit::settle(&ours, &1, charge.unwrap(), 3)));
        assert_eq!(in_use(&ours), (0, used), "{on_drop:?}");
        let charge = ours.admit(&1, None, 5, &mut Explained::default());
        assert!(!panics_without_time(|| ours.cancel(&1, charge.unwrap())), "no time is needed");
        assert_eq!(in_use(&ours), (0, 2 * used), "{on_drop:?}");
    }
}
