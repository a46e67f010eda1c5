//! Waits that are given up: places go back exactly, and none is given twice.

#![cfg(tollgate_loom)]

use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::thread;
use tollgate::{Client, Clock, Limiter, Nanos, RetryAfter, WaitError};
use tollgate_loom_tests::limiters::{Bucket, NOW, policies};
use tollgate_loom_tests::{StandIn, explore};

struct Still;

impl Clock for Still {
    fn now(&self) -> Nanos {
        NOW
    }
}

type Queue = Limiter<u8, Bucket, Still, StandIn<u8, Client<Bucket>>>;

/// A bucket of one unit per second, empty.
fn queue() -> &'static Queue {
    // For futures of any thread; a model has few executions.
    let queue: &Queue =
        Box::leak(Box::new(Limiter::with_registry(policies(1), Still, StandIn::default())));
    assert!(queue.is_allowed(&7));
    queue
}

/// A wait that has begun; dropped, it is given up.
type Begun = Pin<Box<dyn Future<Output = Result<(), WaitError>> + Send>>;

/// Begins a wait, if its turn comes within so many seconds.
fn stand(queue: &'static Queue, seconds: u64) -> Option<Begun> {
    let wait = queue.until_allowed(&7, 1).within(Duration::from_secs(seconds));
    let mut wait = wait.into_future();
    match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Some(wait),
        Poll::Ready(Err(WaitError::TooLate { .. })) => None,
        Poll::Ready(other) => panic!("the bucket is empty, and holds one: {other:?}"),
    }
}

/// A model in which tokio's timers can be made. None of them fires.
fn model(name: &str, body: impl Fn() + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    explore(name, body);
}

#[test]
fn two_who_wait_leave_at_once() {
    model("two_who_wait_leave_at_once", || {
        let queue = queue();
        let [first, second] = [1, 2].map(|seconds| stand(queue, seconds).unwrap());
        let other = thread::spawn(move || drop(first));
        drop(second);
        other.join().unwrap();
        let second = RetryAfter::After(Duration::from_secs(1));
        assert_eq!(queue.peek(&7).retry_after(), second, "as if nobody had waited");
    });
}

#[test]
fn a_place_that_is_left_is_taken_once() {
    model("a_place_that_is_left_is_taken_once", || {
        let queue = queue();
        let [first, _second] = [1, 2].map(|seconds| stand(queue, seconds).unwrap());
        let other = thread::spawn(move || {
            drop(first);
            stand(queue, 1)
        });
        let mine = stand(queue, 1);
        let theirs = other.join().unwrap();
        let later = stand(queue, 1);
        let taken: Vec<Begun> = [mine, theirs, later].into_iter().flatten().collect();
        assert_eq!(taken.len(), 1, "one place, taken once");
    });
}
