//! Places that were given back while others wait behind them.
//!
//! A place is a part of a bucket's virtual time. One that is the last is given back in the word
//! itself: the word goes back to where the place began, and it is as if nobody had stood there. One
//! that others wait behind cannot go that way, since their turns are told already, so it is kept here
//! for whoever comes next, until its turn is over or all who were behind it are gone too.
//!
//! Replaced as a whole, and small: neighbours grow together, and what is over is dropped.

use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;

use crate::algorithm::{Place, Stand};
use crate::sync::Slot;
use crate::time::Nanos;

/// The places given back of some clients, or of the one cap.
pub(crate) struct Places<K>(Slot<Vec<Entry<K>>>);

#[derive(Clone)]
struct Entry<K> {
    key: K,
    /// The plan whose ticks these are.
    plan: u64,
    place: Place,
    /// When its turn is over.
    turn: Nanos,
}

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self(Slot::new(Vec::new()))
    }
}

impl<K: Clone + Eq> Places<K> {
    /// Keeps a place until its `turn`. The place that it has become, with those beside it.
    pub(crate) fn put<Q>(
        &self,
        key: &Q,
        plan: u64,
        place: Place,
        turn: Nanos,
        now: Nanos,
    ) -> Option<Place>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
    {
        if turn <= now {
            return None;
        }
        let key = key.to_owned();
        self.change(|entries| {
            entries.retain(|entry| entry.turn > now);
            let mut new = Entry { key: key.clone(), plan, place, turn };
            entries.retain(|old| {
                let (a, b) = (old.place, new.place);
                let beside = a.end == b.start || b.end == a.start;
                let grow = beside && old.key == new.key && old.plan == plan;
                if grow {
                    new.place = Place { start: a.start.min(b.start), end: a.end.max(b.end) };
                    new.turn = new.turn.max(old.turn);
                }
                !grow
            });
            let grown = new.place;
            // The earliest of a client is found first.
            let at = entries.partition_point(|entry| entry.place.start < grown.start);
            entries.insert(at, new);
            Some(grown)
        })
    }

    /// Takes what `fit` takes of a place of this client; what is left behind that stays.
    pub(crate) fn take<Q>(
        &self,
        key: &Q,
        plan: u64,
        fit: impl Fn(Place) -> Option<Stand<u128>>,
    ) -> Option<Stand<u128>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.change(|entries| {
            let mine = |entry: &Entry<K>| entry.plan == plan && entry.key.borrow() == key;
            let fits = |(at, entry): (usize, &Entry<K>)| {
                mine(entry).then(|| fit(entry.place)).flatten().map(|stand| (at, stand))
            };
            let (at, stand) = entries.iter().enumerate().find_map(fits)?;
            let rest = &mut entries[at].place;
            rest.start = stand.0.end;
            if rest.start == rest.end {
                entries.remove(at);
            }
            Some(stand)
        })
    }

    /// Takes the place that ends at `end`, if it is here.
    pub(crate) fn take_ending<Q>(&self, key: &Q, plan: u64, end: u128) -> Option<(Place, Nanos)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.change(|entries| {
            let at = entries.iter().position(|entry| {
                entry.place.end == end && entry.plan == plan && entry.key.borrow() == key
            })?;
            let entry = entries.remove(at);
            Some((entry.place, entry.turn))
        })
    }

    /// Makes a change, if it gives something, until no other thread interferes.
    fn change<T>(&self, change: impl Fn(&mut Vec<Entry<K>>) -> Option<T>) -> Option<T> {
        loop {
            let seen = self.0.load();
            let mut entries = Vec::clone(&seen);
            let done = change(&mut entries)?;
            if self.0.replace(&seen, Arc::new(entries)) {
                return Some(done);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }
}
