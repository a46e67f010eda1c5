use std::fs;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode, Uri};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::sync::Notify;
use tollgate::{Algorithm, Policies};

use super::*;

const ONE: &str = "default = \"free\"\n[tier.free]\nalgorithm = \"token_bucket\"\nlimit = 1\nperiod = \"1d\"\n\
                   [tier.paid]\nalgorithm = \"token_bucket\"\nlimit = 9\nperiod = \"1d\"\n";

fn limiter(policies: &str) -> Arc<Clients> {
    let policies = Policies::from_toml("test.toml", policies).unwrap();
    Arc::new(Limiter::<Key>::with_policies(policies).clock(CoarseClock::new()).build())
}

/// The address of a server in a task of its own.
async fn serving(app: Router) -> Uri {
    let (listener, url) = local().await.unwrap();
    tokio::spawn(async { axum::serve(listener, app).await });
    url
}

/// A proxy in front of a server that echoes the path and the fields of the request.
async fn proxied(limiter: Arc<Clients>) -> Uri {
    let echo = async |uri: Uri, headers: HeaderMap| {
        let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        ([("connection", "x-hop"), ("x-hop", "1")], format!("{uri} {}", names.join(",")))
    };
    let base = serving(Router::new().fallback(echo)).await;
    let upstream = format!("{base}api/").parse().unwrap();
    let (listener, url) = local().await.unwrap();
    tokio::spawn(async { serve(listener, limiter, upstream, std::future::pending).await.is_ok() });
    url
}

async fn get(url: &str, fields: &[(&str, &str)]) -> (Response<()>, String) {
    let mut request = Request::get(url);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let http = Client::builder(TokioExecutor::new()).build_http();
    let response = http.request(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
    (Response::from_parts(head, ()), String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn what_concerns_one_connection_stops_at_the_proxy() {
    let url = proxied(limiter(ONE)).await;
    let fields = [("connection", "x-mine"), ("x-mine", "1"), ("te", "trailers"), ("x-kept", "1")];
    let (response, body) = get(&format!("{url}a/b?c=d"), &fields).await;
    assert_eq!(body, "/api/a/b?c=d x-kept,host");
    assert!(!response.headers().contains_key("x-hop"));
    assert_eq!(response.headers()["ratelimit"], "\"client\";r=0;t=86400");
}

#[tokio::test]
async fn clients_are_known_by_key_or_network_and_named_tiers_need_a_key() {
    let url = proxied(limiter(ONE)).await.to_string();
    let status = async |fields: &[(&str, &str)]| get(&url, fields).await.0.status();
    assert_eq!(status(&[("x-tier", "paid")]).await, StatusCode::OK);
    assert_eq!(status(&[("x-tier", "paid")]).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(status(&[("x-api-key", "a")]).await, StatusCode::OK);
    assert_eq!(status(&[("x-api-key", "a")]).await, StatusCode::TOO_MANY_REQUESTS);
    for _ in 0..9 {
        let paid = [("x-api-key", "b"), ("x-tier", "paid")];
        assert_eq!(status(&paid).await, StatusCode::OK);
    }
}

#[tokio::test]
async fn requests_under_way_are_answered_after_the_stop() {
    static ASKED: Notify = Notify::const_new();
    static STOP: Notify = Notify::const_new();
    static ANSWER: Notify = Notify::const_new();
    let slow = async || {
        ASKED.notify_one();
        ANSWER.notified().await;
        "done"
    };
    let upstream = serving(Router::new().fallback(slow)).await;
    let (listener, url) = local().await.unwrap();
    let served = serve(listener, limiter(ONE), upstream, || STOP.notified());
    let serving = tokio::spawn(async { served.await.is_ok() });
    let answer = tokio::spawn(async move { get(&url.to_string(), &[]).await.1 });
    ASKED.notified().await;
    STOP.notify_waiters();
    ANSWER.notify_one();
    assert_eq!(answer.await.unwrap(), "done");
    assert!(serving.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_file_is_followed_and_mistakes_in_it_change_nothing() {
    let path = std::env::temp_dir().join(format!("tollgate-proxy-{}.toml", std::process::id()));
    fs::write(&path, ONE).unwrap();
    let limiter = limiter(ONE);
    tokio::spawn(reload::follow(path.clone(), Arc::clone(&limiter)));
    let nine = ONE.replace("limit = 1\n", "limit = 9\n");
    for (text, limit) in [("limit = 0", 1), (nine.as_str(), 9), ("", 9)] {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fs::write(&path, text).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (_, free) = limiter
            .policies()
            .tiers()
            .next()
            .map(|(name, policy)| (name.to_owned(), policy.clone()))
            .unwrap();
        assert_eq!(free.algorithm().limit(), limit, "{text}");
    }
    fs::remove_file(&path).unwrap();
}

#[test]
fn only_plain_http_urls_are_upstreams() {
    for url in ["https://localhost", "localhost:80", "/path", "http://", "http://a/?b", ""] {
        assert!(forward::base(url).is_err(), "{url}");
    }
    assert!(forward::base("http://localhost:80/path").is_ok());
}
