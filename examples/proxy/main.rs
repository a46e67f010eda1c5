//! A reverse proxy that holds each client to its quota, told by a file that it follows.
//!
//! ```text
//! cargo run --release --example proxy -- --demo
//! cargo run --release --example proxy -- --policy policy.toml --upstream http://127.0.0.1:9000
//! ```
//!
//! Clients are known by their `x-api-key`, else by their network; whoever has a key may name a tier
//! in `x-tier`. Both are taken at their word: put what verifies keys in front. It stops on Ctrl-C and
//! SIGTERM, after the requests under way. Exit codes: 0 when stopped, 1 when it cannot run or the
//! demo failed, 2 for bad input.

mod demo;
mod forward;
mod reload;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, Uri, request::Parts};
use axum::{Router, ServiceExt, routing::get, serve::ListenerExt};
use clap::Parser;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tollgate::http::{
    EitherKey, HeaderKey, KeyOf, Network, PeerAddress, RateLimitFields, Text, WithoutKey,
};
use tollgate::tower::{RateLimitLayer, plain_text};
use tollgate::{AnyAlgorithm, CoarseClock, Limiter, Policies};
use tower::{Layer, service_fn};

use crate::forward::{base, client, forward};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// How long open requests may take to finish after the stop.
const GRACE: Duration = Duration::from_secs(10);

/// A client's API key, or else its network.
type Key = EitherKey<Text, Network>;

/// All clients, by a clock that is fine enough for limits over seconds.
type Clients = Limiter<Key, AnyAlgorithm, CoarseClock>;

/// Holds each client, known by its x-api-key or else by its network, to a quota.
#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Where to forward to, as http://host:port; a small built-in server if not given.
    #[arg(long, value_name = "URL", value_parser = base)]
    upstream: Option<Uri>,

    /// The policy file, read again when it changes and on SIGHUP; 50 requests per second for each
    /// client if not given.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Where to tell Prometheus, as http://address/metrics, what was decided.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,

    /// What to log, as JSON lines on stderr: error, warn, info, or debug, which is every request.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: tracing::level_filters::LevelFilter,

    /// Drive three clients through the proxy for three seconds and tell how they fared.
    #[arg(long, conflicts_with_all = ["listen", "upstream", "policy"])]
    demo: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt().json().with_max_level(args.log).with_writer(std::io::stderr).init();
    let policies = match &args.policy {
        Some(file) => Policies::from_file(file),
        None => Policies::from_toml("default.toml", include_str!("default.toml")),
    };
    let limiter = match policies {
        Ok(policies) => {
            let limiter = Limiter::<Key>::with_policies(policies).clock(CoarseClock::new());
            Arc::new(limiter.metrics(tollgate::metrics::Metrics::new("proxy")).build())
        }
        Err(error) => return failure(2, &error),
    };
    let ended = if args.demo { demo::run(limiter).await } else { run(args, limiter).await };
    ended.map_or_else(|error| failure(1, &*error), |()| ExitCode::SUCCESS)
}

fn failure(code: u8, error: &dyn Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(code)
}

async fn run(args: Args, limiter: Arc<Clients>) -> Result<(), Box<dyn Error>> {
    let listener = bind(args.listen).await?;
    let upstream = match args.upstream {
        Some(upstream) => upstream,
        None => built_in_upstream().await?,
    };
    print!("http://{}\n{}", listener.local_addr()?, limiter.policies());
    tracing::info!(listen = %listener.local_addr()?, %upstream, "serving");
    if let Some(address) = args.metrics {
        let counts = PrometheusBuilder::new().install_recorder()?;
        tokio::spawn(dashboard(bind(address).await?, counts, Arc::clone(&limiter)));
    }
    if let Some(file) = args.policy {
        tokio::spawn(reload::follow(file, Arc::clone(&limiter)));
    }
    serve(listener, limiter, upstream, stopped).await
}

async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Serves the counts, added up when they are asked for.
async fn dashboard(listener: TcpListener, counts: PrometheusHandle, limiter: Arc<Clients>) {
    let render = async move || {
        limiter.publish_metrics();
        counts.run_upkeep();
        counts.render()
    };
    let app = Router::new().route("/metrics", get(render));
    drop(axum::serve(listener, app).await);
}

/// Serves until `stop`, and then for as long as it takes to answer the requests under way, at most
/// [`GRACE`].
async fn serve<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    limiter: Arc<Clients>,
    upstream: Uri,
    stop: fn() -> F,
) -> Result<(), Box<dyn Error>> {
    // Without it a small answer may wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let upstream = Arc::new((client(), upstream));
    let proxy = limit(limiter).layer(service_fn(move |request| forward(upstream.clone(), request)));
    let proxy = proxy.into_make_service_with_connect_info::<SocketAddr>();
    let late = async {
        stop().await;
        tracing::info!("stopping");
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = axum::serve(listener, proxy).with_graceful_shutdown(stop()) => served?,
        () = late => tracing::warn!("gave up on requests that took longer than {GRACE:?}"),
    }
    Ok(())
}

/// What refuses. Only a digest of each API key is kept; a client that has used half of its limit is told
/// so, the others need not know.
fn limit(limiter: Arc<Clients>) -> RateLimitLayer<Clients, impl KeyOf<Key = Key>, Body> {
    let peer =
        PeerAddress::from_extension(|ConnectInfo(peer): &ConnectInfo<SocketAddr>| Some(peer.ip()));
    let key = HeaderKey::new(API_KEY).longest(0).or(peer);
    RateLimitLayer::responding(limiter, key, WithoutKey::Refuse, plain_text)
        .fields(RateLimitFields::new().when_left_percent(50))
        .tier(tier)
}

/// Whoever has a key may name a tier.
fn tier<'a>(request: &'a Parts, key: &Key) -> Option<&'a str> {
    let EitherKey::First(_) = key else { return None };
    request.headers.get("x-tier")?.to_str().ok()
}

/// Starts a server on a free port that tells what it was asked for.
async fn built_in_upstream() -> Result<Uri, Box<dyn Error>> {
    let (listener, url) = local().await?;
    let app = Router::new().fallback(async |uri: Uri| format!("upstream got {uri}\n"));
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok(url)
}

/// A free port of this machine.
async fn local() -> Result<(TcpListener, Uri), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?).parse()?;
    Ok((listener, url))
}

/// Waits for Ctrl-C, or SIGTERM.
async fn stopped() {
    #[cfg(unix)]
    if let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        tokio::select! { _ = term.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}
