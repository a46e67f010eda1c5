//! The layer around a service of our own: what it promises whatever the framework.
#![cfg(feature = "tower")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use tokio::time::Instant;
use tollgate::http::{Limits, RateLimitFields, WithoutKey};
use tollgate::tower::{Admit, RateLimitLayer, plain_text};
use tollgate::{
    AlgorithmKind, AnyAlgorithm, Explained, InFlight, Limit, Limiter, ManualClock, OnDrop,
    Policies, Quota, Stack, TokenBucket,
};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

/// Answers with the size that the request asks for, and counts what it is asked.
#[derive(Clone, Default)]
struct Upstream {
    calls: Arc<Mutex<u64>>,
    status: StatusCode,
    fails: bool,
}

impl Upstream {
    fn calls(&self) -> u64 {
        *self.calls.lock().unwrap()
    }
}

impl Service<Request<()>> for Upstream {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = Ready<Result<Response<String>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        *self.calls.lock().unwrap() += 1;
        if self.fails {
            return ready(Err("broken"));
        }
        let mut response = Response::new("x".repeat(request.uri().path().len() - 1));
        *response.status_mut() = self.status;
        ready(Ok(response))
    }
}

type Buckets = Limiter<String, TokenBucket<u64>, ManualClock>;

fn bucket(limit: u64) -> TokenBucket<u64> {
    TokenBucket::new(Quota::per_minute(limit).unwrap()).unwrap()
}

fn limiter(limit: u64) -> (Arc<Buckets>, ManualClock) {
    let clock = ManualClock::new();
    (Arc::new(Limiter::<String, _>::builder(bucket(limit)).clock(clock.clone()).build()), clock)
}

/// The client's name is in the host's place.
fn name(request: &Parts) -> Option<String> {
    request.uri.host().map(str::to_owned)
}

async fn ask<S>(service: &S, uri: &str) -> Response<String>
where
    S: Service<Request<()>, Response = Response<String>, Error = &'static str> + Clone,
{
    let request = Request::get(uri).body(()).unwrap();
    service.clone().oneshot(request).await.unwrap()
}

async fn statuses<S>(service: &S, uris: &[&str]) -> Vec<u16>
where
    S: Service<Request<()>, Response = Response<String>, Error = &'static str> + Clone,
{
    let mut statuses = Vec::new();
    for uri in uris {
        statuses.push(ask(service, uri).await.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn the_refused_do_not_reach_the_service() {
    let (limiter, clock) = limiter(2);
    let upstream = Upstream::default();
    let service = RateLimitLayer::new(limiter, name, WithoutKey::Refuse).layer(upstream.clone());
    let uris = ["http://a/", "http://a/", "http://a/", "http://b/", "http://a/"];
    assert_eq!(statuses(&service, &uris).await, [200, 200, 429, 200, 429]);
    assert_eq!(upstream.calls(), 3);
    let refused = ask(&service, "http://a/").await;
    assert_eq!(refused.headers()["retry-after"], "30");
    assert_eq!(refused.headers()["ratelimit"], "\"client\";r=0;t=30");
    assert_eq!(refused.body(), "");
    clock.advance(Duration::from_secs(30));
    let admitted = ask(&service, "http://a/").await;
    assert_eq!(admitted.headers()["ratelimit-policy"], "\"client\";q=2;w=60");
    assert_eq!(admitted.headers()["ratelimit"], "\"client\";r=0;t=60");
}

#[tokio::test]
async fn clones_of_layers_and_services_share_one_limiter() {
    let (limiter, _) = limiter(2);
    let layer = RateLimitLayer::new(limiter.clone(), name, WithoutKey::Refuse);
    let [one, two] = [layer.clone(), layer].map(|layer| layer.layer(Upstream::default()));
    assert_eq!(statuses(&one, &["http://a/"]).await, [200]);
    assert_eq!(statuses(&two.clone(), &["http://a/", "http://a/"]).await, [200, 429]);
    assert!(!limiter.is_allowed("a"));
}

#[tokio::test]
async fn a_changed_layer_leaves_its_clones_as_they_were() {
    let (limiter, _) = limiter(9);
    let layer = RateLimitLayer::new(limiter, name, WithoutKey::Refuse);
    let dearer = layer.clone().cost(|_| 5).layer(Upstream::default());
    let layer = layer.layer(Upstream::default());
    assert_eq!(statuses(&dearer, &["http://a/", "http://a/"]).await, [200, 429]);
    assert_eq!(statuses(&layer, &["http://a/"; 5]).await, [200, 200, 200, 200, 429]);
}

#[tokio::test]
async fn each_choice_for_requests_without_a_key() {
    let uris = ["/", "/", "/"];
    for (without_key, expected) in [
        (WithoutKey::Share("nobody".to_owned()), [200, 200, 429]),
        (WithoutKey::Refuse, [400, 400, 400]),
        (WithoutKey::Admit, [200, 200, 200]),
    ] {
        let (limiter, _) = limiter(2);
        let upstream = Upstream::default();
        let layer = RateLimitLayer::new(limiter.clone(), name, without_key.clone());
        let service = layer.layer(upstream.clone());
        assert_eq!(statuses(&service, &uris).await, expected, "{without_key:?}");
        let served = expected.iter().filter(|status| **status == 200).count();
        assert_eq!(upstream.calls(), served as u64);
        assert_eq!(limiter.is_allowed("nobody"), !matches!(without_key, WithoutKey::Share(_)));
        if without_key == WithoutKey::Admit {
            assert!(ask(&service, "/").await.headers().is_empty(), "nobody limits it");
        }
    }
}

#[tokio::test]
async fn the_response_to_the_refused_can_be_another() {
    let (limiter, _) = limiter(1);
    let layer = RateLimitLayer::responding(limiter, name, WithoutKey::Refuse, |refusal| {
        let mut response = plain_text::<String>(refusal);
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    });
    let service = layer.fields(RateLimitFields::retry_after_only()).layer(Upstream::default());
    assert_eq!(statuses(&service, &["http://a/"]).await, [200]);
    let refused = ask(&service, "http://a/").await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.body(), "refused by client limit, retry after 60s\n");
    assert_eq!(refused.headers()["retry-after"], "60");
    assert!(!refused.headers().contains_key("ratelimit"));
    let nobody = ask(&service, "/").await;
    assert_eq!(nobody.body(), "refused: the request does not tell who its client is\n");
}

#[tokio::test]
async fn a_request_costs_what_the_closure_says() {
    let (limiter, _) = limiter(10);
    let layer = RateLimitLayer::new(limiter, name, WithoutKey::Refuse)
        .cost(|request| request.uri.path().len() as u64 - 1);
    let service = layer.layer(Upstream::default());
    let uris = ["http://a/1234567", "http://a/1234", "http://a/123", "http://a/", "http://a/1"];
    assert_eq!(statuses(&service, &uris).await, [200, 429, 200, 200, 429]);
    let never = ask(&service, "http://a/12345678901").await;
    assert_eq!(never.status(), 429);
    assert!(!never.headers().contains_key("retry-after"), "more than it can ever grant");
}

#[tokio::test]
async fn a_charge_is_settled_by_the_size_of_the_response() {
    let (limiter, clock) = limiter(60);
    let layer = RateLimitLayer::new(limiter.clone(), name, WithoutKey::Refuse).cost(|_| 10).settle(
        |response: &Response<String>, charged| {
            assert_eq!(charged, 10);
            response.body().len() as u64
        },
    );
    let service = layer.layer(Upstream::default());
    let left = || limiter.peek_n("a", 0).remaining();
    for (size, expected) in [(3, 57), (0, 57), (10, 47), (40, 7)] {
        let uri = format!("http://a/{}", "x".repeat(size));
        assert_eq!(statuses(&service, &[&uri]).await, [200]);
        assert_eq!(left(), expected, "after {size} bytes");
    }
    // Refused: nothing to settle.
    assert_eq!(statuses(&service, &["http://a/"]).await, [429]);
    assert_eq!(left(), 7);
    // Into debt: 7 + 3 - 70, and it is paid back at one unit a second.
    clock.advance(Duration::from_secs(3));
    assert_eq!(statuses(&service, &[&format!("http://a/{}", "x".repeat(70))]).await, [200]);
    assert_eq!(left(), 0);
    clock.advance(Duration::from_secs(69));
    assert_eq!(left(), 9);
    clock.advance(Duration::from_secs(1));
    assert_eq!(left(), 10);
}

/// Time is paused: a turn in the queue comes at once.
#[tokio::test(start_paused = true)]
async fn settling_reaches_every_algorithm_and_the_cap() {
    let kinds = [
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket { queue: 99 },
        AlgorithmKind::FixedWindow { anchor: Default::default() },
        AlgorithmKind::SlidingCounter,
        AlgorithmKind::SlidingLog,
    ];
    for kind in kinds {
        let each = AnyAlgorithm::new(kind, Quota::per_day(100).unwrap()).unwrap();
        let all = AnyAlgorithm::new(kind, Quota::per_day(100).unwrap()).unwrap();
        let limiter = Limiter::<String>::builder(each).clock(ManualClock::new()).global(all);
        let limiter = Arc::new(limiter.build());
        let layer = RateLimitLayer::new(limiter.clone(), name, WithoutKey::Refuse)
            .cost(|_| 20)
            .settle(|response: &Response<String>, _| response.body().len() as u64);
        let service = layer.layer(Upstream::default());
        let uris = ["http://a/12345", "http://a/", "http://a/1234567890123456789012345"];
        let mut statuses = Vec::new();
        for uri in uris {
            statuses.push(ask(&service, uri).await.status().as_u16());
        }
        assert_eq!(statuses, [200, 200, 200], "{kind:?}");
        // 5, 0 and 25 were used.
        assert_eq!(limiter.peek_n("a", 0).remaining(), 70, "{kind:?}: the client");
        assert_eq!(limiter.peek_n("b", 0).remaining(), 70, "{kind:?}: the cap");
    }
}

#[tokio::test]
async fn a_service_that_fails_keeps_its_charge() {
    let (limiter, _) = limiter(2);
    let upstream = Upstream { fails: true, ..Upstream::default() };
    let layer = RateLimitLayer::new(limiter.clone(), name, WithoutKey::Refuse).settle(|_, _| 0);
    let service = layer.layer(upstream);
    let request = Request::get("http://a/").body(()).unwrap();
    assert_eq!(service.clone().oneshot(request).await.unwrap_err(), "broken");
    assert_eq!(limiter.peek("a").remaining(), 1);
    // As does a request whose client goes away.
    let request = Request::get("http://a/").body(()).unwrap();
    drop(service.clone().call(request));
    assert_eq!(limiter.peek("a").remaining(), 0);
}

#[tokio::test]
async fn tiers_come_from_the_request_or_from_the_key() {
    let policies = || Policies::new("free", bucket(1)).tier("premium", bucket(3));
    let limiter =
        || Limiter::<String, _>::with_policies(policies()).clock(ManualClock::new()).build();
    let named = RateLimitLayer::new(Arc::new(limiter()), name, WithoutKey::Refuse)
        .tier(|request, _| request.headers.get("x-tier")?.to_str().ok());
    let named = named.layer(Upstream::default());
    let request = || Request::get("http://a/").header("x-tier", "premium").body(()).unwrap();
    let response = named.clone().oneshot(request()).await.unwrap();
    assert_eq!(response.headers()["ratelimit-policy"], "\"client\";q=3;w=60");
    let response = ask(&named, "http://b/").await;
    assert_eq!(response.headers()["ratelimit-policy"], "\"client\";q=1;w=60");

    let resolving = |key: &String| if key.starts_with("vip") { "premium" } else { "free" };
    let resolved = Arc::new(limiter().resolving(resolving));
    let resolved = RateLimitLayer::new(resolved, name, WithoutKey::Refuse);
    let resolved = resolved.tier(|request, _| request.headers.get("x-tier")?.to_str().ok());
    let resolved = resolved.layer(Upstream::default());
    assert_eq!(statuses(&resolved, &["http://vip/"; 4]).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&resolved, &["http://a/"; 2]).await, [200, 429]);
    let refused = ask(&resolved, "http://vip/").await;
    assert_eq!(refused.headers()["ratelimit-policy"], "\"client\";q=3;w=60");
    let response = resolved.clone().oneshot(request()).await.unwrap();
    assert_eq!(response.headers()["ratelimit-policy"], "\"client\";q=3;w=60");
}

#[tokio::test]
async fn a_reload_is_told_from_the_next_request_on() {
    let (limiter, _) = limiter(2);
    let service = RateLimitLayer::new(limiter.clone(), name, WithoutKey::Refuse);
    let service = service.layer(Upstream::default());
    for limit in [2, 5, 7] {
        limiter.reload(Policies::new("default", bucket(limit)));
        let told = ask(&service, "http://a/").await.headers()["ratelimit-policy"].clone();
        assert_eq!(told, format!("\"client\";q={limit};w=60"));
    }
}

/// Two limiters in one: by the minute, then by the day.
struct Both(Buckets, Buckets);

impl Admit<String> for Both {
    type Charge = (<Buckets as Admit<String>>::Charge, <Buckets as Admit<String>>::Charge);

    fn admit(
        &self,
        key: &String,
        tier: Option<&str>,
        cost: u64,
        explained: &mut Explained,
    ) -> Option<Self::Charge> {
        let first = self.0.admit(key, tier, cost, explained)?;
        let Some(second) = self.1.admit(key, tier, cost, explained) else {
            Admit::settle(&self.0, key, first, 0);
            return None;
        };
        Some((first, second))
    }

    fn settle(&self, key: &String, (first, second): Self::Charge, used: u64) {
        Admit::settle(&self.0, key, first, used);
        Admit::settle(&self.1, key, second, used);
    }

    fn limits(&self) -> Limits {
        let limits = [("minute", 5), ("day", 3)];
        Limits::named(limits.map(|(name, n)| (name, Quota::per_minute(n).unwrap().into()))).unwrap()
    }
}

#[tokio::test]
async fn several_limiters_can_stand_behind_one_layer() {
    let build =
        |limit| Limiter::<String, _>::builder(bucket(limit)).clock(ManualClock::new()).build();
    let both = Arc::new(Both(build(5), build(3)));
    let layer = RateLimitLayer::new(both.clone(), name, WithoutKey::Refuse)
        .settle(|response: &Response<String>, charged| charged - response.body().len() as u64);
    let service = layer.layer(Upstream::default());
    let uris = ["http://a/", "http://a/1", "http://a/", "http://a/", "http://a/"];
    assert_eq!(statuses(&service, &uris).await, [200, 200, 200, 200, 429]);
    assert_eq!(both.0.peek_n("a", 0).remaining(), 2, "what the second refused is given back");
    let refused = ask(&service, "http://a/").await;
    assert_eq!(refused.headers()["ratelimit"], "\"minute\";r=0;t=20");
    assert_eq!(refused.headers()["ratelimit-policy"], "\"minute\";q=5;w=60, \"day\";q=3;w=60");
}

#[tokio::test(start_paused = true)]
async fn a_request_in_the_queue_is_handed_on_when_its_turn_comes() {
    let kind = AlgorithmKind::LeakyBucket { queue: 3 };
    let pacing = AnyAlgorithm::new(kind, Quota::per_second(10).unwrap()).unwrap();
    let limiter = Limiter::<String>::builder(pacing).clock(ManualClock::new()).build();
    let (start, upstream) = (Instant::now(), Upstream::default());
    let times = Arc::new(Mutex::new(Vec::new()));
    let record = times.clone();
    let inner = ServiceBuilder::new()
        .map_request(move |request: Request<()>| {
            record.lock().unwrap().push(start.elapsed());
            request
        })
        .service(upstream);
    let layer = RateLimitLayer::new(Arc::new(limiter), name, WithoutKey::Refuse);
    let service = layer.layer(inner);
    let asked: Vec<_> = (0..5)
        .map(|_| {
            let request = Request::get("http://a/").body(()).unwrap();
            tokio::spawn(service.clone().oneshot(request))
        })
        .collect();
    let mut statuses = Vec::new();
    for response in asked {
        statuses.push(response.await.unwrap().unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 429]);
    let times = times.lock().unwrap().clone();
    assert_eq!(times, [0, 100, 200, 300].map(Duration::from_millis));
}

/// A service that serves one request at a time and hands out its one place in `poll_ready`.
#[tokio::test(start_paused = true)]
async fn the_limiter_leaves_readiness_to_the_service() {
    let (limiter, _) = limiter(1);
    let inner = ServiceBuilder::new().concurrency_limit(1).service(tower::service_fn(
        |_: Request<()>| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(Response::new(String::new()))
        },
    ));
    let mut service = RateLimitLayer::new(limiter, name, WithoutKey::Refuse).layer(inner);
    let request = |uri: &str| Request::get(uri).body(()).unwrap();
    let first = service.ready().await.unwrap().call(request("http://a/"));
    let mut other = service.clone();
    assert!(is_pending(&mut other), "the one place is taken: not ready");
    assert_eq!(first.await.unwrap().status(), 200);
    assert!(!is_pending(&mut other), "and free again");
    // A refusal gives no answer of the service away and leaves the place to the next request.
    let refused = other.call(request("http://a/")).await.unwrap();
    assert_eq!(refused.status(), 429);
    let served = other.ready().await.unwrap().call(request("http://b/")).await.unwrap();
    assert_eq!(served.status(), 200);
}

fn is_pending<S: Service<Request<()>>>(service: &mut S) -> bool {
    service.poll_ready(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// Several limits for a client, one of them on requests in flight.
#[tokio::test]
async fn several_limits_of_a_client_are_told_each_for_itself() {
    let stack = Stack::new([
        Limit::new("open", InFlight::new(1).unwrap()),
        Limit::new("minute", bucket(5)),
        Limit::new("burst", bucket(2)),
        Limit::new("planned", bucket(1)).shadow(),
    ]);
    let limiter = Limiter::<String, _>::builder(stack.unwrap()).clock(ManualClock::new());
    let limiter = Arc::new(limiter.on_drop(OnDrop::Refund).build::<String>());
    let layer = RateLimitLayer::new(limiter.clone(), name, WithoutKey::Refuse);
    let service = layer.layer(Upstream::default());
    let told = ask(&service, "http://a/").await;
    let policy = "\"minute\";q=5;w=60, \"burst\";q=2;w=60";
    assert_eq!(told.headers()["ratelimit-policy"].to_str().unwrap(), policy);
    assert_eq!(told.headers()["ratelimit"], "\"burst\";r=1;t=30");
    assert_eq!(ask(&service, "http://a/").await.status(), 200);
    let refused = ask(&service, "http://a/").await;
    assert_eq!(refused.headers()["ratelimit"], "\"burst\";r=0;t=30");
    assert_eq!(
        (refused.status(), &refused.headers()["retry-after"]),
        (StatusCode::TOO_MANY_REQUESTS, &"30".parse().unwrap())
    );
    assert_eq!(limiter.stats().would_have_refused, 1);
    let open = |key| limiter.client(key).explain(0).limits().next().unwrap().reading.remaining;
    assert_eq!(open("a"), 1, "each response gave its place back");
    // A request that is given up gives back its place, and here its charge.
    let request = Request::get("http://b/").body(()).unwrap();
    let given_up = service.clone().call(request);
    assert_eq!(open("b"), 0);
    drop(given_up);
    assert_eq!((open("b"), limiter.peek_n("b", 0).remaining()), (1, 2));
}
