//! A reverse proxy that holds each client to its quota.
//!
//! ```text
//! cargo run --release --example proxy -- --demo
//! cargo run --release --example proxy -- --policy policy.toml --upstream http://127.0.0.1:9000
//! ```
//!
//! Exit codes: 0 when stopped, 1 when it cannot run or the demo failed, 2 for bad input.

mod demo;
mod gateway;
mod headers;
mod hop;
mod keys;
mod policy;
mod score;
mod section;
mod server;
mod upstream;

use std::error::Error;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::net::TcpListener;

use crate::gateway::Gateway;
use crate::policy::{Limit, Policy};
use crate::upstream::Upstream;

/// Holds each client, known by its x-api-key or else by its network, to a quota.
#[derive(Parser)]
struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: SocketAddr,

    /// Where to forward to, as http://host:port; a small built-in server if not given.
    #[arg(long, value_name = "URL")]
    upstream: Option<Upstream>,

    /// The policy file; 50 requests per second for each client if not given.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Drive three clients through the proxy for three seconds and tell how they fared.
    #[arg(long, conflicts_with_all = ["listen", "upstream"])]
    demo: bool,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:8080")
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let policy = match Policy::load(args.policy.as_deref()) {
        Ok(policy) => policy,
        Err(error) => return failure(2, &error),
    };
    let outcome = if args.demo { demo::run(&policy).await } else { run(args, &policy).await };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(1, &error),
    }
}

fn failure(code: u8, error: &dyn Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(code)
}

/// Serves until Ctrl-C.
async fn run(args: Args, policy: &Policy) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    let upstream = match args.upstream {
        Some(upstream) => upstream,
        None => spawn_upstream().await?,
    };
    let Limit { kind, quota, .. } = &policy.client;
    println!("http://{}: {kind}, {quota} for each client", listener.local_addr()?);
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(listener, Gateway::new(policy, upstream), stop).await;
    Ok(())
}

async fn serve(listener: TcpListener, gateway: Gateway, stop: impl Future<Output = ()>) {
    let gateway = Arc::new(gateway);
    let answer = move |request, peer| {
        let gateway = Arc::clone(&gateway);
        async move { gateway.answer(request, peer).await }
    };
    server::serve(listener, answer, stop).await;
}

/// Starts the built-in upstream on a free port.
async fn spawn_upstream() -> Result<Upstream, Box<dyn Error>> {
    let listener = free_port().await?;
    let upstream = Upstream::from(listener.local_addr()?);
    tokio::spawn(server::serve(listener, upstream::greet, std::future::pending()));
    Ok(upstream)
}

async fn free_port() -> Result<TcpListener, Box<dyn Error>> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?)
}
