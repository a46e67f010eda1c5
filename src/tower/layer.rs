//! The layer: what a service is limited by, and all that can be chosen about it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use ::http::Response;
use ::http::request::Parts;
use tower_layer::Layer;

use super::admission::{Admission, OpenCharge};
use super::admit::Admit;
use super::refusal::{Refusal, empty};
use super::service::RateLimit;
use crate::explained::Explained;
use crate::http::{KeyOf, Limits, RateLimitFields, WithoutKey};
use crate::sync::{Held, Slot};

/// Holds the clients of a service to the limits of an [`Admit`] `L`, by the key that `X` takes from
/// each request. `B` is the body of the service's responses.
///
/// Cheap to clone: all clones share one limiter.
pub struct RateLimitLayer<L, X: KeyOf, B> {
    pub(super) gate: Arc<Gate<L, X, B>>,
}

type CostOf = dyn Fn(&Parts) -> u64 + Send + Sync;
type TierOfRequest<K> = dyn for<'a> Fn(&'a Parts, &'a K) -> Option<&'a str> + Send + Sync;
type UsedBy<B> = dyn Fn(&Response<B>, u64) -> u64 + Send + Sync;
type Respond<B> = dyn Fn(&Refusal<'_>) -> Response<B> + Send + Sync;

/// What all services of a layer share.
pub(super) struct Gate<L, X: KeyOf, B> {
    pub(super) limiter: Arc<L>,
    key: Arc<X>,
    without_key: WithoutKey<X::Key>,
    cost: Option<Arc<CostOf>>,
    tier: Option<Arc<TierOfRequest<X::Key>>>,
    used: Option<Arc<UsedBy<B>>>,
    respond: Arc<Respond<B>>,
    fields: RateLimitFields,
    limits: Slot<(u64, Limits)>,
}

impl<L: Admit<X::Key>, X: KeyOf, B: 'static> RateLimitLayer<L, X, B> {
    /// Limits clients known by `key`; `without_key` says what becomes of a request that has none.
    /// A refused request is answered with 429 and no body.
    pub fn new(limiter: Arc<L>, key: X, without_key: WithoutKey<X::Key>) -> Self
    where
        B: Default,
    {
        Self::responding(limiter, key, without_key, empty)
    }

    /// Like [`new`](Self::new), and refusals are told as `respond` says: see
    /// [`plain_text`](super::plain_text) and [`grpc`](super::grpc). The limiter's fields are added
    /// to what it gives.
    pub fn responding<F>(
        limiter: Arc<L>,
        key: X,
        without_key: WithoutKey<X::Key>,
        respond: F,
    ) -> Self
    where
        F: Fn(&Refusal<'_>) -> Response<B> + Send + Sync + 'static,
    {
        let gate = Gate {
            limits: Slot::new((limiter.generation(), limiter.limits())),
            limiter,
            key: Arc::new(key),
            without_key,
            cost: None,
            tier: None,
            used: None,
            respond: Arc::new(respond),
            fields: RateLimitFields::new(),
        };
        Self { gate: Arc::new(gate) }
    }

    /// What a request costs; 1 if not said. Cost 0 is always admitted.
    #[must_use]
    pub fn cost(self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|gate| gate.cost = Some(Arc::new(cost)))
    }

    /// The tier of a request's client, where the request or the key that was taken from it tells.
    /// Else it is the limiter that knows, or the default tier.
    #[must_use]
    pub fn tier<F>(self, tier: F) -> Self
    where
        F: for<'a> Fn(&'a Parts, &'a X::Key) -> Option<&'a str> + Send + Sync + 'static,
    {
        self.with(|gate| gate.tier = Some(Arc::new(tier)))
    }

    /// What a request used in the end, told by its response and what it was charged. Less is given
    /// back, more is charged, into debt if need be.
    ///
    /// The head of the response has come by then, its body may not have.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tollgate::{Limiter, Quota, TokenBucket, http::{PeerAddress, WithoutKey}, tower::RateLimitLayer};
    /// # let limiter = Arc::new(Limiter::new(TokenBucket::<u64>::new(Quota::per_second(9)?)?));
    /// # let layer = RateLimitLayer::<_, _, axum::body::Body>::new(limiter, PeerAddress::new(), WithoutKey::Refuse);
    /// // Only what fails counts: as for a log-in.
    /// layer.settle(|response, charged| if response.status().is_success() { 0 } else { charged });
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn settle(self, used: impl Fn(&Response<B>, u64) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|gate| gate.used = Some(Arc::new(used)))
    }

    /// The fields that clients are told their limits in.
    #[must_use]
    pub fn fields(self, fields: RateLimitFields) -> Self {
        self.with(|gate| gate.fields = fields)
    }

    /// The limiter.
    pub fn limiter(&self) -> &Arc<L> {
        &self.gate.limiter
    }

    /// This layer with a change; its clones stay as they are.
    fn with(self, change: impl FnOnce(&mut Gate<L, X, B>)) -> Self {
        let mut gate = Arc::try_unwrap(self.gate).unwrap_or_else(|shared| (*shared).clone());
        change(&mut gate);
        Self { gate: Arc::new(gate) }
    }
}

impl<L, X: KeyOf, B> Clone for RateLimitLayer<L, X, B> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone() }
    }
}

impl<L: fmt::Debug, X: KeyOf + fmt::Debug, B> fmt::Debug for RateLimitLayer<L, X, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("gate", &self.gate).finish()
    }
}

impl<S, L, X: KeyOf, B> Layer<S> for RateLimitLayer<L, X, B> {
    type Service = RateLimit<S, L, X, B>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, self.gate.clone())
    }
}

/// What becomes of a request.
pub(super) enum Verdict<L: Admit<X::Key>, X: KeyOf, B> {
    /// It is served, after a delay; its response may bring something.
    Admitted(Option<Box<Admission<L, X, B>>>, Duration),
    /// It is answered with this.
    Refused(Response<B>),
}

impl<L: Admit<X::Key>, X: KeyOf, B> Gate<L, X, B> {
    /// Decides about a request.
    pub(super) fn ask(self: &Arc<Self>, request: &Parts) -> Verdict<L, X, B> {
        let key = match (self.key.key_of(request), &self.without_key) {
            (Some(key), _) => key,
            (None, WithoutKey::Share(key)) => key.clone(),
            (None, WithoutKey::Refuse) => {
                return Verdict::Refused((self.respond)(&Refusal::NoKey));
            }
            (None, WithoutKey::Admit) => {
                return Verdict::Admitted(None, Duration::ZERO);
            }
        };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(request));
        let tier = self.tier.as_ref().and_then(|tier| tier(request, &key));
        let tier = tier.or_else(|| self.limiter.tier_of(&key));
        // Who is far from the limit is told nothing, and nothing is done at the response.
        let quiet_above = self.fields.quiet_above().filter(|_| self.used.is_none());
        if quiet_above.is_some_and(|above| self.limiter.admit_quietly(&key, tier, cost, above)) {
            return Verdict::Admitted(None, Duration::ZERO);
        }
        // Before the charge, which must not be lost if that panics.
        let limits = self.limits();
        let mut explained = Explained::default();
        let charge = self.limiter.admit(&key, tier, cost, &mut explained);
        let fields = self.fields.fields_explained(&limits.1, tier, &explained);
        let Some(charge) = charge else {
            let mut response = (self.respond)(&Refusal::Limited(&explained));
            if let Some(fields) = fields {
                fields.add_to(response.headers_mut());
            }
            return Verdict::Refused(response);
        };
        let is_final = self.used.is_none() && self.limiter.is_final(&charge);
        let mut admission =
            fields.map(|fields| Box::new(Admission { fields: Some(fields), charge: None }));
        if !is_final {
            let open = OpenCharge { gate: self.clone(), key, charge: Some(charge), cost };
            admission.get_or_insert_default().charge = Some(open);
        }
        Verdict::Admitted(admission, explained.decision().delay())
    }

    /// What was used of `charged` units, if the response tells; by default it is all of them.
    pub(super) fn used(&self, response: &Response<B>, charged: u64) -> Option<u64> {
        self.used.as_ref().map(|used| used(response, charged))
    }

    /// The limits that clients are told of, with their generation.
    fn limits(&self) -> Held<(u64, Limits)> {
        let told = self.limits.load();
        let generation = self.limiter.generation();
        if told.0 == generation {
            return told;
        }
        // Made again by whoever comes first after a reload; several may.
        let limits = Arc::new((generation, self.limiter.limits()));
        self.limits.replace(&told, limits);
        self.limits.load()
    }
}

impl<L, X: KeyOf, B> Clone for Gate<L, X, B> {
    fn clone(&self) -> Self {
        let limits = (**self.limits.load()).clone();
        Self {
            limiter: self.limiter.clone(),
            key: self.key.clone(),
            without_key: self.without_key.clone(),
            cost: self.cost.clone(),
            tier: self.tier.clone(),
            used: self.used.clone(),
            respond: self.respond.clone(),
            fields: self.fields,
            limits: Slot::new(limits),
        }
    }
}

impl<L: fmt::Debug, X: KeyOf + fmt::Debug, B> fmt::Debug for Gate<L, X, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("limiter", &self.limiter)
            .field("key", &self.key)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}
