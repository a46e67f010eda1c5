//! What one waits for, a client's own limit or the cap, and the hold on what was taken of it.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::hash::Hash;
use core::time::Duration;

use super::places::Places;
use crate::algorithm::{Algorithm, AnyAlgorithm, Place, Turn};
use crate::cap::Cap;
use crate::clients::{Clients, Full};
use crate::decision::RetryAfter;
use crate::grants::{Back, Granted, Torn};
use crate::plan::{Client, Plan};
use crate::registry::Registry;
use crate::time::Nanos;
use crate::word::Frozen;

/// A limit that is waited for.
pub(super) trait Line {
    type Grant: Copy;

    /// Takes `cost` units at the first time at which they fit, if that comes within `patience`.
    fn stand(&self, cost: u64, now: Nanos, patience: Duration) -> Answer<Self::Grant>;

    /// Gives back what was taken.
    fn leave(&self, taken: Taken<Self::Grant>, now: Nanos);
}

pub(super) enum Answer<G> {
    /// Taken, by the hold; it may proceed after so long.
    Taken(Taken<G>, Duration),
    /// Ask again.
    Refused(RetryAfter),
    /// It is more than the limit ever grants.
    Never { limit: u64 },
}

#[derive(Clone, Copy)]
pub(super) enum Taken<G> {
    Granted(Granted<G>),
    Reserved {
        plan: u64,
        place: Place,
        turn: Nanos,
    },
    /// Of a newcomer without a limit of its own.
    Nothing,
}

/// A client's own limit.
pub(super) struct Own<'a, K, Q: ?Sized, A: Algorithm, R> {
    pub(super) clients: &'a Clients<K, A, R>,
    pub(super) places: &'a Places<K>,
    pub(super) key: &'a Q,
    pub(super) tier: Option<&'a str>,
}

impl<K, Q, A, R> Line for Own<'_, K, Q, A, R>
where
    K: Borrow<Q> + Hash + Eq + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    type Grant = A::Grant;

    fn stand(&self, cost: u64, now: Nanos, patience: Duration) -> Answer<A::Grant> {
        // What is never granted makes no state.
        let unseen = |plan: &Plan<A>, _: &A::State| {
            let limit = plan.algorithm.limit();
            (cost > limit).then_some(Answer::Never { limit })
        };
        let stand = |plan: &Plan<A>, state: &A::State| {
            stand(plan, state, self.places, self.key, cost, now, patience)
        };
        match self.clients.ask(self.key, self.tier, now, unseen, stand) {
            Ok(answer) => answer,
            Err(Full::Refuse(retry_after)) => Answer::Refused(retry_after),
            Err(Full::Admit) => Answer::Taken(Taken::Nothing, Duration::ZERO),
        }
    }

    fn leave(&self, taken: Taken<A::Grant>, now: Nanos) {
        match taken {
            Taken::Nothing => {}
            Taken::Granted(granted) => self.clients.give(self.key, granted, now, Back::All),
            Taken::Reserved { plan, place, turn } => {
                let place = (plan, place, turn);
                leave(place, self.places, self.key, now, |ask| {
                    self.clients.ask_known(self.key, now, ask)
                });
            }
        }
    }
}

/// The cap on all clients.
pub(super) struct Global<'a> {
    pub(super) cap: &'a Cap,
    pub(super) places: &'a Places<()>,
}

impl Line for Global<'_> {
    type Grant = <AnyAlgorithm as Algorithm>::Grant;

    fn stand(&self, cost: u64, now: Nanos, patience: Duration) -> Answer<Self::Grant> {
        self.cap.ask(now, |plan, state| stand(plan, state, self.places, &(), cost, now, patience))
    }

    fn leave(&self, taken: Taken<Self::Grant>, now: Nanos) {
        match taken {
            Taken::Nothing => {}
            Taken::Granted(granted) => self.cap.give(granted, now, Back::All),
            Taken::Reserved { plan, place, turn } => {
                let place = (plan, place, turn);
                leave(place, self.places, &(), now, |ask| {
                    Some(self.cap.ask(now, |plan, state| ask(plan, state).map_err(|Frozen| None)))
                });
            }
        }
    }
}

fn stand<A, K, Q>(
    plan: &Plan<A>,
    state: &A::State,
    places: &Places<K>,
    key: &Q,
    cost: u64,
    now: Nanos,
    patience: Duration,
) -> Result<Answer<A::Grant>, Torn<A>>
where
    A: Algorithm,
    K: Borrow<Q> + Eq + Clone,
    Q: Eq + ?Sized,
{
    let reserved = |place, wait| {
        let taken = Taken::Reserved { plan: plan.id, place, turn: now.saturating_add(wait) };
        Answer::Taken(taken, wait)
    };
    if !places.is_empty() {
        let fit = |place| {
            let stand = plan.algorithm.stand_in(state, place, now, cost)?;
            Some(stand).filter(|(_, wait)| *wait <= patience)
        };
        if let Some((place, wait)) = places.take(key, plan.id, fit) {
            return Ok(reserved(place, wait));
        }
    }
    let granted = |grant| Granted::new(plan, grant);
    let turn = plan.algorithm.reserve(state, now, cost, patience);
    Ok(match turn.map_err(|torn| torn.taken.map(granted))? {
        Turn::Granted(grant, wait) => Answer::Taken(Taken::Granted(granted(grant)), wait),
        Turn::Reserved(place, wait) => reserved(place, wait),
        Turn::Refused(RetryAfter::Never) => Answer::Never { limit: plan.algorithm.limit() },
        Turn::Refused(retry_after) => Answer::Refused(retry_after),
    })
}

/// What is asked of a state that may be gone by now.
type Ask<'a, A> = &'a dyn Fn(&Plan<A>, &<A as Algorithm>::State) -> Result<Option<bool>, Frozen>;

/// What is asked of a state under the plan that took the place.
type Of<'a, A> = &'a dyn Fn(&A, &<A as Algorithm>::State) -> Result<bool, Frozen>;

/// Gives a place back. `ask` asks the state, if there still is one.
///
/// Of a place that was the last, all of it, and of the returned ones before it that have become the
/// last thereby. A place with others behind it is kept for whoever comes next; if those behind it have
/// left in the meantime, one of the two sees the other: the place is kept before it is looked
/// whether it is the last, and the word goes back before it is looked who ends there.
fn leave<A, K, Q>(
    (id, mut place, mut turn): (u64, Place, Nanos),
    places: &Places<K>,
    key: &Q,
    now: Nanos,
    ask: impl Fn(Ask<'_, A>) -> Option<Option<bool>>,
) where
    A: Algorithm,
    K: Borrow<Q> + Eq + Clone,
    Q: Eq + ToOwned<Owned = K> + ?Sized,
{
    // `None` where the state is gone, or another plan's: nothing can be told apart there.
    let ask_same = |of: Of<'_, A>| {
        ask(&|plan, state| match plan.id == id {
            true => of(&plan.algorithm, state).map(Some),
            false => Ok(None),
        })
        .flatten()
    };
    while let Some(left) = ask_same(&|algorithm, state| algorithm.leave(state, place)) {
        let next = if left {
            places.take_ending(key, id, place.start)
        } else {
            let kept = places.put(key, id, place, turn, now);
            let last = kept.filter(|kept| {
                ask_same(&|algorithm, state| Ok(algorithm.is_last(state, *kept))) == Some(true)
            });
            last.and_then(|last| places.take_ending(key, id, last.end))
        };
        let Some(next) = next else { return };
        (place, turn) = next;
    }
}
