//! Clients and their states: the contract of the map, and the one file that names papaya.
//!
//! The limiter's protocol needs little of its map, and this is all of it: find, insert if absent,
//! replace or remove *this very entry*. An entry is known by its address: while a guard is held
//! that was taken before the entry was found, its memory is not reused, so an equal address is the
//! same entry.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::ptr;

use papaya::{Compute, HashMap, LocalGuard, Operation};

/// A concurrent map of clients, as the limiter needs it.
///
/// References live as long as the guard, even after their entry was replaced or removed; what is
/// read through one may be out of date, and only the frozen mark in the state itself tells.
/// Closures may run more than once and their results be dropped.
pub trait Registry<K, V> {
    /// Protects the references taken under it.
    type Guard<'r>
    where
        Self: 'r;

    /// A guard for some operations in a row. May not be held for long: what is removed meanwhile
    /// is freed only afterwards.
    fn guard(&self) -> Self::Guard<'_>;

    /// The client's entry, if it has one. Must be lock-free.
    fn get<'g, Q>(&self, key: &Q, guard: &'g Self::Guard<'_>) -> Option<&'g V>
    where
        K: Borrow<Q> + 'g,
        V: 'g,
        Q: Hash + Eq + ?Sized;

    /// The client's entry, made by `make` if it has none. Of several threads that race here all
    /// get the same entry. May allocate, and may help the map to resize.
    fn get_or_insert_with<'g>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        guard: &'g Self::Guard<'_>,
    ) -> &'g V
    where
        V: 'g;

    /// Puts `make()` in the place of `seen`, unless that is no longer the client's entry.
    fn replace(&self, key: K, seen: &V, make: impl Fn() -> V, guard: &Self::Guard<'_>);

    /// How many clients there are; under concurrent changes an estimate.
    fn clients(&self) -> usize;
}

/// The default registry: papaya's epoch-reclaimed hash map.
///
/// Progress: `get` is lock-free. The first sight of a client and the replacement of an entry are
/// lock-free but for the map's resizing, in which they help.
pub struct PapayaRegistry<K, V, S = foldhash::fast::RandomState> {
    map: HashMap<K, V, S>,
}

impl<K, V, S> PapayaRegistry<K, V, S> {
    /// An empty registry that hashes with `hasher`.
    pub fn with_hasher(hasher: S) -> Self {
        Self { map: HashMap::with_hasher(hasher) }
    }
}

impl<K, V, S> fmt::Debug for PapayaRegistry<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PapayaRegistry").finish_non_exhaustive()
    }
}

impl<K, V, S> Registry<K, V> for PapayaRegistry<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    type Guard<'r>
        = LocalGuard<'r>
    where
        Self: 'r;

    #[inline]
    fn guard(&self) -> LocalGuard<'_> {
        self.map.guard()
    }

    #[inline]
    fn get<'g, Q>(&self, key: &Q, guard: &'g LocalGuard<'_>) -> Option<&'g V>
    where
        K: Borrow<Q> + 'g,
        V: 'g,
        Q: Hash + Eq + ?Sized,
    {
        self.map.get(key, guard)
    }

    fn get_or_insert_with<'g>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        guard: &'g LocalGuard<'_>,
    ) -> &'g V
    where
        K: 'g,
        V: 'g,
    {
        self.map.get_or_insert_with(key, make, guard)
    }

    fn replace(&self, key: K, seen: &V, make: impl Fn() -> V, guard: &LocalGuard<'_>) {
        let _: Compute<'_, K, V, ()> = self.map.compute(
            key,
            |entry| match entry {
                Some((_, current)) if ptr::eq(current, seen) => Operation::Insert(make()),
                _ => Operation::Abort(()),
            },
            guard,
        );
    }

    fn clients(&self) -> usize {
        self.map.len()
    }
}
