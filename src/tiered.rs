//! A limiter that asks a resolver, given once, for each client's tier.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::hash::Hash;

use crate::algorithm::Algorithm;
use crate::decision::Decision;
use crate::handle::Handle;
use crate::limiter::Limiter;
use crate::plan::Client;
use crate::registry::Registry;
use crate::time::{Clock, Nanos};

/// Tells the tier of a client.
///
/// Every closure from a key to a `&'static str` is one. A table of one's own, whose names live as
/// long as it does, implements this itself. It is asked at every decision: it should be fast.
pub trait TierOf<Q: ?Sized> {
    /// The name of the client's tier; one that no policy knows means the default tier.
    fn tier_of<'a>(&'a self, key: &'a Q) -> &'a str;
}

impl<Q: ?Sized, F: Fn(&Q) -> &'static str> TierOf<Q> for F {
    fn tier_of<'a>(&'a self, key: &'a Q) -> &'a str {
        self(key)
    }
}

/// A [`Limiter`] with a resolver, from [`Limiter::resolving`]: every decision is made in the tier
/// that the resolver names, and a client whose tier it names anew moves there.
///
/// ```
/// use tollgate::{Limiter, Policies, Quota, TokenBucket};
///
/// let bucket = |limit| TokenBucket::<u64>::new(Quota::per_second(limit)?);
/// let policies = Policies::new("free", bucket(1)?).tier("premium", bucket(10)?);
/// let limiter = Limiter::<String, _>::with_policies(policies)
///     .build()
///     .resolving(|key: &str| if key.starts_with("vip-") { "premium" } else { "free" });
/// assert_eq!(limiter.check("vip-alice").limit(), 10);
/// assert_eq!(limiter.check("bob").limit(), 1);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct TieredLimiter<L, T> {
    limiter: L,
    tiers: T,
}

impl<K, A: Algorithm, C, R> Limiter<K, A, C, R> {
    /// This limiter, with each client in the tier that `tiers` names.
    pub fn resolving<T>(self, tiers: T) -> TieredLimiter<Self, T> {
        TieredLimiter { limiter: self, tiers }
    }
}

impl<L, T> TieredLimiter<L, T> {
    /// The limiter itself, for what has nothing to do with tiers.
    pub fn limiter(&self) -> &L {
        &self.limiter
    }

    /// The name of the client's tier.
    pub fn tier_of<'a, Q: ?Sized>(&'a self, key: &'a Q) -> &'a str
    where
        T: TierOf<Q>,
    {
        self.tiers.tier_of(key)
    }
}

impl<K, A, C, R, T> TieredLimiter<Limiter<K, A, C, R>, T>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    /// One client at `now`, in its tier.
    pub fn client_at<'a, Q>(&'a self, key: &'a Q, now: Nanos) -> Handle<'a, K, Q, A, C, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        T: TierOf<Q>,
    {
        self.limiter.client_at(key, now).tier(self.tiers.tier_of(key))
    }

    /// One client now, in its tier.
    pub fn client<'a, Q>(&'a self, key: &'a Q) -> Handle<'a, K, Q, A, C, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        T: TierOf<Q>,
        C: Clock,
    {
        self.client_at(key, self.limiter.now())
    }

    /// Whether one request of this client may proceed now; if so it is charged.
    #[inline]
    pub fn is_allowed<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        T: TierOf<Q>,
        C: Clock,
    {
        self.client(key).is_allowed(1)
    }

    /// [`is_allowed`](Self::is_allowed) with its reasons.
    pub fn check<Q>(&self, key: &Q) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        T: TierOf<Q>,
        C: Clock,
    {
        self.client(key).check(1)
    }
}
