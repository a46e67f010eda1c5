//! Each key of a gRPC service has 10 calls per second; the refused get `RESOURCE_EXHAUSTED`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tollgate::http::{HeaderKey, WithoutKey};
use tollgate::tower::{RateLimitLayer, grpc};
use tollgate::{Limiter, Quota, TokenBucket};
use tonic::transport::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Arc::new(Limiter::new(TokenBucket::<u64>::new(Quota::per_second(10)?)?));
    let key = HeaderKey::new("x-api-key".parse()?);
    let limit = RateLimitLayer::responding(limiter, key, WithoutKey::Refuse, grpc);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    Server::builder().layer(limit).add_service(health).serve(address).await?;
    Ok(())
}
