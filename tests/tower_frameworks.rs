//! The layer in axum, hyper and tonic, over real connections.
#![cfg(feature = "tower")]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, MatchedPath};
use axum::routing::get;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, duplex};
use tokio::net::{TcpListener, TcpStream};
use tollgate::http::{HeaderKey, KeyOf, PeerAddress, WithoutKey};
use tollgate::tower::{RateLimitLayer, grpc, plain_text};
use tollgate::{Limiter, ManualClock, Quota, TokenBucket};
use tonic_health::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response};
use tower::{Layer, ServiceExt, service_fn};

type Key<X> = <X as KeyOf>::Key;
type Buckets<K> = Limiter<K, TokenBucket<u64>, ManualClock>;

/// Two a minute for each client.
fn limiter<X: KeyOf>(_: &X) -> Arc<Buckets<Key<X>>> {
    let bucket = TokenBucket::<u64>::new(Quota::per_minute(2).unwrap()).unwrap();
    Arc::new(Limiter::<Key<X>, _>::builder(bucket).clock(ManualClock::new()).build())
}

/// The answers to these requests over one connection.
async fn answers<T>(connection: T, paths: &[&str]) -> Vec<(StatusCode, HeaderMap, String)>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut client, connection) = http1::handshake(TokioIo::new(connection)).await.unwrap();
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for path in paths {
        let request = Request::get(*path).header("host", "h").body(Empty::<Bytes>::new()).unwrap();
        client.ready().await.unwrap();
        let (head, body) = client.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        answers.push((head.status, head.headers, String::from_utf8(body.to_vec()).unwrap()));
    }
    answers
}

#[tokio::test]
async fn axum_over_a_socket() {
    let peer = |ConnectInfo(peer): &ConnectInfo<SocketAddr>| Some(peer.ip());
    let route =
        |request: &Parts| Some(request.extensions.get::<MatchedPath>()?.as_str().to_owned());
    let key = (PeerAddress::from_extension(peer), route);
    let limit = RateLimitLayer::responding(limiter(&key), key, WithoutKey::Refuse, plain_text);
    let app = Router::new()
        .route("/users/{id}", get(|| async { "user" }))
        .route("/", get(|| async { "root" }))
        .route_layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>());
    tokio::spawn(async move { serve.await.unwrap() });

    let connection = TcpStream::connect(address).await.unwrap();
    let answers = answers(connection, &["/users/1", "/users/2", "/users/3", "/", "/none"]).await;
    let statuses: Vec<_> = answers.iter().map(|(status, ..)| status.as_u16()).collect();
    assert_eq!(statuses, [200, 200, 429, 200, 404]);
    assert_eq!(answers[1].1["ratelimit"], "\"client\";r=0;t=60");
    assert_eq!(answers[2].1["retry-after"], "30");
    assert_eq!(answers[2].2, "refused by client limit, retry after 30s\n");
    assert_eq!(answers[3].2, "root");
}

#[tokio::test]
async fn hyper_over_memory() {
    let key = PeerAddress::new();
    let limit = RateLimitLayer::new(limiter(&key), key, WithoutKey::Refuse);
    let service = limit.layer(service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(request.uri().path().to_owned())))
    }));
    let mut statuses = Vec::new();
    for peer in ["192.0.2.7:1", "192.0.2.7:2", "192.0.2.8:1"] {
        let (client, server) = duplex(1_024);
        let peer: SocketAddr = peer.parse().unwrap();
        let service = service.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(server), TowerToHyperService::new(service));
        tokio::spawn(connection);
        for (status, _, body) in answers(client, &["/a", "/b"]).await {
            assert_eq!(body.is_empty(), status == 429);
            statuses.push(status.as_u16());
        }
    }
    assert_eq!(statuses, [200, 200, 429, 429, 200, 200]);
}

#[tokio::test]
async fn tonic_over_memory() {
    let key = HeaderKey::new("x-api-key".parse().unwrap());
    let limit = RateLimitLayer::responding(limiter(&key), key, WithoutKey::Refuse, grpc);
    let (client, server) = duplex(4_096);
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("", ServingStatus::Serving).await;
    let server = tonic::transport::Server::builder()
        .layer(limit)
        .add_service(health)
        .serve_with_incoming(tokio_stream::once(Ok::<_, std::io::Error>(server)));
    tokio::spawn(server);
    let mut client = Some(client);
    let channel = tonic::transport::Endpoint::from_static("http://memory")
        .connect_with_connector(service_fn(move |_: http::Uri| {
            let client = client.take().map(TokioIo::new).ok_or(std::io::ErrorKind::NotFound);
            async { client.map_err(std::io::Error::from) }
        }))
        .await
        .unwrap();
    let client = HealthClient::new(channel);
    let call = async |key: Option<&'static str>| {
        let mut request = tonic::Request::new(HealthCheckRequest::default());
        if let Some(key) = key {
            request.metadata_mut().insert("x-api-key", key.parse().unwrap());
        }
        client.clone().check(request).await
    };
    for _ in 0..2 {
        let response = call(Some("alice")).await.unwrap();
        assert_eq!(response.get_ref().status(), health_check_response::ServingStatus::Serving);
        assert!(response.metadata().contains_key("ratelimit"));
    }
    let refused = call(Some("alice")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.message(), "refused by client limit, retry after 30s");
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "30000");
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "30");
    assert!(call(Some("bob")).await.is_ok());
    let nobody = call(None).await.unwrap_err();
    assert_eq!(nobody.code(), tonic::Code::InvalidArgument);
}
