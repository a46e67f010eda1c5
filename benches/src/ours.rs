//! Tollgate itself: each algorithm type, with a clock or with the time given.

use std::hash::Hash;

use tollgate::{
    Algorithm, AlgorithmKind, AnyAlgorithm, Clock, Limiter, MonotonicClock, Nanos, Quota,
    TokenBucket,
};

use crate::contender::{Contender, Policy};

/// How far the given time moves on from one decision to the next.
const NANOS_PER_TURN: u64 = 50;

impl Policy {
    fn quota(self) -> Quota {
        Quota::new(1, self.interval)
            .and_then(|quota| quota.with_burst(u64::from(self.burst)))
            .expect("a policy is a quota")
    }

    /// The token bucket that is known at compile time.
    pub fn token_bucket(self) -> TokenBucket<u64> {
        TokenBucket::new(self.quota()).expect("63 bits hold the policies here")
    }

    /// The same token bucket, chosen at run time.
    pub fn any(self) -> AnyAlgorithm {
        AnyAlgorithm::new(AlgorithmKind::TokenBucket, self.quota()).expect("as above")
    }
}

/// Tollgate with a clock of its own.
#[derive(Debug)]
pub struct Clocked<K, A: Algorithm, C>(Limiter<K, A, C>);

impl<K: Hash + Eq + Send + 'static, A: Algorithm + Clone, C: Clock> Clocked<K, A, C> {
    /// A limiter by `algorithm` that reads `clock` for each decision.
    pub fn new(algorithm: A, clock: C) -> Self {
        Self(Limiter::<K, A>::builder(algorithm).clock(clock).build())
    }
}

impl<K, A, C> Contender<K> for Clocked<K, A, C>
where
    K: Hash + Eq + Clone + Send + Sync,
    A: Algorithm + Send + Sync,
    C: Clock + Send + Sync,
{
    #[inline]
    fn is_allowed(&self, key: &K, _turn: u64) -> bool {
        self.0.is_allowed(key)
    }
}

/// Tollgate as a proxy uses it that holds its loop's time already.
#[derive(Debug)]
pub struct Given<K, A: Algorithm>(Limiter<K, A, MonotonicClock>);

impl<K: Hash + Eq + Send + 'static, A: Algorithm + Clone> Given<K, A> {
    /// A limiter by `algorithm` that is told the time.
    pub fn new(algorithm: A) -> Self {
        Self(Limiter::new(algorithm))
    }
}

impl<K, A> Contender<K> for Given<K, A>
where
    K: Hash + Eq + Clone + Send + Sync,
    A: Algorithm + Send + Sync,
{
    #[inline]
    fn is_allowed(&self, key: &K, turn: u64) -> bool {
        self.0.is_allowed_at(key, Nanos::new(turn.wrapping_mul(NANOS_PER_TURN)))
    }
}
