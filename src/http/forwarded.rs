//! The client behind proxies: `X-Forwarded-For`, and `Forwarded` of RFC 7239.
//!
//! Each proxy appends the address that it was called from, so the fields read from the right: the
//! peer of this connection, then what each proxy vouches for. What lies further left than the
//! outermost trusted proxy is the client's own word and is never looked at, nor can it disturb how
//! what is right of it is read: both fields are taken apart from their right end.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::str;

use ::http::header::{FORWARDED, HeaderName};
use ::http::request::Parts;

use super::key::{KeyOf, PeerAddress};
use super::network::Network;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Which proxies are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// This many of them, one behind the other, stand in front of this service. Everything that
    /// reaches it must have come through all of them: who gets past them can write what they would
    /// have written. A request that tells of fewer has no key.
    Hops(usize),
    /// All in these networks. The client is the first address, from the right, that is in none;
    /// if all are, the last of them. Who is in none of them is believed nothing.
    Networks(Vec<Network>),
}

/// The network of the client behind trusted proxies, as they tell it. Never the leftmost address
/// as such: that one is the client's to write.
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate::http::{ForwardedFor, KeyOf, Trust};
///
/// let key = ForwardedFor::x_forwarded_for(Trust::Networks(vec!["10.0.0.0/8".parse()?]));
/// let (request, ()) = http::Request::builder()
///     .header("x-forwarded-for", "198.51.100.1, 203.0.113.7") // the first one is made up
///     .extension("10.0.0.1:5678".parse::<SocketAddr>()?)
///     .body(())?
///     .into_parts();
/// assert_eq!(key.key_of(&request), Some("203.0.113.7".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForwardedFor {
    field: Field,
    trust: Trust,
    peer: PeerAddress,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    XForwardedFor,
    Forwarded,
}

impl ForwardedFor {
    /// As `X-Forwarded-For` tells.
    pub fn x_forwarded_for(trust: Trust) -> Self {
        Self { field: Field::XForwardedFor, trust, peer: PeerAddress::new() }
    }

    /// As `Forwarded` (RFC 7239) tells. A client that its proxy calls `unknown`, or hides behind a
    /// name, has no key.
    pub fn forwarded(trust: Trust) -> Self {
        Self { field: Field::Forwarded, trust, peer: PeerAddress::new() }
    }

    /// Where the address of this connection's peer is found, and the prefixes that count; the
    /// [`SocketAddr`](core::net::SocketAddr) among the extensions, /32 and /64, if not said.
    #[must_use]
    pub fn peer(self, peer: PeerAddress) -> Self {
        Self { peer, ..self }
    }

    /// The client's address; `None` if those who are trusted do not tell.
    fn client(&self, request: &Parts) -> Option<IpAddr> {
        match &self.trust {
            Trust::Hops(0) => self.peer.address(request),
            Trust::Hops(hops) => self.forwarded_from_the_right(request).nth(hops - 1)?,
            Trust::Networks(networks) => {
                let mut told = self.forwarded_from_the_right(request);
                let mut client = self.peer.address(request)?;
                while networks.iter().any(|network| network.contains(client)) {
                    match told.next() {
                        Some(address) => client = address?,
                        None => break,
                    }
                }
                Some(client)
            }
        }
    }

    /// What was appended last comes first; `None` for what is no address.
    fn forwarded_from_the_right(&self, request: &Parts) -> impl Iterator<Item = Option<IpAddr>> {
        let name = match self.field {
            Field::XForwardedFor => X_FORWARDED_FOR,
            Field::Forwarded => FORWARDED,
        };
        let lines: Vec<_> = request.headers.get_all(name).iter().collect();
        let elements =
            lines.into_iter().rev().flat_map(|line| from_the_right(line.as_bytes(), b','));
        elements.filter(|element| !element.is_empty()).map(|element| match self.field {
            Field::XForwardedFor => address(element),
            Field::Forwarded => for_address(element),
        })
    }
}

impl KeyOf for ForwardedFor {
    type Key = Network;

    fn key_of(&self, request: &Parts) -> Option<Network> {
        Some(self.peer.cut(self.client(request)?))
    }
}

/// The parts of `text` between separators that are in no quoted string, trimmed, the last first.
fn from_the_right(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    core::iter::from_fn(move || {
        let text = rest?;
        let mut quoted = false;
        let at = (0..text.len()).rev().find(|&at| {
            quoted ^= text[at] == b'"' && !is_escaped(text, at);
            text[at] == separator && !quoted
        });
        rest = at.map(|at| &text[..at]);
        Some(text[at.map_or(0, |at| at + 1)..].trim_ascii())
    })
}

/// Whether the byte at `at` follows an odd number of backslashes.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// The address of an element's one `for` parameter.
fn for_address(element: &[u8]) -> Option<IpAddr> {
    let mut nodes = from_the_right(element, b';').filter_map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        name.eq_ignore_ascii_case(b"for").then_some(value)
    });
    match (nodes.next(), nodes.next()) {
        (Some(node), None) => address(&unquoted(node)?),
        _ => None,
    }
}

/// A token as it is, a quoted string without its quotes.
fn unquoted(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(value) = value.strip_prefix(b"\"") else {
        return Some(Cow::Borrowed(value));
    };
    let value = value.strip_suffix(b"\"")?;
    let mut bytes = value.iter();
    let text = core::iter::from_fn(|| match bytes.next() {
        Some(b'\\') => bytes.next(),
        byte => byte,
    });
    Some(Cow::Owned(text.copied().collect()))
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`. A port that
/// is no number is as good as none.
fn address(node: &[u8]) -> Option<IpAddr> {
    let node = str::from_utf8(node).ok()?;
    if let Some(bracketed) = node.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        let sound = port.is_empty() || port.starts_with(':');
        return address.parse().ok().filter(|_| sound).map(IpAddr::V6);
    }
    node.parse().ok().or_else(|| {
        let (address, _port) = node.split_once(':')?;
        address.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
    })
}
