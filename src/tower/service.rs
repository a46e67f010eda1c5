//! The service: asks before the inner service is called.

use alloc::sync::Arc;
use core::fmt;
use core::mem;
use core::task::{Context, Poll};

use ::http::{Request, Response};
use tower_service::Service;

use super::admit::Admit;
use super::future::ResponseFuture;
use super::layer::{Gate, Verdict};
use crate::http::KeyOf;

/// A service whose clients are held to their limits, from a [`RateLimitLayer`](super::RateLimitLayer).
///
/// It is ready when the inner service is: whose request is the next one is not known before it is
/// there, so no limit holds it back.
pub struct RateLimit<S, L, X: KeyOf, B> {
    inner: S,
    gate: Arc<Gate<L, X, B>>,
}

impl<S, L, X: KeyOf, B> RateLimit<S, L, X, B> {
    pub(super) fn new(inner: S, gate: Arc<Gate<L, X, B>>) -> Self {
        Self { inner, gate }
    }

    /// The service within.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, L, X, Q, B> Service<Request<Q>> for RateLimit<S, L, X, B>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone,
    L: Admit<X::Key>,
    X: KeyOf,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = ResponseFuture<S, L, X, Q, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let (admission, delay) = match self.gate.ask(&parts) {
            Verdict::Refused(response) => return ResponseFuture::refused(response),
            Verdict::Admitted(admission, delay) => (admission, delay),
        };
        if delay.is_zero() {
            let response = self.inner.call(Request::from_parts(parts, body));
            return ResponseFuture::called(response, admission);
        }
        // The one that is ready waits; another gets ready in its place.
        let next = self.inner.clone();
        let ready = mem::replace(&mut self.inner, next);
        ResponseFuture::delayed(delay, ready, Request::from_parts(parts, body), admission)
    }
}

impl<S: Clone, L, X: KeyOf, B> Clone for RateLimit<S, L, X, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), gate: self.gate.clone() }
    }
}

impl<S: fmt::Debug, L: fmt::Debug, X: KeyOf + fmt::Debug, B> fmt::Debug for RateLimit<S, L, X, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).field("gate", &self.gate).finish()
    }
}
