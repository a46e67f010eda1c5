//! A map for the models: papaya's contract and nothing more.
//!
//! What papaya promises is kept: an insert publishes its value to whoever finds it, one entry a
//! key, a reference outlives its entry's removal. What papaya does not promise is not kept: the
//! closures that make values run more often than needed, and a removed value is never freed.

use std::borrow::Borrow;
use std::hash::Hash;
use std::ptr;

use loom::sync::Mutex;
use tollgate::Registry;

/// A list of entries behind loom's mutex; values are leaked, so references always hold.
#[derive(Debug)]
pub struct StandIn<K, V: 'static> {
    entries: Mutex<Vec<(K, &'static V)>>,
}

impl<K, V> Default for StandIn<K, V> {
    fn default() -> Self {
        Self { entries: Mutex::new(Vec::new()) }
    }
}

impl<K: Eq + Hash, V> StandIn<K, V> {
    fn find<Q>(&self, key: &Q) -> Option<&'static V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let entries = self.entries.lock().unwrap();
        entries.iter().find(|(known, _)| known.borrow() == key).map(|&(_, value)| value)
    }
}

impl<K: Eq + Hash + Clone, V> Registry<K, V> for StandIn<K, V> {
    type Guard<'r>
        = ()
    where
        Self: 'r;

    fn guard(&self) {}

    fn get<'g, Q>(&self, key: &Q, (): &'g ()) -> Option<&'g V>
    where
        K: Borrow<Q> + 'g,
        V: 'g,
        Q: Hash + Eq + ?Sized,
    {
        self.find(key)
    }

    fn insert<'g>(&self, key: K, make: impl FnOnce() -> V, (): &'g ()) -> Option<&'g V>
    where
        K: 'g,
        V: 'g,
    {
        // Made before it is known whether it is needed, and leaked if it is not.
        let made: &'static V = Box::leak(Box::new(make()));
        let mut entries = self.entries.lock().unwrap();
        if entries.iter().any(|(known, _)| *known == key) {
            return None;
        }
        entries.push((key, made));
        Some(made)
    }

    fn replace(&self, key: K, seen: &V, make: impl Fn() -> V, (): &()) -> bool {
        // The closure's first result is thrown away, as a lost race inside the map would.
        drop(make());
        let made: &'static V = Box::leak(Box::new(make()));
        let mut entries = self.entries.lock().unwrap();
        let entry = entries.iter_mut().find(|(known, _)| *known == key);
        let this = entry.filter(|(_, value)| ptr::eq(*value, seen));
        this.map(|(_, value)| *value = made).is_some()
    }

    fn remove<Q>(&self, key: &Q, seen: &V, (): &()) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut entries = self.entries.lock().unwrap();
        let before = entries.len();
        entries.retain(|(known, value)| known.borrow() != key || !ptr::eq(*value, seen));
        entries.len() < before
    }

    fn part<Q>(&self, _: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        0
    }

    fn walk(
        &self,
        cursor: u64,
        budget: usize,
        (): &(),
        mut visit: impl FnMut(&K, &V) -> bool,
    ) -> u64 {
        // A copy: `visit` may remove what it sees.
        let entries: Vec<_> = self.entries.lock().unwrap().clone();
        let end = entries.len().min(cursor as usize + budget);
        for (key, value) in entries.get(cursor as usize..end).unwrap_or_default() {
            visit(key, value);
        }
        if end < entries.len() { end as u64 } else { 0 }
    }
}
