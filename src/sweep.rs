//! Sweeping: who is retired, when, and by whom.
//!
//! Nobody has to: newcomers sweep a little, and more when there is no room for them.
//! [`Limiter::sweep`](crate::Limiter::sweep) is for those who want a say in when.

use alloc::collections::BTreeMap;
use core::hash::Hash;

use crate::algorithm::Algorithm;
use crate::clients::{Clients, Seat};
use crate::plan::{Client, Plan};
use crate::registry::Registry;
use crate::time::Nanos;

/// What a call of [`sweep`](crate::Limiter::sweep) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Entries looked at.
    pub looked: usize,
    /// Entries retired.
    pub retired: usize,
}

/// Newcomers look at a few entries for each that they add, this many at a time: a walk must skip
/// what it has seen, so few long steps cost less than many short ones.
const STEP: usize = 1 << 14;
/// The share of newcomers that do so: one in this many.
const EVERY: u64 = 1 << 13;
/// They retire whom nobody has needed for ten seconds. Without that, clients that are idle between any
/// two of their requests would be retired and come back as newcomers, and sweep in their turn.
const LINGER: u64 = 10_000_000_000;

/// A map that took fewer clients than this is not worth shrinking.
const SMALL: u64 = 1 << 14;

/// What a look at some entries found.
struct Looked<K> {
    entries: usize,
    retired: usize,
    /// One of the retired.
    gone: Option<K>,
    /// Where to go on; 0 at the end.
    next: u64,
}

impl<K, A, R> Clients<K, A, R>
where
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    /// What a newcomer does for the rest: from time to time a step.
    pub(crate) fn sweep_now_and_then(&self, now: Nanos, guard: &R::Guard<'_>)
    where
        K: Hash + Eq + Clone,
    {
        if self.shared.counters.created.get() % EVERY == EVERY - 1 {
            let since = Nanos::new(now.get().saturating_sub(LINGER));
            self.step(STEP, now, since, guard);
        }
    }

    /// Looks for an idle client to retire, in a bounded number of steps. Whether it found one.
    pub(crate) fn make_room(&self, now: Nanos, guard: &R::Guard<'_>) -> bool
    where
        K: Hash + Eq + Clone,
    {
        let hand = &self.shared.hand;
        if hand.is_known_busy(now) {
            return false;
        }
        let due = |place| self.look(place, STEP, now, now, guard).retired > 0;
        hand.due(now).is_some_and(due) || self.step(STEP, now, now, guard).0.retired > 0
    }

    /// Looks at up to `budget` entries from where the last sweep stopped, and retires the idle. The
    /// end of a pass that emptied the map shrinks it.
    pub(crate) fn sweep(&self, budget: usize, now: Nanos) -> Swept
    where
        K: Hash + Eq + Clone,
    {
        let mut swept = Swept::default();
        let mut gone = BTreeMap::new();
        // In strides, each under a guard of its own: what is retired is freed as the sweep goes on.
        while swept.looked < budget {
            let guard = self.registry.guard();
            let step = STEP.min(budget - swept.looked);
            let (looked, in_pass) = self.step(step, now, now, &guard);
            drop(guard);
            swept.looked += looked.entries;
            swept.retired += looked.retired;
            gone.extend(looked.gone.map(|key| (self.registry.part(&key), key)));
            if looked.next == 0 {
                self.shrink(gone.values(), in_pass, now);
                break;
            }
        }
        swept
    }

    /// One step of the pass over all entries; also how many have been retired in this pass.
    fn step(
        &self,
        budget: usize,
        now: Nanos,
        since: Nanos,
        guard: &R::Guard<'_>,
    ) -> (Looked<K>, u64)
    where
        K: Hash + Eq + Clone,
    {
        let looked = self.look(self.shared.hand.cursor(), budget, now, since, guard);
        let in_pass = self.shared.hand.moved(looked.next, looked.retired);
        (looked, in_pass)
    }

    /// Lets the map give back the room of `retired` clients, if few are left; `gone` was one of
    /// them in each part.
    ///
    /// papaya halves a table, if at most an eighth of it is in use, when an insert finds no slot for
    /// its key; and a removed entry keeps its slot until then. So a client that is gone comes and
    /// goes, like any other, until the slots for its key are used up, again and again.
    fn shrink<'k>(&self, gone: impl Iterator<Item = &'k K>, retired: u64, now: Nanos)
    where
        K: Hash + Eq + Clone + 'k,
    {
        let shared = &*self.shared;
        if retired < SMALL || shared.count.get() > retired / 16 {
            return;
        }
        // papaya looks for a slot in five places for each time that the table can be halved.
        let halvings = 2 * retired.ilog2();
        for key in gone {
            for _ in 0..halvings {
                let guard = self.registry.guard();
                for _ in 0..5 * halvings {
                    if !self.come_and_go(key, now, &guard) {
                        return;
                    }
                }
                // A walk completes what the map has begun.
                self.registry.walk(0, 1, &guard, |_, _| true);
            }
        }
    }

    /// Makes a client and retires it. Not if somebody else has need of it.
    fn come_and_go(&self, key: &K, now: Nanos, guard: &R::Guard<'_>) -> bool
    where
        K: Hash + Eq + Clone,
    {
        let (seat, _) = Seat::take(&self.shared.count);
        let made = self.registry.insert(key.clone(), || self.fresh(key, None), guard);
        let Some(made) = made else { return false };
        seat.keep();
        let gone = self.retire(key, made, now, guard);
        if !gone {
            self.shared.counters.created.count();
        }
        gone
    }

    /// Looks at entries from `cursor` on: retires who was idle at `since` already, remembers when
    /// the rest will be.
    fn look(
        &self,
        cursor: u64,
        budget: usize,
        now: Nanos,
        since: Nanos,
        guard: &R::Guard<'_>,
    ) -> Looked<K>
    where
        K: Hash + Eq + Clone,
    {
        let mut looked = Looked { entries: 0, retired: 0, gone: None, next: 0 };
        looked.next = self.registry.walk(cursor, budget, guard, |key, client| {
            looked.entries += 1;
            if !client.plan.is_current() {
                // Moved on here, so that a client that never comes again can be retired later.
                self.renew(key, client, None, now, guard);
                return true;
            }
            if self.retire(key, client, since, guard) {
                looked.retired += 1;
                self.shared.counters.retired.count();
                looked.gone.get_or_insert_with(|| key.clone());
                return false;
            }
            let wait = client.plan.algorithm.peek(&client.state, now, 0).reset_after;
            self.shared.hand.saw_busy(now.saturating_add(wait), cursor);
            true
        });
        looked
    }

    /// Removes an entry if its state is idle at `now`. Whether this call removed it.
    fn retire(&self, key: &K, client: &Client<A>, now: Nanos, guard: &R::Guard<'_>) -> bool
    where
        K: Hash + Eq + Clone,
    {
        let Plan { algorithm, .. } = &*client.plan;
        if !algorithm.is_idle(&client.state, now) {
            return false;
        }
        self.shared.floor.raise(now);
        if !algorithm.freeze_if_idle(&client.state, now) {
            // Charged in between; or frozen by a thread that has not replaced it yet, and never will if
            // the key's `Hash` panicked there. Its successor is retired by the next to come.
            self.renew(key, client, None, now, guard);
            return false;
        }
        let removed = self.registry.remove(key, client, guard);
        if removed {
            self.shared.count.discount();
        }
        removed
    }
}
