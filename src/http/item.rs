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

/// The name of an item.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) plain: String,
    quoted: String,
}

impl Name {
    /// `None` if it cannot stand in a structured field: printable ASCII can.
    pub(super) fn new(plain: &str) -> Option<Self> {
        let mut quoted = String::from('"');
        for char in plain.chars() {
            match char {
                '"' | '\\' => quoted.push('\\'),
                ' '..='~' => {}
                _ => return None,
            }
            quoted.push(char);
        }
        quoted.push('"');
        Some(Self { plain: plain.into(), quoted })
    }
}

/// A list of named items with parameters: `"a";q=1;w=2, "b";q=3`.
#[derive(Debug, Default)]
pub(super) struct List(String);

impl List {
    /// One more item, with those of its parameters that it has; each is at most [`MAX_INTEGER`].
    #[inline]
    pub(super) fn push<const N: usize>(
        &mut self,
        name: &Name,
        parameters: [(&str, Option<u64>); N],
    ) {
        let parameters =
            parameters.map(|(key, value)| (key, value.map(|value| value.min(MAX_INTEGER))));
        let length = |&(key, value): &(&str, Option<u64>)| {
            value.map_or(0, |value| ";=".len() + key.len() + digits(value))
        };
        // A list of one item has no room to spare, which makes it a field's value as it is.
        self.0.reserve_exact(name.quoted.len() + parameters.iter().map(length).sum::<usize>());
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
        self.0.push_str(&name.quoted);
        for (key, value) in parameters {
            if let Some(value) = value {
                self.0.push(';');
                self.0.push_str(key);
                self.0.push('=');
                self.0.push_str(itoa::Buffer::new().format(value));
            }
        }
    }

    /// The field's value; a list without items is no field.
    pub(super) fn value(self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.0).ok().filter(|value| !value.is_empty())
    }
}

/// How many an integer has.
fn digits(integer: u64) -> usize {
    integer.checked_ilog10().unwrap_or(0) as usize + 1
}
