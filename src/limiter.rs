//! The limiter: finds the client's state, asks it, and applies the global cap.

use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

use crate::algorithm::{Algorithm, AnyAlgorithm};
use crate::builder::LimiterBuilder;
use crate::cap::Cap;
use crate::clients::Clients;
use crate::decision::Decision;
use crate::handle::Handle;
#[cfg(feature = "metrics")]
use crate::metrics::{Meter, Metrics};
use crate::permit::{Borrowed, OnDrop, Owned, Permit};
use crate::pinned::Pinned;
use crate::plan::Client;
use crate::policy::{Policies, Policy};
use crate::registry::{PapayaRegistry, Registry};
use crate::stats::Stats;
use crate::sweep::Swept;
use crate::sync::Lock;
use crate::time::{Clock, MonotonicClock, Nanos};
#[cfg(feature = "tokio")]
use crate::waiting::Returned;

/// Limits each client on its own, and all of them together if there is a global cap.
///
/// Generic over the key `K`, the algorithm `A` ([`AnyAlgorithm`] to choose at run time), the clock
/// `C` and the registry of clients `R`. Keys are looked up by any borrowed form (`&str` for
/// `String`). A client's state is made at its first charge, once, whoever races, and retired when
/// it is as good as new.
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
/// | refund, credit, drain, penalize, forget | lock-free | no |
/// | first touch after a reload or in another tier | lock-free | the entry |
/// | first sight of a client | may help the map to resize, and may sweep a bounded step | the key, the entry |
/// | sweep | lock-free, and bounded by its budget; no decision waits for it | no |
/// | reload | concurrent reloads wait for each other; no decision waits for one | the plans |
///
/// The lookup itself is lock-free. Shared by reference or behind an `Arc`; every method takes
/// `&self`.
pub struct Limiter<
    K,
    A: Algorithm = AnyAlgorithm,
    C = MonotonicClock,
    R = PapayaRegistry<K, Client<A>>,
> {
    clients: Clients<K, A, R>,
    cap: Cap,
    clock: C,
    on_drop: OnDrop,
    /// Held while reloading, and by nobody else.
    reloading: Lock,
    #[cfg(feature = "tokio")]
    returned: Returned<K>,
}

impl<K: Hash + Eq + Send + 'static, A: Algorithm> Limiter<K, A> {
    /// A limiter of one tier, with the default clock and hasher and no global cap.
    pub fn new(policy: impl Into<Policy<A>>) -> Self {
        Self::builder(policy).build()
    }

    /// Chooses the clock, the hasher, the global cap, the cap on clients, the tiers.
    pub fn builder(policy: impl Into<Policy<A>>) -> LimiterBuilder<A> {
        Self::with_policies(Policies::new("default", policy))
    }

    /// A limiter for a whole set of policies; the clock and the hasher are still to choose.
    pub fn with_policies(policies: Policies<A>) -> LimiterBuilder<A> {
        LimiterBuilder::new(policies)
    }
}

impl<K, A: Algorithm, C, R> Limiter<K, A, C, R> {
    /// A limiter over a registry of one's own.
    pub fn with_registry(policies: Policies<A>, clock: C, registry: R) -> Self {
        let clients = Clients::new(registry, policies);
        let cap = Cap::new(clients.plans().cap().clone());
        Self {
            clients,
            cap,
            clock,
            on_drop: OnDrop::Commit,
            reloading: Lock::default(),
            #[cfg(feature = "tokio")]
            returned: Returned::default(),
        }
    }

    /// Puts `policies` in force at `now`, all at once. How many tiers and caps changed.
    ///
    /// Each client moves on at its next touch; what accrued until `now` is paid at the old rate.
    /// What it keeps is said by the new policy's [`CarryOver`](crate::CarryOver). While this call
    /// runs, a concurrent decision may still be made under the old policies; after it has returned
    /// none is. Policies that are equal to those in force change nothing. The number of shards that
    /// the registry has stays as it was made.
    pub fn reload_at(&self, policies: Policies<A>, now: Nanos) -> usize
    where
        A: PartialEq,
    {
        let _reloading = self.reloading.lock();
        self.clients.reload(policies, now)
    }

    /// [`reload_at`](Self::reload_at) the time by the limiter's clock.
    pub fn reload(&self, policies: Policies<A>) -> usize
    where
        A: PartialEq,
        C: Clock,
    {
        self.reload_at(policies, self.now())
    }

    /// The policies in force.
    pub fn policies(&self) -> Policies<A> {
        self.clients.plans().policies.clone()
    }

    /// How many clients there are, and what became of others.
    pub fn stats(&self) -> Stats {
        self.clients.stats()
    }

    /// How many clients have a state.
    pub fn clients(&self) -> usize {
        self.stats().clients as usize
    }

    pub(crate) fn all(&self) -> &Clients<K, A, R> {
        &self.clients
    }

    /// What becomes of permits that are dropped.
    pub fn on_drop(&self) -> OnDrop {
        self.on_drop
    }

    pub(crate) fn dropping(self, on_drop: OnDrop) -> Self {
        Self { on_drop, ..self }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn counting(mut self, metrics: Option<Metrics>) -> Self {
        if let Some(metrics) = metrics {
            self.clients.count_in(Meter::new(metrics));
        }
        self
    }

    /// The time by the limiter's clock.
    pub fn now(&self) -> Nanos
    where
        C: Clock,
    {
        self.clock.now()
    }
}

/// With the time as an argument, for callers that hold it already.
impl<K, A, C, R> Limiter<K, A, C, R>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    /// One client at `now`, for everything that can be asked of it: in a tier, and the rarer verbs.
    pub fn client_at<'a, Q>(&'a self, key: &'a Q, now: Nanos) -> Handle<'a, K, Q, A, C, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        Handle::new(self, key, now)
    }

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
        self.is_allowed_in(key, None, 1, now, &self.all().registry.guard())
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
        self.check_in(key, None, cost, now, &self.all().registry.guard())
    }

    /// What [`check_n_at`](Self::check_n_at) would answer; charges and creates nothing.
    pub fn peek_n_at<Q>(&self, key: &Q, cost: u64, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.peek_in(key, None, cost, now, None)
    }

    /// Charges `cost` units whole for a permit that can be refunded, or tells why not.
    pub fn acquire_at<'a, Q>(
        &'a self,
        key: &'a Q,
        cost: u64,
        now: Nanos,
    ) -> Result<Borrowed<'a, K, Q, A, C, R>, Decision>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.client_at(key, now).acquire(cost)
    }

    /// [`acquire_at`](Self::acquire_at) for a permit that borrows nothing: it shares the limiter and
    /// has the key.
    pub fn acquire_owned_at(
        self: &Arc<Self>,
        key: K,
        cost: u64,
        now: Nanos,
    ) -> Result<Owned<K, A, C, R>, Decision> {
        match self.charge(&key, None, cost, now) {
            (Some(charge), decision) => Ok(Permit::new(self.clone(), key, charge, decision)),
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
        self.client_at(key, now).credit(amount);
    }

    /// This limiter for a batch of decisions by the calling thread, which then enters and leaves the
    /// map's epoch once for all of them.
    pub fn pin(&self) -> Pinned<'_, K, A, C, R> {
        Pinned::new(self)
    }

    /// Looks at up to `budget` clients, from where the last sweep stopped, and retires those that
    /// are as good as new at `now`.
    ///
    /// Newcomers sweep a few entries on their own; this is for those who want a say in when.
    pub fn sweep_at(&self, budget: usize, now: Nanos) -> Swept {
        self.clients.sweep(budget, now)
    }

    pub(crate) fn cap(&self) -> &Cap {
        &self.cap
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn returned(&self) -> &Returned<K> {
        &self.returned
    }
}

/// By the limiter's clock.
impl<K, A, C, R> Limiter<K, A, C, R>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    C: Clock,
    R: Registry<K, Client<A>>,
{
    /// One client now, for everything that can be asked of it: in a tier, and the rarer verbs.
    pub fn client<'a, Q>(&'a self, key: &'a Q) -> Handle<'a, K, Q, A, C, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.client_at(key, self.now())
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
    ) -> Result<Borrowed<'a, K, Q, A, C, R>, Decision>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.acquire_at(key, cost, self.now())
    }

    /// [`acquire`](Self::acquire) for a permit that borrows nothing: it shares the limiter and has
    /// the key.
    pub fn acquire_owned(
        self: &Arc<Self>,
        key: K,
        cost: u64,
    ) -> Result<Owned<K, A, C, R>, Decision> {
        self.acquire_owned_at(key, cost, self.now())
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

    /// [`sweep_at`](Self::sweep_at) the time by the limiter's clock.
    pub fn sweep(&self, budget: usize) -> Swept {
        self.sweep_at(budget, self.now())
    }
}

/// A limiter tells the time by its clock.
impl<K, A: Algorithm, C: Clock, R> Clock for Limiter<K, A, C, R> {
    fn now(&self) -> Nanos {
        self.clock.now()
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
            .field("policies", &*self.clients.plans())
            .field("clock", &self.clock)
            .field("registry", &self.clients.registry)
            .finish_non_exhaustive()
    }
}
