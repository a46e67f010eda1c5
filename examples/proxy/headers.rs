//! The fields that tell a client its limit: `RateLimit-Policy`, `RateLimit` and `Retry-After`.
//!
//! The first two follow draft-ietf-httpapi-ratelimit-headers-11. They are lists of named items, one
//! for each limit, and are added to those that the upstream may have sent.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use tollgate::{Allowance, Decision, Policies, Policy, Quota, RetryAfter};

const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Writes the fields of a set of policies.
pub(crate) struct RateLimitFields {
    default: String,
    tiers: BTreeMap<String, Limits>,
}

/// The limits that a client of one tier is told.
struct Limits {
    /// The first of them, if there is one: the client's own, or the cap.
    first: Option<&'static str>,
    policy: HeaderValue,
}

impl RateLimitFields {
    pub(crate) fn new(policies: &Policies) -> Self {
        let tiers = policies.tiers().map(|(name, policy)| {
            let limits = [("client", Some(policy)), ("global", policies.global_cap())];
            let told: Vec<_> = limits
                .into_iter()
                .filter_map(|(name, policy)| Some((name, policy_item(name, policy?)?)))
                .collect();
            let first = told.first().map(|(name, _)| *name);
            let policy = list(told.into_iter().map(|(_, item)| item));
            (name.to_owned(), Limits { first, policy })
        });
        Self { default: policies.default_tier().to_owned(), tiers: tiers.collect() }
    }

    /// The tier that is meant by this name, or by none.
    pub(crate) fn tier(&self, name: Option<&str>) -> &str {
        let known = name.and_then(|name| self.tiers.get_key_value(name));
        known.map_or(&self.default, |(name, _)| name)
    }

    /// Tells the client of `decision` how it stands. Who has no limit is told none.
    pub(crate) fn add(&self, tier: &str, decision: &Decision, headers: &mut HeaderMap) {
        let wait = wait(decision);
        if let (false, Some(seconds)) = (decision.is_admitted(), wait) {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        let Some(Limits { first: Some(first), policy }) = self.tiers.get(tier) else {
            return;
        };
        headers.append(RATELIMIT_POLICY, policy.clone());
        let names = if decision.is_admitted() { vec![*first] } else { violated(decision) };
        if !names.is_empty() {
            headers.append(RATELIMIT, service_limit(&names, decision, wait));
        }
    }
}

/// The names of the limits that refused.
fn violated(decision: &Decision) -> Vec<&'static str> {
    [("client", decision.refused_by_client()), ("global", decision.refused_by_global())]
        .into_iter()
        .filter_map(|(name, refused)| refused.then_some(name))
        .collect()
}

/// Seconds until a refused client may retry, or until an admitted one has its whole quota again.
fn wait(decision: &Decision) -> Option<u64> {
    if decision.is_admitted() {
        RetryAfter::After(decision.reset_after()).as_secs_ceil()
    } else {
        decision.retry_after().as_secs_ceil()
    }
}

/// `"client";r=3;t=1`. What is left is the least that any limit has left.
fn service_limit(names: &[&str], decision: &Decision, wait: Option<u64>) -> HeaderValue {
    let r = decision.remaining().min(MAX_INTEGER);
    let t = wait.map_or(String::new(), |seconds| format!(";t={}", seconds.min(MAX_INTEGER)));
    list(names.iter().map(|name| format!("\"{name}\";r={r}{t}")))
}

/// The item of a policy: for what is blocked, `q=0`; for what is unlimited, none.
fn policy_item(name: &str, policy: &Policy) -> Option<String> {
    match policy.algorithm().allowance() {
        Allowance::Quota(quota) => Some(quota_item(name, &quota)),
        Allowance::Blocked => Some(format!("\"{name}\";q=0")),
        Allowance::Unlimited | Allowance::InFlight(_) => None,
    }
}

/// `"client";q=50;w=1`, and the burst if it is not the quota.
///
/// The window is in whole seconds. Where the period is not, the quota is that of the next whole
/// second, rounded down: it never promises more than the rate.
fn quota_item(name: &str, quota: &Quota) -> String {
    let period = quota.period();
    let w = period.as_nanos().div_ceil(Duration::from_secs(1).as_nanos());
    let exact = u128::from(quota.limit()) * (w * 1_000_000_000) / period.as_nanos();
    let q = exact.min(MAX_INTEGER.into());
    let burst = match quota.burst() {
        burst if burst == quota.limit() => String::new(),
        burst => format!(";tollgate-burst={}", burst.min(MAX_INTEGER)),
    };
    format!("\"{name}\";q={q};w={w}{burst}")
}

fn list(items: impl Iterator<Item = String>) -> HeaderValue {
    let items: Vec<_> = items.collect();
    HeaderValue::try_from(items.join(", ")).expect("names and numbers are visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{Limiter, Nanos};

    const CLIENT: &str = "[tier.free]\nalgorithm = \"token_bucket\"\nlimit = 2\nperiod = \"1m\"\n";
    const GLOBAL: &str = "[global]\nalgorithm = \"fixed_window\"\nlimit = 1\nperiod = \"1h\"\n";

    /// The fields told to one client at each of the given milliseconds.
    fn told(policies: &str, millis: &[u64]) -> Vec<HeaderMap> {
        let policies = Policies::from_toml("p.toml", policies).unwrap();
        let fields = RateLimitFields::new(&policies);
        let limiter = Limiter::<String>::with_policies(policies).build();
        let decisions = millis.iter().map(|ms| limiter.check_at("a", Nanos::new(ms * 1_000_000)));
        decisions
            .map(|decision| {
                let mut headers = HeaderMap::new();
                fields.add(fields.tier(None), &decision, &mut headers);
                headers
            })
            .collect()
    }

    #[test]
    fn an_admitted_client_is_told_what_is_left_and_when_all_of_it_is_back() {
        let headers = &told(CLIENT, &[0])[0];
        assert_eq!(headers[RATELIMIT_POLICY], "\"client\";q=2;w=60");
        assert_eq!(headers[RATELIMIT], "\"client\";r=1;t=30");
        assert!(!headers.contains_key(RETRY_AFTER));
    }

    #[test]
    fn a_refused_client_is_told_to_wait_in_seconds_rounded_up() {
        for (at, seconds) in [(0, "30"), (1, "30"), (29_000, "1"), (29_999, "1")] {
            let headers = &told(CLIENT, &[0, 0, at])[2];
            assert_eq!(headers[RETRY_AFTER], seconds);
            assert_eq!(headers[RATELIMIT], format!("\"client\";r=0;t={seconds}"));
        }
    }

    #[test]
    fn the_limit_that_refused_is_named() {
        let headers = &told(&format!("{CLIENT}{GLOBAL}"), &[0, 0])[1];
        assert_eq!(headers[RATELIMIT_POLICY], "\"client\";q=2;w=60, \"global\";q=1;w=3600");
        assert_eq!(headers[RATELIMIT], "\"global\";r=0;t=3600");
        assert_eq!(headers[RETRY_AFTER], "3600");
    }

    #[test]
    fn who_has_no_limit_of_its_own_is_told_the_cap_or_nothing() {
        let unlimited = "[tier.free]\nunlimited = true\n";
        assert!(told(unlimited, &[0])[0].is_empty());
        let headers = &told(&format!("{unlimited}{GLOBAL}"), &[0])[0];
        assert_eq!(headers[RATELIMIT_POLICY], "\"global\";q=1;w=3600");
        assert_eq!(headers[RATELIMIT], "\"global\";r=0;t=3600");
    }

    #[test]
    fn who_is_blocked_is_told_so_and_not_to_retry() {
        let headers = &told("[tier.free]\nblocked = true\n", &[0])[0];
        assert_eq!(headers[RATELIMIT_POLICY], "\"client\";q=0");
        assert_eq!(headers[RATELIMIT], "\"client\";r=0");
        assert!(!headers.contains_key(RETRY_AFTER));
    }

    #[test]
    fn a_newcomer_that_finds_no_room_is_told_when_to_retry() {
        let policies = Policies::from_toml("p.toml", CLIENT).unwrap().max_clients(1);
        let fields = RateLimitFields::new(&policies);
        let limiter = Limiter::<String>::with_policies(policies).build();
        assert!(limiter.check_at("a", Nanos::ZERO).is_admitted());
        let decision = limiter.check_at("b", Nanos::ZERO);
        assert!(decision.refused_because_full());
        let mut headers = HeaderMap::new();
        fields.add("free", &decision, &mut headers);
        assert!(headers.contains_key(RETRY_AFTER) && !headers.contains_key(RATELIMIT));
    }

    #[test]
    fn each_tier_is_told_its_own_limit_and_an_unknown_one_the_default() {
        let text = format!("default = \"free\"\n{CLIENT}[tier.staff]\nunlimited = true\n");
        let fields = RateLimitFields::new(&Policies::from_toml("p.toml", &text).unwrap());
        assert_eq!(fields.tier(Some("staff")), "staff");
        assert_eq!((fields.tier(Some("gold")), fields.tier(None)), ("free", "free"));
        assert_eq!(fields.tiers["free"].policy, "\"client\";q=2;w=60");
        assert_eq!(fields.tiers["staff"].first, None);
    }

    #[test]
    fn windows_are_whole_seconds_and_promise_no_more_than_the_rate() {
        let item = |limit, millis| {
            quota_item("p", &Quota::new(limit, Duration::from_millis(millis)).unwrap())
        };
        assert_eq!(item(5, 500), "\"p\";q=10;w=1");
        assert_eq!(item(10, 1_500), "\"p\";q=13;w=2");
        assert_eq!(item(1, 1), "\"p\";q=1000;w=1");
        assert_eq!(item(u64::MAX, 1_000), format!("\"p\";q={MAX_INTEGER};w=1"));
        let bursting = Quota::per_second(5).unwrap().with_burst(9).unwrap();
        assert_eq!(quota_item("p", &bursting), "\"p\";q=5;w=1;tollgate-burst=9");
    }
}
