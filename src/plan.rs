//! Plans: policies in force. What replaces what, and what a client's state was made under.
//!
//! A plan never changes but for one thing: it can be superseded, once, by a next plan. A client
//! whose plan was superseded moves on at its next touch, step by step through the plans that it
//! missed, so that each stretch of time is paid at the rate that was in force.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use std::sync::OnceLock;

use crate::algorithm::{Algorithm, AnyAlgorithm, Constant};
use crate::carry::{CarryOver, Change};
#[cfg(feature = "metrics")]
use crate::metrics::{Labels, Meter, Tally};
use crate::policy::{Policies, Policy};
use crate::sync::{AtomicBool, Ordering};
use crate::time::Nanos;

/// One tier's policy in force. What every decision reads comes first, and not in a cache line with the
/// counts of the plan's `Arc`, which newcomers write.
#[repr(C, align(128))]
pub(crate) struct Plan<A> {
    superseded: AtomicBool,
    /// Whether this is the tier of clients for which none is named.
    pub(crate) default: bool,
    /// Whether a decision without a permit is what the client's own limits answer, and no more:
    /// there is no cap, and nothing is held.
    pub(crate) direct: bool,
    /// Whether it is, and an admitted request never waits for its turn.
    #[cfg(feature = "tower")]
    pub(crate) prompt: bool,
    /// Whether the global cap holds for its clients too.
    capped: bool,
    /// Where its decisions are counted, if they are.
    #[cfg(feature = "metrics")]
    tally: OnceLock<Arc<Tally>>,
    pub(crate) algorithm: A,
    pub(crate) tier: String,
    /// No other plan of this limiter has had it or will.
    pub(crate) id: u64,
    /// The plan that took over, and how its clients move on to it. Set before `superseded` is.
    next: OnceLock<(Arc<Plan<A>>, Change)>,
}

impl<A: Algorithm> Plan<A> {
    fn new(id: u64, tier: &str, algorithm: A) -> Self {
        Self {
            id,
            tier: tier.into(),
            algorithm,
            default: true,
            capped: false,
            direct: false,
            #[cfg(feature = "tower")]
            prompt: false,
            #[cfg(feature = "metrics")]
            tally: OnceLock::new(),
            superseded: AtomicBool::new(false),
            next: OnceLock::new(),
        }
    }

    /// The plan of a tier among these policies.
    fn of_tier(id: u64, tier: &str, algorithm: A, policies: &Policies<A>) -> Arc<Self> {
        let default = policies.default == tier;
        let capped = policies.global.is_some();
        let direct = !capped && !algorithm.holds();
        #[cfg(feature = "tower")]
        let prompt = direct && !algorithm.queues();
        Arc::new(Self {
            default,
            capped,
            direct,
            #[cfg(feature = "tower")]
            prompt,
            ..Self::new(id, tier, algorithm)
        })
    }

    /// Whether it is the plan that these policies ask for.
    fn is_as(&self, policies: &Policies<A>) -> bool
    where
        A: PartialEq,
    {
        policies.tiers.get(&self.tier).is_some_and(|policy| policy.algorithm == self.algorithm)
            && self.default == (policies.default == self.tier)
            && self.capped == policies.global.is_some()
    }

    #[cfg(feature = "metrics")]
    #[inline]
    pub(crate) fn tally(&self) -> Option<&Tally> {
        self.tally.get().map(|tally| &**tally)
    }

    /// Counts a request that this limit refused.
    #[cfg(feature = "metrics")]
    #[inline]
    pub(crate) fn count_refused(&self, limit: usize) {
        if let Some(tally) = self.tally() {
            tally.refused(limit);
        }
    }

    /// Whether no other plan has taken over.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        // Acquire: the next plan must be visible to whoever learns that there is one; pairs with
        // the Release in `supersede`.
        !self.superseded.load(Ordering::Acquire)
    }

    /// Lets `next` take over: once, by the reload that put `next` in force.
    fn supersede(&self, next: Arc<Self>, change: Change) {
        if self.next.set((next, change)).is_ok() {
            // Release: pairs with the Acquire in `is_current`.
            self.superseded.store(true, Ordering::Release);
        }
    }

    fn next(&self) -> Option<&(Arc<Self>, Change)> {
        if self.is_current() { None } else { self.next.get() }
    }
}

impl<A: fmt::Debug> fmt::Debug for Plan<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("tier", &self.tier)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// A client: its state, and the plan that the state was made under.
pub struct Client<A: Algorithm> {
    pub(crate) plan: Arc<Plan<A>>,
    pub(crate) state: A::State,
}

impl<A: Algorithm> Client<A> {
    /// A client that has used nothing, in this hundredth of all clients.
    pub(crate) fn fresh(plan: Arc<Plan<A>>, since: Nanos, hundredth: u8) -> Self {
        Self { state: plan.algorithm.fresh_in(since, hundredth), plan }
    }

    /// The client that takes over from this frozen one: under the plan in force, and in tier `to`
    /// if that is another.
    pub(crate) fn successor(&self, to: Option<&Arc<Plan<A>>>, now: Nanos, hundredth: u8) -> Self {
        let mut plan = &self.plan;
        let mut state = plan.algorithm.successor(&self.state);
        while let Some((next, change)) = plan.next() {
            state = next.algorithm.adopt_in(&plan.algorithm, &state, *change, hundredth);
            plan = next;
        }
        if let Some(to) = to.filter(|to| to.tier != plan.tier) {
            let change = Change { at: now, carry_over: CarryOver::Keep, moved: true };
            state = to.algorithm.adopt_in(&plan.algorithm, &state, change, hundredth);
            plan = to;
        }
        Self { plan: plan.clone(), state }
    }
}

impl<A: Algorithm> fmt::Debug for Client<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("tier", &self.plan.tier)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// All plans in force at one time.
pub(crate) struct Plans<A: Algorithm> {
    pub(crate) policies: Policies<A>,
    /// The id of the next plan.
    next_id: u64,
    tiers: BTreeMap<String, Arc<Plan<A>>>,
    /// The plan of the global cap; admits everything if there is no cap.
    cap: Arc<Plan<AnyAlgorithm>>,
}

impl<A: Algorithm> Plans<A> {
    /// The first plans.
    pub(crate) fn new(policies: Policies<A>) -> Self {
        let mut ids = 1..;
        let mut id = || ids.next().unwrap_or(0);
        let cap = Arc::new(Plan::new(id(), "", cap_algorithm(&policies)));
        let tiers = policies.tiers.iter().map(|(tier, policy)| {
            let plan = Plan::of_tier(id(), tier, policy.algorithm.clone(), &policies);
            (tier.clone(), plan)
        });
        Self { tiers: tiers.collect(), cap, next_id: id(), policies }
    }

    /// The plans after a reload at `at`: those whose policy did not change are the same plans.
    pub(crate) fn reloaded(&self, policies: Policies<A>, at: Nanos) -> Self
    where
        A: PartialEq,
    {
        let mut ids = self.next_id..;
        let mut id = || ids.next().unwrap_or(0);
        let mut cap = cap_algorithm(&policies);
        let cap = if self.cap.algorithm == cap {
            self.cap.clone()
        } else {
            cap.inherit(&self.cap.algorithm, cap_change(&policies, at));
            Arc::new(Plan::new(id(), "", cap))
        };
        let tiers = policies.tiers.iter().map(|(tier, policy)| {
            let old = self.tiers.get(tier);
            let plan = old.filter(|old| old.is_as(&policies)).cloned().unwrap_or_else(|| {
                let mut algorithm = policy.algorithm.clone();
                if let Some(old) = old {
                    algorithm.inherit(&old.algorithm, tier_change(old, policy, at));
                }
                Plan::of_tier(id(), tier, algorithm, &policies)
            });
            (tier.clone(), plan)
        });
        Self { tiers: tiers.collect(), cap, next_id: id(), policies }
    }

    /// Lets `next`, which is in force by now, take over from these plans. How many changed.
    pub(crate) fn supersede(&self, next: &Self, at: Nanos) -> usize
    where
        A: PartialEq,
    {
        let mut changed = 0;
        for (tier, plan) in &self.tiers {
            let (to, change) = match next.tiers.get(tier) {
                Some(to) => (to, tier_change(plan, &next.policies.tiers[tier], at)),
                // The tier is gone: its clients move to the default one.
                None => (next.of_tier(None), Change { moved: true, ..change(CarryOver::Keep, at) }),
            };
            if !Arc::ptr_eq(plan, to) {
                plan.supersede(to.clone(), change);
                changed += 1;
            }
        }
        if !Arc::ptr_eq(&self.cap, &next.cap) {
            self.cap.supersede(next.cap.clone(), cap_change(&next.policies, at));
            changed += 1;
        }
        changed
    }
}

impl<A: Algorithm> Plans<A> {
    /// The plan of the named tier, or of the default one if none is named or it is unknown.
    pub(crate) fn of_tier(&self, tier: Option<&str>) -> &Arc<Plan<A>> {
        let named = tier.and_then(|tier| self.tiers.get(tier));
        named.unwrap_or_else(|| &self.tiers[&self.policies.default])
    }

    /// Counts what is decided under these plans.
    #[cfg(feature = "metrics")]
    pub(crate) fn count_in<K>(&self, meter: &Meter<K>) {
        for (tier, plan) in &self.tiers {
            let names = (0..plan.algorithm.parts()).map(|part| plan.algorithm.name_of_part(part));
            let labels = Labels { tier: tier.clone(), limits: names.collect() };
            plan.tally.get_or_init(|| meter.tally(labels));
        }
    }

    pub(crate) fn cap(&self) -> &Arc<Plan<AnyAlgorithm>> {
        &self.cap
    }

    pub(crate) fn is_capped(&self) -> bool {
        self.policies.global.is_some()
    }
}

impl<A: Algorithm + fmt::Debug> fmt::Debug for Plans<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policies.fmt(f)
    }
}

fn change(carry_over: CarryOver, at: Nanos) -> Change {
    Change { at, carry_over, moved: false }
}

/// A tier's plan gives way to this policy. Where the algorithm is the same (the tier has become
/// the default one, the cap has come or gone) all is kept.
fn tier_change<A: PartialEq>(old: &Plan<A>, policy: &Policy<A>, at: Nanos) -> Change {
    let same = old.algorithm == policy.algorithm;
    change(if same { CarryOver::Keep } else { policy.carry_over }, at)
}

fn cap_algorithm<A>(policies: &Policies<A>) -> AnyAlgorithm {
    let unlimited = AnyAlgorithm::Constant(Constant::Unlimited);
    policies.global.as_ref().map_or(unlimited, |cap| cap.algorithm.clone())
}

fn cap_change<A>(policies: &Policies<A>, at: Nanos) -> Change {
    change(policies.global.as_ref().map_or(CarryOver::Keep, |cap| cap.carry_over), at)
}
