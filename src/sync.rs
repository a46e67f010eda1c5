//! The one file that names atomics: the real ones in production, loom's under the model checker.
//!
//! It changes types, never meaning. Everything else in the crate says `crate::sync`.

#![allow(clippy::disallowed_types, reason = "this file is where they are allowed")]

pub(crate) use core::sync::atomic::Ordering;

#[cfg(not(tollgate_loom))]
pub(crate) use portable_atomic::{AtomicU64, AtomicU128};

#[cfg(tollgate_loom)]
pub(crate) use self::model::AtomicU128;
#[cfg(tollgate_loom)]
pub(crate) use loom::sync::atomic::AtomicU64;

/// The pause after a lost race, longer with each loss.
///
/// In production it is a spin hint, doubled each time. The model checker explores one thread at a
/// time, so there the same call hands the turn to another thread: a spin would never end.
#[derive(Debug)]
pub(crate) struct Backoff {
    #[cfg(not(tollgate_loom))]
    spins: crossbeam_utils::Backoff,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(tollgate_loom))]
            spins: crossbeam_utils::Backoff::new(),
        }
    }

    pub(crate) fn pause(&self) {
        #[cfg(not(tollgate_loom))]
        self.spins.spin();
        #[cfg(tollgate_loom)]
        loom::thread::yield_now();
    }
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
