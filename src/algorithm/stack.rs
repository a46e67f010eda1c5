//! Several limits for one client, decided as one: all are charged or none is.
//!
//! A decision probes every limit, then charges one after the other, and gives back what it has taken
//! if one refuses after all. A refusal that the probe sees writes nothing.
//!
//! # What concurrent callers can see
//! Between a decision's first charge and its last, another decision meets limits that are charged in
//! part. No limit ever grants more than it may: each charge is a decision of that limit. But if the
//! last charge is refused and the others are rolled back, a request that came in between may have
//! been refused that a serial order would have admitted. This takes two decisions of one client at
//! the same time, and a limit that has less left than both cost together; what is held in vain is at
//! most the cost of the decisions under way, and for no longer than they take. With one thread every
//! answer is exact.
//!
//! # Freezing, by cases
//! The limits of a state are frozen one by one, in order, so a state can be frozen in part. Whoever
//! meets any of it frozen freezes the rest and replaces the whole, as always; a limit that is not
//! frozen yet may be charged until then, and its successor holds that.
//! 1. A decision that meets a frozen limit before it has charged any starts over on the successor.
//! 2. One that has charged some hands back what it took ([`Interrupted`]): its caller refunds that
//!    on the successor, as it would a permit, and starts over.
//!    If the successor is under another policy, a window or log of it cannot tell the units apart
//!    (see [`Algorithm::refund_adopted`]): they stay used until they expire, as if the request had
//!    come twice. That errs on the side of refusing, and takes a reload in the middle of a decision.
//! 3. A refund, credit or charge is made to one limit at a time, and each is one exchange: it is in
//!    the frozen value, or made to the successor.
//! 4. Retiring checks and freezes each limit in one exchange. When the last is frozen, none of those
//!    before it has changed since, so all of them are idle at once; if one is not, the state is frozen
//!    in part, and is replaced by the sweep that left it so, or by whoever meets it first.

use alloc::boxed::Box;
use core::array;
use core::fmt;
use core::hash::BuildHasher;
use core::mem;

use foldhash::quality::FixedState;

use super::{
    Algorithm, AlgorithmKind, AnyAlgorithm, AnyGrant, AnyState, Checked, Constant, Interrupted,
    Told,
};
use crate::carry::Change;
use crate::decision::{LimitReading, Reading};
use crate::quota::Allowance;
use crate::time::Nanos;
use crate::word::Frozen;

/// What a limit among several counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Counts {
    /// The cost of each request.
    #[default]
    Cost,
    /// Each request as one, whatever it costs.
    Requests,
}

/// One limit of a [`Stack`].
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    name: &'static str,
    algorithm: AnyAlgorithm,
    counts: Counts,
    /// For how many hundredths of all clients it is enforced.
    enforced: u8,
    /// Its name and kind as a number: by it a grant finds the limit again that took over.
    id: u32,
}

impl Limit {
    /// A limit of this name that counts cost (requests, if it is an in-flight limit) and is
    /// enforced for all clients.
    pub fn new(name: &'static str, algorithm: impl Into<AnyAlgorithm>) -> Self {
        let algorithm = algorithm.into();
        let counts = match algorithm {
            AnyAlgorithm::InFlight(_) => Counts::Requests,
            _ => Counts::Cost,
        };
        let id = FixedState::default().hash_one((name, mem::discriminant(&algorithm))) as u32;
        Self { name, algorithm, counts, enforced: 100, id }
    }

    /// Counts cost or requests.
    #[must_use]
    pub fn counts(self, counts: Counts) -> Self {
        Self { counts, ..self }
    }

    /// Is evaluated and charged, but refuses nobody: what it would have refused is told by
    /// [`Decision::would_have_been_refused`](crate::Decision::would_have_been_refused) and counted
    /// in [`Stats::would_have_refused`](crate::Stats::would_have_refused).
    #[must_use]
    pub fn shadow(self) -> Self {
        self.enforced_for(0)
    }

    /// Is enforced for `percent` of all clients, chosen by a hash of their keys, and in shadow for
    /// the rest. A client stays in or out, and stays in as the share grows. 100 and more: all.
    #[must_use]
    pub fn enforced_for(self, percent: u8) -> Self {
        Self { enforced: percent.min(100), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it is.
    pub fn algorithm(&self) -> &AnyAlgorithm {
        &self.algorithm
    }

    /// For what share of all clients it is enforced, in percent; 0 is shadow.
    pub fn enforced_percent(&self) -> u8 {
        self.enforced
    }

    /// What it charges for a request of this cost.
    #[inline]
    fn charges(&self, cost: u64) -> u64 {
        match self.counts {
            Counts::Cost => cost,
            Counts::Requests => cost.min(1),
        }
    }

    /// What a stack's grant took from it, when it was the limit of this number.
    fn grant(&self, grant: &StackGrant, part: usize) -> AnyGrant {
        self.algorithm.grant(self.charges(grant.cost), grant.marks[part])
    }

    /// Whether units can be given to it or taken from it without a permit.
    fn has_units(&self) -> bool {
        self.counts == Counts::Cost && !self.algorithm.holds()
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.algorithm)?;
        if self.counts == Counts::Requests && !self.algorithm.holds() {
            f.write_str(", counting requests")?;
        }
        match self.enforced {
            100 => Ok(()),
            0 => f.write_str(", in shadow"),
            percent => write!(f, ", enforced for {percent} %"),
        }
    }
}

/// Why limits do not make a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// There was none.
    Empty,
    /// There were more than [`Stack::MAX`].
    TooMany {
        /// How many there were.
        given: usize,
    },
    /// Two had one name.
    SameName {
        /// The name.
        name: &'static str,
    },
    /// One was a stack itself.
    Nested {
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "no limits: expected 1 to {}", Stack::MAX),
            Self::TooMany { given } => write!(f, "{given} limits: expected 1 to {}", Stack::MAX),
            Self::SameName { name } => {
                write!(f, "limit {name:?} is there twice: expected a name of its own for each")
            }
            Self::Nested { name } => {
                write!(f, "limit {name:?} is a stack: expected its limits in this one")
            }
        }
    }
}

impl core::error::Error for StackError {}

/// Several limits for each client, decided as one.
///
/// ```
/// use tollgate::{InFlight, Limit, Limiter, Quota, SlidingCounter, Stack, TokenBucket};
///
/// let stack = Stack::new([
///     Limit::new("second", TokenBucket::<u64>::new(Quota::per_second(10)?)?),
///     Limit::new("day", SlidingCounter::<u64>::new(Quota::per_day(10_000)?)?),
///     Limit::new("parallel", InFlight::new(2)?),
/// ])?;
/// let limiter = Limiter::<String, _>::new(stack);
/// let first = limiter.acquire("alice", 1)?;
/// let second = limiter.acquire("alice", 1)?;
/// let (none, explained) = limiter.client("alice").acquire_explained(1);
/// assert!(none.is_none());
/// assert_eq!(explained.binding().map(|limit| limit.name), Some("parallel"));
/// drop(first);
/// assert!(limiter.is_allowed("alice"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Its reading is that of all enforced limits together: the smallest `remaining`, the longest
/// times. A limit that counts requests has no bound on the cost of the next one: it counts as zero
/// units left or as any number, unless no limit counts cost.
///
/// On reload and between tiers each limit takes over from the one of its name; one that has no
/// predecessor begins with what the others had used most. A grant made under another policy gives
/// back what buckets and in-flight limits of the same name took.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    limits: Box<[Limit]>,
    /// Whether any limit counts cost.
    by_cost: bool,
}

/// The state of a client under a [`Stack`].
#[derive(Debug)]
pub struct StackState {
    /// Which hundredth of all clients it is in.
    hundredth: u8,
    /// One for each limit; the rest is never looked at.
    parts: [AnyState; Stack::MAX],
}

/// What an admitted request took from the limits of a [`Stack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackGrant {
    cost: u64,
    /// Which limits it took from, a bit for each.
    held: u8,
    /// Which limits in shadow would have refused it, a bit for each.
    missed: u8,
    /// What each limit must know beside the amount.
    marks: [u64; Stack::MAX],
    /// Which limit each was.
    ids: [u32; Stack::MAX],
}

impl StackGrant {
    pub(crate) fn empty(cost: u64) -> Self {
        Self { cost, held: 0, missed: 0, marks: [0; Stack::MAX], ids: [0; Stack::MAX] }
    }

    fn put(&mut self, part: usize, limit: &Limit, grant: AnyGrant) {
        self.held |= 1 << part;
        self.marks[part] = grant.mark();
        self.ids[part] = limit.id;
    }

    fn holds(&self, part: usize) -> bool {
        self.held & 1 << part != 0
    }
}

impl Stack {
    /// The most limits in one stack.
    pub const MAX: usize = 6;

    /// These limits, charged in this order.
    ///
    /// # Errors
    /// If there are none or more than [`MAX`](Self::MAX), if two have the same name, or if one is a
    /// stack itself.
    pub fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, StackError> {
        let limits: Box<[Limit]> = limits.into_iter().collect();
        if limits.is_empty() {
            return Err(StackError::Empty);
        }
        if limits.len() > Self::MAX {
            return Err(StackError::TooMany { given: limits.len() });
        }
        for (index, limit) in limits.iter().enumerate() {
            let name = limit.name;
            if limits[..index].iter().any(|other| other.name == name) {
                return Err(StackError::SameName { name });
            }
            if matches!(limit.algorithm, AnyAlgorithm::Stack(_)) {
                return Err(StackError::Nested { name });
            }
        }
        let by_cost = limits.iter().any(|limit| limit.counts == Counts::Cost);
        Ok(Self { limits, by_cost })
    }

    /// The limits, in order.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    #[inline]
    fn parts<'a>(
        &'a self,
        state: &'a StackState,
    ) -> impl Iterator<Item = (usize, &'a Limit, &'a AnyState)> {
        let parts = self.limits.iter().zip(&state.parts).enumerate();
        parts.map(|(part, (limit, state))| (part, limit, state))
    }

    /// The limits that are enforced for the client.
    #[inline]
    fn enforced<'a>(
        &'a self,
        state: &'a StackState,
    ) -> impl Iterator<Item = (usize, &'a Limit, &'a AnyState)> {
        self.parts(state).filter(|(_, limit, _)| state.hundredth < limit.enforced)
    }

    fn shadows<'a>(
        &'a self,
        state: &'a StackState,
    ) -> impl Iterator<Item = (usize, &'a Limit, &'a AnyState)> {
        self.parts(state).filter(|(_, limit, _)| state.hundredth >= limit.enforced)
    }

    /// The limit of this name.
    fn named(&self, name: &str) -> Option<usize> {
        self.limits.iter().position(|limit| limit.name == name)
    }

    fn state(hundredth: u8, part: impl FnMut(usize) -> Option<AnyState>) -> StackState {
        let unused = || AnyAlgorithm::Constant(Constant::Unlimited).fresh(Nanos::ZERO);
        let mut part = part;
        StackState { hundredth, parts: array::from_fn(|index| part(index).unwrap_or_else(unused)) }
    }

    /// A limit's part in the reading of all.
    fn share(&self, limit: &Limit, reading: Reading) -> Reading {
        match limit.counts {
            Counts::Requests if self.by_cost && reading.remaining > 0 => {
                Reading { limit: u64::MAX, remaining: u64::MAX, ..reading }
            }
            _ => reading,
        }
    }

    /// What is told of a limit that stood like this.
    fn reading_of(
        &self,
        state: &StackState,
        now: Nanos,
        part: usize,
        reading: Reading,
    ) -> LimitReading {
        let Limit { name, algorithm, enforced, .. } = &self.limits[part];
        let more = reading.remaining.saturating_add(1);
        let more_after = algorithm.peek(&state.parts[part], now, more).retry_after;
        let enforced = state.hundredth < *enforced;
        let alone = LimitReading::new(algorithm.allowance(), reading, more_after);
        LimitReading { name, enforced, ..alone }
    }

    /// Charges one limit after the other with `charge`. What was taken is rolled back if one
    /// refuses; which one is told.
    #[inline]
    fn charge_all(
        &self,
        state: &StackState,
        now: Nanos,
        cost: u64,
        mut charge: impl FnMut(
            usize,
            &Limit,
            &AnyState,
        ) -> Result<Option<AnyGrant>, Interrupted<AnyGrant>>,
    ) -> Result<Result<StackGrant, usize>, Interrupted<StackGrant>> {
        let mut grant = StackGrant::empty(cost);
        let torn = |grant: StackGrant| Interrupted { taken: (grant.held != 0).then_some(grant) };
        for (part, limit, state_of) in self.enforced(state) {
            match charge(part, limit, state_of) {
                Ok(Some(taken)) => grant.put(part, limit, taken),
                Ok(None) => {
                    self.roll_back(state, now, &mut grant).map_err(|Frozen| torn(grant))?;
                    return Ok(Err(part));
                }
                Err(_) => return Err(torn(grant)),
            }
        }
        for (part, limit, state_of) in self.shadows(state) {
            match charge(part, limit, state_of) {
                Ok(Some(taken)) => grant.put(part, limit, taken),
                Ok(None) => grant.missed |= 1 << part,
                Err(_) => return Err(torn(grant)),
            }
        }
        Ok(Ok(grant))
    }

    /// Gives back what `grant` holds; what is left of it is what could not be given back.
    fn roll_back(
        &self,
        state: &StackState,
        now: Nanos,
        grant: &mut StackGrant,
    ) -> Result<(), Frozen> {
        for (part, limit, state) in self.parts(state) {
            if grant.holds(part) {
                limit.algorithm.refund(state, now, limit.grant(grant, part))?;
                grant.held &= !(1 << part);
            }
        }
        Ok(())
    }

    /// What a grant of other limits took from those of the same name and kind.
    fn adopted<'a>(
        &'a self,
        grant: &'a StackGrant,
    ) -> impl Iterator<Item = (usize, AnyGrant)> + 'a {
        let held = (0..Self::MAX).filter(|&then| grant.holds(then));
        held.filter_map(|then| {
            let part = self.limits.iter().position(|limit| limit.id == grant.ids[then])?;
            Some((part, self.limits[part].grant(grant, then)))
        })
    }

    /// The first enforced limit that refuses `cost`.
    #[inline]
    fn refusing(&self, state: &StackState, now: Nanos, cost: u64) -> Option<usize> {
        let refuses = |limit: &Limit, of_limit: &AnyState| {
            !limit.algorithm.would_admit(of_limit, now, limit.charges(cost))
        };
        let mut enforced = self.enforced(state);
        enforced.find(|(_, limit, of_limit)| refuses(limit, of_limit)).map(|(part, ..)| part)
    }

    /// That this limit is not frozen: so its refusal is no old news.
    fn is_live(&self, state: &StackState, now: Nanos, part: usize) -> Result<(), Frozen> {
        // Cost 0 is always admitted, and tells a frozen state.
        let asked = self.limits[part].algorithm.acquire(&state.parts[part], now, 0);
        asked.map(drop).map_err(|_| Frozen)
    }

    /// A decision that notes the reading of each limit.
    fn check_noting(
        &self,
        state: &StackState,
        now: Nanos,
        cost: u64,
        mut note: impl FnMut(usize, Reading),
    ) -> Told<StackGrant> {
        loop {
            if let Some(refusing) = self.refusing(state, now, cost) {
                let reading = self.peek(state, now, cost);
                self.is_live(state, now, refusing)?;
                if reading.admitted {
                    // Something came back in between.
                    continue;
                }
                for (part, limit, state) in self.parts(state) {
                    note(part, limit.algorithm.peek(state, now, limit.charges(cost)));
                }
                return Ok((Err(refusing), reading));
            }
            let mut readings = [None; Self::MAX];
            let charged = self.charge_all(state, now, cost, |part, limit, state| {
                let (grant, reading) = limit.algorithm.check(state, now, limit.charges(cost))?;
                readings[part] = Some(reading);
                Ok(grant)
            })?;
            let mut whole = Reading::UNLIMITED;
            for (part, limit, state_of) in self.parts(state) {
                // Limits behind the one that refused were not asked.
                let peek = || limit.algorithm.peek(state_of, now, limit.charges(cost));
                let reading = readings[part].unwrap_or_else(peek);
                note(part, reading);
                if state.hundredth < limit.enforced {
                    whole = whole.and(self.share(limit, reading));
                }
            }
            return Ok((charged, whole));
        }
    }
}

impl Stack {
    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        None
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, limit) in self.limits.iter().enumerate() {
            write!(f, "{}{limit}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl Algorithm for Stack {
    type State = StackState;
    type Grant = StackGrant;

    fn name(&self) -> &'static str {
        "stack"
    }

    fn name_of_part(&self, part: usize) -> (&'static str, &'static str) {
        let Limit { name, algorithm, .. } = &self.limits[part];
        (name, algorithm.name())
    }

    fn limit(&self) -> u64 {
        let counted = |limit: &&Limit| !self.by_cost || limit.counts == Counts::Cost;
        let limits = self.limits.iter().filter(|limit| limit.enforced > 0);
        limits.filter(counted).map(|limit| limit.algorithm.limit()).min().unwrap_or(u64::MAX)
    }

    /// That of the first limit.
    fn allowance(&self) -> Allowance {
        self.limits[0].algorithm.allowance()
    }

    fn fresh(&self, since: Nanos) -> StackState {
        self.fresh_in(since, 0)
    }

    fn fresh_in(&self, since: Nanos, hundredth: u8) -> StackState {
        Self::state(hundredth, |part| Some(self.limits.get(part)?.algorithm.fresh(since)))
    }

    #[inline]
    fn acquire(
        &self,
        state: &StackState,
        now: Nanos,
        cost: u64,
    ) -> Result<Option<StackGrant>, Interrupted<StackGrant>> {
        Ok(self.acquire_or_tell(state, now, cost)?.ok())
    }

    #[inline]
    fn acquire_or_tell(
        &self,
        state: &StackState,
        now: Nanos,
        cost: u64,
    ) -> Result<Result<StackGrant, usize>, Interrupted<StackGrant>> {
        if let Some(refusing) = self.refusing(state, now, cost) {
            self.is_live(state, now, refusing)?;
            return Ok(Err(refusing));
        }
        self.charge_all(state, now, cost, |_, limit, state| {
            limit.algorithm.acquire(state, now, limit.charges(cost))
        })
    }

    fn check(&self, state: &StackState, now: Nanos, cost: u64) -> Checked<StackGrant> {
        let (grant, reading) = self.check_or_tell(state, now, cost)?;
        Ok((grant.ok(), reading))
    }

    fn check_or_tell(&self, state: &StackState, now: Nanos, cost: u64) -> Told<StackGrant> {
        self.check_noting(state, now, cost, |_, _| {})
    }

    fn check_each(
        &self,
        state: &StackState,
        now: Nanos,
        cost: u64,
        note: &mut dyn FnMut(&LimitReading),
    ) -> Checked<StackGrant> {
        let noting = |part, reading| note(&self.reading_of(state, now, part, reading));
        let (grant, reading) = self.check_noting(state, now, cost, noting)?;
        Ok((grant.ok(), reading))
    }

    fn peek(&self, state: &StackState, now: Nanos, cost: u64) -> Reading {
        self.enforced(state).fold(Reading::UNLIMITED, |whole, (_, limit, state)| {
            let reading = limit.algorithm.peek(state, now, limit.charges(cost));
            whole.and(self.share(limit, reading))
        })
    }

    fn peek_each(
        &self,
        state: &StackState,
        now: Nanos,
        cost: u64,
        note: &mut dyn FnMut(&LimitReading),
    ) -> Reading {
        self.parts(state).fold(Reading::UNLIMITED, |whole, (part, limit, of_limit)| {
            let reading = limit.algorithm.peek(of_limit, now, limit.charges(cost));
            let limit_reading = self.reading_of(state, now, part, reading);
            note(&limit_reading);
            if limit_reading.enforced { whole.and(self.share(limit, reading)) } else { whole }
        })
    }

    #[inline]
    fn would_admit(&self, state: &StackState, now: Nanos, cost: u64) -> bool {
        self.refusing(state, now, cost).is_none()
    }

    fn refund(&self, state: &StackState, now: Nanos, grant: StackGrant) -> Result<(), Frozen> {
        let mut grant = grant;
        self.roll_back(state, now, &mut grant)
    }

    /// Each limit finds its own again, if it is still of the same name and kind.
    fn refund_adopted(
        &self,
        state: &StackState,
        now: Nanos,
        grant: StackGrant,
    ) -> Result<(), Frozen> {
        self.adopted(&grant).try_for_each(|(part, taken)| {
            self.limits[part].algorithm.refund_adopted(&state.parts[part], now, taken)
        })
    }

    fn excess(&self, grant: StackGrant, actual: u64) -> StackGrant {
        let units = |part: &usize| self.limits[*part].has_units();
        let mask = (0..self.limits.len()).filter(units).fold(0, |mask, part| mask | 1 << part);
        StackGrant {
            cost: grant.cost.saturating_sub(actual),
            held: if grant.cost > actual { grant.held & mask } else { 0 },
            ..grant
        }
    }

    fn holds(&self) -> bool {
        self.limits.iter().any(|limit| limit.algorithm.holds())
    }

    fn queues(&self) -> bool {
        self.limits.iter().any(|limit| limit.algorithm.queues())
    }

    fn release(
        &self,
        state: &StackState,
        now: Nanos,
        grant: StackGrant,
        adopted: bool,
    ) -> Result<(), Frozen> {
        if adopted {
            return self.adopted(&grant).try_for_each(|(part, taken)| {
                self.limits[part].algorithm.release(&state.parts[part], now, taken, true)
            });
        }
        for (part, limit, state) in self.parts(state).filter(|(part, ..)| grant.holds(*part)) {
            limit.algorithm.release(state, now, limit.grant(&grant, part), false)?;
        }
        Ok(())
    }

    fn missed(&self, grant: &StackGrant) -> u8 {
        grant.missed
    }

    fn parts(&self) -> usize {
        self.limits.len()
    }

    fn part(&self, grant: StackGrant, part: usize) -> StackGrant {
        StackGrant { held: grant.held & 1 << part, ..grant }
    }

    fn credit(
        &self,
        state: &StackState,
        now: Nanos,
        amount: u64,
        part: usize,
    ) -> Result<(), Frozen> {
        match self.limits.get(part) {
            Some(limit) if limit.has_units() => {
                limit.algorithm.credit(&state.parts[part], now, amount, 0)
            }
            _ => Ok(()),
        }
    }

    /// Limits that count requests are left alone.
    fn charge(&self, state: &StackState, now: Nanos, cost: u64, part: usize) -> Result<(), Frozen> {
        match self.limits.get(part) {
            Some(limit) if limit.has_units() => {
                limit.algorithm.charge(&state.parts[part], now, cost, 0)
            }
            _ => Ok(()),
        }
    }

    fn drain(&self, state: &StackState, now: Nanos) -> Result<(), Frozen> {
        self.parts(state).try_for_each(|(_, limit, state)| limit.algorithm.drain(state, now))
    }

    fn penalize(&self, state: &StackState, now: Nanos, until: Nanos) -> Result<(), Frozen> {
        self.parts(state)
            .try_for_each(|(_, limit, state)| limit.algorithm.penalize(state, now, until))
    }

    /// The most that any of the limits that count cost is owed.
    fn owed(&self, state: &StackState, now: Nanos) -> u64 {
        let units = self.parts(state).filter(|(_, limit, _)| limit.has_units());
        units.map(|(_, limit, state)| limit.algorithm.owed(state, now)).max().unwrap_or(0)
    }

    fn is_idle(&self, state: &StackState, now: Nanos) -> bool {
        self.parts(state).all(|(_, limit, state)| limit.algorithm.is_idle(state, now))
    }

    fn freeze(&self, state: &StackState) {
        self.parts(state).for_each(|(_, limit, state)| limit.algorithm.freeze(state));
    }

    fn freeze_if_idle(&self, state: &StackState, now: Nanos) -> bool {
        self.parts(state).all(|(_, limit, state)| limit.algorithm.freeze_if_idle(state, now))
    }

    fn successor(&self, frozen: &StackState) -> StackState {
        Self::state(frozen.hundredth, |part| {
            Some(self.limits.get(part)?.algorithm.successor(&frozen.parts[part]))
        })
    }

    fn adopt(&self, old: &Self, frozen: &StackState, change: Change) -> StackState {
        let owed = old.owed(frozen, change.at);
        Self::state(frozen.hundredth, |part| {
            let limit = self.limits.get(part)?;
            Some(match old.named(limit.name) {
                Some(known) => limit.algorithm.adopt(
                    &old.limits[known].algorithm,
                    &frozen.parts[known],
                    change,
                ),
                None if limit.has_units() => {
                    let used = change.used(owed, old.limit(), limit.algorithm.limit());
                    limit.algorithm.charged(change.at, 0, used)
                }
                None => limit.algorithm.fresh(change.at),
            })
        })
    }

    fn inherit(&mut self, old: &Self, change: Change) {
        for limit in &mut self.limits {
            if let Some(known) = old.named(limit.name) {
                limit.algorithm.inherit(&old.limits[known].algorithm, change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::TokenBucket;
    use crate::quota::Quota;

    #[test]
    fn what_was_rolled_back_before_a_freeze_is_not_owed_again() {
        let bucket = || TokenBucket::<u64>::new(Quota::per_second(5).unwrap()).unwrap();
        let stack =
            Stack::new(["a", "b", "c", "d"].map(|name| Limit::new(name, bucket()))).unwrap();
        let state = stack.fresh(Nanos::ZERO);
        // Another thread freezes the third limit when the fourth has refused.
        let torn = stack.charge_all(&state, Nanos::ZERO, 1, |part, limit, of_limit| {
            if part < 3 {
                return limit.algorithm.acquire(of_limit, Nanos::ZERO, 1);
            }
            stack.limits[2].algorithm.freeze(&state.parts[2]);
            Ok(None)
        });
        let left = torn.unwrap_err().taken.unwrap();
        assert_eq!([0, 1, 2, 3].map(|part| left.holds(part)), [false, false, true, false]);
    }
}
