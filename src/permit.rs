//! A permit: what an admitted request holds, until it is settled, refunded or dropped.

use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

use crate::algorithm::{Algorithm, AnyGrant};
use crate::decision::Decision;
use crate::grants::{Back, Granted};
use crate::limiter::Limiter;
use crate::plan::Client;
use crate::registry::Registry;
use crate::time::{Clock, Nanos};

/// What becomes of a permit that is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDrop {
    /// It is committed: the charge stays.
    #[default]
    Commit,
    /// It is refunded: for futures that may be cancelled, where only what is committed counts.
    Refund,
}

/// An admitted request's charge, to the client and to the global cap.
///
/// It ends once: [`commit`](Self::commit) keeps the charge, [`refund`](Self::refund) gives it back,
/// [`settle`](Self::settle) corrects it to what was really used. A permit that is dropped is
/// committed, unless the limiter was [built to refund](crate::LimiterBuilder::on_drop). What an
/// [in-flight limit](crate::InFlight) granted comes back however it ends.
///
/// What comes back is exactly what was taken, and once. After the window that paid has rolled, or
/// while the bucket is full, there is nothing to give back, and nothing is. A bucket that has been
/// full in between takes the units back all the same, never beyond full: the bound of an interval
/// counts a refund when it is made. To a client that was retired nothing is given; to one that moved
/// to another policy or tier, what can still be told apart.
///
/// A permit holds no guard and no lock: it may be kept for long, and sent to another thread.
/// [`Limiter::acquire_owned`] gives one that borrows nothing.
///
/// ```
/// use tollgate::{Limiter, Quota, TokenBucket};
///
/// let limiter = Limiter::<String, _>::new(TokenBucket::<u64>::new(Quota::per_day(100)?)?);
/// let permit = limiter.acquire("alice", 80)?;
/// assert!(!limiter.check_n("alice", 50).is_admitted());
/// permit.settle(30);
/// assert_eq!(limiter.check_n("alice", 50).remaining(), 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Ending it twice does not compile:
///
/// ```compile_fail
/// # let limiter = tollgate::Limiter::<u64, _>::new(tollgate::InFlight::new(1).unwrap());
/// let permit = limiter.acquire(&7, 1).unwrap();
/// permit.settle(30);
/// permit.refund();
/// ```
#[must_use = "a permit that is dropped ends: say so with `commit`, `refund` or `drop`"]
pub struct Permit<L, Q, A>
where
    A: Algorithm,
    L: Settles<Q, A>,
{
    limiter: L,
    key: Q,
    /// None once it has ended.
    charge: Option<Charge<A>>,
    decision: Decision,
}

/// A permit that borrows its limiter and its key.
pub type Borrowed<'a, K, Q, A, C, R> = Permit<&'a Limiter<K, A, C, R>, &'a Q, A>;

/// A permit that shares its limiter and owns its key.
pub type Owned<K, A, C, R> = Permit<Arc<Limiter<K, A, C, R>>, K, A>;

/// What was charged, and when: to the client, and to the cap.
pub struct Charge<A: Algorithm> {
    pub(crate) client: Option<Granted<A::Grant>>,
    pub(crate) cap: Option<Granted<AnyGrant>>,
    pub(crate) cost: u64,
    pub(crate) at: Nanos,
}

impl<A: Algorithm> Charge<A> {
    /// Whether something is held until the permit ends.
    pub(crate) fn holds(&self) -> bool {
        self.client.is_some_and(|client| client.holds) || self.cap.is_some_and(|cap| cap.holds)
    }
}

/// A limiter as a permit holds it, with the key `Q` of the client that was charged.
pub trait Settles<Q, A: Algorithm> {
    /// What becomes of a permit that is dropped.
    fn on_drop(&self) -> OnDrop;

    /// Corrects the charge to `actual` units at `now`, and gives back what was held.
    fn settle(&self, key: &Q, charge: &Charge<A>, actual: u64, now: Nanos);

    /// Gives the charge back at `now`.
    fn refund(&self, key: &Q, charge: &Charge<A>, now: Nanos);

    /// Gives back what was held until now.
    fn commit(&self, key: &Q, charge: &Charge<A>);
}

impl<K, Q, A, C, R> Settles<&Q, A> for &Limiter<K, A, C, R>
where
    K: Borrow<Q> + Hash + Eq + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    fn on_drop(&self) -> OnDrop {
        Limiter::on_drop(self)
    }

    fn settle(&self, key: &&Q, charge: &Charge<A>, actual: u64, now: Nanos) {
        if actual < charge.cost {
            self.give(*key, charge, now, Back::Excess(actual));
        } else {
            self.charge_more(*key, charge, actual - charge.cost, now);
        }
        self.release(*key, charge);
    }

    fn refund(&self, key: &&Q, charge: &Charge<A>, now: Nanos) {
        self.give(*key, charge, now, Back::All);
    }

    fn commit(&self, key: &&Q, charge: &Charge<A>) {
        self.release(*key, charge);
    }
}

impl<K, A, C, R> Settles<K, A> for Arc<Limiter<K, A, C, R>>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    fn on_drop(&self) -> OnDrop {
        Limiter::on_drop(self)
    }

    fn settle(&self, key: &K, charge: &Charge<A>, actual: u64, now: Nanos) {
        (&**self).settle(&key, charge, actual, now);
    }

    fn refund(&self, key: &K, charge: &Charge<A>, now: Nanos) {
        (&**self).refund(&key, charge, now);
    }

    fn commit(&self, key: &K, charge: &Charge<A>) {
        (&**self).commit(&key, charge);
    }
}

impl<A: Algorithm> fmt::Debug for Charge<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("cost", &self.cost)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<L, Q, A> Permit<L, Q, A>
where
    A: Algorithm,
    L: Settles<Q, A>,
{
    pub(crate) fn new(limiter: L, key: Q, charge: Charge<A>, decision: Decision) -> Self {
        Self { limiter, key, charge: Some(charge), decision }
    }

    /// The decision that granted this permit.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Units charged.
    pub fn cost(&self) -> u64 {
        self.charge.as_ref().map_or(0, |charge| charge.cost)
    }

    /// Keeps the charge.
    pub fn commit(mut self) {
        if let Some(charge) = self.charge.take() {
            self.limiter.commit(&self.key, &charge);
        }
    }

    /// Gives the charge back at `now`.
    pub fn refund_at(mut self, now: Nanos) {
        if let Some(charge) = self.charge.take() {
            self.limiter.refund(&self.key, &charge, now);
        }
    }

    /// Corrects the charge at `now` to what was really used. What was charged beyond `actual` comes
    /// back; what was used beyond the charge is charged now, into debt if need be: see
    /// [`Handle::charge`](crate::Handle::charge). Limits that count requests stay as they are.
    pub fn settle_at(mut self, actual: u64, now: Nanos) {
        if let Some(charge) = self.charge.take() {
            self.limiter.settle(&self.key, &charge, actual, now);
        }
    }
}

/// By the limiter's clock.
impl<L, Q, A> Permit<L, Q, A>
where
    A: Algorithm,
    L: Settles<Q, A> + Clock,
{
    /// Gives the charge back.
    pub fn refund(self) {
        let now = self.limiter.now();
        self.refund_at(now);
    }

    /// [`settle_at`](Self::settle_at) the time by the limiter's clock.
    pub fn settle(self, actual: u64) {
        let now = self.limiter.now();
        self.settle_at(actual, now);
    }
}

/// Commits or refunds, as the limiter was built to. A refund is made at the time of the charge,
/// which the state answers as it does every caller whose time is past.
impl<L, Q, A> Drop for Permit<L, Q, A>
where
    A: Algorithm,
    L: Settles<Q, A>,
{
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            match self.limiter.on_drop() {
                OnDrop::Commit => self.limiter.commit(&self.key, &charge),
                OnDrop::Refund => self.limiter.refund(&self.key, &charge, charge.at),
            }
        }
    }
}

impl<L, Q, A> fmt::Debug for Permit<L, Q, A>
where
    Q: fmt::Debug,
    A: Algorithm,
    L: Settles<Q, A>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("key", &self.key)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
