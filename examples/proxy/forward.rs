//! An admitted request on its way to the upstream, and its answer on the way back.

use std::sync::Arc;

use axum::body::Body;
use axum::http::uri::{PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderName, Request, Response, StatusCode, Uri, Version, header};
use axum::response::IntoResponse;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;

/// The fields that concern one connection only and stop at a proxy (RFC 9110, 7.6.1), beside those
/// that `Connection` names.
const HOP_BY_HOP: &str = "connection,keep-alive,proxy-authenticate,proxy-authorization,\
                          proxy-connection,te,trailer,transfer-encoding,upgrade";

pub(crate) type Http = Client<HttpConnector, Body>;
type Answer = Result<Response<Body>, std::convert::Infallible>;

pub(crate) fn client() -> Http {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// The answer of the upstream, which is a client for it and its address.
pub(crate) async fn forward(to: Arc<(Http, Uri)>, mut request: Request<Body>) -> Answer {
    let (http, base) = &*to;
    let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let mut parts = base.clone().into_parts();
    parts.path_and_query = format!("{}{path}", base.path().trim_end_matches('/')).parse().ok();
    let Ok(uri) = Uri::from_parts(parts) else {
        return Ok((StatusCode::BAD_REQUEST, format!("not a path: {path}\n")).into_response());
    };
    tracing::debug!(method = %request.method(), %uri, "forwarded");
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    // The client puts the upstream's own name in its place.
    request.headers_mut().remove(header::HOST);
    strip(request.headers_mut());
    Ok(match http.request(request).await {
        Ok(mut response) => {
            strip(response.headers_mut());
            response.map(Body::new)
        }
        Err(error) => {
            tracing::warn!(%error, upstream = %base, "no answer");
            (StatusCode::BAD_GATEWAY, "no answer from the upstream\n").into_response()
        }
    })
}

fn strip(headers: &mut HeaderMap) {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|names| names.to_str().ok());
    let names = named.chain([HOP_BY_HOP]).flat_map(|names| names.split(','));
    let names: Vec<HeaderName> = names.filter_map(|name| name.trim().parse().ok()).collect();
    names.iter().for_each(|name| drop(headers.remove(name)));
}

/// The address of an upstream, from its URL.
pub(crate) fn base(url: &str) -> Result<Uri, &'static str> {
    let is_plain = |uri: &Uri| uri.scheme() == Some(&Scheme::HTTP) && uri.query().is_none();
    let uri = url.parse().ok().filter(is_plain);
    uri.ok_or("expected http://host, with :port and /path if need be")
}
