//! The demo: three clients, three seconds of requests through sockets, one table.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, Uri, header::RETRY_AFTER};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::forward::client;
use crate::{API_KEY, Clients, built_in_upstream, local, serve};

const LENGTH: Duration = Duration::from_secs(3);

/// Each client: its name, its connections, and its pause after each request, in milliseconds.
const CLIENTS: [(&str, u64, u64); 3] =
    [("polite", 1, 80), ("bursting", 40, 1_000), ("flooding", 4, 0)];

/// Runs the demo. It fails if a client got more than its limit, or an answer beside 200 and 429.
pub(crate) async fn run(limiter: Arc<Clients>) -> Result<(), Box<dyn Error>> {
    let policies = limiter.policies();
    let (_, policy) = policies.tiers().next().ok_or("no tier")?;
    let tollgate::Allowance::Quota(quota) = policy.algorithm().allowance() else { return Ok(()) };
    let (listener, url) = local().await?;
    let upstream = built_in_upstream().await?;
    tokio::spawn(async { serve(listener, limiter, upstream, std::future::pending).await.is_ok() });
    println!("Each client may have: {}. In {LENGTH:?} they got:\n", policy.algorithm());
    println!("client      sent    200    429  first Retry-After  at most");
    let start = Instant::now();
    let mut running: [JoinSet<_>; 3] = CLIENTS.map(|(name, connections, pause)| {
        (0..connections).map(|_| drive(name, url.clone(), pause)).collect()
    });
    for ((name, ..), connections) in CLIENTS.iter().zip(&mut running) {
        let (mut admitted, mut refused, mut first_retry) = (0, 0, None);
        while let Some(connection) = connections.join_next().await {
            let (more, no, retry) = connection?.map_err(|error| format!("{name}: {error}"))?;
            (admitted, refused) = (admitted + more, refused + no);
            first_retry = first_retry.or(retry);
        }
        let accrued = quota.rate().per_second() * start.elapsed().as_secs_f64();
        let (sent, most) = (admitted + refused, quota.burst() as f64 + accrued);
        let retry = first_retry.map_or("-".to_owned(), |seconds| format!("{seconds} s"));
        println!("{name:<8} {sent:>7} {admitted:>6} {refused:>6} {retry:>18} {most:>8.0}");
        if f64::from(admitted) > most {
            return Err(format!("{name} got more than its limit").into());
        }
    }
    Ok(())
}

/// How many requests were admitted and refused, and the first `Retry-After`.
type Fared = (u32, u32, Option<String>);

/// One connection of a client.
async fn drive(name: &str, url: Uri, pause: u64) -> Result<Fared, tower::BoxError> {
    let (http, end) = (client(), Instant::now() + LENGTH);
    let (mut admitted, mut refused, mut first_retry) = (0, 0, None);
    while Instant::now() < end {
        let request = Request::get(&url).header(API_KEY, name).body(Body::empty())?;
        let response = http.request(request).await?.map(Body::new);
        match response.status() {
            StatusCode::OK => admitted += 1,
            StatusCode::TOO_MANY_REQUESTS => refused += 1,
            other => return Err(format!("answered {other}").into()),
        }
        let retry = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        first_retry = first_retry.or(retry.map(str::to_owned));
        axum::body::to_bytes(response.into_body(), usize::MAX).await?;
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }
    Ok((admitted, refused, first_retry))
}
