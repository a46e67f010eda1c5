//! Clients and their states: the contract of the map, and the one file that names papaya.
//!
//! The limiter's protocol needs little of its map, and this is all of it: find, insert if absent,
//! replace or remove *this very entry*, walk some entries. An entry is known by its address: while
//! a guard is held that was taken before the entry was found, its memory is not reused, so an
//! equal address is the same entry.

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::ptr;
use std::sync::Arc;

use papaya::{Compute, HashMap, LocalGuard, Operation, ResizeMode};

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

    /// Makes the client's entry, unless it has one: then there is none to give. Of several threads
    /// that race here one makes it. May allocate, and may help the map to resize.
    fn insert<'g>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        guard: &'g Self::Guard<'_>,
    ) -> Option<&'g V>
    where
        K: 'g,
        V: 'g;

    /// Puts `make()` in the place of `seen`, unless that is no longer the client's entry. Whether
    /// it did.
    fn replace(&self, key: K, seen: &V, make: impl Fn() -> V, guard: &Self::Guard<'_>) -> bool;

    /// Removes `seen`, unless that is no longer the client's entry. Whether it did.
    fn remove<Q>(&self, key: &Q, seen: &V, guard: &Self::Guard<'_>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized;

    /// Which part of the map the key belongs to, of parts that grow and shrink on their own.
    fn part<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized;

    /// Visits up to `budget` entries from `cursor` on (0 is the beginning) and gives the cursor to
    /// go on from; 0 if the end was reached. `visit` says whether the entry is still there
    /// afterwards. Entries that come, go or move meanwhile may be missed or visited twice.
    fn walk(
        &self,
        cursor: u64,
        budget: usize,
        guard: &Self::Guard<'_>,
        visit: impl FnMut(&K, &V) -> bool,
    ) -> u64;
}

/// Entries that an insert moves while the map grows, some microseconds' work. Lookups search two
/// tables until all are moved, for good if no new client comes.
const ENTRIES_MOVED: usize = 256;

/// The default registry: papaya's epoch-reclaimed hash map, in shards.
///
/// The shards bound two things: a walk must skip what it has seen of one shard (papaya's iterators
/// cannot be put aside), and a resize moves one shard.
///
/// Progress: `get` is lock-free. The first sight of a client and the replacement of an entry are
/// lock-free but for a shard's resizing, in which they help.
pub struct PapayaRegistry<K, V, S = foldhash::fast::RandomState> {
    hasher: S,
    shards: Box<[HashMap<K, V, S>]>,
}

impl<K, V, S> PapayaRegistry<K, V, S> {
    const CLIENTS_PER_SHARD: usize = 1 << 20;
    const MAX_SHARDS: usize = 16;

    /// An empty registry for about `clients` clients that hashes with `hasher`.
    pub fn new(clients: usize, hasher: S) -> Self
    where
        K: Send + 'static,
        V: Send + 'static,
        S: Clone,
    {
        let shards = clients.div_ceil(Self::CLIENTS_PER_SHARD).clamp(1, Self::MAX_SHARDS);
        // One collector for all, so that one guard protects what is found in any of them.
        let collector = Arc::new(seize::Collector::new());
        let shard = |_| {
            HashMap::builder()
                .hasher(hasher.clone())
                .shared_collector(collector.clone())
                .resize_mode(ResizeMode::Incremental(ENTRIES_MOVED))
                .build()
        };
        Self { shards: (0..shards.next_power_of_two()).map(shard).collect(), hasher }
    }

    #[inline]
    fn shard<Q>(&self, key: &Q) -> &HashMap<K, V, S>
    where
        S: BuildHasher,
        Q: Hash + ?Sized,
    {
        match &*self.shards {
            [only] => only,
            shards => &shards[self.index(key)],
        }
    }

    fn index<Q>(&self, key: &Q) -> usize
    where
        S: BuildHasher,
        Q: Hash + ?Sized,
    {
        // The low and the top bits choose within the shard.
        (self.hasher.hash_one(key) >> 32) as usize & (self.shards.len() - 1)
    }
}

impl<K, V, S> fmt::Debug for PapayaRegistry<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PapayaRegistry").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// A place in a walk: a shard, and entries to skip in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    shard: u32,
    skip: u32,
}

impl Cursor {
    fn unpack(cursor: u64) -> Self {
        Self { shard: (cursor >> 32) as u32, skip: cursor as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.shard) << 32 | u64::from(self.skip)
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
        self.shards[0].guard()
    }

    #[inline]
    fn get<'g, Q>(&self, key: &Q, guard: &'g LocalGuard<'_>) -> Option<&'g V>
    where
        K: Borrow<Q> + 'g,
        V: 'g,
        Q: Hash + Eq + ?Sized,
    {
        self.shard(key).get(key, guard)
    }

    fn insert<'g>(
        &self,
        key: K,
        make: impl FnOnce() -> V,
        guard: &'g LocalGuard<'_>,
    ) -> Option<&'g V>
    where
        K: 'g,
        V: 'g,
    {
        // Not the map's `try_insert_with`: in papaya 0.2.5 that never helps to move entries, so that
        // each growth leaves one more table for every later lookup to search.
        self.shard(&key).try_insert(key, make(), guard).ok()
    }

    fn replace(&self, key: K, seen: &V, make: impl Fn() -> V, guard: &LocalGuard<'_>) -> bool {
        let outcome: Compute<'_, K, V, ()> = self.shard(&key).compute(
            key,
            |entry| match entry {
                Some((_, current)) if ptr::eq(current, seen) => Operation::Insert(make()),
                _ => Operation::Abort(()),
            },
            guard,
        );
        !matches!(outcome, Compute::Aborted(()))
    }

    fn remove<Q>(&self, key: &Q, seen: &V, guard: &LocalGuard<'_>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let this = |_: &K, current: &V| ptr::eq(current, seen);
        matches!(self.shard(key).remove_if(key, this, guard), Ok(Some(_)))
    }

    fn part<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.index(key)
    }

    fn walk(
        &self,
        cursor: u64,
        budget: usize,
        guard: &LocalGuard<'_>,
        mut visit: impl FnMut(&K, &V) -> bool,
    ) -> u64 {
        let mut at = Cursor::unpack(cursor);
        let mut left = budget;
        while let Some(shard) = self.shards.get(at.shard as usize) {
            let mut entries = shard.iter(guard).skip(at.skip as usize);
            while left > 0 {
                let Some((key, value)) = entries.next() else { break };
                left -= 1;
                at.skip += u32::from(visit(key, value));
            }
            if left == 0 {
                return at.pack();
            }
            at = Cursor { shard: at.shard + 1, skip: 0 };
        }
        0
    }
}
