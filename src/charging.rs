//! A decision: the client is charged, then the global cap, or neither is.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::cell::RefCell;
use core::hash::Hash;

use crate::algorithm::{Algorithm, AnyAlgorithm, AnyState, Interrupted, each_part};
use crate::clients::Full;
use crate::decision::{Decision, LimitReading, Reading};
use crate::explained::{Explained, Readings};
use crate::grants::{Back, Granted, Torn};
use crate::limiter::Limiter;
use crate::permit::Charge;
#[cfg(feature = "metrics")]
use crate::plan::Plans;
use crate::plan::{Client, Plan};
use crate::registry::Registry;
use crate::time::Nanos;
use crate::word::Frozen;

/// What one side answered: a grant if it admitted, and its reading.
type Taken<G> = (Option<Granted<G>>, Reading);

/// Asks a state; `note` makes it tell each limit there is in it.
fn take<A: Algorithm>(
    plan: &Plan<A>,
    state: &A::State,
    now: Nanos,
    cost: u64,
    note: Option<impl FnMut(&LimitReading)>,
) -> Result<Taken<A::Grant>, Torn<A>> {
    let checked = match note {
        None => plan.algorithm.check_or_tell(state, now, cost),
        Some(note) => {
            let mut first = FirstRefused::default();
            let checked = plan.algorithm.check_each(state, now, cost, &mut first.before(note));
            checked.map(|(grant, reading)| (grant.ok_or(first.limit()), reading))
        }
    };
    let (grant, reading) = checked.map_err(|torn| torn_of(plan, torn))?;
    #[cfg(feature = "metrics")]
    if let Err(limit) = grant {
        plan.count_refused(limit);
    }
    Ok((grant.ok().map(|grant| Granted::new(plan, grant)), reading))
}

/// [`take`] without its reasons; of a refusal, the limit that refused first.
#[inline]
fn acquire<A: Algorithm>(
    plan: &Plan<A>,
    state: &A::State,
    now: Nanos,
    cost: u64,
) -> Result<Result<A::Grant, usize>, Torn<A>> {
    let grant = plan.algorithm.acquire_or_tell(state, now, cost);
    let grant = grant.map_err(|torn| torn_of(plan, torn))?;
    #[cfg(feature = "metrics")]
    if let Err(limit) = grant {
        plan.count_refused(limit);
    }
    Ok(grant)
}

#[inline]
fn torn_of<A: Algorithm>(plan: &Plan<A>, torn: Interrupted<A::Grant>) -> Torn<A> {
    torn.taken.map(|grant| Granted::new(plan, grant))
}

/// Hears the readings of all limits, and which was the first that refused.
#[derive(Default)]
struct FirstRefused {
    heard: usize,
    limit: Option<usize>,
}

impl FirstRefused {
    fn before(&mut self, note: impl FnMut(&LimitReading)) -> impl FnMut(&LimitReading) {
        let mut note = note;
        move |reading| {
            if reading.refused() {
                self.limit.get_or_insert(self.heard);
            }
            self.heard += 1;
            note(reading);
        }
    }

    fn limit(self) -> usize {
        self.limit.unwrap_or(0)
    }
}

/// [`take`] that takes nothing.
fn read<A: Algorithm>(
    plan: &Plan<A>,
    state: &A::State,
    now: Nanos,
    cost: u64,
    note: Option<impl FnMut(&LimitReading)>,
) -> Reading {
    match note {
        None => plan.algorithm.peek(state, now, cost),
        Some(mut note) => plan.algorithm.peek_each(state, now, cost, &mut note),
    }
}

impl<K, A, C, R> Limiter<K, A, C, R>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    #[inline]
    pub(crate) fn is_allowed_in<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        guard: &R::Guard<'_>,
    ) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.timed(|| {
            let taken = self.ask_known(key, tier, now, guard, |plan, state| {
                if !plan.direct {
                    return self.is_allowed_with_cap(key, plan, state, now, cost);
                }
                let grant = acquire(plan, state, now, cost)?;
                if let Ok(grant) = &grant {
                    self.admitted(|| plan, plan.algorithm.missed(grant), 0);
                }
                Ok(Some(grant.is_ok()))
            });
            #[cfg(feature = "metrics")]
            if taken == Some(false) {
                self.note_refused(key);
            }
            #[cfg(feature = "tracing")]
            if taken == Some(false) && tracing::enabled!(target: "tollgate", tracing::Level::DEBUG)
            {
                crate::trace::refused(tier, cost, &self.peek_in(key, tier, cost, now, None));
            }
            taken.unwrap_or_else(|| self.check_slowly(key, tier, cost, now).is_admitted())
        })
    }

    /// [`charge`](Self::charge) without its reasons, where the cap can be seen to admit; `None` where
    /// that is not all there is to it, and everything is as it was.
    #[inline(never)]
    fn is_allowed_with_cap<Q>(
        &self,
        key: &Q,
        plan: &Plan<A>,
        state: &A::State,
        now: Nanos,
        cost: u64,
    ) -> Result<Option<bool>, Torn<A>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if plan.algorithm.holds() {
            return Ok(None);
        }
        let admits = |cap: &Plan<AnyAlgorithm>, state: &AnyState| {
            !cap.algorithm.holds() && cap.algorithm.would_admit(state, now, cost)
        };
        let take = |cap: &Plan<AnyAlgorithm>, of_cap: &AnyState| {
            if !admits(cap, of_cap) {
                return Ok(None);
            }
            let Ok(grant) = acquire(plan, state, now, cost)? else { return Ok(Some(false)) };
            let client = Granted::new(plan, grant);
            let by_cap = match cap.algorithm.acquire(of_cap, now, cost) {
                Ok(grant) => grant.map(|grant| cap.algorithm.missed(&grant)),
                Err(torn) => self.is_allowed_by_successor(torn_of(cap, torn), now, cost),
            };
            if let Some(by_cap) = by_cap {
                self.admitted(|| plan, client.missed, by_cap);
                return Ok(Some(true));
            }
            self.all().give(key, client, now, Back::All);
            Ok(None)
        };
        self.cap().once(take).unwrap_or(Ok(None))
    }

    /// Asks the cap again that was met frozen: who is charged already keeps what it has, which might
    /// not be told from others' when the client has moved on as well. What limits of the cap in shadow
    /// would have refused it, a bit for each.
    #[cold]
    fn is_allowed_by_successor(
        &self,
        torn: Torn<AnyAlgorithm>,
        now: Nanos,
        cost: u64,
    ) -> Option<u8> {
        if let Some(granted) = torn {
            self.cap().give(granted, now, Back::All);
        }
        let granted = self.cap().ask(now, |plan, state| {
            let grant = acquire(plan, state, now, cost)?;
            Ok(grant.ok().map(|grant| Granted::new(plan, grant)))
        })?;
        // The successor may hold something; nobody will end a permit.
        self.cap().give(granted, now, Back::Held);
        Some(granted.missed)
    }

    #[inline]
    pub(crate) fn check_in<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        guard: &R::Guard<'_>,
    ) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.timed(|| {
            let note = None::<fn(&LimitReading)>;
            let Some((_, decision)) = self.take_directly(key, tier, cost, now, guard, note) else {
                return self.check_slowly(key, tier, cost, now);
            };
            if decision.is_refused() {
                self.tell_refused(key, tier, cost, &decision);
            }
            decision
        })
    }

    /// Charges a known client whom nothing but its own limits holds back; `None` where that is not
    /// all there is to it, and everything is as it was.
    #[inline]
    fn take_directly<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        guard: &R::Guard<'_>,
        note: Option<impl FnMut(&LimitReading)>,
    ) -> Option<(Option<Granted<A::Grant>>, Decision)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.ask_known(key, tier, now, guard, |plan, state| {
            if !plan.direct {
                return Ok(None);
            }
            let (granted, reading) = take(plan, state, now, cost, note)?;
            let missed = granted.is_some_and(|granted| self.admitted(|| plan, granted.missed, 0));
            Ok(Some((granted, Decision::of_client(reading).missed(missed))))
        })
    }

    /// Charges a known client whom nothing but its own limits holds back, and to whom more than
    /// `percent` of them is left: for a request that nobody need hear of. `false` where that is not all
    /// there is to it, and nothing is charged.
    #[cfg(feature = "tower")]
    pub(crate) fn charge_quietly<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        percent: u8,
    ) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let guard = self.all().registry.guard();
        let charge = |plan: &Plan<A>, state: &A::State| {
            // Its delay would be told by the step that charges, and that one tells nothing.
            if !plan.prompt {
                return Ok(None);
            }
            // Whoever is refused here is asked again, and counted then.
            let grant = plan.algorithm.acquire_leaving(state, now, cost, percent);
            let grant = grant.map_err(|torn| torn_of(plan, torn))?;
            Ok(grant.map(|grant| self.admitted(|| plan, plan.algorithm.missed(&grant), 0)))
        };
        let charge = || self.ask_known(key, tier, now, &guard, charge);
        self.timed_if(charge, Option::is_some).is_some()
    }

    /// A decision without a permit: what one would hold until its end is given back at once.
    fn check_slowly<Q>(&self, key: &Q, tier: Option<&str>, cost: u64, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let (charge, decision) = self.charge_untimed(key, tier, cost, now, None);
        if let Some(charge) = charge {
            self.release(key, &charge);
        }
        decision
    }

    /// Asks a known client once; `None` where that gave no answer.
    #[inline]
    fn ask_known<Q, T>(
        &self,
        key: &Q,
        tier: Option<&str>,
        now: Nanos,
        guard: &R::Guard<'_>,
        ask: impl FnOnce(&Plan<A>, &A::State) -> Result<Option<T>, Torn<A>>,
    ) -> Option<T>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let client = self.all().find(key, tier, now, guard)?;
        match ask(&client.plan, &client.state) {
            Ok(answer) => answer,
            Err(torn) => {
                self.all().mend(key, now, torn);
                None
            }
        }
    }

    /// Counts an admitted request of this plan, and what limits in shadow would have refused, a bit
    /// for each. Whether any would have.
    #[inline]
    fn admitted<'p>(&self, plan: impl FnOnce() -> &'p Plan<A>, by_client: u8, by_cap: u8) -> bool
    where
        A: 'p,
    {
        #[cfg(feature = "metrics")]
        if let Some(tally) = plan().tally() {
            tally.admitted(by_client, by_cap);
        }
        #[cfg(not(feature = "metrics"))]
        let _ = plan;
        let missed = by_client | by_cap != 0;
        if missed {
            self.all().shared.counters.would_have_refused.count();
        }
        missed
    }

    /// Tells those who want to know of a refusal.
    #[inline]
    fn tell_refused<Q>(&self, key: &Q, tier: Option<&str>, cost: u64, decision: &Decision)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        #[cfg(feature = "metrics")]
        self.note_refused(key);
        #[cfg(feature = "tracing")]
        crate::trace::refused(tier, cost, decision);
        let _ = (key, tier, cost, decision);
    }

    #[cfg(feature = "metrics")]
    fn count_refused_by_cap(&self, plans: &Plans<A>, tier: Option<&str>) {
        if let Some(tally) = plans.of_tier(tier).tally() {
            tally.refused_by_cap();
        }
    }

    /// Notes who was refused.
    #[cfg(feature = "metrics")]
    #[inline]
    fn note_refused<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(meter) = self.all().meter() {
            meter.refused(key);
        }
    }

    /// Decides, and times that if it is one of the decisions that are timed.
    #[inline]
    fn timed<T>(&self, decide: impl FnOnce() -> T) -> T {
        self.timed_if(decide, |_| true)
    }

    /// [`timed`](Self::timed), if it turns out to be a decision.
    #[inline]
    fn timed_if<T>(&self, decide: impl FnOnce() -> T, decided: impl FnOnce(&T) -> bool) -> T {
        #[cfg(feature = "metrics")]
        if let Some(meter) = self.all().meter() {
            return meter.time(decide, decided);
        }
        let _ = decided;
        decide()
    }

    pub(crate) fn peek_in<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        readings: Option<&mut Readings>,
    ) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut readings = readings;
        let client = self.read_client(key, tier, cost, now, readings.as_deref_mut());
        if !self.all().plans().is_capped() {
            return Decision::of_client(client);
        }
        Decision::of_both(client, self.read_cap(cost, now, readings))
    }

    fn read_client<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        readings: Option<&mut Readings>,
    ) -> Reading
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let note = readings.map(Readings::of_client);
        self.all().view(key, tier, now, |client| read(&client.plan, &client.state, now, cost, note))
    }

    fn read_cap(&self, cost: u64, now: Nanos, readings: Option<&mut Readings>) -> Reading {
        let mut readings = readings;
        self.cap().ask(now, |plan, state| {
            Ok(read(plan, state, now, cost, readings.as_deref_mut().map(Readings::of_cap)))
        })
    }

    /// Charges the client and the cap.
    pub(crate) fn charge<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
    ) -> (Option<Charge<A>>, Decision)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.timed(|| self.charge_untimed(key, tier, cost, now, None))
    }

    /// [`charge`](Self::charge) that tells in `explained`, in place of what stood there.
    pub(crate) fn charge_explained<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        explained: &mut Explained,
    ) -> Option<Charge<A>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let Explained { decision, readings } = explained;
        readings.clear();
        let charge = || self.charge_untimed(key, tier, cost, now, Some(readings));
        let (charge, made) = self.timed(charge);
        *decision = made;
        charge
    }

    fn charge_untimed<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        readings: Option<&mut Readings>,
    ) -> (Option<Charge<A>>, Decision)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut readings = readings;
        let note = readings.as_deref_mut().map(Readings::of_client);
        let guard = self.all().registry.guard();
        let charged = match self.take_directly(key, tier, cost, now, &guard, note) {
            Some((client, decision)) => {
                let charge = || Charge { client, cap: None, cost, at: now };
                (decision.is_admitted().then(charge), decision)
            }
            None => self.charge_both(key, tier, cost, now, readings),
        };
        if charged.1.is_refused() {
            self.tell_refused(key, tier, cost, &charged.1);
        }
        charged
    }

    /// Charges the client, then the cap; a client that was charged in vain is paid back.
    ///
    /// A cap that can be seen to refuse is asked first, so that nothing is written at all. The
    /// client is charged before the cap: one over its own limit burns no global budget. If the cap
    /// refuses after all, another thread won its last units in between, and the client's grant is
    /// refunded exactly; until then a concurrent request of this client may be refused that a
    /// serial order would have admitted. No interleaving admits more than either limit allows, but for
    /// a bucket that is paid back late: it cannot tell what it has made good by itself meanwhile.
    fn charge_both<Q>(
        &self,
        key: &Q,
        tier: Option<&str>,
        cost: u64,
        now: Nanos,
        readings: Option<&mut Readings>,
    ) -> (Option<Charge<A>>, Decision)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut readings = readings;
        let charge = |client, cap| Charge { client, cap, cost, at: now };
        let plans = self.all().plans();
        let capped = plans.is_capped();
        let refused = |plan: &Plan<AnyAlgorithm>, cap: &AnyState| {
            Ok(!plan.algorithm.would_admit(cap, now, cost))
        };
        if capped && self.cap().ask(now, refused) {
            let decision = self.peek_in(key, tier, cost, now, readings.as_deref_mut());
            if decision.is_refused() {
                #[cfg(feature = "metrics")]
                self.count_refused_by_cap(&plans, tier);
                return (None, decision);
            }
            // The cap has room again.
        }
        let of_client = RefCell::new(readings.as_deref_mut());
        // What a newcomer is refused, or costs nothing, makes no state.
        let unseen = |plan: &Plan<A>, state: &A::State| {
            let mut readings = of_client.borrow_mut();
            let note = readings.as_deref_mut().map(Readings::of_client);
            let reading = read(plan, state, now, cost, note);
            #[cfg(feature = "metrics")]
            if !reading.admitted {
                // Nobody else has this state: it refuses again, and tells which limit did.
                let again = plan.algorithm.acquire_or_tell(state, now, cost);
                plan.count_refused(again.map_or(0, |grant| grant.err().unwrap_or(0)));
            }
            (cost == 0 || !reading.admitted).then_some((None, reading))
        };
        let take_of_client = |plan: &Plan<A>, state: &A::State| {
            let mut readings = of_client.borrow_mut();
            take(plan, state, now, cost, readings.as_deref_mut().map(Readings::of_client))
        };
        let (client, reading) = match self.all().ask(key, tier, now, unseen, take_of_client) {
            Ok(taken) => taken,
            // It has no limit of its own.
            Err(Full::Admit) => (None, Reading::UNLIMITED),
            Err(Full::Refuse(retry_after)) => {
                let limit = plans.of_tier(tier).algorithm.limit();
                return (None, Decision::of_full(limit, retry_after));
            }
        };
        let missed = client.map_or(0, |client| client.missed);
        if !capped {
            let missed = reading.admitted && self.admitted(|| plans.of_tier(tier), missed, 0);
            let decision = Decision::of_client(reading).missed(missed);
            return (reading.admitted.then(|| charge(client, None)), decision);
        }
        if !reading.admitted {
            return (None, Decision::of_both(reading, self.read_cap(cost, now, readings)));
        }
        let (cap, cap_reading) = self.cap().ask(now, |plan, state| {
            take(plan, state, now, cost, readings.as_deref_mut().map(Readings::of_cap))
        });
        if let Some(Granted { missed: by_cap, .. }) = cap {
            let missed = self.admitted(|| plans.of_tier(tier), missed, by_cap);
            let decision = Decision::of_both(reading, cap_reading).missed(missed);
            return (Some(charge(client, cap)), decision);
        }
        #[cfg(feature = "metrics")]
        self.count_refused_by_cap(&plans, tier);
        self.give(key, &charge(client, None), now, Back::All);
        let client = self.read_client(key, tier, cost, now, None);
        (None, Decision::of_both(client, cap_reading))
    }

    /// Gives `back` what the charge took. Of a client that was retired meanwhile nothing is owed.
    pub(crate) fn give<Q>(&self, key: &Q, charge: &Charge<A>, now: Nanos, back: Back)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(granted) = charge.client {
            self.all().give(key, granted, now, back);
        }
        if let Some(granted) = charge.cap {
            self.cap().give(granted, now, back);
        }
    }

    /// Gives back what the charge holds until its permit ends.
    pub(crate) fn release<Q>(&self, key: &Q, charge: &Charge<A>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if charge.holds() {
            // What is held knows no time.
            self.give(key, charge, charge.at, Back::Held);
        }
    }

    /// Charges units that were used already, to the client and to the cap.
    pub(crate) fn charge_used<Q>(&self, key: &Q, tier: Option<&str>, cost: u64, now: Nanos)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let unseen = |_: &Plan<A>, _: &A::State| (cost == 0).then_some(());
        let mut done = 0;
        let charge = |plan: &Plan<A>, state: &A::State| {
            charge_each(plan, state, now, cost, &mut done).map_err(|Frozen| None)
        };
        // A newcomer without room has no state that could owe.
        let _ = self.all().ask(key, tier, now, unseen, charge);
        self.charge_cap(cost, now);
    }

    /// Charges units that were used beyond what was granted, to whoever granted it. The client
    /// stays in its tier; one that was retired meanwhile comes back.
    pub(crate) fn charge_more<Q>(&self, key: &Q, granted: &Charge<A>, cost: u64, now: Nanos)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if cost == 0 || granted.client.is_none() {
            return;
        }
        let mut done = 0;
        let charge =
            |plan: &Plan<A>, state: &A::State| charge_each(plan, state, now, cost, &mut done);
        match self.all().ask_known(key, now, charge) {
            Some(()) if granted.cap.is_some() => self.charge_cap(cost, now),
            Some(()) => {}
            None => self.charge_used(key, None, cost, now),
        }
    }

    fn charge_cap(&self, cost: u64, now: Nanos) {
        let mut done = 0;
        self.cap().ask(now, |plan, state| {
            charge_each(plan, state, now, cost, &mut done).map_err(|Frozen| None)
        });
    }
}

/// Charges one limit after the other, from `done` on.
fn charge_each<A: Algorithm>(
    plan: &Plan<A>,
    state: &A::State,
    now: Nanos,
    cost: u64,
    done: &mut usize,
) -> Result<(), Frozen> {
    let charge = |part| plan.algorithm.charge(state, now, cost, part);
    each_part(plan.algorithm.parts(), done, charge)
}
