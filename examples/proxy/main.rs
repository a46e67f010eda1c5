//! A reverse proxy that holds each client to its quota, told by a file that it follows.
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
mod policies;
mod score;
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
use tollgate::Policies;

use crate::gateway::Gateway;
use crate::policies::PolicyFile;
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

    /// The policy file, read again when it changes and on SIGHUP; 50 requests per second for each
    /// client if not given.
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
    let mut file = args.policy.clone().map(PolicyFile::new);
    let policies = match &mut file {
        Some(file) => file.load(),
        None => policies::built_in(),
    };
    let policies = match policies {
        Ok(policies) => policies,
        Err(error) => return failure(2, &format_args!("no policies\n{error}")),
    };
    let outcome =
        if args.demo { demo::run(policies).await } else { run(args, policies, file).await };
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
async fn run(
    args: Args,
    policies: Policies,
    file: Option<PolicyFile>,
) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    let upstream = match args.upstream {
        Some(upstream) => upstream,
        None => spawn_upstream().await?,
    };
    print!("http://{}\n{policies}", listener.local_addr()?);
    let gateway = Arc::new(Gateway::new(policies, upstream));
    if let Some(file) = file {
        let gateway = Arc::clone(&gateway);
        tokio::spawn(async move { file.follow(&gateway).await });
    }
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(listener, gateway, stop).await;
    Ok(())
}

async fn serve(listener: TcpListener, gateway: Arc<Gateway>, stop: impl Future<Output = ()>) {
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
