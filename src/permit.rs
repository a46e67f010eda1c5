//! A permit: what an admitted request holds, and can give back once.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

use crate::algorithm::Algorithm;
use crate::decision::Decision;
use crate::limiter::{Grants, Limiter};
use crate::plan::Client;
use crate::registry::Registry;
use crate::time::{Clock, Nanos};

/// An admitted request's charge. Dropping it keeps the charge; [`refund`](Self::refund) gives it
/// back, to the client and to the global cap, exactly what was taken and once.
///
/// After the window that paid has rolled, or while the bucket is full, there is nothing to give
/// back, and nothing is. A bucket that has been full in between takes the units back all the same,
/// never beyond full: the bound of an interval counts a refund when it is made. A permit holds no guard and no lock: it may be kept for long, and
/// sent to another thread.
///
/// ```
/// use tollgate::{Limiter, Quota, TokenBucket};
///
/// let limiter = Limiter::<String, _>::new(TokenBucket::<u64>::new(Quota::per_day(1)?)?);
/// let permit = limiter.acquire("alice", 1)?;
/// assert!(!limiter.is_allowed("alice"));
/// permit.refund();
/// assert!(limiter.is_allowed("alice"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a permit that is dropped keeps its charge: say so with `drop`, or refund it"]
pub struct Permit<'a, K, Q: ?Sized, A: Algorithm, C, R> {
    limiter: &'a Limiter<K, A, C, R>,
    key: &'a Q,
    grants: Grants<A>,
    decision: Decision,
}

impl<'a, K, Q, A, C, R> Permit<'a, K, Q, A, C, R>
where
    K: Borrow<Q> + Hash + Eq + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    pub(crate) fn new(
        limiter: &'a Limiter<K, A, C, R>,
        key: &'a Q,
        grants: Grants<A>,
        decision: Decision,
    ) -> Self {
        Self { limiter, key, grants, decision }
    }

    /// The decision that granted this permit.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Gives the charge back at `now`.
    pub fn refund_at(self, now: Nanos) {
        self.limiter.refund(self.key, &self.grants, now);
    }

    /// Gives the charge back.
    pub fn refund(self)
    where
        C: Clock,
    {
        let now = self.limiter.now();
        self.refund_at(now);
    }
}

impl<K, Q, A, C, R> fmt::Debug for Permit<'_, K, Q, A, C, R>
where
    Q: fmt::Debug + ?Sized,
    A: Algorithm,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("key", &self.key)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
