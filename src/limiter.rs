//! The limiter: finds the client's state, asks it, and applies the global cap.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use crate::algorithm::{Algorithm, AnyAlgorithm};
use crate::decision::{Decision, Reading};
use crate::direct::DirectLimiter;
use crate::permit::Permit;
use crate::registry::{PapayaRegistry, Registry};
use crate::time::{Clock, MonotonicClock, Nanos};
use crate::word::Frozen;

/// Limits each client on its own, and all of them together if there is a global cap.
///
/// Generic over the key `K`, the algorithm `A` ([`AnyAlgorithm`] to choose at run time), the clock
/// `C` and the registry of clients `R`. Keys are looked up by any borrowed form (`&str` for
/// `String`). A client's state is made at its first charge, once, whoever races.
///
/// ```
/// use tollgate::{Limiter, Quota, TokenBucket};
///
/// let limiter = Limiter::<String, _>::new(TokenBucket::<u64>::new(Quota::per_second(2)?)?);
/// assert!(limiter.is_allowed("alice"));
/// assert!(limiter.is_allowed("alice"));
/// assert!(!limiter.is_allowed("alice"));
/// assert!(limiter.is_allowed("bob"));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
///
/// # Progress
/// | operation | progress | allocates |
/// |---|---|---|
/// | decision on a known client | lock-free | no |
/// | refusal, peek | wait-free reads after the lookup; writes nothing | no |
/// | refund, credit | lock-free | no |
/// | first sight of a client | may help the map to resize | the key, the entry |
///
/// The lookup itself is lock-free. Shared by reference or behind an `Arc`; every method takes
/// `&self`.
pub struct Limiter<
    K,
    A: Algorithm = AnyAlgorithm,
    C = MonotonicClock,
    R = PapayaRegistry<K, <A as Algorithm>::State>,
> {
    algorithm: A,
    clock: C,
    clients: R,
    global: Option<DirectLimiter<AnyAlgorithm>>,
    key: core::marker::PhantomData<fn(K)>,
}

impl<K: Hash + Eq, A: Algorithm> Limiter<K, A> {
    /// A limiter with the default clock and hasher and no global cap.
    pub fn new(algorithm: A) -> Self {
        Self::builder(algorithm).build()
    }

    /// Chooses the clock, the hasher, the global cap.
    pub fn builder(algorithm: A) -> LimiterBuilder<A> {
        LimiterBuilder {
            algorithm,
            clock: MonotonicClock::new(),
            hasher: foldhash::fast::RandomState::default(),
            global: None,
        }
    }
}

/// Builds a [`Limiter`].
///
/// ```
/// use tollgate::{AlgorithmKind, AnyAlgorithm, CoarseClock, Limiter, Quota};
///
/// let each = AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_second(10)?)?;
/// let all = AnyAlgorithm::new(AlgorithmKind::SlidingCounter, Quota::per_second(1_000)?)?;
/// let limiter =
///     Limiter::<u64>::builder(each).clock(CoarseClock::new()).global(all).build();
/// assert!(limiter.is_allowed(&7));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LimiterBuilder<A, C = MonotonicClock, S = foldhash::fast::RandomState> {
    algorithm: A,
    clock: C,
    hasher: S,
    global: Option<AnyAlgorithm>,
}

impl<A: Algorithm, C, S> LimiterBuilder<A, C, S> {
    /// Tells the time by `clock`.
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<A, D, S> {
        let Self { algorithm, hasher, global, .. } = self;
        LimiterBuilder { algorithm, clock, hasher, global }
    }

    /// Hashes keys by `hasher`, which should be seeded at random: clients choose their keys.
    pub fn hasher<T: BuildHasher>(self, hasher: T) -> LimiterBuilder<A, C, T> {
        let Self { algorithm, clock, global, .. } = self;
        LimiterBuilder { algorithm, clock, hasher, global }
    }

    /// Holds all clients together to `cap`, tried after the client's own limit.
    #[must_use]
    pub fn global(self, cap: AnyAlgorithm) -> Self {
        Self { global: Some(cap), ..self }
    }

    /// The limiter.
    pub fn build<K>(self) -> Limiter<K, A, C, PapayaRegistry<K, A::State, S>> {
        let clients = PapayaRegistry::with_hasher(self.hasher);
        Limiter::with_registry(self.algorithm, self.clock, clients, self.global)
    }
}

impl<K, A: Algorithm, C, R> Limiter<K, A, C, R> {
    /// A limiter over a registry of one's own.
    pub fn with_registry(algorithm: A, clock: C, clients: R, global: Option<AnyAlgorithm>) -> Self {
        let global = global.map(|cap| DirectLimiter::new(cap, ()));
        Self { algorithm, clock, clients, global, key: core::marker::PhantomData }
    }
}

/// With the time as an argument, for callers that hold it already.
impl<K, A, C, R> Limiter<K, A, C, R>
where
    A: Algorithm,
    R: Registry<K, A::State>,
{
    /// Whether one request of this client may proceed at `now`; if so it is charged.
    ///
    /// A leaky bucket with a queue may say yes and mean *after a delay*: use
    /// [`check_at`](Self::check_at) there.
    #[inline]
    pub fn is_allowed_at<Q>(&self, key: &Q, now: Nanos) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match &self.global {
            None => self.with_state(key, |state| self.algorithm.acquire(state, now, 1)).is_some(),
            Some(_) => self.check_n_at(key, 1, now).is_admitted(),
        }
    }

    /// [`is_allowed_at`](Self::is_allowed_at) with its reasons.
    pub fn check_at<Q>(&self, key: &Q, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.check_n_at(key, 1, now)
    }

    /// Charges `cost` units whole, or nothing, at `now`.
    pub fn check_n_at<Q>(&self, key: &Q, cost: u64, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.charge(key, cost, now).1
    }

    /// What [`check_n_at`](Self::check_n_at) would answer; charges and creates nothing.
    pub fn peek_n_at<Q>(&self, key: &Q, cost: u64, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let client = self.read_client(key, cost, now);
        match &self.global {
            None => Decision::of_client(client),
            Some(global) => Decision::of_both(client, global.read_at(now, cost)),
        }
    }

    /// Charges `cost` units whole for a permit that can be refunded, or tells why not.
    pub fn acquire_at<'a, Q>(
        &'a self,
        key: &'a Q,
        cost: u64,
        now: Nanos,
    ) -> Result<Permit<'a, K, Q, A, C, R>, Decision>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.charge(key, cost, now) {
            (Some(grants), decision) => Ok(Permit::new(self, key, grants, decision)),
            (None, decision) => Err(decision),
        }
    }

    /// Gives `amount` units back to the client without a permit, never beyond full. The global cap
    /// is not credited.
    pub fn credit_at<Q>(&self, key: &Q, amount: u64, now: Nanos)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.with_known(key, |state| self.algorithm.credit(state, now, amount));
    }

    /// How many clients have a state; under concurrent changes an estimate.
    pub fn clients(&self) -> usize {
        self.clients.clients()
    }

    /// Charges the client, then the cap; a client that was charged in vain is paid back.
    ///
    /// A cap that can be seen to refuse is asked first, so that nothing is written at all. The
    /// client is charged before the cap: one over its own limit burns no global budget. If the cap
    /// refuses after all, another thread won its last units in between, and the client's grant is
    /// refunded exactly; until then a concurrent request of this client may be refused that a
    /// serial order would have admitted. No interleaving admits more than either limit allows.
    fn charge<Q>(&self, key: &Q, cost: u64, now: Nanos) -> (Option<Grants<A>>, Decision)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let Some(global) = &self.global else {
            let (client, reading) = self.take_client(key, cost, now);
            let grants = client.map(|client| Grants { client, global: None });
            return (grants, Decision::of_client(reading));
        };
        if !global.would_admit_at(now, cost) {
            return (None, self.peek_n_at(key, cost, now));
        }
        let (client, reading) = self.take_client(key, cost, now);
        let Some(client) = client else {
            return (None, Decision::of_both(reading, global.read_at(now, cost)));
        };
        match global.take_at(now, cost) {
            (Some(cap), cap_reading) => {
                let grants = Grants { client, global: Some(cap) };
                (Some(grants), Decision::of_both(reading, cap_reading))
            }
            (None, cap_reading) => {
                self.refund_client(key, client, now);
                let client = Reading { admitted: true, ..self.read_client(key, cost, now) };
                (None, Decision::of_both(client, cap_reading))
            }
        }
    }

    fn take_client<Q>(&self, key: &Q, cost: u64, now: Nanos) -> (Option<A::Grant>, Reading)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.with_state(key, |state| self.algorithm.check(state, now, cost))
    }

    fn read_client<Q>(&self, key: &Q, cost: u64, now: Nanos) -> Reading
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let guard = self.clients.guard();
        match self.clients.get(key, &guard) {
            Some(state) => self.algorithm.peek(state, now, cost),
            None => self.algorithm.peek(&self.algorithm.fresh(Nanos::ZERO), now, cost),
        }
    }

    fn refund_client<Q>(&self, key: &Q, grant: A::Grant, now: Nanos)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.with_known(key, |state| self.algorithm.refund(state, now, grant));
    }

    pub(crate) fn refund<Q>(&self, key: &Q, grants: &Grants<A>, now: Nanos)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.refund_client(key, grants.client, now);
        if let (Some(global), Some(grant)) = (&self.global, grants.global) {
            global.refund_at(now, grant);
        }
    }

    /// Asks the client's state, made if there is none, until it is met unfrozen.
    #[inline]
    fn with_state<Q, T>(&self, key: &Q, ask: impl Fn(&A::State) -> Result<T, Frozen>) -> T
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let guard = self.clients.guard();
        loop {
            let state = match self.clients.get(key, &guard) {
                Some(state) => state,
                None => {
                    let make = || self.algorithm.fresh(Nanos::ZERO);
                    self.clients.get_or_insert_with(key.to_owned(), make, &guard)
                }
            };
            match ask(state) {
                Ok(answer) => return answer,
                Err(Frozen) => self.succeed(key, state, &guard),
            }
        }
    }

    /// Asks the state of a client that has one; for a client without, there is nothing to change.
    fn with_known<Q>(&self, key: &Q, ask: impl Fn(&A::State) -> Result<(), Frozen>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let guard = self.clients.guard();
        while let Some(state) = self.clients.get(key, &guard) {
            match ask(state) {
                Ok(()) => return,
                Err(Frozen) => self.succeed(key, state, &guard),
            }
        }
    }

    /// Replaces a frozen state by its successor; whoever meets it helps, nobody waits (I7).
    #[cold]
    fn succeed<'g, Q>(&self, key: &Q, frozen: &'g A::State, guard: &'g R::Guard<'_>)
    where
        Q: ToOwned<Owned = K> + ?Sized,
    {
        let make = || self.algorithm.successor(frozen);
        self.clients.replace(key.to_owned(), frozen, make, guard);
    }
}

/// By the limiter's clock.
impl<K, A, C, R> Limiter<K, A, C, R>
where
    A: Algorithm,
    C: Clock,
    R: Registry<K, A::State>,
{
    /// The time by the limiter's clock.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Whether one request of this client may proceed now; if so it is charged.
    ///
    /// A leaky bucket with a queue may say yes and mean *after a delay*: use
    /// [`check`](Self::check) there.
    #[inline]
    pub fn is_allowed<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.is_allowed_at(key, self.now())
    }

    /// [`is_allowed`](Self::is_allowed) with its reasons.
    pub fn check<Q>(&self, key: &Q) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.check_n(key, 1)
    }

    /// Charges `cost` units whole, or nothing.
    pub fn check_n<Q>(&self, key: &Q, cost: u64) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.check_n_at(key, cost, self.now())
    }

    /// What [`check`](Self::check) would answer; charges and creates nothing.
    pub fn peek<Q>(&self, key: &Q) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.peek_n(key, 1)
    }

    /// What [`check_n`](Self::check_n) would answer; charges and creates nothing.
    pub fn peek_n<Q>(&self, key: &Q, cost: u64) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.peek_n_at(key, cost, self.now())
    }

    /// Charges `cost` units whole for a permit that can be refunded, or tells why not.
    pub fn acquire<'a, Q>(
        &'a self,
        key: &'a Q,
        cost: u64,
    ) -> Result<Permit<'a, K, Q, A, C, R>, Decision>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.acquire_at(key, cost, self.now())
    }

    /// Gives `amount` units back to the client without a permit, never beyond full. The global cap
    /// is not credited.
    pub fn credit<Q>(&self, key: &Q, amount: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.credit_at(key, amount, self.now());
    }
}

impl<K, A, C, R> fmt::Debug for Limiter<K, A, C, R>
where
    A: Algorithm + fmt::Debug,
    C: fmt::Debug,
    R: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("algorithm", &self.algorithm)
            .field("clock", &self.clock)
            .field("clients", &self.clients)
            .field("global", &self.global)
            .finish_non_exhaustive()
    }
}

/// What an admitted request was granted, by the client's limit and by the cap.
pub(crate) struct Grants<A: Algorithm> {
    client: A::Grant,
    global: Option<<AnyAlgorithm as Algorithm>::Grant>,
}
