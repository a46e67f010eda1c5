//! Billing by tokens: each request reserves an estimate and settles with the true count.
//!
//! A model's gateway limits each client to requests per minute, tokens per minute and requests at
//! one time, decided as one. What a request will cost is only known when it has been answered.
//! Time is simulated: `cargo run --example tokens` takes no minute.

use std::error::Error;
use std::time::Duration;

use tollgate::{
    Clock, Counts, InFlight, Limit, Limiter, ManualClock, Quota, RetryAfter, Stack, TokenBucket,
};

const TOKENS_PER_MINUTE: u64 = 90_000;
const MINUTES: u64 = 60;

/// What a request asks for, and what it turns out to use: from half the estimate to one and a half.
fn request(number: u64) -> (u64, u64) {
    let estimate = 500 + number * 7_919 % 2_000;
    let percent = 50 + number * 104_729 % 101;
    (estimate, estimate * percent / 100)
}

fn main() -> Result<(), Box<dyn Error>> {
    let tokens = Quota::per_minute(TOKENS_PER_MINUTE)?.with_burst(10_000)?;
    let requests = TokenBucket::<u64>::new(Quota::per_minute(120)?)?;
    let stack = Stack::new([
        Limit::new("parallel", InFlight::new(4)?),
        Limit::new("requests", requests).counts(Counts::Requests),
        Limit::new("tokens", TokenBucket::<u64>::new(tokens)?),
    ])?;
    let clock = ManualClock::new();
    let limiter = Limiter::<String, _>::builder(stack).clock(clock.clone()).build::<String>();

    let (mut asked, mut used, mut refused) = (0, 0, 0);
    let mut in_flight = Vec::new();
    let end = clock.now().saturating_add(Duration::from_secs(60 * MINUTES));
    while clock.now() < end {
        let (estimate, actual) = request(asked);
        asked += 1;
        match limiter.client("alice").acquire_explained(estimate) {
            (Some(permit), _) => in_flight.push((permit, actual)),
            (None, explained) => {
                refused += 1;
                if refused <= 3 {
                    println!("at {:?}: {explained}", clock.now());
                }
                if let RetryAfter::After(wait) = explained.decision().retry_after() {
                    clock.advance(wait);
                }
            }
        }
        // The oldest request is answered: only now is it known what it used.
        if in_flight.len() == 4 || refused % 2 == 1 {
            clock.advance(Duration::from_millis(300));
            if !in_flight.is_empty() {
                let (permit, actual) = in_flight.remove(0);
                permit.settle(actual);
                used += actual;
            }
        }
    }

    let bound = 10_000 + TOKENS_PER_MINUTE * MINUTES;
    println!(
        "{asked} asked, {refused} refused; {used} tokens used, at most {bound} in {MINUTES} minutes"
    );
    // What is beyond an estimate is debt, paid off before more is granted: so the sum holds, but for
    // what requests still in flight at the end use beyond their estimates.
    assert!(used <= bound + 4 * 2_500 / 2, "the long-run sum holds");
    assert!(used > bound * 9 / 10, "and little is left unused");
    Ok(())
}
