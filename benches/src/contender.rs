//! What a contender is: it answers a client's request with yes or no.

use std::time::Duration;

/// A limiter of many clients under one policy, as a bench needs it.
pub trait Contender<K>: Send + Sync {
    /// Whether one request of this client may proceed; if so it is charged.
    ///
    /// `turn` is the decision's number. A contender that is given its time makes it from that;
    /// one with a clock of its own ignores it.
    fn is_allowed(&self, key: &K, turn: u64) -> bool;
}

/// One request each `interval`, `burst` of them at once if the client likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long it takes to earn one request.
    pub interval: Duration,
    /// Requests at once.
    pub burst: u32,
    /// What a run under this policy answers after each client's first request.
    pub admits: bool,
}

impl Policy {
    /// A long debt: every request is admitted and charged, and a client that was seen once is
    /// never as good as new again. No run here gets near the burst.
    pub const ADMIT: Self =
        Self { interval: Duration::from_secs(1), burst: 1_000_000_000, admits: true };
    /// No debt: every request is admitted, and the next one finds the client as good as new.
    pub const FULL: Self = Self { interval: Duration::from_nanos(1), ..Self::ADMIT };
    /// After a client's first request refusals only.
    pub const REFUSE: Self =
        Self { interval: Duration::from_secs(86_400), burst: 1, admits: false };
}
