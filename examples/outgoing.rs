//! A client that paces itself: 5 requests per second to each host, whoever asks, in order.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate::{LeakyBucket, Limiter, Quota};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pace = LeakyBucket::<u64>::new(Quota::per_second(5)?, 0)?;
    let limiter = Arc::new(Limiter::<&str, _>::new(pace));
    let start = Instant::now();
    let mut requests = tokio::task::JoinSet::new();
    for n in 1..=8 {
        let limiter = limiter.clone();
        requests.spawn(async move {
            let host = if n % 4 == 0 { "b.example" } else { "a.example" };
            let sent = limiter.until_allowed(&host, 1).within(Duration::from_secs(1)).await;
            let outcome =
                sent.map_or_else(|error| format!("not sent: {error}"), |()| "sent".into());
            println!("{:>4} ms: {n} to {host} {outcome}", start.elapsed().as_millis());
        });
    }
    requests.join_all().await;
    Ok(())
}
