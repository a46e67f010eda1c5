//! JSON lines, flat or nested: `request.uri` is the `uri` in `request`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Record;
use crate::field;

#[derive(Debug)]
pub(crate) struct Json(Map<String, Value>);

pub(crate) fn parse(line: &str) -> Result<Json, String> {
    serde_json::from_str(line).map(Json).map_err(|error| format!("not a JSON object: {error}"))
}

/// As text, if it is one value, or a list that begins with one.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text.into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(value) => Some(value.to_string().into()),
        Value::Array(values) => text(values.first()?),
        Value::Null | Value::Object(_) => None,
    }
}

fn find<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = map.get(name) {
        return Some(value);
    }
    let (outer, inner) = name.split_once('.')?;
    find(map.get(outer)?.as_object()?, inner)
}

fn header<'a>(map: &'a Map<String, Value>, name: &str) -> Option<Cow<'a, str>> {
    let (_, value) = map.iter().find(|(key, _)| field::tells_header(key, name))?;
    text(value)
}

impl Record for Json {
    fn named(&self, name: &str) -> Option<Cow<'_, str>> {
        text(find(&self.0, name)?)
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        // Caddy has the headers in an object of their own.
        let headers = find(&self.0, "request.headers").and_then(Value::as_object);
        header(&self.0, name).or_else(|| header(headers?, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::timestamp;

    const NGINX: &str = r#"{"time_iso8601":"2015-05-17T10:05:03+00:00","remote_addr":"192.0.2.7",
        "remote_user":"alice","request":"GET /a?b HTTP/1.1","status":"200","http_x_api_key":"k"}"#;
    const CADDY: &str = r#"{"level":"info","ts":1431857103.0,"user_id":"alice","status":200,
        "request":{"remote_ip":"10.9.9.9","client_ip":"192.0.2.7","uri":"/a?b","method":"GET",
        "headers":{"X-Api-Key":["k"],"User-Agent":["x"]}}}"#;
    const ENVOY: &str = r#"{"start_time":"2015-05-17T10:05:03.000Z","path":"/a?b",
        "downstream_remote_address":"192.0.2.7:5150","user":"alice","x-api-key":"k"}"#;
    const TRAEFIK: &str = r#"{"ClientAddr":"192.0.2.7:5150","ClientHost":"192.0.2.7",
        "ClientUsername":"alice","RequestPath":"/a?b","StartUTC":"2015-05-17T10:05:03Z",
        "time":"2015-05-17T10:05:09Z","request_X-Api-Key":"k"}"#;

    #[test]
    fn the_names_of_proxies_are_known() {
        for line in [NGINX, CADDY, ENVOY, TRAEFIK] {
            let record = parse(line).unwrap();
            let get = |field: &str| record.get(&field.parse().unwrap()).unwrap().into_owned();
            let time = record.get(&Field::Time).unwrap();
            assert_eq!(timestamp::parse(&time), Some(1_431_857_103 * timestamp::SECOND), "{line}");
            assert_eq!(get("address").split(':').next(), Some("192.0.2.7"), "{line}");
            assert_eq!(get("user"), "alice", "{line}");
            assert_eq!(get("path"), "/a", "{line}");
            assert_eq!(get("header:X-Api-Key"), "k", "{line}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name_or_step_by_step() {
        let record = parse(r#"{"a.b":1,"a":{"b":2,"c":{"d":true}},"n":null}"#).unwrap();
        assert_eq!(record.named("a.b").as_deref(), Some("1"));
        assert_eq!(record.named("a.c.d").as_deref(), Some("true"));
        for name in ["a", "a.c", "n", "a.b.c", "x"] {
            assert_eq!(record.named(name), None, "{name}");
        }
    }

    #[test]
    fn anything_but_an_object_is_unreadable() {
        for line in ["", "[]", "7", "{", r#"{"a":1} more"#] {
            assert!(parse(line).unwrap_err().contains("not a JSON object"), "{line}");
        }
    }
}
