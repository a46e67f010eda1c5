//! Networks: an address and the leading bits of it that count.

use alloc::string::String;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

const V4_BITS: u8 = Ipv4Addr::BITS as u8;
const V6_BITS: u8 = Ipv6Addr::BITS as u8;

/// A network of addresses, and all that one client may call from: an address whose bits after the
/// prefix are zero.
///
/// An IPv4 address mapped into IPv6 (`::ffff:192.0.2.7`) is the IPv4 address, however it was
/// spelt.
///
/// ```
/// use tollgate::http::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.1.2.3".parse()?));
/// assert!(network.contains("::ffff:a01:203".parse()?));
/// assert!(!network.contains("11.0.0.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network of `address` with a prefix of this many bits.
    ///
    /// # Errors
    /// If the prefix has more bits than the address: 32 for IPv4, 128 for IPv6.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, BadNetwork> {
        let address = address.to_canonical();
        match bits(address) {
            max if prefix > max => Err(BadNetwork::Prefix { given: prefix, max }),
            _ => Ok(Self::cut(address, prefix)),
        }
    }

    /// `prefix` is at most the bits of `address`.
    fn cut(address: IpAddr, prefix: u8) -> Self {
        let past_prefix = u32::from(bits(address) - prefix);
        // A shift by all the bits leaves none.
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(past_prefix).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(past_prefix).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { address, prefix }
    }

    /// The first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// The bits that all its addresses share.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether `address` is in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && Self::cut(address, self.prefix) == *self
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { V4_BITS } else { V6_BITS }
}

/// A single address is the network of all its bits.
impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: bits(address) }
    }
}

/// `192.0.2.0/24`, or a single address.
impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork::Text(text.into());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        match prefix {
            Some(prefix) => Self::new(address, prefix.parse().map_err(|_| bad())?),
            None => Ok(address.into()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// How many leading bits of an address tell one client from another.
///
/// The defaults are 32 bits of IPv4, and the 64 bits of IPv6 below which a network gives its one
/// customer as many addresses as they like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefixes {
    v4: u8,
    v6: u8,
}

impl Prefixes {
    /// Prefixes of `v4` bits of an IPv4 address and `v6` bits of an IPv6 address.
    ///
    /// # Errors
    /// If there are more than 32 or 128.
    pub const fn new(v4: u8, v6: u8) -> Result<Self, BadNetwork> {
        if v4 > V4_BITS {
            return Err(BadNetwork::Prefix { given: v4, max: V4_BITS });
        }
        if v6 > V6_BITS {
            return Err(BadNetwork::Prefix { given: v6, max: V6_BITS });
        }
        Ok(Self { v4, v6 })
    }

    /// The network that `address` counts as.
    pub fn cut(self, address: IpAddr) -> Network {
        let address = address.to_canonical();
        Network::cut(address, if address.is_ipv4() { self.v4 } else { self.v6 })
    }
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { v4: 32, v6: 64 }
    }
}

/// Why something is no network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadNetwork {
    /// More bits than the address has.
    Prefix {
        /// The prefix that was given.
        given: u8,
        /// The bits of an address.
        max: u8,
    },
    /// A text that names none.
    Text(String),
}

impl fmt::Display for BadNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix { given, max } => {
                write!(f, "prefix {given}: expected at most {max} bits")
            }
            Self::Text(text) => write!(
                f,
                "{text:?} is no network: expected an IP address, with /bits if it is not a single one"
            ),
        }
    }
}

impl core::error::Error for BadNetwork {}
