//! Refusals, and the responses that tell them.

use alloc::string::{String, ToString};
use core::fmt;
use core::fmt::Write;

use ::http::header::{CONTENT_TYPE, HeaderValue};
use ::http::{Response, StatusCode};

use crate::decision::RetryAfter;
use crate::explained::Explained;

/// Why a request is not served.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Refusal<'a> {
    /// The limiter refused.
    Limited(&'a Explained),
    /// The request has no client key, and such requests are refused.
    NoKey,
}

impl Refusal<'_> {
    /// 429 Too Many Requests, or 400 Bad Request where there is no key.
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::NoKey => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(explained) => explained.decision().fmt(f),
            Self::NoKey => f.write_str("refused: the request does not tell who its client is"),
        }
    }
}

/// The response without a body.
pub fn empty<B: Default>(refusal: &Refusal<'_>) -> Response<B> {
    respond(refusal.status(), B::default())
}

/// The response with the reason as a line of text.
pub fn plain_text<B: From<String>>(refusal: &Refusal<'_>) -> Response<B> {
    let mut response = respond(refusal.status(), format!("{refusal}\n").into());
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// The response as gRPC wants it: `RESOURCE_EXHAUSTED`, or `INVALID_ARGUMENT` where there is no key,
/// with the reason, and `grpc-retry-pushback-ms` for clients that retry on their own.
pub fn grpc<B: Default>(refusal: &Refusal<'_>) -> Response<B> {
    // A response of headers alone carries what would be its trailers.
    let mut response = respond(StatusCode::OK, B::default());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let (status, pushback) = match refusal {
        Refusal::Limited(explained) => ("8", pushback(explained.decision().retry_after())),
        Refusal::NoKey => ("3", None),
    };
    headers.insert("grpc-status", HeaderValue::from_static(status));
    if let Ok(message) = HeaderValue::try_from(percent_encoded(&refusal.to_string())) {
        headers.insert("grpc-message", message);
    }
    if let Some(millis) = pushback {
        headers.insert("grpc-retry-pushback-ms", millis);
    }
    response
}

/// Milliseconds, rounded up; -1 is "do not retry". None where no time can be told.
fn pushback(retry_after: RetryAfter) -> Option<HeaderValue> {
    Some(match retry_after {
        RetryAfter::Now => HeaderValue::from_static("0"),
        RetryAfter::After(wait) => {
            let millis = wait.as_nanos().div_ceil(1_000_000);
            // As many as the clients' integers hold.
            i32::try_from(millis).unwrap_or(i32::MAX).into()
        }
        RetryAfter::Never => HeaderValue::from_static("-1"),
        RetryAfter::OnRelease => return None,
    })
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'%' => encoded.push_str("%25"),
            b' '..=b'~' => encoded.push(byte.into()),
            // Writing to a string does not fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}

fn respond<B>(status: StatusCode, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
