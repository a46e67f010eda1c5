//! What decides behind the service, and the charge that a request holds while it is served.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;

use crate::algorithm::Algorithm;
use crate::decision::Decision;
use crate::http::{Advertised, Limits};
use crate::limiter::{Grants, Limiter};
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
    /// refusal.
    fn admit(&self, key: &K, tier: Option<&str>, cost: u64) -> (Option<Self::Charge>, Decision);

    /// Makes a charge of `cost` units into one of the units that were `used`.
    fn settle(&self, key: &K, charge: Self::Charge, cost: u64, used: u64);

    /// The limits that clients are told of.
    fn limits(&self) -> Limits;

    /// A number that changes whenever [`limits`](Self::limits) may.
    fn generation(&self) -> u64 {
        0
    }
}

/// What a limiter charged for a request.
pub struct Charge<A: Algorithm>(Grants<A>);

impl<A: Algorithm> fmt::Debug for Charge<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").finish_non_exhaustive()
    }
}

impl<K, A, C, R> Admit<K> for Limiter<K, A, C, R>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    A: Algorithm + Advertised,
    C: Clock + Send + Sync + 'static,
    R: Registry<K, Client<A>> + Send + Sync + 'static,
{
    type Charge = Charge<A>;

    fn admit(&self, key: &K, tier: Option<&str>, cost: u64) -> (Option<Charge<A>>, Decision) {
        let (grants, decision) = self.charge(key, tier, cost, self.now());
        (grants.map(Charge), decision)
    }

    fn settle(&self, key: &K, Charge(grants): Charge<A>, cost: u64, used: u64) {
        Limiter::settle(self, key, &grants, cost, used, self.now());
    }

    fn limits(&self) -> Limits {
        Limits::of(&self.policies())
    }

    fn generation(&self) -> u64 {
        self.all().plans().generation
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

    fn admit(&self, key: &K, tier: Option<&str>, cost: u64) -> (Option<L::Charge>, Decision) {
        let tier = tier.unwrap_or_else(|| TieredLimiter::tier_of(self, key));
        self.limiter().admit(key, Some(tier), cost)
    }

    fn settle(&self, key: &K, charge: L::Charge, cost: u64, used: u64) {
        self.limiter().settle(key, charge, cost, used);
    }

    fn limits(&self) -> Limits {
        self.limiter().limits()
    }

    fn generation(&self) -> u64 {
        self.limiter().generation()
    }
}

/// An admitted request, from before it reaches the service until its response has come. Dropped
/// before that, it keeps its charge.
pub(super) struct Admission<L: Admit<K>, K> {
    limiter: Arc<L>,
    key: K,
    charge: L::Charge,
    cost: u64,
    pub(super) tier: Option<String>,
    pub(super) decision: Decision,
}

impl<L: Admit<K>, K> Admission<L, K> {
    /// Asks the limiter. A refusal comes with the tier that it was made in.
    pub(super) fn ask(
        limiter: &Arc<L>,
        key: K,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<Self, (Decision, Option<String>)> {
        let tier = tier.or_else(|| limiter.tier_of(&key));
        let (charge, decision) = limiter.admit(&key, tier, cost);
        let tier = tier.map(ToString::to_string);
        match charge {
            Some(charge) => {
                Ok(Self { limiter: limiter.clone(), key, charge, cost, tier, decision })
            }
            None => Err((decision, tier)),
        }
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Settles for the units that were used.
    pub(super) fn settle(self, used: u64) {
        self.limiter.settle(&self.key, self.charge, self.cost, used);
    }
}

impl<L: Admit<K>, K> fmt::Debug for Admission<L, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("cost", &self.cost)
            .field("tier", &self.tier)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
