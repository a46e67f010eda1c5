//! Keys that are text from the request: a header's value, the path.

use alloc::boxed::Box;
use core::fmt;
use core::hash::BuildHasher;
use std::hash::RandomState;

use ::http::header::HeaderName;
use ::http::request::Parts;

use super::key::KeyOf;

/// The longest text that is kept as it is, unless set.
const LONGEST: usize = 64;

/// A text of the client's, in bounded memory: as it is, or a digest if it is long.
///
/// The digest is 128 bits of SipHash under keys drawn at random when its [`HeaderKey`] or [`Path`]
/// was made: nobody who does not know them can find two texts with the same digest, and digests
/// mean nothing to another process.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Whole(Box<[u8]>),
    Digest([u64; 2]),
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Whole(bytes) => write!(f, "{}", bytes.escape_ascii()),
            Form::Digest([high, low]) => write!(f, "#{high:016x}{low:016x}"),
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({self})")
    }
}

/// Makes texts of bounded length.
#[derive(Clone)]
struct Bound {
    longest: usize,
    keys: [RandomState; 2],
}

impl Bound {
    fn new() -> Self {
        // Each has keys of its own.
        Self { longest: LONGEST, keys: [RandomState::new(), RandomState::new()] }
    }

    fn text(&self, bytes: &[u8]) -> Text {
        Text(match bytes.len() {
            length if length <= self.longest => Form::Whole(bytes.into()),
            _ => Form::Digest(self.keys.each_ref().map(|key| key.hash_one(bytes))),
        })
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").field("longest", &self.longest).finish_non_exhaustive()
    }
}

/// The value of a header field, such as an API key.
///
/// It is taken at its word: unless the value was verified before it gets here, a client can choose
/// a new one, and so a new limit, with each request. A field that is missing, empty or there more
/// than once is no key: of two values it is not known which one the service believes.
#[derive(Clone, Debug)]
pub struct HeaderKey {
    name: HeaderName,
    bound: Bound,
}

impl HeaderKey {
    /// The value of the field `name`; values longer than 64 bytes as a digest.
    pub fn new(name: HeaderName) -> Self {
        Self { name, bound: Bound::new() }
    }

    /// The length in bytes above which a value is kept as a digest. With 0 all are: no secret is
    /// kept, or printed.
    #[must_use]
    pub fn longest(mut self, bytes: usize) -> Self {
        self.bound.longest = bytes;
        self
    }
}

impl KeyOf for HeaderKey {
    type Key = Text;

    fn key_of(&self, request: &Parts) -> Option<Text> {
        let mut values = request.headers.get_all(&self.name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) if !value.is_empty() => Some(self.bound.text(value.as_bytes())),
            _ => None,
        }
    }
}

/// The path of the request, without its query.
///
/// The path is as the client spelt it, and a client can spell one resource in many ways. Use it
/// together with an address, or take the route that the framework matched in its place:
///
/// ```
/// use tollgate::http::KeyOf;
///
/// # #[derive(Clone)] struct MatchedPath;
/// # impl MatchedPath { fn as_str(&self) -> &str { "/users/{id}" } }
/// // axum's, for a layer added by `Router::route_layer`.
/// let route = |request: &http::request::Parts| {
///     Some(request.extensions.get::<MatchedPath>()?.as_str().to_owned())
/// };
/// # let (request, ()) = http::Request::builder().extension(MatchedPath).body(())?.into_parts();
/// assert_eq!(route.key_of(&request).as_deref(), Some("/users/{id}"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Path {
    bound: Bound,
    segments: usize,
}

impl Path {
    /// The whole path; paths longer than 64 bytes as a digest.
    pub fn new() -> Self {
        Self { bound: Bound::new(), segments: usize::MAX }
    }

    /// Only the first `count` segments: with 1, `/users/7/posts` is `/users`.
    #[must_use]
    pub fn segments(self, count: usize) -> Self {
        Self { segments: count, ..self }
    }
}

impl Default for Path {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyOf for Path {
    type Key = Text;

    fn key_of(&self, request: &Parts) -> Option<Text> {
        let path = request.uri.path();
        // The slash that ends the last segment wanted; the first slash begins the first one.
        let end = path.match_indices('/').nth(self.segments).map_or(path.len(), |(at, _)| at);
        Some(self.bound.text(&path.as_bytes()[..end]))
    }
}
