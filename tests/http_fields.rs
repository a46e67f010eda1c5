//! The fields that tell a client its limits, read back by a parser of structured fields.
#![cfg(feature = "http")]

use std::time::Duration;

use http::HeaderMap;
use proptest::prelude::*;
use sfv::{BareItem, Item, List, ListEntry, Parser};
use tollgate::http::{BadName, Limits, RateLimitFields};
use tollgate::{
    Algorithm, AlgorithmKind, Allowance, AnyAlgorithm, FixedWindow, LeakyBucket, Limiter, Nanos,
    Policies, Quota, RetryAfter, SlidingCounter, SlidingLog, TokenBucket,
};

const MAX_INTEGER: i64 = 999_999_999_999_999;

fn any(kind: AlgorithmKind, allowance: impl Into<Allowance>) -> AnyAlgorithm {
    AnyAlgorithm::new(kind, allowance).unwrap()
}

fn bucket(quota: Quota) -> AnyAlgorithm {
    any(AlgorithmKind::TokenBucket, quota)
}

/// Two a minute.
fn two() -> AnyAlgorithm {
    bucket(Quota::per_minute(2).unwrap())
}

/// One an hour.
fn one() -> AnyAlgorithm {
    any(AlgorithmKind::FixedWindow { anchor: Default::default() }, Quota::per_hour(1).unwrap())
}

/// The fields told to one client at each of the given milliseconds.
fn told_by(fields: RateLimitFields, policies: Policies, millis: &[u64]) -> Vec<HeaderMap> {
    let limits = Limits::of(&policies);
    let limiter = Limiter::<String>::with_policies(policies).build();
    let decisions = millis.iter().map(|ms| limiter.check_at("a", Nanos::new(ms * 1_000_000)));
    let write = |decision| {
        let mut headers = HeaderMap::new();
        fields.write(&limits, None, &decision, &mut headers);
        headers
    };
    decisions.map(write).collect()
}

fn told(policies: Policies, millis: &[u64]) -> Vec<HeaderMap> {
    told_by(RateLimitFields::new(), policies, millis)
}

/// A list of named items, as (name, parameters).
fn parsed(headers: &HeaderMap, field: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let lines: Vec<_> = headers.get_all(field).iter().map(|line| line.to_str().unwrap()).collect();
    let list: List = Parser::new(&lines.join(", ")).parse().unwrap();
    list.into_iter()
        .map(|entry| match entry {
            ListEntry::Item(Item { bare_item: BareItem::String(name), params }) => {
                let integer = |item: BareItem| item.as_integer().unwrap().into();
                let params = params.into_iter().map(|(key, item)| (key.into(), integer(item)));
                (name.into(), params.collect())
            }
            other => panic!("not a named item: {other:?}"),
        })
        .collect()
}

#[test]
fn an_admitted_client_is_told_what_is_left_and_when_all_of_it_is_back() {
    let headers = &told(Policies::new("free", two()), &[0])[0];
    assert_eq!(headers["ratelimit-policy"], "\"client\";q=2;w=60");
    assert_eq!(headers["ratelimit"], "\"client\";r=1;t=30");
    assert_eq!(headers.len(), 2);
}

#[test]
fn a_refused_client_is_told_to_wait_in_seconds_rounded_up() {
    for (at, seconds) in [(0, "30"), (1, "30"), (29_000, "1"), (29_999, "1")] {
        let headers = &told(Policies::new("free", two()), &[0, 0, at])[2];
        assert_eq!(headers["retry-after"], seconds);
        assert_eq!(headers["ratelimit"], format!("\"client\";r=0;t={seconds}"));
    }
}

#[test]
fn the_limit_that_refused_is_named() {
    let headers = &told(Policies::new("free", two()).global(one()), &[0, 0])[1];
    assert_eq!(headers["ratelimit-policy"], "\"client\";q=2;w=60, \"global\";q=1;w=3600");
    assert_eq!(headers["ratelimit"], "\"global\";r=0;t=3600");
    assert_eq!(headers["retry-after"], "3600");
}

#[test]
fn who_has_no_limit_of_its_own_is_told_the_cap_or_nothing() {
    let unlimited = || any(AlgorithmKind::TokenBucket, Allowance::Unlimited);
    assert!(told(Policies::new("free", unlimited()), &[0])[0].is_empty());
    let headers = &told(Policies::new("free", unlimited()).global(one()), &[0])[0];
    assert_eq!(headers["ratelimit-policy"], "\"global\";q=1;w=3600");
    assert_eq!(headers["ratelimit"], "\"global\";r=0;t=3600");
}

#[test]
fn who_is_blocked_is_told_so_and_not_to_retry() {
    let blocked = any(AlgorithmKind::TokenBucket, Allowance::Blocked);
    let headers = &told(Policies::new("free", blocked), &[0])[0];
    assert_eq!(headers["ratelimit-policy"], "\"client\";q=0");
    assert_eq!(headers["ratelimit"], "\"client\";r=0");
    assert!(!headers.contains_key("retry-after"));
}

#[test]
fn a_newcomer_that_finds_no_room_is_told_when_to_retry() {
    let policies = Policies::new("free", two()).max_clients(1);
    let limits = Limits::of(&policies);
    let limiter = Limiter::<String>::with_policies(policies).build();
    assert!(limiter.check_at("a", Nanos::ZERO).is_admitted());
    let decision = limiter.check_at("b", Nanos::ZERO);
    assert!(decision.refused_because_full());
    let mut headers = HeaderMap::new();
    RateLimitFields::new().write(&limits, Some("free"), &decision, &mut headers);
    assert!(headers.contains_key("retry-after") && !headers.contains_key("ratelimit"));
}

#[test]
fn each_tier_is_told_its_own_limit_and_an_unknown_one_the_default() {
    let policies = Policies::new("free", two()).tier("premium", one());
    let limits = Limits::of(&policies);
    let limiter = Limiter::<String>::with_policies(policies).build();
    for (tier, told) in [
        (None, "\"client\";q=2;w=60"),
        (Some("gold"), "\"client\";q=2;w=60"),
        (Some("premium"), "\"client\";q=1;w=3600"),
    ] {
        let mut headers = HeaderMap::new();
        RateLimitFields::new().write(&limits, tier, &limiter.check("a"), &mut headers);
        assert_eq!(headers["ratelimit-policy"], told);
    }
}

#[test]
fn windows_are_whole_seconds_and_promise_no_more_than_the_rate() {
    let item = |limit, millis| {
        let quota = Quota::new(limit, Duration::from_millis(millis)).unwrap();
        told(Policies::new("free", bucket(quota)), &[0])[0]["ratelimit-policy"].clone()
    };
    assert_eq!(item(5, 500), "\"client\";q=10;w=1");
    assert_eq!(item(10, 1_500), "\"client\";q=13;w=2");
    assert_eq!(item(1, 1), "\"client\";q=1000;w=1");
    let quota = Quota::per_second(5).unwrap().with_burst(9).unwrap();
    let headers = &told(Policies::new("free", bucket(quota)), &[0])[0];
    assert_eq!(headers["ratelimit-policy"], "\"client\";q=5;w=1;tollgate-burst=9");
}

#[test]
fn the_older_fields_tell_the_same() {
    let fields = RateLimitFields::retry_after_only().with_x_rate_limit();
    let policies = Policies::new("free", two());
    let told = told_by(fields, policies, &[0, 0, 0]);
    for (headers, [limit, remaining, reset]) in
        told.iter().zip([["2", "1", "30"], ["2", "0", "60"], ["2", "0", "30"]])
    {
        assert_eq!(headers["x-ratelimit-limit"], limit);
        assert_eq!(headers["x-ratelimit-remaining"], remaining);
        assert_eq!(headers["x-ratelimit-reset"], reset);
        assert!(!headers.contains_key("ratelimit") && !headers.contains_key("ratelimit-policy"));
    }
    assert_eq!(told[2]["retry-after"], told[2]["x-ratelimit-reset"]);
}

#[test]
fn clients_with_plenty_left_can_be_spared() {
    let quota = Quota::per_minute(10).unwrap();
    let fields = RateLimitFields::new().when_left_percent(20);
    let told = told_by(fields, Policies::new("free", bucket(quota)), &[0; 11]);
    let is_told: Vec<_> = told.iter().map(|headers| headers.contains_key("ratelimit")).collect();
    let left_3_or_more = [false; 7];
    assert_eq!(is_told[..7], left_3_or_more);
    assert_eq!(is_told[7..], [true; 4]);
    assert!(told[10].contains_key("retry-after"));
}

#[test]
fn what_others_have_sent_stays() {
    let policies = Policies::new("free", two());
    let limits = Limits::of(&policies);
    let limiter = Limiter::<String>::with_policies(policies).build();
    let mut headers = HeaderMap::new();
    headers.insert("ratelimit", "\"upstream\";r=7".parse().unwrap());
    RateLimitFields::new().write(&limits, None, &limiter.check("a"), &mut headers);
    let names: Vec<_> = parsed(&headers, "ratelimit").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["upstream", "client"]);
}

#[test]
fn named_limits_are_told_by_their_names() {
    let (burst, daily) = (Quota::per_minute(100).unwrap(), Quota::per_day(1_000).unwrap());
    let limits = [("burst", burst.into()), ("a \"daily\" \\", daily.into())];
    let limits = Limits::named(limits).unwrap();
    let limiter = Limiter::<String, _>::new(TokenBucket::<u64>::new(burst).unwrap());
    let mut headers = HeaderMap::new();
    RateLimitFields::new().write(&limits, None, &limiter.check("a"), &mut headers);
    assert_eq!(
        parsed(&headers, "ratelimit-policy"),
        [
            ("burst".into(), vec![("q".into(), 100), ("w".into(), 60)]),
            ("a \"daily\" \\".into(), vec![("q".into(), 1_000), ("w".into(), 86_400)]),
        ]
    );
    let error: BadName = Limits::named([("täglich", daily.into())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "limit \"täglich\": expected a name of printable ASCII characters"
    );
    Limits::named([("line\nbreak", daily.into())]).unwrap_err();
}

#[test]
fn every_algorithm_can_be_advertised() {
    fn q(algorithm: &impl Algorithm) -> Allowance {
        algorithm.allowance()
    }
    let quota = Quota::per_second(9).unwrap();
    let told: [Allowance; 6] = [
        q(&TokenBucket::<u64>::new(quota).unwrap()),
        q(&LeakyBucket::<u128>::new(quota, 3).unwrap()),
        q(&FixedWindow::<u64>::new(quota, Default::default()).unwrap()),
        q(&SlidingCounter::<u64>::new(quota).unwrap()),
        q(&SlidingLog::new(quota).unwrap()),
        q(&bucket(quota)),
    ];
    assert_eq!(told, [Allowance::Quota(quota); 6]);
}

fn algorithm() -> impl Strategy<Value = AnyAlgorithm> {
    let kind = prop_oneof![
        Just(AlgorithmKind::TokenBucket),
        (0..5u64).prop_map(|queue| AlgorithmKind::LeakyBucket { queue }),
        Just(AlgorithmKind::FixedWindow { anchor: Default::default() }),
        Just(AlgorithmKind::SlidingCounter),
    ];
    let limit = prop_oneof![1..20u64, 1..=u64::MAX];
    let period = prop_oneof![1..5_000_000_000u64, 1..=u64::MAX];
    (kind, limit, period).prop_filter_map("no word holds it", |(kind, limit, period)| {
        let quota = Quota::new(limit, Duration::from_nanos(period)).ok()?;
        AnyAlgorithm::new(kind, quota).ok()
    })
}

proptest! {
    /// All that is written is read back as what was meant, whatever the quota, and a client that
    /// waits as long as it was told has waited long enough.
    #[test]
    fn every_field_round_trips(
        own in algorithm(),
        cap in proptest::option::of(algorithm()),
        costs in proptest::collection::vec(prop_oneof![1..9u64, 1..=u64::MAX], 1..8),
    ) {
        let mut policies = Policies::new("free", own);
        policies = match &cap {
            Some(cap) => policies.global(cap.clone()),
            None => policies,
        };
        let limits = Limits::of(&policies);
        let limiter = Limiter::<String>::with_policies(policies).build();
        for cost in costs {
            let decision = limiter.check_n_at("a", cost, Nanos::ZERO);
            let mut headers = HeaderMap::new();
            RateLimitFields::new().with_x_rate_limit().write(&limits, None, &decision, &mut headers);

            let policy = parsed(&headers, "ratelimit-policy");
            prop_assert_eq!(policy.len(), 1 + usize::from(cap.is_some()));
            for (_, parameters) in &policy {
                prop_assert_eq!(&parameters[0].0, "q");
                prop_assert!(parameters[1].0 == "w" && parameters[1].1 > 0);
            }
            let standing = parsed(&headers, "ratelimit");
            prop_assert!(!standing.is_empty());
            for (_, parameters) in &standing {
                let left = i64::try_from(decision.remaining()).unwrap_or(MAX_INTEGER);
                prop_assert_eq!(&parameters[0], &("r".to_owned(), left.min(MAX_INTEGER)));
            }
            let number = |field| headers.get(field).map(|value| {
                value.to_str().unwrap().parse::<u64>().unwrap()
            });
            match decision.retry_after() {
                RetryAfter::After(wait) => {
                    let seconds = number("retry-after").unwrap();
                    prop_assert!(seconds > 0 && Duration::from_secs(seconds) >= wait);
                    prop_assert!(Duration::from_secs(seconds - 1) < wait);
                    for (_, parameters) in &standing {
                        prop_assert_eq!(&parameters[1].0, "t");
                        prop_assert_eq!(parameters[1].1, i64::try_from(seconds).unwrap());
                    }
                    prop_assert_eq!(number("x-ratelimit-reset"), Some(seconds));
                }
                _ => prop_assert_eq!(number("retry-after"), None),
            }
        }
    }
}
