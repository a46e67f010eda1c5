//! The draft that the fields follow, and the structured-field lists that they are made of.
//!
//! The fields are those of draft-ietf-httpapi-ratelimit-headers-11 of May 2026. Its editors
//! have weighed other names for the parameters of `RateLimit` (`a` for `r`, `w` for `t`): should a
//! later draft take them, this file is what changes.

use alloc::string::String;

use ::http::header::{HeaderName, HeaderValue};

pub(super) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Of `RateLimit-Policy`: the quota, and its window in seconds.
pub(super) const QUOTA: &str = "q";
pub(super) const WINDOW: &str = "w";
/// Our own: what may come at once, where that is not the quota.
pub(super) const BURST: &str = "tollgate-burst";
/// Of `RateLimit`: the units available, and the seconds in which no more than those are.
pub(super) const AVAILABLE: &str = "r";
pub(super) const EFFECTIVE_WINDOW: &str = "t";

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
pub(super) const MAX_INTEGER: u64 = 999_999_999_999_999;

/// A list of named items with parameters: `"a";q=1;w=2, "b";q=3`.
#[derive(Debug, Default)]
pub(super) struct List(String);

impl List {
    /// One more item, whose name is printable ASCII, with those of its parameters that it has; an
    /// integer is at most [`MAX_INTEGER`].
    pub(super) fn push(&mut self, name: &str, parameters: &[(&str, Option<u64>)]) {
        let parameters =
            parameters.iter().filter_map(|(key, value)| Some((key, (*value)?.min(MAX_INTEGER))));
        let length = |(key, value): (&&str, u64)| 2 + key.len() + digits(value);
        // A list of one item has no room to spare, which makes it a field's value as it is.
        self.0.reserve_exact(2 + name.len() + parameters.clone().map(length).sum::<usize>());
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
        self.0.push('"');
        for char in name.chars() {
            if matches!(char, '"' | '\\') {
                self.0.push('\\');
            }
            self.0.push(char);
        }
        self.0.push('"');
        for (key, value) in parameters {
            self.0.push(';');
            self.0.push_str(key);
            self.0.push('=');
            self.0.push_str(itoa::Buffer::new().format(value));
        }
    }

    /// The field's value; a list without items is no field.
    pub(super) fn value(self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.0).ok().filter(|value| !value.is_empty())
    }
}

/// Whether a name can stand in a structured field.
pub(super) fn is_sound(name: &str) -> bool {
    name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

fn digits(integer: u64) -> usize {
    integer.checked_ilog10().unwrap_or(0) as usize + 1
}
