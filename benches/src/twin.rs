//! The mutex twin: the classic design, with the same answers.

#![allow(clippy::disallowed_methods, reason = "the twin has a clock of its own")]

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Instant;

use crate::contender::{Contender, Policy};

const STRIPES: usize = 64;

/// A token bucket for each client: a striped map of clients, and a mutex for each of them.
///
/// A known client costs its stripe's read lock and its own mutex. The hasher is tollgate's, the
/// clock is [`Instant`].
#[derive(Debug)]
pub struct MutexTwin<K> {
    stripes: Box<[Stripe<K>]>,
    hasher: foldhash::fast::RandomState,
    terms: Terms,
    origin: Instant,
}

type Stripe<K> = RwLock<HashMap<K, Mutex<Bucket>, foldhash::fast::RandomState>>;

/// The credit that a client had at `seen`, in nanoseconds.
#[derive(Debug)]
struct Bucket {
    credit: u64,
    seen: u64,
}

/// What a request costs and a full bucket holds, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Terms {
    cost: u64,
    capacity: u64,
}

impl Terms {
    fn of(policy: Policy) -> Self {
        let cost = policy.period.as_nanos() as u64 / u64::from(policy.limit);
        Self { cost, capacity: cost * u64::from(policy.burst) }
    }

    fn fresh(self, now: u64) -> Bucket {
        Bucket { credit: self.capacity, seen: now }
    }

    fn take(self, bucket: &mut Bucket, now: u64) -> bool {
        let now = bucket.seen.max(now);
        let credit = bucket.credit.saturating_add(now - bucket.seen).min(self.capacity);
        let admitted = credit >= self.cost;
        let credit = if admitted { credit - self.cost } else { credit };
        *bucket = Bucket { credit, seen: now };
        admitted
    }
}

impl<K: Hash + Eq + Clone> MutexTwin<K> {
    /// A limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            terms: Terms::of(policy),
            origin: Instant::now(),
        }
    }

    /// Whether one request of this client may proceed at `now`, in nanoseconds.
    #[inline]
    pub fn is_allowed_at(&self, key: &K, now: u64) -> bool {
        let stripe = &self.stripes[self.hasher.hash_one(key) as usize % STRIPES];
        {
            let clients = stripe.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(client) = clients.get(key) {
                let mut bucket = client.lock().unwrap_or_else(PoisonError::into_inner);
                return self.terms.take(&mut bucket, now);
            }
        }
        let mut clients = stripe.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Mutex::new(self.terms.fresh(now));
        let client = clients.entry(key.clone()).or_insert_with(fresh);
        self.terms.take(client.get_mut().unwrap_or_else(PoisonError::into_inner), now)
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Contender<K> for MutexTwin<K> {
    #[inline]
    fn is_allowed(&self, key: &K, _turn: u64) -> bool {
        self.is_allowed_at(key, self.origin.elapsed().as_nanos() as u64)
    }
}

/// One mutex around one map: what is written first.
#[derive(Debug)]
pub struct OneMutex<K> {
    clients: Mutex<HashMap<K, Bucket, foldhash::fast::RandomState>>,
    terms: Terms,
    origin: Instant,
}

impl<K: Hash + Eq> OneMutex<K> {
    /// A limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        Self { clients: Mutex::default(), terms: Terms::of(policy), origin: Instant::now() }
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Contender<K> for OneMutex<K> {
    #[inline]
    fn is_allowed(&self, key: &K, _turn: u64) -> bool {
        let now = self.origin.elapsed().as_nanos() as u64;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get_mut(key) {
            return self.terms.take(client, now);
        }
        self.terms.take(clients.entry(key.clone()).or_insert(self.terms.fresh(now)), now)
    }
}

/// A sliding log for each client, in the map of the mutex twin: a `VecDeque` behind a mutex.
#[derive(Debug)]
pub struct LogTwin<K> {
    stripes: Box<[LogStripe<K>]>,
    hasher: foldhash::fast::RandomState,
    limit: usize,
    period: u64,
    origin: Instant,
}

type LogStripe<K> = RwLock<HashMap<K, Mutex<VecDeque<u64>>, foldhash::fast::RandomState>>;

impl<K: Hash + Eq + Clone> LogTwin<K> {
    /// A limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| LogStripe::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            limit: policy.limit as usize,
            period: policy.period.as_nanos() as u64,
            origin: Instant::now(),
        }
    }

    fn take(&self, log: &mut VecDeque<u64>, now: u64) -> bool {
        let now = log.back().map_or(now, |&last| last.max(now));
        while log.front().is_some_and(|&first| first + self.period <= now) {
            log.pop_front();
        }
        let admitted = log.len() < self.limit;
        if admitted {
            log.push_back(now);
        }
        admitted
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Contender<K> for LogTwin<K> {
    #[inline]
    fn is_allowed(&self, key: &K, _turn: u64) -> bool {
        let now = self.origin.elapsed().as_nanos() as u64;
        let stripe = &self.stripes[self.hasher.hash_one(key) as usize % STRIPES];
        {
            let clients = stripe.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(client) = clients.get(key) {
                let mut log = client.lock().unwrap_or_else(PoisonError::into_inner);
                return self.take(&mut log, now);
            }
        }
        let mut clients = stripe.write().unwrap_or_else(PoisonError::into_inner);
        let client = clients.entry(key.clone()).or_default();
        self.take(client.get_mut().unwrap_or_else(PoisonError::into_inner), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tollgate::{Limiter, Nanos};

    #[test]
    fn the_twin_answers_as_tollgate_does() {
        for (burst, millis) in [(1, 1_000), (2, 1_000), (7, 8_571), (25, 13), (100, 1)] {
            let period = Duration::from_millis(millis);
            let policy = Policy { limit: 1, period, burst, admits: true };
            let twin = MutexTwin::new(policy);
            let ours = Limiter::<u64, _>::new(policy.token_bucket());
            // Uneven steps, so that about half of the requests come too early; some go backward.
            let longest = policy.period.as_nanos() as u64 / 3;
            let (mut now, mut admitted) = (0_u64, 0);
            for turn in 0..5_000_u64 {
                let step = (turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % longest;
                now += step;
                let at = if turn % 11 == 0 { now.saturating_sub(5 * step) } else { now };
                let key = turn % 3;
                let answer = twin.is_allowed_at(&key, at);
                assert_eq!(answer, ours.is_allowed_at(&key, Nanos::new(at)), "{policy:?}, {turn}");
                admitted += u32::from(answer);
            }
            assert!((1_000..5_000).contains(&admitted), "{policy:?}: {admitted}");
        }
    }
}
