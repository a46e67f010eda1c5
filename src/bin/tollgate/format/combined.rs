//! The common log format, `host ident user [time] "request" status bytes`, and the combined one,
//! which goes on with `"referer" "user agent"`. What follows is passed over.

use std::borrow::Cow;

use super::Record;

#[derive(Debug)]
pub(crate) struct Combined<'a> {
    host: &'a str,
    user: &'a str,
    time: &'a str,
    request: &'a str,
    status: &'a str,
    bytes: &'a str,
    referer: Option<&'a str>,
    agent: Option<&'a str>,
}

pub(crate) fn parse(line: &str) -> Result<Combined<'_>, String> {
    let (host, rest) = line.split_once(' ').ok_or("no client: expected HOST - USER [TIME]")?;
    // A user may have a name with spaces.
    let (who, rest) = rest.split_once(" [").ok_or("no time: expected HOST - USER [TIME]")?;
    let (_, user) = who.split_once(' ').ok_or("no user: expected HOST - USER [TIME]")?;
    let (time, rest) = rest.split_once("] ").ok_or("no end of the time: expected ]")?;
    let (request, rest) = quoted(rest).ok_or("no request in quotes after the time")?;
    let (status, rest) = word(rest).ok_or("no status after the request")?;
    let (bytes, rest) = word(rest).ok_or("no bytes after the status")?;
    let (referer, agent) = match quoted(rest) {
        Some((referer, rest)) => (Some(referer), quoted(rest).map(|(agent, _)| agent)),
        None => (None, None),
    };
    Ok(Combined { host, user, time, request, status, bytes, referer, agent })
}

/// What is between quotes, and what follows. A backslash takes the meaning from a quote.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().strip_prefix('"')?;
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end
    })?;
    Some((&text[..end], &text[end + 1..]))
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (!word.is_empty()).then_some((word, rest))
}

/// Under the names that nginx gives them.
impl Record for Combined<'_> {
    fn named(&self, name: &str) -> Option<Cow<'_, str>> {
        let text = match name {
            "remote_addr" => self.host,
            "remote_user" => self.user,
            "time_local" => self.time,
            "request" => self.request,
            "method" => self.request.split(' ').next()?,
            "status" => self.status,
            // A dash is how the common format says that nothing was sent.
            "bytes" | "body_bytes_sent" if self.bytes == "-" => "0",
            "bytes" | "body_bytes_sent" => self.bytes,
            _ => return None,
        };
        Some(text.into())
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let text = match name {
            "referer" => self.referer,
            "user_agent" => self.agent,
            _ => None,
        };
        text.map(Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    const LINE: &str = r#"192.0.2.7 - alice [17/May/2015:10:05:03 +0000] "GET /a?b=\"c\" HTTP/1.1" 200 - "http://example/\\" "Agent \"7\"" "more""#;

    fn get(line: &str, field: &str) -> Option<String> {
        let field: Field = field.parse().unwrap();
        parse(line).unwrap().get(&field).map(Cow::into_owned)
    }

    #[test]
    fn every_field_is_found() {
        for (field, value) in [
            ("address", "192.0.2.7"),
            ("user", "alice"),
            ("path", "/a"),
            ("header:User-Agent", r#"Agent \"7\""#),
            ("header:Referer", r"http://example/\\"),
            ("field:status", "200"),
            ("field:method", "GET"),
            ("field:bytes", "0"),
        ] {
            assert_eq!(get(LINE, field).as_deref(), Some(value), "{field}");
        }
        assert_eq!(get(LINE, "header:X-Api-Key"), None);
        assert_eq!(get(LINE, "field:upstream"), None);
    }

    #[test]
    fn the_common_format_has_no_headers() {
        let line = r#"::1 - - [17/May/2015:10:05:03 +0000] "-" 400 17"#;
        assert_eq!(get(line, "address").as_deref(), Some("::1"));
        for field in ["user", "path", "header:referer", "header:user-agent"] {
            assert_eq!(get(line, field), None, "{field}");
        }
    }

    #[test]
    fn a_user_may_have_spaces() {
        let line = r#"::1 - Bob the 2nd [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#;
        assert_eq!(get(line, "user").as_deref(), Some("Bob the 2nd"));
    }

    #[test]
    fn what_is_missing_is_told() {
        for (line, missing) in [
            ("nothing", "no client"),
            ("a - - 10:05", "no time"),
            ("a b [10:05]", "no user"),
            ("a - - [10:05", "no end of the time"),
            ("a - - [10:05] GET", "no request"),
            (r#"a - - [10:05] "GET \""#, "no request"),
            (r#"a - - [10:05] "GET""#, "no status"),
            (r#"a - - [10:05] "GET" 200"#, "no bytes"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.starts_with(missing), "{line}: {error}");
        }
    }
}
