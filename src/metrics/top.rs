//! Who is refused most, approximately: Space-Saving over a sample of the refusals.
//!
//! There are `m` places, each with a key, a count and an error. A key that has a place is counted there;
//! another one takes the place with the smallest count, which becomes its error, and counts on from
//! it. So no count is too low, none is too high by more than its error, and since the counts add up to
//! the `N` that came, the smallest is at most `N / m`: who came more often has a place.
//!
//! One of about 64 refusals of a thread is looked at, and stands for 64. If another thread is at the
//! places just then, the next refusal is looked at instead: nobody waits.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Reverse;
use core::hash::{BuildHasher, Hash};
use std::sync::{Mutex, PoisonError, TryLockError};

use crossbeam_utils::CachePadded;

use super::local;

/// One refusal in so many is looked at.
const ONE_IN: u32 = 64;

/// A client that is refused often, from [`Limiter::top_refused`](crate::Limiter::top_refused).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused<K> {
    /// Who.
    pub key: K,
    /// About how often.
    pub count: u64,
    /// How much of the count may be others', who had the place before.
    pub error: u64,
}

struct Place<K> {
    hash: u64,
    refused: Refused<K>,
}

/// The places. If a key panics while it is copied, a count may stand beside a wrong key: no more.
pub(super) struct Top<K> {
    most: usize,
    hasher: foldhash::fast::RandomState,
    /// Apart from what every decision reads.
    places: CachePadded<Mutex<Vec<Place<K>>>>,
}

impl<K> Top<K> {
    pub(super) fn new(places: usize) -> Self {
        let empty = CachePadded::new(Mutex::new(Vec::with_capacity(places)));
        Self { most: places, hasher: Default::default(), places: empty }
    }

    /// Sees a refusal.
    #[inline]
    pub(super) fn saw<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if local::with(|local| local.refusals.is_due(local, ONE_IN)) {
            self.look_at(key);
        }
    }

    #[cold]
    fn look_at<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let mut places = match self.places.try_lock() {
            Ok(places) => places,
            Err(TryLockError::Poisoned(places)) => places.into_inner(),
            Err(TryLockError::WouldBlock) => return local::with(|local| local.refusals.put_off()),
        };
        let weight = u64::from(ONE_IN);
        let is_of_key =
            |place: &&mut Place<K>| place.hash == hash && place.refused.key.borrow() == key;
        if let Some(place) = places.iter_mut().find(is_of_key) {
            place.refused.count += weight;
        } else if places.len() < self.most {
            let refused = Refused { key: key.to_owned(), count: weight, error: 0 };
            places.push(Place { hash, refused });
        } else if let Some(place) = places.iter_mut().min_by_key(|place| place.refused.count) {
            // Into the memory of the key that was there, if there is room.
            key.clone_into(&mut place.refused.key);
            place.hash = hash;
            place.refused.error = place.refused.count;
            place.refused.count += weight;
        }
    }

    /// The `n` clients with the highest counts, highest first.
    pub(super) fn first(&self, n: usize) -> Vec<Refused<K>>
    where
        K: Clone,
    {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = places.iter().map(|place| place.refused.clone()).collect();
        drop(places);
        all.sort_by_key(|refused| Reverse(refused.count));
        all.truncate(n);
        all
    }
}
