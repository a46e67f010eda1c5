//! How the clients of the demo fared, and whether that is what their limits allow.

use std::time::Duration;

use hyper::header::RETRY_AFTER;
use hyper::{Response, StatusCode};
use tokio::time::Instant;
use tollgate::{AlgorithmKind, Allowance, AnyAlgorithm};

/// The answers that one client got.
#[derive(Default)]
pub(crate) struct Tally {
    sent: u64,
    admitted: u64,
    refused: u64,
    other: u64,
    first_retry_after: Option<(Instant, String)>,
}

impl Tally {
    pub(crate) fn count<B>(&mut self, response: &Response<B>) {
        self.sent += 1;
        match response.status() {
            StatusCode::OK => self.admitted += 1,
            StatusCode::TOO_MANY_REQUESTS => self.refused += 1,
            _ => self.other += 1,
        }
        if let (None, Some(seconds)) =
            (&self.first_retry_after, response.headers().get(RETRY_AFTER))
        {
            let wait = format!("{} s", String::from_utf8_lossy(seconds.as_bytes()));
            self.first_retry_after = Some((Instant::now(), wait));
        }
    }

    /// Counts a request that got no answer.
    pub(crate) fn count_failure(&mut self) {
        self.sent += 1;
        self.other += 1;
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |a, b| Self {
            sent: a.sent + b.sent,
            admitted: a.admitted + b.admitted,
            refused: a.refused + b.refused,
            other: a.other + b.other,
            first_retry_after: [a.first_retry_after, b.first_retry_after]
                .into_iter()
                .flatten()
                .min(),
        })
    }
}

/// One row of the table.
pub(crate) struct Score {
    pub(crate) name: &'static str,
    pub(crate) tally: Tally,
    /// From before the client's first request until after its last answer.
    pub(crate) elapsed: Duration,
}

impl Score {
    /// What should not have happened.
    pub(crate) fn faults(&self, algorithm: &AnyAlgorithm) -> Vec<String> {
        let Self { name, tally, elapsed } = self;
        let mut faults = Vec::new();
        let most = most_admitted(algorithm, *elapsed);
        if u128::from(tally.admitted) > most {
            let admitted = tally.admitted;
            faults.push(format!("{name}: {admitted} admitted in {elapsed:?}: at most {most}"));
        }
        if tally.other > 0 {
            faults.push(format!("{name}: {} answers other than 200 and 429", tally.other));
        }
        faults
    }
}

/// The most requests that can be admitted within any time of length `elapsed`.
fn most_admitted(algorithm: &AnyAlgorithm, elapsed: Duration) -> u128 {
    let quota = match algorithm.allowance() {
        Allowance::Quota(quota) => quota,
        Allowance::Unlimited | Allowance::InFlight(_) => return u128::MAX,
        Allowance::Blocked => return 0,
    };
    let limit = u128::from(quota.limit());
    let period = quota.period().as_nanos();
    let accrued = limit * elapsed.as_nanos() / period;
    match algorithm.kind() {
        Some(AlgorithmKind::TokenBucket) => u128::from(quota.burst()) + accrued,
        Some(AlgorithmKind::LeakyBucket { queue }) => 1 + u128::from(queue) + accrued,
        // As many whole windows as fit, and a part of one at either end.
        _ => limit * (elapsed.as_nanos() / period + 2),
    }
}

/// Prints the table, one row for each client.
pub(crate) fn print_table(scores: &[Score]) {
    println!("client      sent    200     429  other  first Retry-After  admitted per second");
    for Score {
        name,
        tally: Tally { sent, admitted, refused, other, first_retry_after },
        elapsed,
    } in scores
    {
        let retry_after = first_retry_after.as_ref().map_or("-", |(_, wait)| wait);
        let rate = *admitted as f64 / elapsed.as_secs_f64();
        println!(
            "{name:<8} {sent:>7} {admitted:>6} {refused:>7} {other:>6} {retry_after:>18} {rate:>20.1}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Quota;

    fn most(kind: AlgorithmKind, allowance: impl Into<Allowance>, millis: u64) -> u128 {
        let algorithm = AnyAlgorithm::new(kind, allowance).unwrap();
        most_admitted(&algorithm, Duration::from_millis(millis))
    }

    #[test]
    fn each_algorithm_has_its_bound() {
        let quota = Quota::per_second(10).unwrap().with_burst(3).unwrap();
        let kind = AlgorithmKind::TokenBucket;
        assert_eq!((most(kind, quota, 99), most(kind, quota, 100)), (3, 4));
        let kind = AlgorithmKind::LeakyBucket { queue: 4 };
        assert_eq!((most(kind, quota, 99), most(kind, quota, 100)), (5, 6));
        let kind = AlgorithmKind::SlidingCounter;
        assert_eq!((most(kind, quota, 999), most(kind, quota, 1_000)), (20, 30));
        assert_eq!(most(kind, Allowance::Blocked, 1), 0);
        assert_eq!(most(kind, Allowance::Unlimited, 1), u128::MAX);
    }
}
