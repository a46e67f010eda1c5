//! Where admitted requests go: a server given by URL, or the small one built in here.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Response, Uri};

/// The address of the upstream, and the path that its requests begin with.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    authority: Authority,
    prefix: String,
}

impl Upstream {
    /// The URI of the same resource at the upstream, if `uri` has a path.
    pub(crate) fn uri_of(&self, uri: &Uri) -> Option<Uri> {
        let path = uri.path_and_query().filter(|path| path.as_str().starts_with('/'))?;
        Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.authority.clone())
            .path_and_query(format!("{}{path}", self.prefix))
            .build()
            .ok()
    }
}

impl From<SocketAddr> for Upstream {
    fn from(address: SocketAddr) -> Self {
        let authority = address.to_string().parse().expect("a socket address is an authority");
        Self { authority, prefix: String::new() }
    }
}

impl FromStr for Upstream {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected http://host, with :port and /path if need be";
        let uri: Uri = url.parse().map_err(|_| EXPECTED)?;
        let authority = uri.authority().cloned().ok_or(EXPECTED)?;
        if uri.scheme() != Some(&Scheme::HTTP) || uri.query().is_some() {
            return Err(EXPECTED);
        }
        Ok(Self { authority, prefix: uri.path().trim_end_matches('/').to_owned() })
    }
}

/// The built-in upstream: tells what it was asked for.
pub(crate) async fn greet(request: Request<Incoming>, _: IpAddr) -> Response<Full<Bytes>> {
    let greeting = format!("upstream got {} {}\n", request.method(), request.uri());
    Response::new(Full::from(greeting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(upstream: &str, uri: &'static str) -> Option<String> {
        let upstream: Upstream = upstream.parse().unwrap();
        upstream.uri_of(&Uri::from_static(uri)).map(|uri| uri.to_string())
    }

    #[test]
    fn the_path_and_query_are_kept() {
        let uri = forwarded("http://127.0.0.1:9000", "/a/b?c=d");
        assert_eq!(uri.unwrap(), "http://127.0.0.1:9000/a/b?c=d");
        let uri = forwarded("http://localhost/api/", "http://elsewhere/a");
        assert_eq!(uri.unwrap(), "http://localhost/api/a");
    }

    #[test]
    fn a_request_without_a_path_goes_nowhere() {
        assert_eq!(forwarded("http://localhost", "elsewhere:443"), None);
        assert_eq!(forwarded("http://localhost", "*"), None);
    }

    #[test]
    fn only_plain_http_urls_are_upstreams() {
        for url in ["https://localhost", "localhost:80", "/path", "http://", "http://a/?b", ""] {
            assert!(url.parse::<Upstream>().is_err(), "{url}");
        }
    }
}
