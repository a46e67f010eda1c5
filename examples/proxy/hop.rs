//! The header fields that concern one connection only and stop at the proxy (RFC 9110, 7.6.1).

use hyper::HeaderMap;
use hyper::header::{self, HeaderName};

static HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes them, and those that `Connection` names.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn kept(fields: &[(&str, &'static str)]) -> Vec<String> {
        let fields = fields.iter().map(|&(name, value)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value))
        });
        let mut headers = HeaderMap::new();
        fields.for_each(|(name, value)| {
            headers.append(name, value);
        });
        strip(&mut headers);
        headers.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn only_end_to_end_fields_are_kept() {
        let fields = HOP_BY_HOP.each_ref().map(|name| (name.as_str(), "x"));
        assert!(kept(&fields).is_empty());
        assert_eq!(kept(&[("accept", "*/*"), ("upgrade", "h2c")]), ["accept"]);
    }

    #[test]
    fn fields_named_by_connection_go_too() {
        let fields = [
            ("connection", "close, X-Trace"),
            ("connection", "x-debug,,not a name"),
            ("x-trace", "1"),
            ("x-debug", "1"),
            ("x-kept", "1"),
        ];
        assert_eq!(kept(&fields), ["x-kept"]);
    }
}
