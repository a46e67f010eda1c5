//! Builds a limiter: the policies, the clock, the hasher.

use core::hash::BuildHasher;

use crate::algorithm::{Algorithm, AnyAlgorithm};
use crate::limiter::Limiter;
#[cfg(feature = "metrics")]
use crate::metrics::Metrics;
use crate::permit::OnDrop;
use crate::plan::Client;
use crate::policy::{Policies, Policy};
use crate::registry::PapayaRegistry;
use crate::time::{Clock, MonotonicClock};

/// Builds a [`Limiter`].
///
/// ```
/// use tollgate::{AlgorithmKind, AnyAlgorithm, CoarseClock, Limiter, Quota};
///
/// let each = AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_second(10)?)?;
/// let all = AnyAlgorithm::new(AlgorithmKind::SlidingCounter, Quota::per_second(1_000)?)?;
/// let limiter = Limiter::<u64>::builder(each)
///     .clock(CoarseClock::new())
///     .global(all)
///     .max_clients(50_000)
///     .build();
/// assert!(limiter.is_allowed(&7));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LimiterBuilder<A, C = MonotonicClock, S = foldhash::fast::RandomState> {
    policies: Policies<A>,
    clock: C,
    hasher: S,
    on_drop: OnDrop,
    #[cfg(feature = "metrics")]
    metrics: Option<Metrics>,
}

impl<A: Algorithm> LimiterBuilder<A> {
    pub(crate) fn new(policies: Policies<A>) -> Self {
        Self {
            policies,
            clock: MonotonicClock::new(),
            hasher: Default::default(),
            on_drop: OnDrop::Commit,
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }
}

impl<A: Algorithm, C, S> LimiterBuilder<A, C, S> {
    /// Tells the time by `clock`.
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<A, D, S> {
        LimiterBuilder {
            policies: self.policies,
            clock,
            hasher: self.hasher,
            on_drop: self.on_drop,
            #[cfg(feature = "metrics")]
            metrics: self.metrics,
        }
    }

    /// Hashes keys by `hasher`, which should be seeded at random: clients choose their keys.
    pub fn hasher<T: BuildHasher + Clone>(self, hasher: T) -> LimiterBuilder<A, C, T> {
        LimiterBuilder {
            policies: self.policies,
            clock: self.clock,
            hasher,
            on_drop: self.on_drop,
            #[cfg(feature = "metrics")]
            metrics: self.metrics,
        }
    }

    /// Holds all clients together to `cap`, tried after the client's own limit.
    #[must_use]
    pub fn global(self, cap: impl Into<Policy<AnyAlgorithm>>) -> Self {
        Self { policies: self.policies.global(cap), ..self }
    }

    /// The cap on clients, 1,000,000 unless set: see [`Policies::max_clients`].
    #[must_use]
    pub fn max_clients(self, max: usize) -> Self {
        Self { policies: self.policies.max_clients(max), ..self }
    }

    /// What becomes of permits that are dropped; they are committed unless said otherwise.
    #[must_use]
    pub fn on_drop(self, on_drop: OnDrop) -> Self {
        Self { on_drop, ..self }
    }

    /// Counts what is decided, for [`Limiter::publish_metrics`]: see [`metrics`](crate::metrics).
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(self, metrics: Metrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// The limiter.
    pub fn build<K>(self) -> Limiter<K, A, C, PapayaRegistry<K, Client<A>, S>>
    where
        K: Send + 'static,
        S: Clone,
    {
        let clients = PapayaRegistry::new(self.policies.max_clients, self.hasher);
        let limiter = Limiter::with_registry(self.policies, self.clock, clients);
        #[cfg(feature = "metrics")]
        let limiter = limiter.counting(self.metrics);
        limiter.dropping(self.on_drop)
    }
}
