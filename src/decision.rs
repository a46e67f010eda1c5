//! What an algorithm answers: the reading of one snapshot, and the decision made of it.

use core::fmt;
use core::time::Duration;

use crate::quota::Allowance;

/// When the same request would be admitted if nothing else came in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryAfter {
    /// Now: it is admitted, or would be.
    Now,
    /// After this long, rounded up to the nanosecond; never zero.
    After(Duration),
    /// When a permit in flight ends: no time can be told.
    OnRelease,
    /// Never: it costs more than the limit can ever grant at once.
    Never,
}

impl RetryAfter {
    /// After `nanos` nanoseconds; [`RetryAfter::Now`] if that is none.
    pub(crate) const fn nanos(nanos: u64) -> Self {
        match nanos {
            0 => Self::Now,
            _ => Self::After(Duration::from_nanos(nanos)),
        }
    }

    /// Whole seconds, rounded up, as the `Retry-After` field of HTTP wants them. `None` for never,
    /// and where no time can be told.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::RetryAfter;
    ///
    /// assert_eq!(RetryAfter::After(Duration::from_millis(1_001)).as_secs_ceil(), Some(2));
    /// assert_eq!(RetryAfter::Never.as_secs_ceil(), None);
    /// ```
    pub const fn as_secs_ceil(self) -> Option<u64> {
        match self {
            Self::Now => Some(0),
            Self::After(wait) => {
                let part = (wait.subsec_nanos() > 0) as u64;
                Some(wait.as_secs().saturating_add(part))
            }
            Self::OnRelease | Self::Never => None,
        }
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("now"),
            Self::After(wait) => write!(f, "after {wait:?}"),
            Self::OnRelease => f.write_str("when a permit ends"),
            Self::Never => f.write_str("never"),
        }
    }
}

/// So many percent of `limit`, rounded down: without a product that is longer than a word.
#[inline]
pub(crate) fn share(limit: u64, percent: u8) -> u64 {
    let percent = u64::from(percent);
    (limit / 100).saturating_mul(percent).saturating_add(limit % 100 * percent / 100)
}

/// One limit as it stood in the snapshot that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Whether the request was admitted (for a peek: would be).
    pub admitted: bool,
    /// The most units that the limit grants at once.
    pub limit: u64,
    /// Units that would still be admitted now, after this request.
    pub remaining: u64,
    /// When this request would be admitted.
    pub retry_after: RetryAfter,
    /// How long until the limit is as good as new, if nothing else comes.
    pub reset_after: Duration,
    /// How long an admitted request must wait for its turn (leaky bucket with a queue).
    pub delay: Duration,
}

impl Reading {
    /// The reading of no limit at all.
    pub(crate) const UNLIMITED: Self = Self {
        admitted: true,
        limit: u64::MAX,
        remaining: u64::MAX,
        retry_after: RetryAfter::Now,
        reset_after: Duration::ZERO,
        delay: Duration::ZERO,
    };

    /// Whether the request is admitted, and more than `percent` of the limit is left when `cost` units
    /// more are taken.
    pub(crate) fn leaves(&self, percent: u8, cost: u64) -> bool {
        self.admitted && self.remaining.saturating_sub(cost) > share(self.limit, percent)
    }

    /// The reading of two limits as one: admitted if both admit; `limit` and `remaining` of the one
    /// with fewer units left, the longer of each time.
    pub(crate) fn and(self, other: Self) -> Self {
        let admitted = self.admitted && other.admitted;
        let tighter = if other.remaining < self.remaining { other } else { self };
        Self {
            admitted,
            limit: tighter.limit,
            remaining: tighter.remaining,
            retry_after: self.retry_after.max(other.retry_after),
            reset_after: self.reset_after.max(other.reset_after),
            delay: if admitted { self.delay.max(other.delay) } else { Duration::ZERO },
        }
    }
}

/// One limit of those that made a decision: what it is, and how it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReading {
    /// The name of a limit among several; `client` or `global` for one that is alone.
    pub name: &'static str,
    /// What it grants: its quota with the window.
    pub allowance: Allowance,
    /// Whether it is enforced for this client; if not, it refuses nobody.
    pub enforced: bool,
    /// How it stood. `reset_after` is the time to full.
    pub reading: Reading,
    /// How long until one unit more than `reading.remaining` would be admitted.
    pub more_after: RetryAfter,
}

impl LimitReading {
    /// The name of a client's limit that is alone.
    pub(crate) const ALONE: &'static str = "client";

    pub(crate) const fn new(
        allowance: Allowance,
        reading: Reading,
        more_after: RetryAfter,
    ) -> Self {
        Self { name: Self::ALONE, allowance, enforced: true, reading, more_after }
    }

    /// Whether this limit is why the request was refused, or one of the reasons.
    pub const fn refused(&self) -> bool {
        self.enforced && !self.reading.admitted
    }
}

impl fmt::Display for LimitReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, enforced, reading, .. } = self;
        write!(f, "{name}: {} of {} left", reading.remaining, reading.limit)?;
        match (enforced, reading.admitted) {
            (_, true) => Ok(()),
            (true, false) => write!(f, ", retry {}", reading.retry_after),
            (false, false) => f.write_str(", would have refused"),
        }
    }
}

/// The answer to *may this client proceed right now?*, and why.
///
/// Everything in it was read from the snapshot that decided. Where a global cap stands beside the
/// client's own limit, `limit` and `remaining` are those of the one with fewer units left,
/// `retry_after` and `reset_after` the longer of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that nobody reads limits nothing"]
pub struct Decision {
    reading: Reading,
    refused_by_client: bool,
    refused_by_global: bool,
    refused_full: bool,
    would_refuse: bool,
}

impl Decision {
    /// The decision of the client's limit alone.
    #[cfg(any(feature = "std", test))]
    pub(crate) const fn of_client(client: Reading) -> Self {
        Self {
            refused_by_client: !client.admitted,
            refused_by_global: false,
            refused_full: false,
            would_refuse: false,
            reading: client,
        }
    }

    /// The decision of both limits: admitted only if both admit.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn of_both(client: Reading, global: Reading) -> Self {
        Self {
            reading: client.and(global),
            refused_by_client: !client.admitted,
            refused_by_global: !global.admitted,
            refused_full: false,
            would_refuse: false,
        }
    }

    /// A newcomer refused because there are as many clients as may be.
    #[cfg(any(feature = "std", test))]
    pub(crate) const fn of_full(limit: u64, retry_after: RetryAfter) -> Self {
        let reading = Reading {
            admitted: false,
            limit,
            remaining: 0,
            retry_after,
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
        };
        Self {
            reading,
            refused_by_client: false,
            refused_by_global: false,
            refused_full: true,
            would_refuse: false,
        }
    }

    /// Whether the request is admitted, and more than `percent` of the limit is left.
    #[cfg(feature = "http")]
    pub(crate) fn leaves(&self, percent: u8) -> bool {
        self.reading.leaves(percent, 0)
    }

    /// Whether the request may proceed, after [`delay`](Self::delay).
    pub const fn is_admitted(&self) -> bool {
        self.reading.admitted
    }

    /// Whether the request is refused.
    pub const fn is_refused(&self) -> bool {
        !self.reading.admitted
    }

    /// The most units granted at once.
    pub const fn limit(&self) -> u64 {
        self.reading.limit
    }

    /// Units left now, after this request.
    pub const fn remaining(&self) -> u64 {
        self.reading.remaining
    }

    /// When the same request would be admitted, if nothing else came.
    pub const fn retry_after(&self) -> RetryAfter {
        self.reading.retry_after
    }

    /// How long until the limit is as good as new.
    pub const fn reset_after(&self) -> Duration {
        self.reading.reset_after
    }

    /// How long an admitted request must wait before it proceeds; zero for most algorithms.
    pub const fn delay(&self) -> Duration {
        self.reading.delay
    }

    /// Whether the client's own limit refused.
    pub const fn refused_by_client(&self) -> bool {
        self.refused_by_client
    }

    /// Whether the client is new and there were as many clients as may be, none of them idle.
    pub const fn refused_because_full(&self) -> bool {
        self.refused_full
    }

    /// This decision of a request that a limit in shadow would have refused.
    #[cfg(any(feature = "std", test))]
    pub(crate) const fn missed(self, would_refuse: bool) -> Self {
        Self { would_refuse, ..self }
    }

    /// Whether the request was admitted though a limit in shadow, which is evaluated and not
    /// enforced, would have refused it.
    pub const fn would_have_been_refused(&self) -> bool {
        self.would_refuse
    }

    /// Whether the global cap refused.
    pub const fn refused_by_global(&self) -> bool {
        self.refused_by_global
    }
}

/// A refused [`acquire`](crate::Limiter::acquire) hands its decision back as the error.
impl core::error::Error for Decision {}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_admitted() {
            write!(f, "admitted, {} of {} left", self.remaining(), self.limit())?;
            return match self.delay() {
                Duration::ZERO => Ok(()),
                delay => write!(f, ", after {delay:?}"),
            };
        }
        let by = match (self.refused_by_client, self.refused_by_global) {
            (true, true) => "client limit and global cap",
            (false, true) => "global cap",
            _ if self.refused_full => "cap on clients",
            _ => "client limit",
        };
        write!(f, "refused by {by}, retry {}", self.retry_after())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMITTED: Reading = Reading {
        admitted: true,
        limit: 10,
        remaining: 4,
        retry_after: RetryAfter::Now,
        reset_after: Duration::from_secs(6),
        delay: Duration::ZERO,
    };
    const REFUSED: Reading = Reading {
        admitted: false,
        limit: 5,
        remaining: 0,
        retry_after: RetryAfter::After(Duration::from_millis(1500)),
        reset_after: Duration::from_secs(2),
        delay: Duration::ZERO,
    };

    #[test]
    fn never_is_the_longest_wait() {
        let after = RetryAfter::nanos(1);
        assert!(RetryAfter::Now < after && after < RetryAfter::Never);
        assert_eq!(RetryAfter::nanos(0), RetryAfter::Now);
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(RetryAfter::Now.as_secs_ceil(), Some(0));
        assert_eq!(RetryAfter::nanos(1).as_secs_ceil(), Some(1));
        assert_eq!(RetryAfter::nanos(1_000_000_000).as_secs_ceil(), Some(1));
        assert_eq!(RetryAfter::nanos(1_000_000_001).as_secs_ceil(), Some(2));
        assert_eq!(RetryAfter::Never.as_secs_ceil(), None);
    }

    #[test]
    fn one_limit_decides_alone() {
        let decision = Decision::of_client(ADMITTED);
        assert!(decision.is_admitted() && !decision.is_refused());
        assert!(!decision.refused_by_client() && !decision.refused_by_global());
        assert_eq!(decision.to_string(), "admitted, 4 of 10 left");
        let decision = Decision::of_client(REFUSED);
        assert!(decision.is_refused() && decision.refused_by_client());
        assert_eq!(decision.to_string(), "refused by client limit, retry after 1.5s");
    }

    #[test]
    fn of_two_limits_with_as_much_left_the_first_is_told() {
        let other = Reading { limit: 20, ..ADMITTED };
        assert_eq!(ADMITTED.and(other).limit, 10);
        assert_eq!(other.and(ADMITTED).limit, 20);
    }

    #[test]
    fn a_limit_among_several_tells_how_it_stood() {
        let limit = |enforced, reading| LimitReading {
            enforced,
            ..LimitReading::new(Allowance::Blocked, reading, RetryAfter::Never)
        };
        let told = [(true, ADMITTED), (true, REFUSED), (false, ADMITTED), (false, REFUSED)]
            .map(|(enforced, reading)| limit(enforced, reading));
        assert_eq!(told.map(|limit| limit.refused()), [false, true, false, false]);
        assert_eq!(told[0].to_string(), "client: 4 of 10 left");
        assert_eq!(told[1].to_string(), "client: 0 of 5 left, retry after 1.5s");
        assert_eq!(told[2].to_string(), "client: 4 of 10 left");
        assert_eq!(told[3].to_string(), "client: 0 of 5 left, would have refused");
    }

    #[test]
    fn of_two_limits_the_stricter_figures_count() {
        let decision = Decision::of_both(ADMITTED, REFUSED);
        assert!(decision.is_refused() && decision.refused_by_global());
        assert!(!decision.refused_by_client());
        assert_eq!((decision.limit(), decision.remaining()), (5, 0));
        assert_eq!(decision.retry_after(), REFUSED.retry_after);
        assert_eq!(decision.reset_after(), ADMITTED.reset_after);
        assert_eq!(decision.to_string(), "refused by global cap, retry after 1.5s");
        let both = Decision::of_both(REFUSED, REFUSED);
        assert_eq!(both.to_string(), "refused by client limit and global cap, retry after 1.5s");
    }

    #[test]
    fn a_newcomer_without_room_is_told_so() {
        let decision = Decision::of_full(10, RetryAfter::nanos(5));
        assert!(decision.is_refused() && decision.refused_because_full());
        assert!(!decision.refused_by_client() && !decision.refused_by_global());
        assert_eq!(decision.to_string(), "refused by cap on clients, retry after 5ns");
        assert!(!Decision::of_client(REFUSED).refused_because_full());
    }

    #[test]
    fn a_miss_of_a_limit_in_shadow_is_told() {
        let decision = Decision::of_client(ADMITTED);
        assert!(!decision.would_have_been_refused());
        assert!(decision.missed(true).would_have_been_refused());
    }

    #[test]
    fn a_delay_is_told() {
        let delayed = Reading { delay: Duration::from_millis(20), ..ADMITTED };
        let text = Decision::of_both(ADMITTED, delayed).to_string();
        assert_eq!(text, "admitted, 4 of 10 left, after 20ms");
    }
}
