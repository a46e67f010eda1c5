//! One request through the proxy: who asks, may it pass, and what did the upstream answer.

use std::net::IpAddr;

use arc_swap::ArcSwap;
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HOST;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tollgate::{Limiter, Policies};

use crate::headers::RateLimitFields;
use crate::hop;
use crate::keys::{client_key, client_tier};
use crate::upstream::Upstream;

/// A body on its way from the upstream, or one of ours.
type Body = Either<Incoming, Full<Bytes>>;

/// The proxy between its two sides.
pub(crate) struct Gateway {
    limiter: Limiter<String>,
    fields: ArcSwap<RateLimitFields>,
    upstream: Upstream,
    http: Client<HttpConnector, Incoming>,
}

impl Gateway {
    pub(crate) fn new(policies: Policies, upstream: Upstream) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            fields: ArcSwap::from_pointee(RateLimitFields::new(&policies)),
            limiter: Limiter::<String>::with_policies(policies).build(),
            upstream,
            http: Client::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// The policies in force.
    pub(crate) fn policies(&self) -> Policies {
        self.limiter.policies()
    }

    /// Puts other policies in force.
    pub(crate) fn reload(&self, policies: Policies) {
        self.fields.store(RateLimitFields::new(&policies).into());
        self.limiter.reload(policies);
    }

    /// Answers a request of `peer`.
    pub(crate) async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Response<Body> {
        let key = match client_key(request.headers(), peer) {
            Ok(key) => key,
            Err(error) => return message(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        let fields = self.fields.load_full();
        let tier = fields.tier(client_tier(request.headers()));
        let decision = self.limiter.client(key.as_str()).tier(tier).check(1);
        let mut response = if decision.is_admitted() {
            if !decision.delay().is_zero() {
                tokio::time::sleep(decision.delay()).await;
            }
            self.forward(request).await
        } else {
            message(StatusCode::TOO_MANY_REQUESTS, format!("{decision}\n"))
        };
        fields.add(tier, &decision, response.headers_mut());
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
