//! The one file that names atomics: the real ones in production, loom's under the model checker.
//!
//! It changes types, never meaning. Everything else in the crate says `crate::sync`.

#![allow(clippy::disallowed_types, reason = "this file is where they are allowed")]

#[cfg(feature = "std")]
use alloc::sync::Arc;
pub(crate) use core::sync::atomic::Ordering;

#[cfg(all(not(tollgate_loom), feature = "std"))]
pub(crate) use portable_atomic::AtomicBool;
#[cfg(not(tollgate_loom))]
pub(crate) use portable_atomic::{AtomicU64, AtomicU128};

#[cfg(tollgate_loom)]
pub(crate) use self::model::AtomicU128;
#[cfg(tollgate_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};

/// An atomic for statics. The model checker does not see it: its own cannot be made in a constant.
#[cfg(feature = "metrics")]
pub(crate) use portable_atomic::AtomicU64 as StaticU64;

/// The pause after a lost race, longer with each loss: 64 spin hints (0.6 µs where one takes 10 ns,
/// 4 µs on processors that make it 140 cycles), doubled up to 256.
///
/// So long because what a contended word costs is its cache line on the way from core to core, some
/// 100 ns, not the exchange, 6 ns: while the loser stays away the winner decides dozens of times on a
/// line that it has. The model checker explores one thread at a time, so there the same call hands
/// the turn to another thread: a spin would never end.
#[derive(Debug)]
pub(crate) struct Backoff {
    #[cfg(not(tollgate_loom))]
    spins: core::cell::Cell<u32>,
}

impl Backoff {
    #[cfg(not(tollgate_loom))]
    const SPINS: core::ops::RangeInclusive<u32> = 64..=256;

    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(tollgate_loom))]
            spins: core::cell::Cell::new(*Self::SPINS.start()),
        }
    }

    #[cold]
    pub(crate) fn pause(&self) {
        #[cfg(feature = "metrics")]
        crate::metrics::lost_race();
        #[cfg(not(tollgate_loom))]
        {
            let spins = self.spins.get();
            (0..spins).for_each(|_| core::hint::spin_loop());
            self.spins.set((2 * spins).min(*Self::SPINS.end()));
        }
        #[cfg(tollgate_loom)]
        loom::thread::yield_now();
    }
}

/// A shared value that can be replaced while others read it, without a lock.
#[cfg(feature = "std")]
pub(crate) struct Slot<T> {
    #[cfg(not(tollgate_loom))]
    shared: arc_swap::ArcSwap<T>,
    #[cfg(tollgate_loom)]
    shared: loom::sync::Mutex<Arc<T>>,
}

/// A value read from a [`Slot`]; it lives on after it was replaced there.
#[cfg(all(feature = "std", not(tollgate_loom)))]
pub(crate) type Held<T> = arc_swap::Guard<Arc<T>>;
#[cfg(all(feature = "std", tollgate_loom))]
pub(crate) type Held<T> = alloc::boxed::Box<Arc<T>>;

#[cfg(feature = "std")]
impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Self {
        #[cfg(not(tollgate_loom))]
        return Self { shared: arc_swap::ArcSwap::from_pointee(value) };
        #[cfg(tollgate_loom)]
        return Self { shared: loom::sync::Mutex::new(Arc::new(value)) };
    }

    pub(crate) fn load(&self) -> Held<T> {
        #[cfg(not(tollgate_loom))]
        return self.shared.load();
        #[cfg(tollgate_loom)]
        return alloc::boxed::Box::new(self.shared.lock().unwrap().clone());
    }

    /// Puts `value` in the place of `seen`, unless that was replaced already. Whether it did.
    pub(crate) fn replace(&self, seen: &Arc<T>, value: Arc<T>) -> bool {
        #[cfg(not(tollgate_loom))]
        return Arc::ptr_eq(&self.shared.compare_and_swap(seen, value), seen);
        #[cfg(tollgate_loom)]
        {
            let mut shared = self.shared.lock().unwrap();
            let unchanged = Arc::ptr_eq(&shared, seen);
            if unchanged {
                *shared = value;
            }
            unchanged
        }
    }
}

/// A lock for what is no decision: two reloads at once.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
pub(crate) struct Lock(std::sync::Mutex<()>);

#[cfg(feature = "std")]
impl Lock {
    /// Waits for its turn. A panic of an earlier holder does not matter: the lock guards no data.
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A number that no other call in this process has had, until 2^64 are used up. The model checker
/// does not see it: that the numbers differ is all there is to it.
pub(crate) fn serial() -> u64 {
    static NEXT: portable_atomic::AtomicU64 = portable_atomic::AtomicU64::new(1);
    // Relaxed: only the number matters.
    NEXT.fetch_add(1, portable_atomic::Ordering::Relaxed)
}

/// A 128-bit atomic for the model checker, which has none of its own.
#[cfg(tollgate_loom)]
mod model {
    use super::{AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};

    /// Every 128-bit value seen so far. Equal values have equal indices, so an exchange of indices
    /// succeeds exactly when an exchange of values would, under the same orderings.
    static VALUES: Mutex<Vec<u128>> = Mutex::new(Vec::new());

    fn index_of(value: u128) -> u64 {
        let mut values = VALUES.lock().unwrap_or_else(PoisonError::into_inner);
        let found = values.iter().position(|&known| known == value);
        found.unwrap_or_else(|| {
            values.push(value);
            values.len() - 1
        }) as u64
    }

    fn value_at(index: u64) -> u128 {
        VALUES.lock().unwrap_or_else(PoisonError::into_inner)[index as usize]
    }

    #[derive(Debug)]
    pub struct AtomicU128(AtomicU64);

    impl AtomicU128 {
        pub(crate) fn new(value: u128) -> Self {
            Self(AtomicU64::new(index_of(value)))
        }

        pub(crate) fn load(&self, order: Ordering) -> u128 {
            value_at(self.0.load(order))
        }

        pub(crate) fn compare_exchange_weak(
            &self,
            current: u128,
            new: u128,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u128, u128> {
            self.compare_exchange(current, new, success, failure)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u128,
            new: u128,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u128, u128> {
            self.0
                .compare_exchange(index_of(current), index_of(new), success, failure)
                .map(value_at)
                .map_err(value_at)
        }
    }
}
