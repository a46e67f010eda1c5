//! The limiter: finds the client's state, asks it, and applies the global cap.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;

use crate::algorithm::{Algorithm, AnyAlgorithm, AnyGrant};
use crate::builder::LimiterBuilder;
use crate::cap::Cap;
use crate::clients::{Clients, Full};
use crate::decision::{Decision, Reading, RetryAfter};
use crate::handle::Handle;
use crate::permit::Permit;
use crate::plan::{Client, Plan};
use crate::policy::{Policies, Policy};
use crate::registry::{PapayaRegistry, Registry};
use crate::stats::Stats;
use crate::sweep::Swept;
use crate::sync::Lock;
use crate::time::{Clock, MonotonicClock, Nanos};
use crate::word::Frozen;

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
    /// Held while reloading, and by nobody else.
    reloading: Lock,
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
        Self { clients, cap, clock, reloading: Lock::default() }
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
        self.is_allowed_in(key, None, 1, now)
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
        self.charge(key, None, cost, now).1
    }

    /// What [`check_n_at`](Self::check_n_at) would answer; charges and creates nothing.
    pub fn peek_n_at<Q>(&self, key: &Q, cost: u64, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.peek_in(key, None, cost, now)
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
        self.client_at(key, now).acquire(cost)
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

    /// Looks at up to `budget` clients, from where the last sweep stopped, and retires those that
    /// are as good as new at `now`.
    ///
    /// Newcomers sweep a few entries on their own; this is for those who want a say in when.
    pub fn sweep_at(&self, budget: usize, now: Nanos) -> Swept {
        self.clients.sweep(budget, now)
    }

    #[inline]
    pub(crate) fn is_allowed_in<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
    ) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let taken = self.ask_uncapped(key, tier, now, |plan, state| {
            Ok(plan.algorithm.acquire(state, now, cost)?.is_some())
        });
        taken.unwrap_or_else(|| self.charge_slowly(key, tier, cost, now).1.is_admitted())
    }

    #[inline]
    pub(crate) fn charge<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
    ) -> (Option<Grants<A>>, Decision)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let taken = self.ask_uncapped(key, tier, now, |plan, state| {
            let (granted, reading) = take(plan, state, now, cost)?;
            let grants = granted.map(|client| Grants { client: Some(client), cap: None });
            Ok((grants, Decision::of_client(reading)))
        });
        taken.unwrap_or_else(|| self.charge_slowly(key, tier, cost, now))
    }

    /// Asks a known client that no cap concerns, once; `None` where that is not all there is to it.
    #[inline]
    fn ask_uncapped<Q, T>(
        &self,
        key: &Q,
        tier: Option<&str>,
        now: Nanos,
        ask: impl Fn(&Plan<A>, &A::State) -> Result<T, Frozen>,
    ) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let guard = self.clients.registry.guard();
        let client = self.clients.find(key, tier, now, &guard)?;
        if client.plan.capped {
            return None;
        }
        ask(&client.plan, &client.state).ok()
    }

    pub(crate) fn peek_in<Q>(&self, key: &Q, tier: Option<&str>, cost: u64, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let client = self.read_client(key, tier, cost, now);
        if !self.clients.plans().is_capped() {
            return Decision::of_client(client);
        }
        Decision::of_both(client, self.read_cap(cost, now))
    }

    fn read_client<Q>(&self, key: &Q, tier: Option<&str>, cost: u64, now: Nanos) -> Reading
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.clients
            .view(key, tier, now, |client| client.plan.algorithm.peek(&client.state, now, cost))
    }

    fn read_cap(&self, cost: u64, now: Nanos) -> Reading {
        self.cap.ask(now, |plan, state| Ok(plan.algorithm.peek(state, now, cost)))
    }

    /// Charges the client, then the cap; a client that was charged in vain is paid back.
    ///
    /// A cap that can be seen to refuse is asked first, so that nothing is written at all. The
    /// client is charged before the cap: one over its own limit burns no global budget. If the cap
    /// refuses after all, another thread won its last units in between, and the client's grant is
    /// refunded exactly; until then a concurrent request of this client may be refused that a
    /// serial order would have admitted. No interleaving admits more than either limit allows.
    fn charge_slowly<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
    ) -> (Option<Grants<A>>, Decision)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let capped = self.clients.plans().is_capped();
        if capped && !self.cap.ask(now, |plan, cap| Ok(plan.algorithm.would_admit(cap, now, cost)))
        {
            return (None, self.peek_in(key, tier, cost, now));
        }
        // What a newcomer is refused, or costs nothing, makes no state.
        let unseen = |plan: &Plan<A>, state: &A::State| {
            let reading = plan.algorithm.peek(state, now, cost);
            (cost == 0 || !reading.admitted).then_some((None, reading))
        };
        let take = |plan: &Plan<A>, state: &A::State| take(plan, state, now, cost);
        let (client, reading) = match self.clients.ask(key, tier, now, unseen, take) {
            Ok(taken) => taken,
            Err(Full::Admit) => (None, UNLIMITED),
            Err(Full::Refuse(retry_after)) => {
                let limit = self.clients.plans().of_tier(tier).algorithm.limit();
                return (None, Decision::of_full(limit, retry_after));
            }
        };
        if !reading.admitted {
            let decision = if capped {
                Decision::of_both(reading, self.read_cap(cost, now))
            } else {
                Decision::of_client(reading)
            };
            return (None, decision);
        }
        if !capped {
            return (Some(Grants { client, cap: None }), Decision::of_client(reading));
        }
        let (cap, cap_reading) =
            self.cap.ask(now, |plan, state| self::take(plan, state, now, cost));
        if cap.is_some() {
            return (Some(Grants { client, cap }), Decision::of_both(reading, cap_reading));
        }
        self.refund(key, &Grants { client, cap: None }, now);
        let client = self.read_client(key, tier, cost, now);
        (None, Decision::of_both(client, cap_reading))
    }

    /// Gives back what `grants` took. Of a client that was retired meanwhile nothing is owed; of
    /// one that moved to another policy or tier, what can still be told apart.
    pub(crate) fn refund<Q>(&self, key: &Q, grants: &Grants<A>, now: Nanos)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(granted) = grants.client {
            self.clients.ask_known(key, now, |plan, state| give_back(plan, state, now, granted));
        }
        if let Some(granted) = grants.cap {
            self.cap.ask(now, |plan, state| give_back(plan, state, now, granted));
        }
    }

    pub(crate) fn all(&self) -> &Clients<K, A, R> {
        &self.clients
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

    /// [`sweep_at`](Self::sweep_at) the time by the limiter's clock.
    pub fn sweep(&self, budget: usize) -> Swept {
        self.sweep_at(budget, self.now())
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

/// The reading of a newcomer that is admitted without a limit of its own.
const UNLIMITED: Reading = Reading {
    admitted: true,
    limit: u64::MAX,
    remaining: u64::MAX,
    retry_after: RetryAfter::Now,
    reset_after: Duration::ZERO,
    delay: Duration::ZERO,
};

/// A grant, and the plan that it was made under.
#[derive(Clone, Copy)]
pub(crate) struct Granted<G> {
    plan: u64,
    grant: G,
}

/// What one limit answered: a grant if it admitted, and its reading.
type Taken<G> = (Option<Granted<G>>, Reading);

/// What an admitted request was granted, by the client's limit and by the cap.
pub(crate) struct Grants<A: Algorithm> {
    client: Option<Granted<A::Grant>>,
    cap: Option<Granted<AnyGrant>>,
}

fn take<A: Algorithm>(
    plan: &Plan<A>,
    state: &A::State,
    now: Nanos,
    cost: u64,
) -> Result<Taken<A::Grant>, Frozen> {
    let (grant, reading) = plan.algorithm.check(state, now, cost)?;
    Ok((grant.map(|grant| Granted { plan: plan.id, grant }), reading))
}

fn give_back<A: Algorithm>(
    plan: &Plan<A>,
    state: &A::State,
    now: Nanos,
    granted: Granted<A::Grant>,
) -> Result<(), Frozen> {
    if granted.plan == plan.id {
        plan.algorithm.refund(state, now, granted.grant)
    } else {
        plan.algorithm.refund_adopted(state, now, granted.grant)
    }
}
