//! What decides behind the service.

use core::hash::Hash;

use crate::algorithm::Algorithm;
use crate::decision::{Decision, Reading};
use crate::explained::Explained;
use crate::http::Limits;
use crate::limiter::Limiter;
use crate::permit::{Borrowed, Charge, OnDrop, Permit};
use crate::plan::Client;
use crate::registry::Registry;
use crate::tiered::{TierOf, TieredLimiter};
use crate::time::Clock;

/// Decides about requests of clients known by a `K`, and keeps what each is charged.
///
/// Several limiters in one are one of these too: charge one after the other, give back what was
/// charged if a later one refuses, and hold all charges in one.
pub trait Admit<K>: Send + Sync + 'static {
    /// What an admitted request was charged.
    type Charge: Send + 'static;

    /// The client's tier, where the request does not name one.
    fn tier_of<'a>(&'a self, key: &'a K) -> Option<&'a str> {
        let _ = key;
        None
    }

    /// Charges `cost` units whole, or nothing: then there is no charge, and the decision is a
    /// refusal. It is told in `explained`, in place of what stood there.
    fn admit(
        &self,
        key: &K,
        tier: Option<&str>,
        cost: u64,
        explained: &mut Explained,
    ) -> Option<Self::Charge>;

    /// Charges a request that nobody need hear of: `cost` units whole, if more than `percent` of its
    /// limits would be left to the client, and the charge is over when it is made. `false`, and
    /// nothing is charged, where that is not so or cannot be told at once; [`admit`](Self::admit) is
    /// asked then.
    fn admit_quietly(&self, key: &K, tier: Option<&str>, cost: u64, percent: u8) -> bool {
        let _ = (key, tier, cost, percent);
        false
    }

    /// Whether a charge is over when it is made, unless it is to be settled: to commit or to cancel
    /// it would do nothing. The layer keeps no such charge until the response, and calls neither.
    fn is_final(&self, charge: &Self::Charge) -> bool {
        let _ = charge;
        false
    }

    /// Makes a charge into one of the units that were `used`, and ends it.
    fn settle(&self, key: &K, charge: Self::Charge, used: u64);

    /// Ends a charge that is kept as it is.
    fn commit(&self, key: &K, charge: Self::Charge) {
        let _ = (key, charge);
    }

    /// Ends the charge of a request that was given up before its response had come. It is kept
    /// unless said otherwise.
    fn cancel(&self, key: &K, charge: Self::Charge) {
        self.commit(key, charge);
    }

    /// The limits that clients are told of.
    fn limits(&self) -> Limits;

    /// A number that changes whenever [`limits`](Self::limits) may.
    fn generation(&self) -> u64 {
        0
    }
}

impl<K, A, C, R> Admit<K> for Limiter<K, A, C, R>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    A: Algorithm,
    C: Clock + Send + Sync + 'static,
    R: Registry<K, Client<A>> + Send + Sync + 'static,
{
    type Charge = Charge<A>;

    fn admit(
        &self,
        key: &K,
        tier: Option<&str>,
        cost: u64,
        explained: &mut Explained,
    ) -> Option<Charge<A>> {
        self.charge_explained(key, tier, cost, self.now(), explained)
    }

    fn admit_quietly(&self, key: &K, tier: Option<&str>, cost: u64, percent: u8) -> bool {
        self.on_drop() == OnDrop::Commit
            && self.charge_quietly(key, tier, cost, self.now(), percent)
    }

    fn is_final(&self, charge: &Charge<A>) -> bool {
        self.on_drop() == OnDrop::Commit && !charge.holds()
    }

    fn settle(&self, key: &K, charge: Charge<A>, used: u64) {
        self.permit_of(key, charge).settle(used);
    }

    fn commit(&self, key: &K, charge: Charge<A>) {
        self.permit_of(key, charge).commit();
    }

    fn cancel(&self, key: &K, charge: Charge<A>) {
        drop(self.permit_of(key, charge));
    }

    fn limits(&self) -> Limits {
        Limits::of(&self.policies())
    }

    fn generation(&self) -> u64 {
        self.all().generation()
    }
}

impl<K, A, C, R> Limiter<K, A, C, R>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    /// A charge as a permit: so it ends, even if the clock panics. Nobody asks it who decided.
    fn permit_of<'a>(&'a self, key: &'a K, charge: Charge<A>) -> Borrowed<'a, K, K, A, C, R> {
        Permit::new(self, key, charge, Decision::of_client(Reading::UNLIMITED))
    }
}

/// The tier that a request names goes before the one that its key stands for.
impl<K, L, T> Admit<K> for TieredLimiter<L, T>
where
    L: Admit<K>,
    T: TierOf<K> + Send + Sync + 'static,
{
    type Charge = L::Charge;

    fn tier_of<'a>(&'a self, key: &'a K) -> Option<&'a str> {
        Some(TieredLimiter::tier_of(self, key))
    }

    fn admit(
        &self,
        key: &K,
        tier: Option<&str>,
        cost: u64,
        explained: &mut Explained,
    ) -> Option<L::Charge> {
        let tier = tier.unwrap_or_else(|| TieredLimiter::tier_of(self, key));
        self.limiter().admit(key, Some(tier), cost, explained)
    }

    fn admit_quietly(&self, key: &K, tier: Option<&str>, cost: u64, percent: u8) -> bool {
        let tier = tier.unwrap_or_else(|| TieredLimiter::tier_of(self, key));
        self.limiter().admit_quietly(key, Some(tier), cost, percent)
    }

    fn is_final(&self, charge: &L::Charge) -> bool {
        self.limiter().is_final(charge)
    }

    fn settle(&self, key: &K, charge: L::Charge, used: u64) {
        self.limiter().settle(key, charge, used);
    }

    fn commit(&self, key: &K, charge: L::Charge) {
        self.limiter().commit(key, charge);
    }

    fn cancel(&self, key: &K, charge: L::Charge) {
        self.limiter().cancel(key, charge);
    }

    fn limits(&self) -> Limits {
        self.limiter().limits()
    }

    fn generation(&self) -> u64 {
        self.limiter().generation()
    }
}
