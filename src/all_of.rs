//! Limits at several keys, decided as one: a client, its route, its tenant, everybody.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::hash::Hash;

use crate::algorithm::Algorithm;
use crate::decision::Decision;
use crate::handle::Handle;
use crate::permit::Borrowed;
use crate::plan::Client;
use crate::registry::Registry;

/// One of the limits of [`AllOf`]: a client of some limiter.
pub trait Joined {
    /// What it hands out.
    type Permit;

    /// What [`acquire`](Self::acquire) would answer; takes nothing.
    fn peek(&self, cost: u64) -> Decision;

    /// Charges `cost` units whole for a permit, or tells why not.
    ///
    /// # Errors
    /// The decision, if it is a refusal.
    fn acquire(&self, cost: u64) -> Result<Self::Permit, Decision>;

    /// Takes back a permit as if it had never been.
    fn refund(&self, permit: Self::Permit);
}

impl<'a, K, Q, A, C, R> Joined for Handle<'a, K, Q, A, C, R>
where
    K: Borrow<Q> + Hash + Eq + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    A: Algorithm,
    R: Registry<K, Client<A>>,
{
    type Permit = Borrowed<'a, K, Q, A, C, R>;

    fn peek(&self, cost: u64) -> Decision {
        Handle::peek(self, cost)
    }

    fn acquire(&self, cost: u64) -> Result<Self::Permit, Decision> {
        Handle::acquire(self, cost)
    }

    fn refund(&self, permit: Self::Permit) {
        permit.refund_at(self.now());
    }
}

/// Two to four limits, each at a key of its own, decided as one: all are charged or none is.
///
/// For several limits of one client a [`Stack`](crate::Stack) needs one lookup instead. A limit for
/// everybody is a limiter with the one key `()`.
///
/// All are probed first: a refusal that is seen then writes nothing. Then they are charged in order;
/// if one refuses after all, another thread won its last units in between, and the others are
/// refunded exactly. Until that is done a concurrent request may be refused that a serial order
/// would have admitted, also both of two; no limit ever admits more than it may (but for a bucket that
/// made good by itself, before it was paid back, what it was charged in vain), in whichever order
/// the limits are named. Lock-free, and no allocation beyond what the limiters need for newcomers.
///
/// ```
/// use tollgate::{AllOf, Limiter, Quota, TokenBucket};
///
/// let bucket = |limit| TokenBucket::<u64>::new(Quota::per_second(limit)?);
/// let users = Limiter::<String, _>::new(bucket(2)?);
/// let routes = Limiter::<String, _>::new(bucket(3)?);
/// let everybody = Limiter::<(), _>::new(bucket(100)?);
///
/// let limits = (users.client("alice"), routes.client("/search"), everybody.client(&()));
/// let (user, route, all) = limits.acquire_all(2).unwrap();
/// let refused = limits.acquire_all(1).unwrap_err();
/// assert!(refused[0].is_refused() && refused[1].is_admitted());
/// assert_eq!(routes.peek_n("/search", 0).remaining(), 1);
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub trait AllOf {
    /// A permit of each.
    type Permits;
    /// A decision of each, in order.
    type Decisions: AsRef<[Decision]>;

    /// What each would answer; takes nothing.
    fn peek_all(&self, cost: u64) -> Self::Decisions;

    /// Charges `cost` units to each, or to none.
    ///
    /// # Errors
    /// The decision of each, if one of them is a refusal.
    fn acquire_all(&self, cost: u64) -> Result<Self::Permits, Self::Decisions>;
}

macro_rules! all_of {
    ($count:literal: $($limit:ident $place:tt),+) => {
        impl<$($limit: Joined),+> AllOf for ($($limit,)+) {
            type Permits = ($($limit::Permit,)+);
            type Decisions = [Decision; $count];

            fn peek_all(&self, cost: u64) -> [Decision; $count] {
                [$(self.$place.peek(cost)),+]
            }

            #[allow(non_snake_case, reason = "the names of the types stand for the values")]
            #[allow(unused_assignments, reason = "nobody comes after the last")]
            fn acquire_all(&self, cost: u64) -> Result<Self::Permits, [Decision; $count]> {
                let mut decisions = self.peek_all(cost);
                let mut refused = decisions.iter().any(Decision::is_refused);
                let mut permits = ($(None::<$limit::Permit>,)+);
                $(if !refused {
                    match self.$place.acquire(cost) {
                        Ok(permit) => permits.$place = Some(permit),
                        Err(decision) => (decisions[$place], refused) = (decision, true),
                    }
                })+
                match permits {
                    ($(Some($limit),)+) => Ok(($($limit,)+)),
                    permits => {
                        $(if let Some(permit) = permits.$place {
                            self.$place.refund(permit);
                        })+
                        Err(decisions)
                    }
                }
            }
        }
    };
}

all_of!(2: A 0, B 1);
all_of!(3: A 0, B 1, C 2);
all_of!(4: A 0, B 1, C 2, D 3);
