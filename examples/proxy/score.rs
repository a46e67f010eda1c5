//! How the clients of the demo fared, and whether that is what their limits allow.

use std::time::Duration;

use hyper::header::RETRY_AFTER;
use hyper::{Response, StatusCode};
use tokio::time::Instant;

use crate::policy::Policy;

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
    pub(crate) fn faults(&self, policy: &Policy) -> Vec<String> {
        let Self { name, tally, elapsed } = self;
        let mut faults = Vec::new();
        let most = policy.client.most_admitted_in(*elapsed);
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
