//! Each client of an axum service has 10 requests per second: `curl -i http://127.0.0.1:8080/`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::{Router, extract::ConnectInfo, routing::get};
use tollgate::http::{PeerAddress, WithoutKey};
use tollgate::tower::{RateLimitLayer, plain_text};
use tollgate::{Limiter, Quota, TokenBucket};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::new(TokenBucket::<u64>::new(Quota::per_second(10)?)?);
    let peer =
        PeerAddress::from_extension(|ConnectInfo(peer): &ConnectInfo<SocketAddr>| Some(peer.ip()));
    let limit = RateLimitLayer::responding(Arc::new(limiter), peer, WithoutKey::Refuse, plain_text);
    let app = Router::new().route("/", get(|| async { "hello\n" })).layer(limit);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 8080)).await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
