//! What a contender is: it answers a client's request with yes or no.

use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// A limiter of many clients under one policy, as a bench needs it.
pub trait Contender<K>: Send + Sync {
    /// Whether one request of this client may proceed; if so it is charged.
    ///
    /// `turn` is the decision's number. A contender that is given its time makes it from that;
    /// one with a clock of its own ignores it.
    fn is_allowed(&self, key: &K, turn: u64) -> bool;

    /// How many of these requests were admitted, each with its turn.
    #[inline]
    fn admitted<'k>(&self, requests: impl Iterator<Item = (&'k K, u64)>) -> u64
    where
        K: 'k,
        Self: Sized,
    {
        requests.map(|(key, turn)| u64::from(self.is_allowed(key, turn))).sum()
    }
}

/// A client's key.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// The key of this number.
    fn numbered(number: usize) -> Self;

    /// As rate-net takes it.
    fn of_rate_net(&self) -> rate_net::Key;
}

/// 15 bytes.
impl Key for String {
    fn numbered(number: usize) -> Self {
        format!("client-{number:08}")
    }

    fn of_rate_net(&self) -> rate_net::Key {
        self.into()
    }
}

impl Key for u64 {
    fn numbered(number: usize) -> Self {
        number as u64
    }

    fn of_rate_net(&self) -> rate_net::Key {
        (*self).into()
    }
}

impl Key for IpAddr {
    fn numbered(number: usize) -> Self {
        Self::V4(Ipv4Addr::from_bits(0x0A00_0000 + number as u32))
    }

    fn of_rate_net(&self) -> rate_net::Key {
        (*self).into()
    }
}

/// `limit` requests per `period`, `burst` of them at once if the client likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Requests per period.
    pub limit: u32,
    /// The period.
    pub period: Duration,
    /// Requests at once.
    pub burst: u32,
    /// What a run under this policy answers after each client's first requests.
    pub admits: bool,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Policy {
    /// A long debt: every request is admitted and charged, and a client that was seen once is
    /// never as good as new again. No run here gets near the burst.
    pub const ADMIT: Self =
        Self { limit: 1, period: Duration::from_secs(1), burst: 1_000_000_000, admits: true };
    /// The same for algorithms that know no burst.
    pub const WINDOW: Self = Self { limit: 1_000_000_000, period: DAY, ..Self::ADMIT };
    /// No debt: every request is admitted, and the next one finds the client as good as new.
    pub const FULL: Self = Self { period: Duration::from_nanos(1), ..Self::ADMIT };
    /// After a client's first request refusals only.
    pub const REFUSE: Self = Self { limit: 1, period: DAY, burst: 1, admits: false };

    /// A log of up to `limit` units, each of which counts for so short that a precise clock admits
    /// every request: about a fifth of the limit is in the log at any time.
    pub const fn short_log(limit: u32) -> Self {
        let period = Duration::from_nanos(10 * limit as u64);
        Self { limit, period, burst: limit, admits: true }
    }

    /// A log that is full for a day.
    pub const fn full_log(limit: u32) -> Self {
        Self { limit, period: DAY, burst: limit, admits: false }
    }
}
