//! The demo: three clients, three seconds of requests through sockets, one table.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate::{Allowance, AnyAlgorithm, Policies};

use crate::gateway::Gateway;
use crate::keys::API_KEY;
use crate::score::{Score, Tally, print_table};

const LENGTH: Duration = Duration::from_secs(3);

/// How a client behaves: on each connection it sends some requests in a row, then pauses.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    connections: usize,
    in_a_row: usize,
    pause: Duration,
}

/// One client at a quarter of its rate, one that bursts, and one that never pauses.
fn clients(algorithm: &AnyAlgorithm) -> [Client; 3] {
    let second = Duration::from_secs(1);
    let quarter = match algorithm.allowance() {
        Allowance::Quota(quota) => Duration::from_secs_f64(4.0 / quota.rate().per_second()),
        _ => second,
    };
    [
        Client { name: "polite", connections: 1, in_a_row: 1, pause: quarter },
        Client { name: "bursting", connections: 4, in_a_row: 10, pause: second },
        Client { name: "flooding", connections: 4, in_a_row: 1, pause: Duration::ZERO },
    ]
}

/// Runs the demo. It fails if a client got more than its limit, or an answer beside 200 and 429.
pub(crate) async fn run(policies: Policies) -> Result<(), Box<dyn Error>> {
    let default = policies.tiers().find(|(name, _)| *name == policies.default_tier());
    let algorithm = default.ok_or("no default tier")?.1.algorithm().clone();
    let listener = crate::free_port().await?;
    let proxy = listener.local_addr()?;
    let gateway = Gateway::new(policies, crate::spawn_upstream().await?);
    tokio::spawn(crate::serve(listener, Arc::new(gateway), std::future::pending()));

    let start = Instant::now();
    let running = clients(&algorithm).map(|client| tokio::spawn(drive(client, proxy, start)));
    let mut scores = Vec::new();
    for score in running {
        scores.push(score.await?);
    }
    println!("Each client may have: {algorithm}. In {LENGTH:?} they got:\n");
    print_table(&scores);
    match scores.iter().flat_map(|score| score.faults(&algorithm)).collect::<Vec<_>>() {
        faults if faults.is_empty() => Ok(()),
        faults => Err(faults.join("; ").into()),
    }
}

/// Drives all connections of a client until the demo ends.
async fn drive(client: Client, proxy: SocketAddr, start: Instant) -> Score {
    let mut connections = JoinSet::new();
    for _ in 0..client.connections {
        connections.spawn(converse(client, proxy, start + LENGTH));
    }
    let tallies = connections.join_all().await;
    Score { name: client.name, tally: tallies.into_iter().sum(), elapsed: start.elapsed() }
}

/// Drives one connection. If it fails, that is a wrong answer, and the end of it.
async fn converse(client: Client, proxy: SocketAddr, end: Instant) -> Tally {
    let mut tally = Tally::default();
    if talk(client, proxy, end, &mut tally).await.is_err() {
        tally.count_failure();
    }
    tally
}

async fn talk(
    client: Client,
    proxy: SocketAddr,
    end: Instant,
    tally: &mut Tally,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let (mut proxy, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    while Instant::now() < end {
        for _ in 0..client.in_a_row {
            proxy.ready().await?;
            let response = proxy.send_request(request(client.name)?).await?;
            tally.count(&response);
            response.into_body().collect().await?;
        }
        if !client.pause.is_zero() {
            sleep_until(end.min(Instant::now() + client.pause)).await;
        }
    }
    Ok(())
}

fn request(key: &str) -> Result<Request<Empty<Bytes>>, hyper::http::Error> {
    Request::get("/").header(HOST, "proxy").header(API_KEY, key).body(Empty::new())
}
