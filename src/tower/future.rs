//! The response to come: a refusal, a turn to wait for, the inner service's work.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use ::http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::admit::{Admission, Admit};
use super::layer::Gate;
use crate::http::KeyOf;

pin_project! {
    /// The response of a [`RateLimit`](super::RateLimit).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, L, X, Q, B>
    where
        S: Service<Request<Q>>,
        L: Admit<X::Key>,
        X: KeyOf,
    {
        #[pin]
        step: Step<S, Q, S::Future, B>,
        // With the gate, once the request was admitted.
        admission: Option<Admission<L, X::Key>>,
        gate: Option<Arc<Gate<L, X, B>>>,
    }
}

pin_project! {
    #[project = StepNow]
    enum Step<S, Q, F, B> {
        Refused { response: Option<Response<B>> },
        Delayed { turn: Pin<Box<Sleep>>, ready: S, request: Option<Request<Q>> },
        Called { #[pin] response: F },
    }
}

impl<S, L, X, Q, B> ResponseFuture<S, L, X, Q, B>
where
    S: Service<Request<Q>, Response = Response<B>>,
    L: Admit<X::Key>,
    X: KeyOf,
{
    pub(super) fn refused(response: Response<B>) -> Self {
        let step = Step::Refused { response: Some(response) };
        Self { step, admission: None, gate: None }
    }

    pub(super) fn called(
        response: S::Future,
        gate: Arc<Gate<L, X, B>>,
        admission: Option<Admission<L, X::Key>>,
    ) -> Self {
        Self { step: Step::Called { response }, admission, gate: Some(gate) }
    }

    pub(super) fn delayed(
        delay: Duration,
        ready: S,
        request: Request<Q>,
        gate: Arc<Gate<L, X, B>>,
        admission: Option<Admission<L, X::Key>>,
    ) -> Self {
        let turn = Box::pin(sleep(delay));
        let step = Step::Delayed { turn, ready, request: Some(request) };
        Self { step, admission, gate: Some(gate) }
    }
}

impl<S, L, X, Q, B> Future for ResponseFuture<S, L, X, Q, B>
where
    S: Service<Request<Q>, Response = Response<B>>,
    L: Admit<X::Key>,
    X: KeyOf,
{
    type Output = Result<Response<B>, S::Error>;

    /// # Panics
    /// If it is polled after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const READY: &str = "polled after it was ready";
        let mut this = self.project();
        loop {
            let called = match this.step.as_mut().project() {
                StepNow::Refused { response } => {
                    return Poll::Ready(Ok(response.take().expect(READY)));
                }
                StepNow::Delayed { turn, ready, request } => {
                    ready!(turn.as_mut().poll(context));
                    ready.call(request.take().expect(READY))
                }
                StepNow::Called { response } => {
                    let mut response = ready!(response.poll(context))?;
                    if let (Some(gate), Some(admission)) = (&this.gate, this.admission.take()) {
                        gate.conclude(admission, &mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
            };
            this.step.set(Step::Called { response: called });
        }
    }
}

impl<S, L, X, Q, B> fmt::Debug for ResponseFuture<S, L, X, Q, B>
where
    S: Service<Request<Q>>,
    L: Admit<X::Key>,
    X: KeyOf,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("admission", &self.admission).finish_non_exhaustive()
    }
}
