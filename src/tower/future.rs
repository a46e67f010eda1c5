//! The response to come: a refusal, a turn to wait for, the inner service's work.

use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use ::http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::admission::Admission;
use super::admit::Admit;
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
        // None if the response brings nothing.
        admission: Option<Box<Admission<L, X, B>>>,
    }
}

pin_project! {
    #[project = StepNow]
    enum Step<S, Q, F, B> {
        // In boxes, because few requests need their room.
        Refused { response: Option<Box<Response<B>>> },
        Delayed { turn: Pin<Box<Turn<S, Q>>> },
        Called { #[pin] response: F },
    }
}

pin_project! {
    /// A request that is called when its time comes.
    struct Turn<S, Q> {
        #[pin]
        sleep: Sleep,
        ready: S,
        request: Option<Request<Q>>,
    }
}

impl<S, L, X, Q, B> ResponseFuture<S, L, X, Q, B>
where
    S: Service<Request<Q>, Response = Response<B>>,
    L: Admit<X::Key>,
    X: KeyOf,
{
    pub(super) fn refused(response: Response<B>) -> Self {
        let step = Step::Refused { response: Some(Box::new(response)) };
        Self { step, admission: None }
    }

    pub(super) fn called(response: S::Future, admission: Option<Box<Admission<L, X, B>>>) -> Self {
        Self { step: Step::Called { response }, admission }
    }

    pub(super) fn delayed(
        delay: Duration,
        ready: S,
        request: Request<Q>,
        admission: Option<Box<Admission<L, X, B>>>,
    ) -> Self {
        let turn = Turn { sleep: sleep(delay), ready, request: Some(request) };
        Self { step: Step::Delayed { turn: Box::pin(turn) }, admission }
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
                    return Poll::Ready(Ok(*response.take().expect(READY)));
                }
                StepNow::Delayed { turn } => {
                    let turn = turn.as_mut().project();
                    ready!(turn.sleep.poll(context));
                    turn.ready.call(turn.request.take().expect(READY))
                }
                StepNow::Called { response } => {
                    let mut polled = response.poll(context);
                    if let Poll::Ready(Ok(response)) = &mut polled
                        && let Some(mut admission) = this.admission.take()
                    {
                        admission.conclude(response);
                    }
                    return polled;
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
