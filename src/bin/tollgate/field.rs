//! What can be asked of a line, and what the fields that tell it are called.

use std::borrow::Cow;
use std::str::FromStr;

/// Something that a line tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    Address,
    User,
    Path,
    /// A request header, by its name.
    Header(String),
    /// By the name that it has in the log.
    Named(String),
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "address" => Ok(Self::Address),
            None if text == "user" => Ok(Self::User),
            None if text == "path" => Ok(Self::Path),
            Some(("header", name)) if !name.is_empty() => Ok(Self::Header(normal(name))),
            Some(("field", name)) if !name.is_empty() => Ok(Self::Named(name.to_owned())),
            _ => Err(format!(
                "{text:?}: expected address, user, path, header:NAME or field:NAME, or several \
                 with commas between"
            )),
        }
    }
}

/// What tells clients apart: a field or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) Vec<Field>);

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Field {
    /// The names under which it is looked for in JSON lines and CSV, first come first served.
    pub(crate) fn names(&self) -> &'static [&'static str] {
        match self {
            // Traefik's entries also have `time`, when the request ended.
            Self::Time => &[
                "StartUTC",
                "start_time",
                "ts",
                "time",
                "timestamp",
                "@timestamp",
                "time_iso8601",
                "time_local",
                "msec",
            ],
            Self::Address => &[
                "request.client_ip",
                "request.remote_ip",
                "request.remote_addr",
                "ClientHost",
                "ClientAddr",
                "downstream_remote_address",
                "downstream_direct_remote_address",
                "remote_addr",
                "remote_ip",
                "client_ip",
                "client",
                "ip",
            ],
            Self::User => &["remote_user", "user_id", "ClientUsername", "user"],
            Self::Path => &[
                "request.uri",
                "request_uri",
                "RequestPath",
                "x-envoy-origin-path",
                "uri",
                "path",
                "request",
            ],
            Self::Header(_) | Self::Named(_) => &[],
        }
    }
}

/// A header's name as it is compared: `X-Api-Key` is `x_api_key`.
pub(crate) fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Whether a log's field called `name` tells the header whose normal name is `header`: as such
/// (Envoy), as `http_x_api_key` (nginx), or as `request_X-Api-Key` (Traefik).
pub(crate) fn tells_header(name: &str, header: &str) -> bool {
    let name = normal(name);
    let bare = name.strip_prefix("http_").or_else(|| name.strip_prefix("request_"));
    name == header || bare == Some(header)
}

/// What is empty or a dash is not there.
pub(crate) fn present(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    (!text.is_empty() && text != "-").then_some(text)
}

/// The path of a URI or of a whole request line, without its query.
pub(crate) fn path(text: Cow<'_, str>) -> Cow<'_, str> {
    fn cut(text: &str) -> &str {
        let mut words = text.split(' ');
        let first = words.next().unwrap_or_default();
        let uri = words.next().unwrap_or(first);
        uri.split(['?', '#']).next().unwrap_or_default()
    }
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(cut(text)),
        Cow::Owned(text) => Cow::Owned(cut(&text).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_on_the_command_line() {
        assert_eq!("address".parse(), Ok(Field::Address));
        assert_eq!("header:X-Api-Key".parse(), Ok(Field::Header("x_api_key".into())));
        assert_eq!("field:a:b".parse(), Ok(Field::Named("a:b".into())));
        for text in ["", "Address", "header", "header:", "field:", "cookie:x"] {
            assert!(text.parse::<Field>().unwrap_err().contains("expected address, user"));
        }
    }

    #[test]
    fn a_key_may_have_parts() {
        assert_eq!("user,path".parse(), Ok(Key(vec![Field::User, Field::Path])));
        assert!("user,".parse::<Key>().is_err());
    }

    #[test]
    fn a_header_has_many_names() {
        for name in ["x-api-key", "X_Api_Key", "http_x_api_key", "request_X-Api-Key"] {
            assert!(tells_header(name, "x_api_key"), "{name}");
        }
        assert!(!tells_header("api_key", "x_api_key"));
    }

    #[test]
    fn a_path_has_no_query() {
        for text in ["/a/b", "/a/b?c=d", "/a/b#c", "GET /a/b HTTP/1.1", "GET /a/b?c HTTP/1.1"] {
            assert_eq!(path(text.into()), "/a/b");
            assert_eq!(path(text.to_owned().into()), "/a/b");
        }
    }
}
