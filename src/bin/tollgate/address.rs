//! Client addresses, and the networks that stand for them.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How many leading bits of an address tell a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixes {
    /// 0 to 32.
    pub(crate) v4: u8,
    /// 0 to 128.
    pub(crate) v6: u8,
}

impl Prefixes {
    /// Writes the network of an address. A port is left out; an IPv4 address mapped into IPv6 is the
    /// IPv4 one. What is no address, such as a host name, stands for itself.
    pub(crate) fn write(self, address: &str, key: &mut String) {
        let Some(parsed) = parse(address) else {
            return key.push_str(address);
        };
        // Writing to a string does not fail.
        let _ = match parsed.to_canonical() {
            IpAddr::V4(address) if self.v4 == 32 => write!(key, "{address}"),
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.v4)).unwrap_or(0);
                write!(key, "{}/{}", Ipv4Addr::from_bits(address.to_bits() & mask), self.v4)
            }
            IpAddr::V6(address) if self.v6 == 128 => write!(key, "{address}"),
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.v6)).unwrap_or(0);
                write!(key, "{}/{}", Ipv6Addr::from_bits(address.to_bits() & mask), self.v6)
            }
        };
    }
}

/// With or without a port, brackets or a zone.
fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(socket.ip());
    }
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    text.split('%').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(v4: u8, v6: u8, address: &str) -> String {
        let mut key = String::new();
        Prefixes { v4, v6 }.write(address, &mut key);
        key
    }

    #[test]
    fn an_address_stands_for_its_network() {
        for (address, network) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7:8080", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("[::ffff:c000:207]:443", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::9]", "2001:db8:1:2::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("client.example", "client.example"),
            ("192.0.2.07", "192.0.2.07"),
        ] {
            assert_eq!(key(32, 64, address), network);
        }
    }

    #[test]
    fn any_prefix_will_do() {
        assert_eq!(key(24, 56, "192.0.2.7"), "192.0.2.0/24");
        assert_eq!(key(0, 0, "192.0.2.7"), "0.0.0.0/0");
        assert_eq!(key(24, 56, "2001:db8:1:2ff::1"), "2001:db8:1:200::/56");
        assert_eq!(key(0, 0, "2001:db8::1"), "::/0");
        assert_eq!(key(31, 128, "2001:db8::1"), "2001:db8::1");
    }
}
