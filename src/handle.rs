//! One client, for everything that can be asked of it.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;

use crate::algorithm::{Algorithm, each_part};
use crate::decision::Decision;
use crate::explained::Explained;
use crate::limiter::Limiter;
use crate::permit::{Borrowed, Charge, Permit};
use crate::plan::{Client, Plan};
use crate::registry::Registry;
use crate::time::Nanos;
use crate::word::Frozen;

/// A client of a [`Limiter`], from [`Limiter::client`]: in a tier, at a time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, Policies, Quota, TokenBucket};
///
/// let bucket = |limit| TokenBucket::<u64>::new(Quota::per_second(limit)?);
/// let policies = Policies::new("free", bucket(1)?).tier("premium", bucket(10)?);
/// let limiter = Limiter::<String, _>::with_policies(policies).build();
///
/// assert_eq!(limiter.client("alice").tier("premium").check(3).remaining(), 7);
/// assert_eq!(limiter.client("bob").check(1).limit(), 1);
/// limiter.client("bob").penalize(Duration::from_secs(60));
/// assert!(!limiter.is_allowed("bob"));
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
///
/// Where no tier is named, or an unknown one, the default tier is meant. A client that is in another
/// tier moves there, and keeps what it has used; only [`peek`](Handle::peek) moves nobody.
#[must_use = "a handle alone decides nothing"]
pub struct Handle<'a, K, Q: ?Sized, A: Algorithm, C, R> {
    limiter: &'a Limiter<K, A, C, R>,
    key: &'a Q,
    tier: Option<&'a str>,
    now: Nanos,
}

impl<'a, K, Q, A, C, R> Handle<'a, K, Q, A, C, R>
where
    K: Borrow<Q> + Hash + Eq + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    pub(crate) fn new(limiter: &'a Limiter<K, A, C, R>, key: &'a Q, now: Nanos) -> Self {
        Self { limiter, key, tier: None, now }
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// In this tier. If the client is in another one, it moves.
    pub fn tier(self, tier: &'a str) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// Whether `cost` units may pass; if so they are charged.
    #[inline]
    pub fn is_allowed(&self, cost: u64) -> bool {
        let guard = self.limiter.all().registry.guard();
        self.limiter.is_allowed_in(self.key, self.tier, cost, self.now, &guard)
    }

    /// [`is_allowed`](Self::is_allowed) with its reasons.
    pub fn check(&self, cost: u64) -> Decision {
        let guard = self.limiter.all().registry.guard();
        self.limiter.check_in(self.key, self.tier, cost, self.now, &guard)
    }

    /// What [`check`](Self::check) would answer; charges, moves and creates nothing.
    pub fn peek(&self, cost: u64) -> Decision {
        self.limiter.peek_in(self.key, self.tier, cost, self.now, None)
    }

    /// Charges `cost` units whole for a permit that can be refunded, or tells why not.
    ///
    /// # Errors
    /// The decision, if it is a refusal.
    pub fn acquire(&self, cost: u64) -> Result<Borrowed<'a, K, Q, A, C, R>, Decision> {
        match self.limiter.charge(self.key, self.tier, cost, self.now) {
            (Some(charge), decision) => Ok(self.permit(charge, decision)),
            (None, decision) => Err(decision),
        }
    }

    /// [`acquire`](Self::acquire), and how each limit stood; no permit if it was refused.
    #[expect(clippy::type_complexity, reason = "an alias would hide the permit")]
    pub fn acquire_explained(&self, cost: u64) -> (Option<Borrowed<'a, K, Q, A, C, R>>, Explained) {
        let mut explained = Explained::default();
        let Self { limiter, key, tier, now, .. } = *self;
        let charge = limiter.charge_explained(key, tier, cost, now, &mut explained);
        (charge.map(|charge| self.permit(charge, explained.decision)), explained)
    }

    /// [`peek`](Self::peek), and how each limit stands.
    pub fn explain(&self, cost: u64) -> Explained {
        let mut explained = Explained::default();
        let readings = Some(&mut explained.readings);
        explained.decision = self.limiter.peek_in(self.key, self.tier, cost, self.now, readings);
        explained
    }

    /// Charges as many units as there are, up to `cost`, for a permit that knows
    /// [how many](Permit::cost): none of it, if there are none or `cost` is 0.
    ///
    /// Lock-free: each try fails only because somebody else took units.
    ///
    /// # Errors
    /// The decision, if there is not one unit.
    pub fn acquire_up_to(&self, cost: u64) -> Result<Borrowed<'a, K, Q, A, C, R>, Decision> {
        loop {
            let left = self.peek(0).remaining();
            // With none left, one tells why not; a unit may have come back in between.
            match self.acquire(cost.min(left.max(1))) {
                Err(refused) if left > 1 && !refused.refused_because_full() => continue,
                outcome => return outcome,
            }
        }
    }

    /// Charges `cost` units that were used already, to the client and to the global cap: into debt
    /// if need be, which is paid off before anything is admitted again. How far the debt can go is
    /// said at each algorithm. A newcomer for whom there is no room is not charged.
    pub fn charge(&self, cost: u64) {
        self.limiter.charge_used(self.key, self.tier, cost, self.now);
    }

    fn permit(&self, charge: Charge<A>, decision: Decision) -> Borrowed<'a, K, Q, A, C, R> {
        Permit::new(self.limiter, self.key, charge, decision)
    }

    /// Gives `amount` units back without a permit, never beyond full. The global cap is not
    /// credited.
    pub fn credit(&self, amount: u64) {
        let mut done = 0;
        self.change(Self::full, |plan, state| {
            let credit = |part| plan.algorithm.credit(state, self.now, amount, part);
            each_part(plan.algorithm.parts(), &mut done, credit)
        });
    }

    /// Takes all that the client has left. The global cap is not charged.
    pub fn drain(&self) {
        self.change(Self::any, |plan, state| plan.algorithm.drain(state, self.now));
    }

    /// Admits nothing of this client for at least this long. A bucket or log opens again on the
    /// nanosecond; a window stays shut to its end, a counter for one window more.
    pub fn penalize(&self, time: Duration) {
        let until = self.now.saturating_add(time);
        self.change(Self::any, |plan, state| plan.algorithm.penalize(state, self.now, until));
    }

    /// Makes the client as good as new, in whichever tier it is: its state is removed. A permit of
    /// its that is refunded later gives back what a permit of a retired client does.
    pub fn forget(&self) {
        self.limiter.all().forget(self.key);
    }

    /// Makes a change that is no decision. A client without a state gets one, unless that would be
    /// `needless` or there is no room.
    fn change(
        &self,
        needless: impl Fn(&Self, &Plan<A>, &A::State) -> bool,
        mut change: impl FnMut(&Plan<A>, &A::State) -> Result<(), Frozen>,
    ) {
        let unseen = |plan: &Plan<A>, state: &A::State| needless(self, plan, state).then_some(());
        let change = |plan: &Plan<A>, state: &A::State| change(plan, state).map_err(|Frozen| None);
        let _ = self.limiter.all().ask(self.key, self.tier, self.now, unseen, change);
    }

    /// Whether nothing can be given to a client in this state.
    fn full(&self, plan: &Plan<A>, state: &A::State) -> bool {
        plan.algorithm.peek(state, self.now, 0).reset_after.is_zero()
    }

    fn any(&self, _: &Plan<A>, _: &A::State) -> bool {
        false
    }
}

impl<K, Q, A, C, R> fmt::Debug for Handle<'_, K, Q, A, C, R>
where
    Q: fmt::Debug + ?Sized,
    A: Algorithm,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("key", &self.key)
            .field("tier", &self.tier)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
