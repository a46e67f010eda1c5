//! The peers, each with its default store, hasher and clock.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter};

use crate::contender::{Contender, Key, Policy};

impl Policy {
    fn of_governor(self) -> governor::Quota {
        let burst = NonZeroU32::new(self.burst).expect("a policy admits something");
        let quota = governor::Quota::with_period(self.period / self.limit);
        quota.expect("an interval is not zero").allow_burst(burst)
    }
}

/// governor: GCRA in a `DashMap`, on a clock that reads the processor's time stamp counter.
pub struct Governor<K: Hash + Eq + Clone>(DefaultKeyedRateLimiter<K>);

impl<K: Hash + Eq + Clone> Governor<K> {
    /// A keyed limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        Self(DefaultKeyedRateLimiter::keyed(policy.of_governor()))
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for Governor<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governor").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> Contender<K> for Governor<K> {
    #[inline]
    fn is_allowed(&self, key: &K, _turn: u64) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// governor for one stream.
pub struct GovernorStream(DefaultDirectRateLimiter);

impl GovernorStream {
    /// A limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        Self(DefaultDirectRateLimiter::direct(policy.of_governor()))
    }
}

impl fmt::Debug for GovernorStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GovernorStream").finish_non_exhaustive()
    }
}

impl<K> Contender<K> for GovernorStream {
    #[inline]
    fn is_allowed(&self, _key: &K, _turn: u64) -> bool {
        self.0.check().is_ok()
    }
}

/// governor's clock alone.
#[derive(Debug)]
pub struct GovernorTick(DefaultClock, governor::nanos::Nanos);

impl Default for GovernorTick {
    fn default() -> Self {
        Self(DefaultClock::default(), u64::MAX.into())
    }
}

impl<K> Contender<K> for GovernorTick {
    #[inline]
    fn is_allowed(&self, _key: &K, _turn: u64) -> bool {
        use governor::clock::Reference;
        self.0.now().duration_since(Clock::now(&self.0)) < self.1
    }
}

/// rate-net: an algorithm of its in its capped and sharded store.
#[derive(Debug)]
pub struct RateNet(rate_net::RateLimiter);

impl RateNet {
    /// A limiter for `policy`, by its default algorithm.
    pub fn new(policy: Policy) -> Self {
        Self::by(rate_net::Algorithm::TokenBucket, policy)
    }

    /// A limiter for `policy` by `algorithm`.
    pub fn by(algorithm: rate_net::Algorithm, policy: Policy) -> Self {
        let limiter = rate_net::RateLimiter::builder()
            .algorithm(algorithm)
            .quota(policy.limit, policy.period)
            .burst(policy.burst)
            .try_build()
            .expect("a policy is a valid quota");
        Self(limiter)
    }
}

impl<K: Key> Contender<K> for RateNet {
    #[inline]
    fn is_allowed(&self, key: &K, _turn: u64) -> bool {
        self.0.check(key.of_rate_net()).is_allow()
    }
}

/// ratelimit: one stream.
#[derive(Debug)]
pub struct RateLimit(ratelimit::Ratelimiter);

impl RateLimit {
    /// A limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        let limiter = ratelimit::Ratelimiter::builder(policy.limit.into())
            .period(policy.period)
            .max_tokens(policy.burst.into())
            .initial_available(policy.burst.into())
            .build();
        Self(limiter.expect("a policy is a valid rate"))
    }
}

impl<K> Contender<K> for RateLimit {
    #[inline]
    fn is_allowed(&self, _key: &K, _turn: u64) -> bool {
        self.0.try_wait().is_ok()
    }
}
