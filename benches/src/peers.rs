//! The peers, each with its default store, hasher and clock.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;

use governor::DefaultKeyedRateLimiter;

use crate::contender::{Contender, Policy};

/// governor: GCRA in a `DashMap`, on a clock that reads the processor's time stamp counter.
pub struct Governor<K: Hash + Eq + Clone>(DefaultKeyedRateLimiter<K>);

impl<K: Hash + Eq + Clone> Governor<K> {
    /// A keyed limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        let burst = NonZeroU32::new(policy.burst).expect("a policy admits something");
        let quota = governor::Quota::with_period(policy.interval).expect("an interval is not zero");
        Self(DefaultKeyedRateLimiter::keyed(quota.allow_burst(burst)))
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

/// rate-net: its default algorithm, a token bucket, in its capped and sharded store.
#[derive(Debug)]
pub struct RateNet(rate_net::RateLimiter);

impl RateNet {
    /// A limiter for `policy`.
    pub fn new(policy: Policy) -> Self {
        let limiter = rate_net::RateLimiter::builder()
            .quota(1, policy.interval)
            .burst(policy.burst)
            .try_build()
            .expect("a policy is a valid quota");
        Self(limiter)
    }
}

impl Contender<String> for RateNet {
    #[inline]
    fn is_allowed(&self, key: &String, _turn: u64) -> bool {
        self.0.check(key).is_allow()
    }
}
