//! A layer that tells its clients little charges them like one that tells all, whatever the limits.
#![cfg(feature = "tower")]

use std::future::{Ready, ready};
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use proptest::prelude::*;
use tokio::time::Instant;
use tollgate::http::{RateLimitFields, WithoutKey};
use tollgate::tower::{RateLimit, RateLimitLayer};
use tollgate::{
    AlgorithmKind, AnyAlgorithm, InFlight, Limit, Limiter, ManualClock, OnDrop, Policies, Quota,
    Stack, Stats,
};
use tower::util::ServiceFn;
use tower::{Layer, Service, service_fn};

type Answer = Ready<Result<Response<()>, ()>>;

type Upstream = ServiceFn<fn(Request<()>) -> Answer>;

fn answer(_: Request<()>) -> Answer {
    ready(Ok(Response::new(())))
}

/// What the layers are to be alike under.
#[derive(Clone, Copy, Debug)]
struct Setting {
    policies: fn() -> Policies,
    on_drop: OnDrop,
    /// Whether half of what was charged is given back with the response.
    settles: bool,
}

fn of(kind: AlgorithmKind, limit: u64) -> AnyAlgorithm {
    AnyAlgorithm::new(kind, Quota::per_second(limit).unwrap()).unwrap()
}

fn bucket(limit: u64) -> AnyAlgorithm {
    of(AlgorithmKind::TokenBucket, limit)
}

fn alone(kind: AlgorithmKind) -> Policies {
    Policies::new("free", of(kind, 10)).tier("paid", of(kind, 30))
}

fn stack() -> AnyAlgorithm {
    let limits = [
        Limit::new("burst", bucket(9)),
        Limit::new("steady", of(AlgorithmKind::SlidingCounter, 12)),
        Limit::new("planned", bucket(3)).shadow(),
    ];
    Stack::new(limits).unwrap().into()
}

const POLICIES: [fn() -> Policies; 10] = [
    || alone(AlgorithmKind::TokenBucket),
    || alone(AlgorithmKind::LeakyBucket { queue: 0 }),
    || alone(AlgorithmKind::LeakyBucket { queue: 8 }),
    || alone(AlgorithmKind::FixedWindow { anchor: Default::default() }),
    || alone(AlgorithmKind::SlidingCounter),
    || alone(AlgorithmKind::SlidingLog),
    || Policies::new("free", AnyAlgorithm::from(InFlight::new(3).unwrap())).tier("paid", bucket(9)),
    || Policies::new("free", stack()).tier("paid", bucket(20)),
    || {
        let paced = [
            Limit::new("a", bucket(9)),
            Limit::new("b", of(AlgorithmKind::LeakyBucket { queue: 6 }, 20)),
        ];
        Policies::new("free", AnyAlgorithm::from(Stack::new(paced).unwrap()))
            .tier("paid", bucket(20))
    },
    || alone(AlgorithmKind::TokenBucket).global(bucket(15)),
];

type Clients = Limiter<String, AnyAlgorithm, ManualClock>;

type KeyOf = fn(&Parts) -> Option<String>;

/// A limiter of its own behind a layer of its own.
struct World {
    limiter: Arc<Clients>,
    clock: ManualClock,
    service: RateLimit<Upstream, Clients, KeyOf, ()>,
}

#[derive(Clone, Debug)]
struct Asked {
    /// How many ms later than the request before.
    after: u64,
    client: &'static str,
    paid: bool,
    cost: u8,
    /// Whether the client goes away before there is a response.
    given_up: bool,
}

/// What became of a request: its status, how long it waited, its fields; and how things stand.
#[derive(Debug, PartialEq)]
struct Fared {
    answer: Option<(StatusCode, Duration, HeaderMap)>,
    left: u64,
    stats: Stats,
}

impl World {
    fn new(setting: Setting, fields: RateLimitFields) -> Self {
        let clock = ManualClock::new();
        let limiter = Limiter::<String>::with_policies((setting.policies)()).clock(clock.clone());
        let limiter = Arc::new(limiter.on_drop(setting.on_drop).build());
        let key: KeyOf = |request| request.uri.host().map(str::to_owned);
        let layer = RateLimitLayer::new(limiter.clone(), key, WithoutKey::Refuse)
            .tier(|request, _| request.headers.get("tier")?.to_str().ok())
            .cost(|request| request.uri.path()[1..].parse().unwrap())
            .fields(fields);
        let layer = if setting.settles { layer.settle(|_, charged| charged / 2) } else { layer };
        Self { limiter, clock, service: layer.layer(service_fn(answer)) }
    }

    async fn ask(&mut self, asked: &Asked) -> Fared {
        self.clock.advance(Duration::from_millis(asked.after));
        let request = Request::get(format!("http://{}/{}", asked.client, asked.cost));
        let request = if asked.paid { request.header("tier", "paid") } else { request };
        let response = self.service.call(request.body(()).unwrap());
        let since = Instant::now();
        let answer = if asked.given_up {
            drop(response);
            None
        } else {
            let response = response.await.unwrap();
            Some((response.status(), since.elapsed(), response.headers().clone()))
        };
        let left = self.limiter.client(asked.client).peek(0).remaining();
        Fared { answer, left, stats: self.limiter.stats() }
    }
}

impl Fared {
    /// The same, with the fields that are `kept`.
    fn keeping(&self, kept: impl Fn(StatusCode, &HeaderMap, &str) -> bool) -> Self {
        let answer = self.answer.clone().map(|(status, waited, all)| {
            let mut fields = all.clone();
            all.keys()
                .filter(|name| !kept(status, &all, name.as_str()))
                .for_each(|name| drop(fields.remove(name)));
            (status, waited, fields)
        });
        Self { answer, ..*self }
    }
}

/// Whether a client has at most half of its limit left.
fn is_nearly_used(fields: &HeaderMap) -> bool {
    let figure = |name| fields[name].to_str().unwrap().parse::<u64>().unwrap();
    2 * figure("x-ratelimit-remaining") <= figure("x-ratelimit-limit")
}

fn asked() -> impl Strategy<Value = Asked> {
    let client = prop_oneof![Just("a"), Just("b")];
    let paid = prop::bool::weighted(0.2);
    let given_up = prop::bool::weighted(0.1);
    (0..120_u64, client, paid, 0..4_u8, given_up).prop_map(
        |(after, client, paid, cost, given_up)| Asked { after, client, paid, cost, given_up },
    )
}

proptest! {
    #[test]
    fn clients_that_are_told_little_fare_like_those_that_are_told_all(
        which in 0..POLICIES.len(),
        on_drop in prop_oneof![Just(OnDrop::Commit), Just(OnDrop::Refund)],
        settles in prop::bool::weighted(0.2),
        requests in prop::collection::vec(asked(), 1..60),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let setting = Setting { policies: POLICIES[which], on_drop, settles };
        let fields = RateLimitFields::new().with_x_rate_limit();
        let mut all = World::new(setting, fields);
        let mut half = World::new(setting, fields.when_left_percent(50));
        let mut least = World::new(setting, RateLimitFields::retry_after_only());
        runtime.block_on(async {
            for request in &requests {
                let told = all.ask(request).await;
                let expected = told.keeping(|status, fields, _| status != 200 || is_nearly_used(fields));
                prop_assert_eq!(half.ask(request).await, expected);
                let expected = told.keeping(|_, _, name| name == "retry-after");
                prop_assert_eq!(least.ask(request).await, expected);
            }
            Ok(())
        })?;
    }
}
