//! The life of a client: first sight, succession, retirement.
//!
//! ```text
//! absent --insert--> live --freeze--> frozen --replace--> live (a successor)
//!                                        \----remove----> absent
//! ```
//!
//! # Who freezes, and why nobody waits
//! A state is frozen by whoever (a) finds it idle while sweeping, in the same exchange that checks
//! that it is, or (b) finds its plan superseded or its tier changed, or (c) finds that it cannot
//! hold what it must (a ring that must grow). Freezing is one exchange on the word that every
//! decision exchanges, so each decision comes wholly before it, and is part of the frozen value,
//! or after it, and meets [`Frozen`].
//!
//! Whoever meets a frozen state computes its successor from the frozen value and puts it in the
//! place of that very entry. The cases:
//! 1. The entry is still there: the replacement succeeds and the caller starts over with a live
//!    state. If several help, one succeeds; the frozen value is the same for all, so it does not
//!    matter which.
//! 2. It was replaced or removed: the replacement finds another entry, or none, and does nothing;
//!    the caller starts over with what is there.
//!
//! Either way each turn of the loop follows a step that some thread completed, so the protocol is
//! lock-free; no step of the thread that froze the state is needed.
//!
//! # Why retiring is invisible (I6)
//! A retired state answered as a fresh one at the time of the sweep and later. For callers that
//! hold an earlier time, `floor` is raised to the time of the sweep *before* the state is frozen,
//! and fresh states begin at the floor: a client that comes back finds at least what it left. (One
//! gap is known: a thread that is stopped between reading the floor and inserting its newcomer,
//! while the same client comes, is charged and retired by others, inserts a state that begins before
//! that retirement. A caller whose time is that old too can then take what the retired state had
//! refused it. Callers whose time has passed the retirement cannot tell.) For a
//! change of policy between the retirement and the client's return, fresh states begin as idle ones
//! that lived through the change ([`Algorithm::inherit`]).

use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

use crossbeam_utils::CachePadded;

use crate::algorithm::Algorithm;
use crate::decision::RetryAfter;
use crate::grants::{Back, Granted, Torn};
use crate::hand::Hand;
#[cfg(feature = "metrics")]
use crate::metrics::Meter;
use crate::plan::{Client, Plan, Plans};
use crate::policy::{Policies, WhenFull};
use crate::registry::Registry;
use crate::stats::{Counter, Counters, Stats};
use crate::sync::{AtomicU64, Held, Ordering, Slot};
use crate::time::Nanos;
use crate::word::Frozen;

/// All clients of a limiter and the plans they are held to.
pub(crate) struct Clients<K, A: Algorithm, R> {
    pub(crate) registry: R,
    plans: Slot<Plans<A>>,
    /// How many reloads there were: who keeps what was made of the policies looks here.
    generation: AtomicU64,
    /// Written by newcomers and sweeps only; apart from what every decision reads.
    pub(crate) shared: CachePadded<Shared>,
    /// What is counted for a dashboard.
    #[cfg(feature = "metrics")]
    meter: Option<Meter<K>>,
    key: core::marker::PhantomData<fn(K)>,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Entries there are, or are about to be.
    pub(crate) count: Counter,
    pub(crate) counters: Counters,
    pub(crate) hand: Hand,
    /// The latest time at which a state was retired.
    pub(crate) floor: Floor,
}

#[derive(Debug)]
pub(crate) struct Floor(AtomicU64);

impl Default for Floor {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Floor {
    /// Before a state is frozen that is idle at `now`.
    pub(crate) fn raise(&self, now: Nanos) {
        // Release, and before the freeze: whoever finds the entry gone finds the floor raised.
        // Pairs with the Acquire in `get`, by way of the map's removal.
        self.0.fetch_max(now.get(), Ordering::Release);
    }

    fn get(&self) -> Nanos {
        // Acquire: pairs with the Release in `raise`, by way of the map's removal.
        Nanos::new(self.0.load(Ordering::Acquire))
    }
}

/// A place in the count of entries for one that is about to be made; given back if it is not made,
/// also when the key's `Hash` or `Eq` panics.
pub(crate) struct Seat<'c>(&'c Counter);

impl<'c> Seat<'c> {
    /// Also how many were taken before.
    pub(crate) fn take(count: &'c Counter) -> (Self, u64) {
        let taken = count.count();
        (Self(count), taken)
    }

    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.discount();
    }
}

/// Which hundredth of all clients this one is in. By a hash of its own, without a seed: the same
/// in every limiter and every run of a program.
fn hundredth<Q: Hash + ?Sized>(key: &Q) -> u8 {
    (foldhash::quality::FixedState::default().hash_one(key) % 100) as u8
}

/// Why a newcomer has no state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Full {
    /// It is refused, until some client is idle.
    Refuse(RetryAfter),
    /// It passes without a limit of its own.
    Admit,
}

impl<K, A: Algorithm, R> Clients<K, A, R> {
    pub(crate) fn new(registry: R, policies: Policies<A>) -> Self {
        Self {
            registry,
            plans: Slot::new(Plans::new(policies)),
            generation: AtomicU64::new(0),
            shared: CachePadded::default(),
            #[cfg(feature = "metrics")]
            meter: None,
            key: core::marker::PhantomData,
        }
    }

    /// Puts `policies` in force. How many plans changed.
    ///
    /// Not for concurrent calls: the caller holds the reload's lock.
    pub(crate) fn reload(&self, policies: Policies<A>, at: Nanos) -> usize
    where
        A: PartialEq,
    {
        let old = self.plans.load();
        if old.policies == policies {
            return 0;
        }
        let new = Arc::new(old.reloaded(policies, at));
        #[cfg(feature = "metrics")]
        self.meter.iter().for_each(|meter| new.count_in(meter));
        // In force first, so that newcomers do not begin under a plan that is about to go.
        self.plans.replace(&old, new.clone());
        // Release: whoever finds the new number finds the new plans. Pairs with `generation`.
        self.generation.fetch_add(1, Ordering::Release);
        old.supersede(&new, at)
    }

    /// Counts in `meter` from now on.
    #[cfg(feature = "metrics")]
    pub(crate) fn count_in(&mut self, meter: Meter<K>) {
        self.plans().count_in(&meter);
        self.meter = Some(meter);
    }

    #[cfg(feature = "metrics")]
    #[inline]
    pub(crate) fn meter(&self) -> Option<&Meter<K>> {
        self.meter.as_ref()
    }

    pub(crate) fn plans(&self) -> Held<Plans<A>> {
        self.plans.load()
    }

    /// A number that changes with every reload.
    #[cfg(feature = "tower")]
    pub(crate) fn generation(&self) -> u64 {
        // Acquire: pairs with `reload`.
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.shared.counters.read(self.shared.count.get())
    }

    /// A client of this key that is new to this tier.
    pub(crate) fn fresh<Q: Hash + ?Sized>(&self, key: &Q, tier: Option<&str>) -> Client<A> {
        let plan = self.plans().of_tier(tier).clone();
        Client::fresh(plan, self.shared.floor.get(), hundredth(key))
    }
}

impl<K, A, R> Clients<K, A, R>
where
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    /// The client's entry, moved on to the plan in force and to the tier named (the default one if
    /// none is, or it is unknown); `None` if it has none. It may be superseded or frozen by the time it is asked.
    #[inline]
    pub(crate) fn find<'g, Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        now: Nanos,
        guard: &'g R::Guard<'_>,
    ) -> Option<&'g Client<A>>
    where
        K: Borrow<Q> + 'g,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        A: 'g,
    {
        loop {
            let client = self.registry.get(key, guard)?;
            if client.plan.is_current() && self.is_in(client, tier) {
                return Some(client);
            }
            self.renew(key, client, Some(self.plans().of_tier(tier)), now, guard);
        }
    }

    /// Whether the client is in the tier named; none or an unknown one means the default tier.
    #[inline]
    fn is_in(&self, client: &Client<A>, tier: Option<&str>) -> bool {
        match tier {
            None => client.plan.default,
            Some(tier) => {
                client.plan.tier == tier
                    || self.plans().of_tier(Some(tier)).tier == client.plan.tier
            }
        }
    }

    /// Freezes an entry, if it is not frozen yet, and puts its successor in its place: under `to`,
    /// or in the tier that it is in.
    #[cold]
    pub(crate) fn renew<Q>(
        &self,
        key: &Q,
        client: &Client<A>,
        to: Option<&Arc<Plan<A>>>,
        now: Nanos,
        guard: &R::Guard<'_>,
    ) where
        Q: Hash + ToOwned<Owned = K> + ?Sized,
    {
        client.plan.algorithm.freeze(&client.state);
        let make = || client.successor(to, now, hundredth(key));
        let replaced = self.registry.replace(key.to_owned(), client, make, guard);
        let moved = !client.plan.is_current() || to.is_some_and(|to| to.tier != client.plan.tier);
        if replaced && moved {
            self.shared.counters.migrated.count();
        }
    }

    /// Makes the entry of a newcomer, unless another thread has or there are too many.
    #[cold]
    fn welcome<'g, Q>(
        &self,
        key: &Q,
        newcomer: Client<A>,
        now: Nanos,
        guard: &'g R::Guard<'_>,
    ) -> Result<Option<&'g Client<A>>, Full>
    where
        K: Borrow<Q> + Hash + Eq + Clone + 'g,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let plans = self.plans();
        let shared = &*self.shared;
        let max = plans.policies.max_clients as u64;
        if shared.count.get() >= max && !self.make_room(now, guard) {
            return Err(self.full(&plans, now));
        }
        // Counted before it is there: so there are never more than `max`.
        let (seat, taken) = Seat::take(&shared.count);
        if taken >= max {
            return Err(self.full(&plans, now));
        }
        self.sweep_now_and_then(now, guard);
        let made = self.registry.insert(key.to_owned(), || newcomer, guard);
        if made.is_some() {
            seat.keep();
            shared.counters.created.count();
            shared.hand.saw_newcomer();
        }
        Ok(made)
    }

    /// What a newcomer is told when there is no room.
    fn full(&self, plans: &Plans<A>, now: Nanos) -> Full {
        match plans.policies.when_full {
            WhenFull::Admit => {
                self.shared.counters.admitted_full.count();
                Full::Admit
            }
            WhenFull::Refuse => {
                self.shared.counters.refused_full.count();
                Full::Refuse(match self.shared.hand.soonest() {
                    // Nothing is known of a walk that met only clients of other policies.
                    None => RetryAfter::nanos(1),
                    Some(at) => RetryAfter::nanos(at.get().saturating_sub(now.get()).max(1)),
                })
            }
        }
    }

    /// Asks the client's state until it is met unfrozen. A newcomer gets one first, unless
    /// `unseen` has an answer for it without.
    pub(crate) fn ask<Q, T>(
        &self,
        key: &Q,
        tier: Option<&str>,
        now: Nanos,
        unseen: impl Fn(&Plan<A>, &A::State) -> Option<T>,
        mut ask: impl FnMut(&Plan<A>, &A::State) -> Result<T, Torn<A>>,
    ) -> Result<T, Full>
    where
        K: Borrow<Q> + Hash + Eq + Clone,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let guard = self.registry.guard();
        loop {
            let client = match self.find(key, tier, now, &guard) {
                Some(client) => client,
                None => {
                    let newcomer = self.fresh(key, tier);
                    if let Some(answer) = unseen(&newcomer.plan, &newcomer.state) {
                        return Ok(answer);
                    }
                    match self.welcome(key, newcomer, now, &guard)? {
                        Some(made) if made.plan.is_current() => made,
                        _ => continue,
                    }
                }
            };
            match ask(&client.plan, &client.state) {
                Ok(answer) => return Ok(answer),
                Err(torn) => {
                    self.renew(key, client, None, now, &guard);
                    self.mend(key, now, torn);
                }
            }
        }
    }

    /// Gives back what a decision that met a frozen state had taken by then.
    pub(crate) fn mend<Q>(&self, key: &Q, now: Nanos, torn: Torn<A>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(granted) = torn {
            self.give(key, granted, now, Back::All);
        }
    }

    /// Gives `back` what the client was granted, unless it has no state any more.
    pub(crate) fn give<Q>(&self, key: &Q, granted: Granted<A::Grant>, now: Nanos, back: Back)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut done = 0;
        self.ask_known(key, now, |plan, state| granted.give(back, plan, state, now, &mut done));
    }

    /// Asks the state of a client that has one, in whichever tier it is, until it is met unfrozen.
    pub(crate) fn ask_known<Q, T>(
        &self,
        key: &Q,
        now: Nanos,
        mut ask: impl FnMut(&Plan<A>, &A::State) -> Result<T, Frozen>,
    ) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let guard = self.registry.guard();
        loop {
            let client = self.registry.get(key, &guard)?;
            if !client.plan.is_current() {
                self.renew(key, client, None, now, &guard);
                continue;
            }
            match ask(&client.plan, &client.state) {
                Ok(answer) => return Some(answer),
                Err(Frozen) => self.renew(key, client, None, now, &guard),
            }
        }
    }

    /// Removes the client, whatever it owes: it is as good as new.
    pub(crate) fn forget<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let guard = self.registry.guard();
        while let Some(client) = self.registry.get(key, &guard) {
            // Frozen first: who holds it still charges nothing to a state that is gone.
            client.plan.algorithm.freeze(&client.state);
            if self.registry.remove(key, client, &guard) {
                self.shared.count.discount();
                return;
            }
        }
    }

    /// Shows `look` what the client is, or would be, without changing anything.
    pub(crate) fn view<Q, T>(
        &self,
        key: &Q,
        tier: Option<&str>,
        now: Nanos,
        look: impl FnOnce(&Client<A>) -> T,
    ) -> T
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let guard = self.registry.guard();
        let plans = self.plans();
        match self.registry.get(key, &guard) {
            Some(client) if client.plan.is_current() && self.is_in(client, tier) => look(client),
            Some(client) => look(&client.successor(Some(plans.of_tier(tier)), now, hundredth(key))),
            None => look(&self.fresh(key, tier)),
        }
    }
}
