//! In-flight limit: so many permits of a client at one time, whenever they were made.
//!
//! No time plays a part: a unit is taken by a permit and comes back when the permit ends. A decision
//! that hands out no permit takes a unit for no time at all: it tells whether one was free.
//!
//! | bits | field | range |
//! |---|---|---|
//! | 0..31 | count: units that permits hold | 0 to the limit |
//! | 31..62 | serial: which state of this process it is | any; wraps |
//! | 62 | unused | 0 |
//! | 63 | frozen | |
//!
//! The serial is drawn when a state is made, and a grant remembers it: a permit that outlives its
//! client's state (a client forgotten, or moved to a tier without such a limit) gives back nothing
//! to the state that came after.

use core::fmt;
use core::time::Duration;

use super::{AlgorithmKind, Grant, WordAlgorithm};
use crate::carry::Change;
use crate::decision::RetryAfter;
use crate::quota::{Allowance, QuotaError};
use crate::sync::serial;
use crate::time::Nanos;
use crate::word::{Field, Layout};

const FIELDS: (Field, Field) = Layout::of::<u64>().halves();
const COUNT: Field = FIELDS.0;
const SERIAL: Field = FIELDS.1;

/// At most so many units held by permits at one time.
///
/// ```
/// use tollgate::{InFlight, Limiter};
///
/// let limiter = Limiter::<String, _>::new(InFlight::new(1)?);
/// let permit = limiter.acquire("alice", 1)?;
/// assert!(!limiter.is_allowed("alice"));
/// drop(permit);
/// assert!(limiter.is_allowed("alice"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Bound: never more than the limit is held at once, under any interleaving. Retry-after is
/// [`RetryAfter::OnRelease`]: when a permit ends cannot be told. Nothing can be credited, charged
/// or drained that no permit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    limit: u64,
}

impl InFlight {
    /// The most units that can be in flight.
    pub const MAX: u64 = COUNT.max();

    /// At most `limit` units at one time, 1 to [`MAX`](Self::MAX).
    ///
    /// # Errors
    /// If `limit` is 0, or beyond what the word holds.
    pub const fn new(limit: u64) -> Result<Self, QuotaError> {
        match limit {
            0 => Err(QuotaError::ZeroLimit),
            1..=Self::MAX => Ok(Self { limit }),
            _ => Err(QuotaError::TooLarge {
                what: "limit",
                given: limit,
                max: Self::MAX,
                instead: "use the allowance `unlimited`",
            }),
        }
    }

    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        None
    }
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WordAlgorithm::allowance(self).fmt(f)
    }
}

impl WordAlgorithm for InFlight {
    type Word = u64;

    const NAME: &'static str = "in_flight";

    fn limit(&self) -> u64 {
        self.limit
    }

    fn allowance(&self) -> Allowance {
        Allowance::InFlight(self.limit)
    }

    fn start(&self, _since: Nanos) -> u64 {
        SERIAL.put(serial() % (SERIAL.max() + 1))
    }

    fn take(&self, word: u64, now: Nanos, cost: u64) -> Option<(u64, Grant)> {
        let fits = cost <= self.remaining(word, now);
        fits.then(|| (word + cost, Grant { window: SERIAL.get(word), amount: cost }))
    }

    fn give_back(&self, word: u64, _now: Nanos, grant: Grant) -> Option<u64> {
        let held = COUNT.get(word).min(grant.amount);
        (grant.window == SERIAL.get(word) && held > 0).then(|| word - held)
    }

    const HOLDS: bool = true;

    const REFUNDS_SURVIVE_CHANGE: bool = true;

    fn credit(&self, _word: u64, _now: Nanos, _amount: u64) -> Option<u64> {
        None
    }

    fn charge(&self, word: u64, _now: Nanos, _cost: u64) -> u64 {
        word
    }

    fn penalize(&self, word: u64, _now: Nanos, _until: Nanos) -> u64 {
        word
    }

    /// Nothing: what is in flight is no use that another kind of limit would have to know of.
    fn owed(&self, _word: u64, _now: Nanos) -> u64 {
        0
    }

    /// Permits in flight stay in flight, whatever is carried over; none is taken from anybody.
    fn adopt(&self, _old: &Self, word: u64, _change: Change) -> u64 {
        word
    }

    fn is_idle(&self, word: u64, _now: Nanos) -> bool {
        COUNT.get(word) == 0
    }

    fn remaining(&self, word: u64, _now: Nanos) -> u64 {
        self.limit.saturating_sub(COUNT.get(word))
    }

    fn retry_after(&self, word: u64, now: Nanos, cost: u64) -> RetryAfter {
        match cost {
            _ if cost > self.limit => RetryAfter::Never,
            _ if cost > self.remaining(word, now) => RetryAfter::OnRelease,
            _ => RetryAfter::Now,
        }
    }

    /// No time: it is as good as new when its permits have ended.
    fn reset_after(&self, _word: u64, _now: Nanos) -> Duration {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::CarryOver;
    use alloc::string::ToString;

    const NOW: Nanos = Nanos::new(5);

    #[test]
    fn units_are_held_until_they_are_given_back() {
        let limit = InFlight::new(3).unwrap();
        let word = limit.start(NOW);
        let (held, grant) = limit.take(word, NOW, 2).unwrap();
        assert_eq!((limit.remaining(held, NOW), limit.is_idle(held, Nanos::MAX)), (1, false));
        assert_eq!(limit.take(held, Nanos::MAX, 2), None);
        assert_eq!(limit.retry_after(held, NOW, 2), RetryAfter::OnRelease);
        assert_eq!(limit.retry_after(held, NOW, 4), RetryAfter::Never);
        assert_eq!(limit.retry_after(held, NOW, 1), RetryAfter::Now);
        assert_eq!(limit.give_back(held, NOW, grant), Some(word));
        assert!(limit.is_idle(word, NOW));
    }

    #[test]
    fn only_permits_change_it() {
        let limit = InFlight::new(3).unwrap();
        assert_eq!((WordAlgorithm::limit(&limit), limit.to_string()), (3, "3 in flight".into()));
        let (held, _) = limit.take(limit.start(NOW), NOW, 2).unwrap();
        let (_, nothing) = limit.take(held, NOW, 0).unwrap();
        assert_eq!(limit.give_back(held, NOW, nothing), None);
        assert_eq!(limit.credit(held, NOW, 2), None);
        assert_eq!(limit.charge(held, NOW, 2), held);
        assert_eq!(limit.penalize(held, NOW, Nanos::MAX), held);
        assert_eq!((limit.owed(held, NOW), limit.reset_after(held, NOW)), (0, Duration::ZERO));
        let change = Change { at: NOW, carry_over: CarryOver::Reset, moved: true };
        assert_eq!(limit.adopt(&limit, held, change), held);
    }

    #[test]
    fn a_grant_of_another_state_gives_back_nothing() {
        let limit = InFlight::new(3).unwrap();
        let (_, grant) = limit.take(limit.start(NOW), NOW, 2).unwrap();
        let (held, _) = limit.take(limit.start(NOW), NOW, 2).unwrap();
        assert_eq!(limit.give_back(held, NOW, grant), None);
    }

    #[test]
    fn a_lowered_limit_takes_nothing_away() {
        let wide = InFlight::new(InFlight::MAX).unwrap();
        let (held, grant) = wide.take(wide.start(NOW), NOW, InFlight::MAX).unwrap();
        let narrow = InFlight::new(1).unwrap();
        assert_eq!(narrow.remaining(held, NOW), 0);
        assert_eq!(COUNT.get(narrow.give_back(held, NOW, grant).unwrap()), 0);
    }

    #[test]
    fn impossible_limits_are_told() {
        assert_eq!(InFlight::new(0), Err(QuotaError::ZeroLimit));
        let error = InFlight::new(1 << 31).unwrap_err().to_string();
        assert_eq!(
            error,
            "limit 2147483648: at most 2147483647 here; use the allowance `unlimited`"
        );
    }
}
