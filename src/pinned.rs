//! A limiter pinned by one thread for a batch of decisions.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

use crate::algorithm::Algorithm;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::plan::Client;
use crate::registry::Registry;
use crate::time::{Clock, Nanos};

/// A [`Limiter`] whose clients cannot be reclaimed while this lives, from [`Limiter::pin`].
///
/// What every decision pays to look its client up safely, entering the map's epoch and leaving it
/// again, is paid once for a batch: for the requests that one poll brought, or one pass of an event
/// loop. Answers are those of the limiter itself.
///
/// States that are retired or replaced meanwhile, by whichever thread, stay in memory until it is
/// dropped: keep it for a batch, not for a connection. It cannot be sent to another thread, nor held
/// across an `await` of a future that can.
///
/// ```
/// use tollgate::{Limiter, Quota, TokenBucket};
///
/// let limiter = Limiter::<String, _>::new(TokenBucket::<u64>::new(Quota::per_second(2)?)?);
/// let (pinned, now) = (limiter.pin(), limiter.now());
/// let batch = ["alice", "bob", "alice", "alice"];
/// let admitted = batch.map(|client| pinned.is_allowed_at(client, now));
/// assert_eq!(admitted, [true, true, true, false]);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub struct Pinned<'a, K, A: Algorithm, C, R: Registry<K, Client<A>>> {
    limiter: &'a Limiter<K, A, C, R>,
    guard: R::Guard<'a>,
}

impl<'a, K, A, C, R> Pinned<'a, K, A, C, R>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    pub(crate) fn new(limiter: &'a Limiter<K, A, C, R>) -> Self {
        Self { limiter, guard: limiter.all().registry.guard() }
    }

    /// [`Limiter::is_allowed_at`].
    #[inline]
    pub fn is_allowed_at<Q>(&self, key: &Q, now: Nanos) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.limiter.is_allowed_in(key, None, 1, now, &self.guard)
    }

    /// [`Limiter::is_allowed`].
    #[inline]
    pub fn is_allowed<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        C: Clock,
    {
        self.is_allowed_at(key, self.limiter.now())
    }

    /// [`Limiter::check_n_at`].
    pub fn check_n_at<Q>(&self, key: &Q, cost: u64, now: Nanos) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.limiter.check_in(key, None, cost, now, &self.guard)
    }

    /// [`Limiter::check_n`].
    pub fn check_n<Q>(&self, key: &Q, cost: u64) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        C: Clock,
    {
        self.check_n_at(key, cost, self.limiter.now())
    }
}

impl<K, A: Algorithm, C, R: Registry<K, Client<A>>> fmt::Debug for Pinned<'_, K, A, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}
