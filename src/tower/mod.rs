//! A [tower] layer that holds each client of a service to its limit: for axum, hyper and tonic.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//!
//! use axum::{Router, extract::ConnectInfo, routing::get};
//! use tollgate::http::{PeerAddress, WithoutKey};
//! use tollgate::tower::RateLimitLayer;
//! use tollgate::{Limiter, Quota, TokenBucket};
//!
//! let limiter = Limiter::new(TokenBucket::<u64>::new(Quota::per_second(10)?)?);
//! let key = PeerAddress::from_extension(|ConnectInfo(peer): &ConnectInfo<SocketAddr>| Some(peer.ip()));
//! let limit = RateLimitLayer::new(Arc::new(limiter), key, WithoutKey::Refuse);
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! A refused request does not reach the service. An admitted one is charged before it is handed on,
//! and may be [settled](RateLimitLayer::settle) when its response has come; one that waits in a leaky
//! bucket's queue is handed on when its turn comes. If the service fails, or the client goes away
//! before there is a response, the charge stays.
//!
//! A request costs least where there is nothing to tell and nothing to settle: with fields that are told
//! only [to those who are near their limit](crate::http::RateLimitFields::when_left_percent), a client
//! far from it is charged without its standing being made out. A layer around a whole axum `Router`
//! puts one more box around each request than one around a handler or a service.
//!
//! What is behind the layer is an [`Admit`]: a [`Limiter`](crate::Limiter), a
//! [`TieredLimiter`](crate::TieredLimiter), or what you make of several of them. All clones of the layer,
//! and all services that it wraps, share it.
//!
//! [tower]: https://docs.rs/tower

mod admission;
mod admit;
mod future;
mod layer;
mod refusal;
mod service;

pub use self::admit::Admit;
pub use self::future::ResponseFuture;
pub use self::layer::RateLimitLayer;
pub use self::refusal::{Refusal, empty, grpc, plain_text};
pub use self::service::RateLimit;
