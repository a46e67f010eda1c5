//! A decision with all the limits that made it.

use core::fmt;

use crate::algorithm::Stack;
use crate::decision::{Decision, LimitReading, Reading};

/// A decision, and how each limit stood: the client's, then the global cap's. Allocates nothing.
///
/// Each limit was read in the step that charged it, or refused; those of a refused request that
/// were not asked, right after. Several limits are several words, so with concurrent requests the
/// readings need not all belong to one instant.
///
/// ```
/// use tollgate::{Limit, Limiter, Quota, Stack, TokenBucket};
///
/// let bucket = |quota| TokenBucket::<u64>::new(quota);
/// let stack = Stack::new([
///     Limit::new("second", bucket(Quota::per_second(5)?)?),
///     Limit::new("hour", bucket(Quota::per_hour(2)?)?),
/// ])?;
/// let limiter = Limiter::<String, _>::new(stack);
/// let (_permit, explained) = limiter.client("alice").acquire_explained(2);
/// let remaining: Vec<_> = explained.limits().map(|limit| limit.reading.remaining).collect();
/// assert_eq!(remaining, [3, 0]);
/// let explained = limiter.client("alice").explain(1);
/// assert_eq!(explained.refusing().map(|limit| limit.name).collect::<Vec<_>>(), ["hour"]);
/// println!("{explained}"); // refused by client limit, retry after 1799.9s; second: 3 of 5 left; ...
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a decision that nobody reads limits nothing"]
pub struct Explained {
    pub(crate) decision: Decision,
    pub(crate) readings: Readings,
}

/// The readings of a decision that is being made: the client's limits, then the cap's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings {
    limits: [Option<LimitReading>; 2 * Stack::MAX],
    len: usize,
    /// How many of them are the client's.
    clients: usize,
}

impl Readings {
    pub(crate) fn clear(&mut self) {
        (self.len, self.clients) = (0, 0);
    }

    /// Notes the client's limits, anew if they have been.
    pub(crate) fn of_client(&mut self) -> impl FnMut(&LimitReading) {
        self.clear();
        |limit| {
            self.push(limit);
            self.clients = self.len;
        }
    }

    /// Notes the cap's limits, anew if they have been. A cap that is one limit is called `global`.
    pub(crate) fn of_cap(&mut self) -> impl FnMut(&LimitReading) {
        self.len = self.clients;
        |limit| {
            let alone = limit.name == LimitReading::ALONE;
            self.push(&LimitReading { name: if alone { "global" } else { limit.name }, ..*limit });
        }
    }

    fn push(&mut self, limit: &LimitReading) {
        if let Some(place) = self.limits.get_mut(self.len) {
            *place = Some(*limit);
            self.len += 1;
        }
    }
}

/// Of a request that was not decided yet: no limit stands against it.
impl Default for Explained {
    fn default() -> Self {
        Self { decision: Decision::of_client(Reading::UNLIMITED), readings: Readings::default() }
    }
}

impl Explained {
    /// The decision.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// How every limit stood. None, if a newcomer found no room.
    pub fn limits(&self) -> impl Iterator<Item = &LimitReading> {
        self.readings.limits[..self.readings.len].iter().flatten()
    }

    /// The limits that refused.
    pub fn refusing(&self) -> impl Iterator<Item = &LimitReading> {
        self.limits().filter(|limit| limit.refused())
    }

    /// The limit that binds: of those that refused, the one with the longest wait; of an admitted
    /// request, the one with the fewest units left.
    pub fn binding(&self) -> Option<&LimitReading> {
        let enforced = self.limits().filter(|limit| limit.enforced);
        self.refusing()
            .max_by_key(|limit| limit.reading.retry_after)
            .or_else(|| enforced.min_by_key(|limit| limit.reading.remaining))
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decision.fmt(f)?;
        self.limits().try_for_each(|limit| write!(f, "; {limit}"))
    }
}
