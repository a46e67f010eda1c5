//! Sliding window log: exact, every unit remembered for as long as it counts.
//!
//! | file | what it knows |
//! |---|---|
//! | `plain` | the log of single units: one exchange of one slot is all; its proof |
//! | `ring` | the log with everything else: control word, slots, who may write what; its proof |
//! | `steps` | what the ring can do, as pure steps from one control word to the next |
//! | `view` | the ring as one control word means it |
//! | `control`, `slot`, `circle` | the ring's words and places, bit by bit |
//! | `rule` | the quota, and how many slots a log has |

mod circle;
mod control;
mod plain;
mod ring;
mod rule;
mod slot;
mod steps;
mod view;

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use self::plain::{Need, Plain};
use self::ring::Ring;
use self::rule::Rule;
use super::{Algorithm, AlgorithmKind, Checked, Interrupted};
use crate::carry::Change;
use crate::decision::{Reading, RetryAfter};
use crate::quota::{Allowance, Quota, QuotaError};
use crate::time::Nanos;
use crate::word::Frozen;

/// Sliding window log: at most `limit` units in any half-open window `(t - period, t]`, exactly.
///
/// **Bound:** a unit admitted at `s` counts until `s + period`, and no longer. No window of one
/// period, wherever it begins, holds more than `limit` units. The quota's burst plays no part.
///
/// **State:** 8 bytes for each unit, in one of two forms that decide alike. A log is plain until
/// the first request that needs a ring is admitted.
///
/// | | plain | ring |
/// |---|---|---|
/// | can | single units | costs above 1, refunds, credits, charges, penalties |
/// | admits by | one exchange of a 64-bit slot | one of a 128-bit control word, then one a slot |
/// | slots | 4, then doubled, `limit` at most | the same; up to `2 * limit - 1` where units came back behind older ones |
/// | is replaced | to grow, or by a ring | to grow; after 2^18 units at the latest |
///
/// **Limits:** `limit` up to 65,536, `period` up to 2^56 ns (2.28 years).
///
/// **Cost:** O(1) amortised for cost 1, O(cost) above. A refusal of cost 1 looks at one unit; of
/// more, at those that must expire first. `remaining` takes O(log limit) in a plain log.
///
/// **Progress:** decisions are lock-free. Refusals and peeks store nothing; they look again only
/// if another thread's change came in between. A decision allocates where the log grows, becomes a
/// ring or has used up a ring's places: it freezes the state, and whoever meets it copies it. With
/// [`preallocated`](Self::preallocated) a plain log does none of this.
///
/// **Giving back:** units with one stamp are alike, so a refund gives back so many with the
/// grant's stamp, if so many are left. After a reload a grant gives nothing back. A credit gives
/// back the newest first.
///
/// **Charges** are never refused: the oldest units make room, so nobody owes more than the limit.
/// **Penalties** shut the log for a whole period at least, for 4.5 years at most.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{DirectLimiter, ManualClock, Quota, SlidingLog};
///
/// let clock = ManualClock::new();
/// let limiter = DirectLimiter::new(SlidingLog::new(Quota::per_second(2)?)?, clock.clone());
/// assert!(limiter.is_allowed());
/// clock.advance(Duration::from_millis(400));
/// assert!(limiter.is_allowed() && !limiter.is_allowed());
/// clock.advance(Duration::from_millis(600));
/// assert!(limiter.is_allowed() && !limiter.is_allowed());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    quota: Quota,
    rule: Rule,
}

/// What an admitted request took: so many units, stamped with one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGrant {
    pub(crate) stamp: Nanos,
    pub(crate) amount: u32,
}

impl LogGrant {
    /// The time at which the units were admitted: they count until one period later.
    pub const fn stamp(&self) -> Nanos {
        self.stamp
    }

    /// Units taken.
    pub const fn amount(&self) -> u64 {
        self.amount as u64
    }
}

impl SlidingLog {
    /// A log of the quota's units.
    ///
    /// # Errors
    /// If the limit is above 65,536 or the period above 2.28 years: see [`QuotaError`].
    pub fn new(quota: Quota) -> Result<Self, QuotaError> {
        Self::with(quota, false)
    }

    /// A log whose states have all their slots from the start.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn preallocated(quota: Quota) -> Result<Self, QuotaError> {
        Self::with(quota, true)
    }

    fn with(quota: Quota, whole: bool) -> Result<Self, QuotaError> {
        let too_large = |what, given, max| QuotaError::TooLarge {
            what,
            given,
            max,
            instead: "use sliding_counter",
        };
        let (limit, max) = (quota.limit(), Rule::MAX_LIMIT);
        let limit = u32::try_from(limit).ok().filter(|&limit| limit <= max);
        let limit = limit.ok_or(too_large("limit", quota.limit(), u64::from(max)))?;
        let (period, max) = (quota.period_nanos(), Rule::MAX_PERIOD);
        if period > max {
            return Err(too_large("period in ns", period, max));
        }
        Ok(Self { quota: quota.rate_only(), rule: Rule::new(limit, period, whole) })
    }

    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        Some(AlgorithmKind::SlidingLog)
    }

    /// The cost as the ring counts it; `None` if it is above the limit.
    #[inline]
    fn units(&self, cost: u64) -> Option<u32> {
        u32::try_from(cost).ok().filter(|&units| units <= self.rule.limit())
    }

    /// How long it is from `now` until a unit of this stamp no longer counts.
    fn wait(&self, stamp: Nanos, now: Nanos) -> u64 {
        match stamp.get().checked_sub(now.get()) {
            Some(ahead) => self.rule.period().saturating_add(ahead),
            None => self.rule.period().saturating_sub(now.get() - stamp.get()),
        }
    }

    /// The reading of a log as it stands for a request of `cost` at `now`.
    fn reading(&self, standing: Standing, now: Nanos, cost: u64) -> Reading {
        let wait = |stamp| self.wait(stamp, now);
        let retry_after = match standing.opens {
            _ if self.units(cost).is_none() => RetryAfter::Never,
            Some(stamp) if cost > 0 => RetryAfter::nanos(wait(stamp)),
            _ => RetryAfter::Now,
        };
        Reading {
            admitted: retry_after == RetryAfter::Now,
            limit: self.limit(),
            remaining: self.limit().saturating_sub(u64::from(standing.used)),
            retry_after,
            reset_after: Duration::from_nanos(standing.newest.map_or(0, wait)),
            delay: Duration::ZERO,
        }
    }

    /// Whether a unit of `stamp` counts at `now`.
    fn counts(&self, stamp: Nanos, now: Nanos) -> bool {
        now.get().saturating_sub(stamp.get()) < self.rule.period()
    }

    fn standing(&self, state: &Log, now: Nanos, units: u32) -> Standing {
        match &state.0 {
            Kind::Plain(plain) => plain.peek(&self.rule, now, units),
            Kind::Ring(ring) => ring.peek(&self.rule, now, units),
        }
    }

    fn admit<const TOLD: bool>(
        &self,
        state: &Log,
        now: Nanos,
        units: u32,
    ) -> Result<Decided, Frozen> {
        match &state.0 {
            Kind::Plain(plain) => plain.admit::<TOLD>(&self.rule, now, units),
            Kind::Ring(ring) => ring.admit::<TOLD>(&self.rule, now, units),
        }
    }
}

impl fmt::Display for SlidingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, sliding window log", self.quota)
    }
}

/// The log of one client: the state of a [`SlidingLog`].
#[derive(Debug)]
pub struct Log(Kind);

#[derive(Debug)]
enum Kind {
    Plain(Plain),
    Ring(Ring),
}

/// How a log stands at some time, and for a request of some cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Standing {
    /// Units that count.
    used: u32,
    /// The stamp of the unit that must expire before the request fits; `None` if it fits.
    opens: Option<Nanos>,
    /// The stamp of the newest unit that counts.
    newest: Option<Nanos>,
}

/// The units that count at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holding {
    /// That time, or the latest time that the log has seen if that is later.
    latest: Nanos,
    /// Oldest first; none is later than `latest`.
    stamps: Vec<Nanos>,
}

impl Holding {
    /// A time that no stamp is before.
    fn base(&self) -> u64 {
        self.stamps.first().unwrap_or(&self.latest).get()
    }

    /// What is carried over from one rule to another: each unit once, or more or less often if
    /// the number changes with the limit; if less, the older ones go.
    fn carried(&self, old: &Rule, new: &Rule, change: Change) -> Self {
        let used = self.stamps.len() as u64;
        let [old_limit, new_limit] = [old, new].map(|rule| u64::from(rule.limit()));
        let kept = change.used(used, old_limit, new_limit).min(u64::from(Rule::MAX_LIMIT));
        let nth = |nth: u64| (nth * used).div_ceil(kept) - 1;
        let stamps = (1..=kept).map(|kept| self.stamps[nth(kept) as usize]);
        let counting = |stamp: &Nanos| self.latest.get() - stamp.get() < new.period();
        Self { latest: self.latest, stamps: stamps.filter(counting).collect() }
    }
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decided {
    /// The stamp of what was admitted; `None` if it was refused.
    stamp: Option<Nanos>,
    /// How the log stands afterwards, if that was asked for.
    standing: Standing,
}

impl Log {
    /// A log that holds these units; if that need not be a ring, with room for `at_least` units.
    fn of(rule: &Rule, holding: &Holding, need: Need, at_least: u32) -> Self {
        let ring = need == Need::Ring || holding.stamps.len() > rule.limit() as usize;
        Self(if ring {
            Kind::Ring(Ring::of(rule, holding))
        } else {
            Kind::Plain(Plain::of(rule, holding, at_least))
        })
    }

    fn is_frozen(&self) -> bool {
        match &self.0 {
            Kind::Plain(plain) => plain.is_frozen(),
            Kind::Ring(ring) => ring.is_frozen(),
        }
    }
}

impl Algorithm for SlidingLog {
    type State = Log;
    type Grant = LogGrant;

    fn name(&self) -> &'static str {
        "sliding_log"
    }

    fn limit(&self) -> u64 {
        u64::from(self.rule.limit())
    }

    fn allowance(&self) -> Allowance {
        self.quota.into()
    }

    fn fresh(&self, since: Nanos) -> Log {
        Log(Kind::Plain(Plain::fresh(&self.rule, since)))
    }

    #[inline]
    fn acquire(
        &self,
        state: &Log,
        now: Nanos,
        cost: u64,
    ) -> Result<Option<LogGrant>, Interrupted<LogGrant>> {
        match self.units(cost) {
            None | Some(0) if state.is_frozen() => Err(Frozen.into()),
            None => Ok(None),
            Some(0) => Ok(Some(LogGrant { stamp: now, amount: 0 })),
            Some(units) => {
                let decided = self.admit::<false>(state, now, units)?;
                Ok(decided.stamp.map(|stamp| LogGrant { stamp, amount: units }))
            }
        }
    }

    fn check(&self, state: &Log, now: Nanos, cost: u64) -> Checked<LogGrant> {
        let Some(units) = self.units(cost).filter(|&units| units > 0) else {
            let grant = self.acquire(state, now, cost)?;
            return Ok((grant, self.peek(state, now, cost)));
        };
        let Decided { stamp, standing } = self.admit::<true>(state, now, units)?;
        let grant = stamp.map(|stamp| LogGrant { stamp, amount: units });
        Ok((grant, self.reading(standing, now, cost)))
    }

    fn peek(&self, state: &Log, now: Nanos, cost: u64) -> Reading {
        let standing = self.standing(state, now, self.units(cost).unwrap_or(0));
        self.reading(standing, now, cost)
    }

    #[inline]
    fn would_admit(&self, state: &Log, now: Nanos, cost: u64) -> bool {
        match (self.units(cost), &state.0) {
            (None, _) => false,
            (Some(0), _) => true,
            (Some(units), Kind::Plain(plain)) => plain.fits(&self.rule, now, units),
            (Some(units), Kind::Ring(ring)) => ring.fits(&self.rule, now, units),
        }
    }

    fn refund(&self, state: &Log, now: Nanos, grant: LogGrant) -> Result<(), Frozen> {
        match &state.0 {
            _ if grant.amount == 0 => Ok(()),
            Kind::Plain(plain) => {
                plain.leave_to_ring(&self.rule, now, |_| self.counts(grant.stamp, now))
            }
            Kind::Ring(ring) => ring.refund(&self.rule, now, grant.stamp, grant.amount),
        }
    }

    fn refund_adopted(&self, _: &Log, _: Nanos, _: LogGrant) -> Result<(), Frozen> {
        // Units may have been scaled or left behind: those of the grant cannot be told apart.
        Ok(())
    }

    fn excess(&self, grant: LogGrant, actual: u64) -> LogGrant {
        let actual = u32::try_from(actual).unwrap_or(u32::MAX);
        LogGrant { amount: grant.amount.saturating_sub(actual), ..grant }
    }

    fn credit(&self, state: &Log, now: Nanos, amount: u64, _: usize) -> Result<(), Frozen> {
        match (u32::try_from(amount).unwrap_or(u32::MAX), &state.0) {
            (0, _) => Ok(()),
            (_, Kind::Plain(plain)) => {
                plain.leave_to_ring(&self.rule, now, |standing| standing.used > 0)
            }
            (amount, Kind::Ring(ring)) => ring.credit(&self.rule, now, amount),
        }
    }

    fn charge(&self, state: &Log, now: Nanos, cost: u64, _: usize) -> Result<(), Frozen> {
        // More than the limit at one time expires as the limit does.
        match (cost.min(self.limit()) as u32, &state.0) {
            (0, _) => Ok(()),
            (_, Kind::Plain(plain)) => plain.leave_to_ring(&self.rule, now, |_| true),
            (cost, Kind::Ring(ring)) => ring.charge(&self.rule, now, cost),
        }
    }

    fn drain(&self, state: &Log, now: Nanos) -> Result<(), Frozen> {
        match &state.0 {
            Kind::Plain(plain) => {
                plain.leave_to_ring(&self.rule, now, |standing| standing.used < self.rule.limit())
            }
            Kind::Ring(ring) => ring.drain(&self.rule, now),
        }
    }

    fn penalize(&self, state: &Log, now: Nanos, until: Nanos) -> Result<(), Frozen> {
        match &state.0 {
            _ if until <= now => Ok(()),
            Kind::Plain(plain) => plain.leave_to_ring(&self.rule, now, |_| true),
            Kind::Ring(ring) => ring.penalize(&self.rule, now, until),
        }
    }

    fn owed(&self, state: &Log, now: Nanos) -> u64 {
        u64::from(self.standing(state, now, 0).used)
    }

    fn is_idle(&self, state: &Log, now: Nanos) -> bool {
        let latest = match &state.0 {
            Kind::Plain(plain) => plain.latest(),
            Kind::Ring(ring) => ring.latest(),
        };
        latest <= now && self.standing(state, now, 0).used == 0
    }

    fn freeze(&self, state: &Log) {
        match &state.0 {
            Kind::Plain(plain) => plain.freeze(),
            Kind::Ring(ring) => ring.freeze(&self.rule),
        }
    }

    fn freeze_if_idle(&self, state: &Log, now: Nanos) -> bool {
        match &state.0 {
            Kind::Plain(plain) => plain.freeze_if_idle(&self.rule, now),
            Kind::Ring(ring) => ring.freeze_if_idle(&self.rule, now),
        }
    }

    fn successor(&self, frozen: &Log) -> Log {
        match &frozen.0 {
            Kind::Plain(plain) => {
                let holding = plain.holding(&self.rule, Nanos::ZERO);
                // No smaller, for the reason that a ring is not.
                Log::of(&self.rule, &holding, plain.need(), plain.capacity())
            }
            Kind::Ring(ring) => Log(Kind::Ring(ring.successor(&self.rule))),
        }
    }

    fn adopt(&self, old: &Self, frozen: &Log, change: Change) -> Log {
        let holding = match &frozen.0 {
            Kind::Plain(plain) => plain.holding(&old.rule, change.at),
            Kind::Ring(ring) => ring.holding(&old.rule, change.at),
        };
        Log::of(&self.rule, &holding.carried(&old.rule, &self.rule, change), Need::Plain, 0)
    }

    fn inherit(&mut self, _: &Self, _: Change) {
        // A log without units is as good as new under any parameters.
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod oracle;
#[cfg(all(test, not(tollgate_loom)))]
mod stops;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;
