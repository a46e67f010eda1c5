//! Each key of a hyper service has 10 requests per second: `curl -i -H 'x-api-key: a' 127.0.0.1:8080`.

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tollgate::http::{HeaderKey, WithoutKey};
use tollgate::tower::{RateLimitLayer, plain_text};
use tollgate::{Limiter, Quota, TokenBucket};
use tower::{Layer, service_fn};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Arc::new(Limiter::new(TokenBucket::<u64>::new(Quota::per_second(10)?)?));
    let key = HeaderKey::new("x-api-key".parse()?);
    let limit = RateLimitLayer::responding(limiter, key, WithoutKey::Refuse, plain_text);
    let service = limit.layer(service_fn(async |_: Request<Incoming>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(String::from("hello\n"))))
    }));
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 8080)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
