//! One request through the proxy: who asks, may it pass, and what did the upstream answer.

use std::net::IpAddr;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HOST;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tollgate::{AnyAlgorithm, Limiter};

use crate::headers::RateLimitFields;
use crate::hop;
use crate::keys::client_key;
use crate::policy::Policy;
use crate::upstream::Upstream;

/// A body on its way from the upstream, or one of ours.
type Body = Either<Incoming, Full<Bytes>>;

/// The proxy between its two sides.
pub(crate) struct Gateway {
    limiter: Limiter<String, AnyAlgorithm>,
    fields: RateLimitFields,
    upstream: Upstream,
    http: Client<HttpConnector, Incoming>,
}

impl Gateway {
    pub(crate) fn new(policy: &Policy, upstream: Upstream) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            limiter: policy.limiter(),
            fields: RateLimitFields::new(policy),
            upstream,
            http: Client::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// Answers a request of `peer`.
    pub(crate) async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        let key = match client_key(request.headers(), peer) {
            Ok(key) => key,
            Err(error) => return message(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        let decision = self.limiter.check(key.as_str());
        let mut response = if decision.is_admitted() {
            if !decision.delay().is_zero() {
                tokio::time::sleep(decision.delay()).await;
            }
            self.forward(request).await
        } else {
            message(StatusCode::TOO_MANY_REQUESTS, format!("{decision}\n"))
        };
        self.fields.add(&decision, response.headers_mut());
        response
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Response<Body> {
        let Some(uri) = self.upstream.uri_of(request.uri()) else {
            let error = format!("{} has no path: expected one to forward\n", request.uri());
            return message(StatusCode::BAD_REQUEST, error);
        };
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        // The client puts the upstream's own name in its place.
        request.headers_mut().remove(HOST);
        hop::strip(request.headers_mut());
        match self.http.request(request).await {
            Ok(mut response) => {
                hop::strip(response.headers_mut());
                response.map(Either::Left)
            }
            Err(error) => message(StatusCode::BAD_GATEWAY, format!("no upstream: {error}\n")),
        }
    }
}

fn message(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Either::Right(Full::from(text)));
    *response.status_mut() = status;
    response
}
