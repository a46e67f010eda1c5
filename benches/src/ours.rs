//! Tollgate itself: each algorithm type, with a clock or with the time given.

use std::hash::Hash;

use tollgate::{
    Algorithm, AlgorithmKind, AnyAlgorithm, Clock, CoarseClock, DirectLimiter, Limit, Limiter,
    MonotonicClock, Nanos, Quota, SlidingLog, Stack, TokenBucket,
};

use crate::contender::{Contender, Policy};

/// How far the given time moves on from one decision to the next.
const NANOS_PER_TURN: u64 = 50;

impl Policy {
    fn quota(self) -> Quota {
        Quota::new(self.limit.into(), self.period)
            .and_then(|quota| quota.with_burst(self.burst.into()))
            .expect("a policy is a quota")
    }

    /// The token bucket that is known at compile time.
    pub fn token_bucket(self) -> TokenBucket<u64> {
        TokenBucket::new(self.quota()).expect("63 bits hold the policies here")
    }

    /// The sliding log.
    pub fn sliding_log(self) -> SlidingLog {
        SlidingLog::new(self.quota()).expect("a log takes the policies meant for it")
    }

    /// An algorithm chosen at run time.
    pub fn any(self, kind: AlgorithmKind) -> AnyAlgorithm {
        AnyAlgorithm::new(kind, self.quota()).expect("as above")
    }

    /// Two limits that admit everything, and then this one.
    pub fn stack(self) -> Stack {
        let limit = |name, policy: Self| Limit::new(name, policy.token_bucket());
        Stack::new([limit("a", Self::ADMIT), limit("b", Self::ADMIT), limit("c", self)])
            .expect("three names")
    }
}

/// Tollgate with a clock of its own.
#[derive(Debug)]
pub struct Clocked<K, A: Algorithm, C>(Limiter<K, A, C>);

impl<K: Hash + Eq + Send + 'static, A: Algorithm + Clone, C: Clock> Clocked<K, A, C> {
    /// A limiter by `algorithm` that reads `clock` for each decision.
    pub fn new(algorithm: A, clock: C) -> Self {
        Self(Limiter::<K, A>::builder(algorithm).clock(clock).max_clients(20_000_000).build())
    }

    /// The same with a cap for all clients.
    pub fn capped(algorithm: A, cap: AnyAlgorithm, clock: C) -> Self {
        Self(Limiter::<K, A>::builder(algorithm).global(cap).clock(clock).build())
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

/// Tollgate as an event loop uses it: pinned for each batch of requests.
#[derive(Debug)]
pub struct Pinned<K, A: Algorithm, C>(Limiter<K, A, C>);

impl<K: Hash + Eq + Send + 'static, A: Algorithm + Clone, C: Clock> Pinned<K, A, C> {
    const BATCH: usize = 64;

    /// A limiter by `algorithm` that reads `clock` for each decision.
    pub fn new(algorithm: A, clock: C) -> Self {
        Self(Clocked::new(algorithm, clock).0)
    }
}

impl<K, A, C> Contender<K> for Pinned<K, A, C>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    A: Algorithm + Clone + Send + Sync,
    C: Clock + Send + Sync,
{
    fn is_allowed(&self, key: &K, _turn: u64) -> bool {
        self.0.is_allowed(key)
    }

    #[inline]
    fn admitted<'k>(&self, requests: impl Iterator<Item = (&'k K, u64)>) -> u64
    where
        K: 'k,
    {
        let mut requests = requests.peekable();
        let mut admitted = 0;
        while requests.peek().is_some() {
            let pinned = self.0.pin();
            let batch = requests.by_ref().take(Self::BATCH);
            admitted += batch.map(|(key, _)| u64::from(pinned.is_allowed(key))).sum::<u64>();
        }
        admitted
    }
}

/// Tollgate as a proxy uses it that holds its loop's time already.
#[derive(Debug)]
pub struct Given<K, A: Algorithm>(Limiter<K, A, MonotonicClock>);

impl<K: Hash + Eq + Send + 'static, A: Algorithm + Clone> Given<K, A> {
    /// A limiter by `algorithm` that is told the time.
    pub fn new(algorithm: A) -> Self {
        Self(Limiter::<K, A>::builder(algorithm).max_clients(20_000_000).build())
    }
}

#[cfg(feature = "metrics")]
impl<K: Hash + Eq + Send + 'static, A: Algorithm + Clone> Given<K, A> {
    /// The same, counting what it decides, with so many places for the clients refused most.
    pub fn counted(algorithm: A, places: usize) -> Self {
        let metrics = tollgate::metrics::Metrics::new("bench").top_refused(places);
        Self(Limiter::<K, A>::builder(algorithm).max_clients(20_000_000).metrics(metrics).build())
    }
}

/// The same, asked for its reasons.
#[cfg(feature = "metrics")]
#[derive(Debug)]
pub struct Checked<K, A: Algorithm>(pub Given<K, A>);

#[cfg(feature = "metrics")]
impl<K, A> Contender<K> for Checked<K, A>
where
    K: Hash + Eq + Clone + Send + Sync,
    A: Algorithm + Send + Sync,
{
    #[inline]
    fn is_allowed(&self, key: &K, turn: u64) -> bool {
        self.0.0.check_at(key, Nanos::new(turn.wrapping_mul(NANOS_PER_TURN))).is_admitted()
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

/// Tollgate for one stream: no keys.
#[derive(Debug)]
pub struct Stream<C>(DirectLimiter<TokenBucket<u64>, C>);

impl<C: Clock> Stream<C> {
    /// A limiter for `policy` that reads `clock`.
    pub fn new(policy: Policy, clock: C) -> Self {
        Self(DirectLimiter::new(policy.token_bucket(), clock))
    }
}

impl<K, C: Clock + Send + Sync> Contender<K> for Stream<C> {
    #[inline]
    fn is_allowed(&self, _key: &K, _turn: u64) -> bool {
        self.0.is_allowed()
    }
}

/// A clock alone.
#[derive(Debug)]
pub struct Tick<C>(C);

impl Tick<MonotonicClock> {
    /// The default clock.
    pub fn precise() -> Self {
        Self(MonotonicClock::new())
    }
}

impl Tick<CoarseClock> {
    /// The coarse clock.
    pub fn coarse() -> Self {
        Self(CoarseClock::new())
    }
}

impl<K, C: Clock + Send + Sync> Contender<K> for Tick<C> {
    #[inline]
    fn is_allowed(&self, _key: &K, _turn: u64) -> bool {
        // Time never stands at its end.
        self.0.now() < Nanos::MAX
    }
}
