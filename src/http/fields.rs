//! The header fields that tell a client its limits and where it stands.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use ::http::HeaderMap;
use ::http::header::{HeaderName, HeaderValue, RETRY_AFTER};

use super::item::{
    AVAILABLE, BURST, EFFECTIVE_WINDOW, List, MAX_INTEGER, Name, QUOTA, RATE_LIMIT,
    RATE_LIMIT_POLICY, WINDOW,
};
use crate::algorithm::Algorithm;
use crate::decision::{Decision, LimitReading, RetryAfter};
use crate::explained::Explained;
use crate::policy::Policies;
use crate::quota::{Allowance, Quota};
use crate::time::Nanos;

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The names of a client's own limit and of the cap on all of them.
const CLIENT: &str = "client";
const GLOBAL: &str = "global";

/// The limits that clients are told of, for each tier.
#[derive(Clone, Debug)]
pub struct Limits {
    default: Told,
    tiers: BTreeMap<String, Told>,
}

/// What the clients of one tier are told of their limits.
#[derive(Clone, Debug, Default)]
struct Told {
    /// In the order of the policy.
    names: Vec<Name>,
    policy: Option<HeaderValue>,
}

impl Told {
    fn new(limits: impl IntoIterator<Item = (Name, Allowance)>) -> Self {
        let mut policy = List::default();
        let names = limits.into_iter().map(|(name, allowance)| {
            policy.push(&name, policy_of(&allowance));
            name
        });
        Self { names: names.collect(), policy: policy.value() }
    }

    /// The limits that refused, or the first one of an admitted client. Limits that have names of
    /// their own are told apart by nothing in a decision: there it is the first one too.
    fn meant(&self, decision: &Decision) -> impl Iterator<Item = &Name> {
        let refused =
            [(CLIENT, decision.refused_by_client()), (GLOBAL, decision.refused_by_global())];
        let meant = move |name: &&Name| refused.contains(&(&*name.plain, true));
        let named = self.names.iter().filter(meant);
        let any = decision.is_admitted() || refused.iter().any(|(_, refused)| *refused);
        let first = self.names.first().filter(|_| any && !self.names.iter().any(|n| meant(&n)));
        named.chain(first)
    }

    /// Each limit that refused, or the one that binds, with figures of its own; none if they go by
    /// other names here.
    fn each(&self, explained: &Explained) -> Option<HeaderValue> {
        let told = |limit: &LimitReading| {
            let name = self.names.iter().find(|name| name.plain == limit.name);
            name.filter(|_| limit.enforced).map(|name| (name, limit.reading))
        };
        let mut list = List::default();
        if explained.decision.is_admitted() {
            let binding = explained.limits().filter_map(told);
            let (name, reading) = binding.min_by_key(|(_, reading)| reading.remaining)?;
            let reset = RetryAfter::After(reading.reset_after);
            list.push(name, standing(reading.remaining, reset.as_secs_ceil()));
        }
        for (name, reading) in explained.refusing().filter_map(told) {
            list.push(name, standing(reading.remaining, reading.retry_after.as_secs_ceil()));
        }
        list.value()
    }
}

impl Limits {
    /// Those of a set of policies: in each tier a client's own, called `client`, and the cap on
    /// all of them, called `global`; of several limits each by its name, but for those in shadow.
    pub fn of<A: Algorithm>(policies: &Policies<A>) -> Self {
        let cap = policies.global_cap().map(|cap| each_of(cap.algorithm(), GLOBAL));
        let cap = cap.unwrap_or_default();
        let tiers = policies.tiers().map(|(tier, policy)| {
            let own = each_of(policy.algorithm(), CLIENT);
            (tier.to_string(), Told::new(own.into_iter().chain(cap.iter().cloned())))
        });
        let tiers: BTreeMap<_, _> = tiers.collect();
        let default = tiers.get(policies.default_tier()).cloned().unwrap_or_default();
        Self { default, tiers }
    }

    /// Those named here, whatever the tier.
    ///
    /// # Errors
    /// If a name cannot stand in a header field.
    pub fn named<'a>(
        limits: impl IntoIterator<Item = (&'a str, Allowance)>,
    ) -> Result<Self, BadName> {
        let limits = limits.into_iter().map(|(plain, allowance)| match Name::new(plain) {
            Some(name) => Ok((name, allowance)),
            None => Err(BadName(plain.to_string())),
        });
        let limits: Vec<_> = limits.collect::<Result<_, _>>()?;
        let told = limits.into_iter().filter(|(_, allowance)| is_told(allowance));
        Ok(Self { default: Told::new(told), tiers: BTreeMap::new() })
    }

    /// What a client of this tier, or of none or an unknown one, is told.
    fn of_tier(&self, tier: Option<&str>) -> &Told {
        tier.and_then(|tier| self.tiers.get(tier)).unwrap_or(&self.default)
    }
}

/// A name of a limit with characters other than printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName(String);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit {:?}: expected a name of printable ASCII characters", self.0)
    }
}

impl core::error::Error for BadName {}

/// Which fields a response gets.
///
/// A refused client is always told `Retry-After`, in whole seconds rounded up, unless it need not
/// try again at all. `RateLimit-Policy` and `RateLimit` follow
/// draft-ietf-httpapi-ratelimit-headers-11 and are added to those that are there already; the
/// window is in whole seconds, and the quota told with it is never more than the rate gives.
/// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, in seconds from now, are for older clients.
///
/// ```
/// use tollgate::http::{Limits, RateLimitFields};
/// use tollgate::{Limiter, Quota, TokenBucket};
///
/// let bucket = TokenBucket::<u64>::new(Quota::per_minute(2)?)?;
/// let limiter = Limiter::<String, _>::new(bucket);
/// let mut headers = http::HeaderMap::new();
/// let limits = Limits::of(&limiter.policies());
/// RateLimitFields::new().write(&limits, None, &limiter.check("alice"), &mut headers);
/// assert_eq!(headers["ratelimit-policy"], "\"client\";q=2;w=60");
/// assert_eq!(headers["ratelimit"], "\"client\";r=1;t=30");
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitFields {
    draft: bool,
    older: bool,
    /// The share of the limit, in percent, down to which nothing is told.
    told_below: Option<u8>,
}

impl RateLimitFields {
    /// `RateLimit-Policy`, `RateLimit` and `Retry-After`.
    pub const fn new() -> Self {
        Self { draft: true, older: false, told_below: None }
    }

    /// `Retry-After` only.
    pub const fn retry_after_only() -> Self {
        Self { draft: false, ..Self::new() }
    }

    /// The older `X-RateLimit-*` too.
    #[must_use]
    pub const fn with_x_rate_limit(self) -> Self {
        Self { older: true, ..self }
    }

    /// Only on refusals, and to clients that have at most this share of their limit left.
    #[must_use]
    pub const fn when_left_percent(self, percent: u8) -> Self {
        Self { told_below: Some(percent), ..self }
    }

    /// Tells the client of `decision`, which is in this tier, how it stands. Who has no limit is
    /// told none.
    pub fn write(
        &self,
        limits: &Limits,
        tier: Option<&str>,
        decision: &Decision,
        headers: &mut HeaderMap,
    ) {
        let service_limit = |told: &Told, wait| service_limit(told.meant(decision), decision, wait);
        if let Some(fields) = self.fields_with(limits, tier, decision, service_limit) {
            fields.add_to(headers);
        }
    }

    /// [`write`](Self::write), with figures of their own for each limit that refused; of an admitted
    /// request, for the one that binds.
    pub fn write_explained(
        &self,
        limits: &Limits,
        tier: Option<&str>,
        explained: &Explained,
        headers: &mut HeaderMap,
    ) {
        if let Some(fields) = self.fields_explained(limits, tier, explained) {
            fields.add_to(headers);
        }
    }

    /// What [`write_explained`](Self::write_explained) writes.
    pub(crate) fn fields_explained(
        &self,
        limits: &Limits,
        tier: Option<&str>,
        explained: &Explained,
    ) -> Option<Fields> {
        let decision = explained.decision();
        let service_limit = |told: &Told, wait| {
            let each = told.each(explained);
            each.or_else(|| service_limit(told.meant(&decision), &decision, wait))
        };
        self.fields_with(limits, tier, &decision, service_limit)
    }

    fn fields_with(
        &self,
        limits: &Limits,
        tier: Option<&str>,
        decision: &Decision,
        service_limit: impl FnOnce(&Told, Option<u64>) -> Option<HeaderValue>,
    ) -> Option<Fields> {
        let told = limits.of_tier(tier);
        let tells = self.tells(told, decision);
        if !tells && decision.is_admitted() {
            return None;
        }
        let wait = wait(decision);
        let retry_after = wait.filter(|_| decision.is_refused());
        let mut fields = Fields { retry_after, ..Fields::default() };
        if !tells {
            return Some(fields);
        }
        if self.draft {
            fields.policy = told.policy.clone();
            fields.service_limit = service_limit(told, wait);
        }
        if self.older {
            let told = |units: u64| units.min(MAX_INTEGER);
            let figures = [Some(decision.limit()), Some(decision.remaining()), wait];
            fields.older = Some(figures.map(|figure| figure.map(told)));
        }
        Some(fields)
    }

    /// Whether there is more to tell than `Retry-After`.
    fn tells(&self, told: &Told, decision: &Decision) -> bool {
        let any = (self.draft || self.older) && !told.names.is_empty();
        any && self.told_below.is_none_or(|percent| !decision.leaves(percent))
    }

    /// The share of the limit, in percent, above which an admitted request is told nothing.
    #[cfg(feature = "tower")]
    pub(crate) fn quiet_above(&self) -> Option<u8> {
        if self.draft || self.older { self.told_below } else { Some(0) }
    }
}

impl Default for RateLimitFields {
    fn default() -> Self {
        Self::new()
    }
}

/// The fields of one response.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    policy: Option<HeaderValue>,
    service_limit: Option<HeaderValue>,
    retry_after: Option<u64>,
    /// The limit, what remains, and the reset.
    older: Option<[Option<u64>; 3]>,
}

impl Fields {
    /// What a response may have once goes in the place of what is there.
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        if let Some(policy) = self.policy {
            headers.append(RATE_LIMIT_POLICY, policy);
        }
        if let Some(service_limit) = self.service_limit {
            headers.append(RATE_LIMIT, service_limit);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(older) = self.older {
            for (name, value) in [X_LIMIT, X_REMAINING, X_RESET].into_iter().zip(older) {
                value.and_then(|value| headers.insert(name, value.into()));
            }
        }
    }
}

/// Seconds until a refused client may retry, or until an admitted one has its whole quota again.
/// One number for all fields: none tells an earlier time than another.
fn wait(decision: &Decision) -> Option<u64> {
    if decision.is_admitted() {
        RetryAfter::After(decision.reset_after()).as_secs_ceil()
    } else {
        decision.retry_after().as_secs_ceil()
    }
}

/// What is left of the limits that are meant: the least that any of them has left.
fn service_limit<'a>(
    meant: impl Iterator<Item = &'a Name>,
    decision: &Decision,
    wait: Option<u64>,
) -> Option<HeaderValue> {
    let mut list = List::default();
    for name in meant {
        list.push(name, standing(decision.remaining(), wait));
    }
    list.value()
}

/// `r=49;t=1`.
fn standing(available: u64, window: Option<u64>) -> [(&'static str, Option<u64>); 2] {
    [(AVAILABLE, Some(available)), (EFFECTIVE_WINDOW, window)]
}

/// Whether there is anything to tell: not of what is unlimited, nor of permits in flight, which no
/// window bounds.
fn is_told(allowance: &Allowance) -> bool {
    !matches!(allowance, Allowance::Unlimited | Allowance::InFlight(_))
}

/// The limits in an algorithm that are enforced for anybody and that a field can tell. One that is
/// alone is called `alone`.
fn each_of<A: Algorithm>(algorithm: &A, alone: &str) -> Vec<(Name, Allowance)> {
    let mut all = Vec::new();
    let state = algorithm.fresh(Nanos::ZERO);
    algorithm.peek_each(&state, Nanos::ZERO, 0, &mut |limit| {
        let name = if limit.name == LimitReading::ALONE { alone } else { limit.name };
        let told = limit.enforced && is_told(&limit.allowance);
        all.extend(Name::new(name).filter(|_| told).map(|name| (name, limit.allowance)));
    });
    all
}

/// `q=50;w=1`, and the burst if it is not the quota. Of what is blocked, `q=0`.
fn policy_of(allowance: &Allowance) -> [(&'static str, Option<u64>); 3] {
    let Allowance::Quota(quota) = allowance else {
        return [(QUOTA, Some(0)), (WINDOW, None), (BURST, None)];
    };
    let (units, seconds) = whole_seconds(quota);
    let burst = Some(quota.burst()).filter(|burst| *burst != quota.limit());
    [(QUOTA, Some(units)), (WINDOW, Some(seconds)), (BURST, burst)]
}

/// The quota of the next whole number of seconds, rounded down: never more than the rate gives.
fn whole_seconds(quota: &Quota) -> (u64, u64) {
    let period = quota.period().as_nanos();
    let second = Duration::from_secs(1).as_nanos();
    let seconds = period.div_ceil(second);
    let units = u128::from(quota.limit()) * (seconds * second) / period;
    (u64::try_from(units).unwrap_or(u64::MAX), u64::try_from(seconds).unwrap_or(u64::MAX))
}
