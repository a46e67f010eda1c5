//! Who is asking: the API key if the request has one, else the network it comes from.
//!
//! The key is taken at its word. A service that does not verify its keys before they get here lets
//! a client choose a new limit with each request.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use hyper::HeaderMap;

/// The header that names a client.
pub(crate) const API_KEY: &str = "x-api-key";

/// The header that names the tier of a client that has an API key: as trustworthy as that is.
pub(crate) const TIER: &str = "x-tier";

/// Longest API key that is accepted: each new one is kept in memory.
const MAX_API_KEY: usize = 128;

/// The leading bits of an IPv6 address that its network assigns to one customer.
const V6_PREFIX: u32 = 64;

/// The client key of a request; keys and addresses never meet.
pub(crate) fn client_key(headers: &HeaderMap, peer: IpAddr) -> Result<String, BadApiKey> {
    let Some(value) = headers.get(API_KEY) else {
        return Ok(peer_key(peer));
    };
    let key = value.to_str().map_err(|_| BadApiKey::NotAscii)?;
    match key.len() {
        0 => Err(BadApiKey::Empty),
        1..=MAX_API_KEY => Ok(format!("key:{key}")),
        length => Err(BadApiKey::TooLong(length)),
    }
}

/// The tier that a request asks for: none without an API key.
pub(crate) fn client_tier(headers: &HeaderMap) -> Option<&str> {
    headers.get(API_KEY)?;
    headers.get(TIER)?.to_str().ok()
}

fn peer_key(peer: IpAddr) -> String {
    match peer.to_canonical() {
        IpAddr::V4(address) => format!("ip:{address}"),
        IpAddr::V6(address) => format!("ip:{}/{V6_PREFIX}", network(address)),
    }
}

fn network(address: Ipv6Addr) -> Ipv6Addr {
    let mask = u128::MAX << (u128::BITS - V6_PREFIX);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

/// Why an API key names nobody.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadApiKey {
    Empty,
    NotAscii,
    TooLong(usize),
}

impl fmt::Display for BadApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "{API_KEY} is empty")?,
            Self::NotAscii => write!(f, "{API_KEY} has characters other than visible ASCII")?,
            Self::TooLong(length) => write!(f, "{API_KEY} is {length} characters long")?,
        }
        write!(f, ": expected 1 to {MAX_API_KEY} visible ASCII characters, or no such header")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const PEER: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    fn by_key(key: &[u8]) -> Result<String, BadApiKey> {
        let value = HeaderValue::from_bytes(key).unwrap();
        client_key(&HeaderMap::from_iter([(API_KEY.parse().unwrap(), value)]), PEER)
    }

    fn by_address(peer: &str) -> String {
        client_key(&HeaderMap::new(), peer.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_api_key_wins_over_the_address() {
        assert_eq!(by_key(b"alice").unwrap(), "key:alice");
        assert_ne!(by_key(b"192.0.2.7").unwrap(), by_address("192.0.2.7"));
    }

    #[test]
    fn only_a_client_with_an_api_key_has_a_tier() {
        let tier = (TIER.parse().unwrap(), HeaderValue::from_static("premium"));
        let key = (API_KEY.parse().unwrap(), HeaderValue::from_static("alice"));
        let anonymous = HeaderMap::from_iter([tier.clone()]);
        assert_eq!(client_tier(&anonymous), None);
        assert_eq!(client_tier(&HeaderMap::from_iter([key.clone()])), None);
        assert_eq!(client_tier(&HeaderMap::from_iter([key, tier])), Some("premium"));
    }

    #[test]
    fn an_api_key_is_bounded_on_both_sides() {
        assert!(by_key(&[b'a'; MAX_API_KEY]).is_ok());
        assert_eq!(by_key(&[b'a'; MAX_API_KEY + 1]), Err(BadApiKey::TooLong(MAX_API_KEY + 1)));
        assert_eq!(by_key(b""), Err(BadApiKey::Empty));
        assert_eq!(by_key(b"\xff"), Err(BadApiKey::NotAscii));
    }

    #[test]
    fn ipv4_clients_are_single_addresses() {
        assert_eq!(by_address("192.0.2.7"), "ip:192.0.2.7");
        assert_ne!(by_address("192.0.2.7"), by_address("192.0.2.8"));
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_client() {
        assert_eq!(by_address("::ffff:192.0.2.7"), by_address("192.0.2.7"));
        assert_eq!(by_address("::ffff:c000:207"), by_address("192.0.2.7"));
    }

    #[test]
    fn ipv6_clients_are_networks_of_64_bits() {
        assert_eq!(by_address("2001:db8:1:2:3:4:5:6"), "ip:2001:db8:1:2::/64");
        assert_eq!(by_address("2001:db8:1:2::"), by_address("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(by_address("2001:db8:1:2::1"), by_address("2001:db8:1:3::1"));
        assert_eq!(by_address("::1"), "ip:::/64");
    }
}
