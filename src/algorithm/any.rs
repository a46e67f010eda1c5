//! The algorithm chosen at run time: the one place that knows the list.

use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;
use core::str::FromStr;
use core::time::Duration;

use super::constant::Constant;
use super::fixed_window::{Anchor, FixedWindow};
use super::in_flight::InFlight;
use super::leaky_bucket::LeakyBucket;
use super::sliding_counter::SlidingCounter;
use super::sliding_log::LogGrant;
use super::sliding_log::SlidingLog;
use super::stack::{Stack, StackGrant};
use super::token_bucket::TokenBucket;
use super::{Algorithm, Checked, Grant, Interrupted, Place, Stand, Told, Turn};
use crate::carry::Change;
use crate::decision::{LimitReading, Reading, RetryAfter};
use crate::quota::{Allowance, QuotaError};
use crate::time::Nanos;
use crate::word::Frozen;

/// The name of an algorithm, and what it needs beside a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AlgorithmKind {
    /// [`TokenBucket`]: `token_bucket`.
    TokenBucket,
    /// [`LeakyBucket`]: `leaky_bucket`.
    LeakyBucket {
        /// Places behind the one in service; 0 when parsed from the bare name.
        queue: u64,
    },
    /// [`FixedWindow`]: `fixed_window`.
    FixedWindow {
        /// Where windows begin; aligned when parsed from the bare name.
        anchor: Anchor,
    },
    /// [`SlidingCounter`]: `sliding_counter`.
    SlidingCounter,
    /// [`SlidingLog`]: `sliding_log`.
    SlidingLog,
}

impl AlgorithmKind {
    pub(crate) const ALL: [Self; 5] = [
        Self::TokenBucket,
        Self::LeakyBucket { queue: 0 },
        Self::FixedWindow { anchor: Anchor::Aligned },
        Self::SlidingCounter,
        Self::SlidingLog,
    ];

    /// The name, as policies spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket { .. } => "leaky_bucket",
            Self::FixedWindow { .. } => "fixed_window",
            Self::SlidingCounter => "sliding_counter",
            Self::SlidingLog => "sliding_log",
        }
    }
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of the algorithms'. Its message lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown algorithm: accepted are")?;
        for (index, kind) in AlgorithmKind::ALL.iter().enumerate() {
            write!(f, "{} {kind}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for AlgorithmKind {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownAlgorithm)
    }
}

impl AnyAlgorithm {
    /// The algorithm of this kind for `allowance`, in the narrowest word that holds it.
    ///
    /// ```
    /// use tollgate::{AlgorithmKind, AnyAlgorithm, Quota};
    ///
    /// let kind: AlgorithmKind = "sliding_counter".parse()?;
    /// let algorithm = AnyAlgorithm::new(kind, Quota::per_minute(100)?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If no word of this algorithm holds the quota.
    pub fn new(kind: AlgorithmKind, allowance: impl Into<Allowance>) -> Result<Self, QuotaError> {
        let quota = match allowance.into() {
            Allowance::Quota(quota) => quota,
            Allowance::Unlimited => return Ok(Self::Constant(Constant::Unlimited)),
            Allowance::InFlight(limit) => return InFlight::new(limit).map(Self::InFlight),
            Allowance::Blocked => return Ok(Self::Constant(Constant::Blocked)),
        };
        match kind {
            AlgorithmKind::TokenBucket => TokenBucket::new(quota)
                .map(Self::TokenBucket)
                .or_else(|_| TokenBucket::new(quota).map(Self::WideTokenBucket)),
            AlgorithmKind::LeakyBucket { queue } => LeakyBucket::new(quota, queue)
                .map(Self::LeakyBucket)
                .or_else(|_| LeakyBucket::new(quota, queue).map(Self::WideLeakyBucket)),
            AlgorithmKind::FixedWindow { anchor } => FixedWindow::new(quota, anchor)
                .map(Self::FixedWindow)
                .or_else(|_| FixedWindow::new(quota, anchor).map(Self::WideFixedWindow)),
            AlgorithmKind::SlidingCounter => SlidingCounter::new(quota)
                .map(Self::SlidingCounter)
                .or_else(|_| SlidingCounter::new(quota).map(Self::WideSlidingCounter)),
            AlgorithmKind::SlidingLog => SlidingLog::new(quota).map(Self::SlidingLog),
        }
    }
}

/// Holds a small state in place, where `Box` holds a large one: so a client's [`AnyState`] stays
/// two words long.
#[derive(Debug)]
pub struct Inline<S>(S);

impl<S> Inline<S> {
    fn new(state: S) -> Self {
        Self(state)
    }
}

impl<S> Deref for Inline<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

/// A grant as a number beside its amount.
trait Marked {
    fn of(amount: u64, mark: u64) -> Self;
    fn mark(&self) -> u64;
}

impl Marked for Grant {
    fn of(amount: u64, mark: u64) -> Self {
        Self { window: mark, amount }
    }

    fn mark(&self) -> u64 {
        self.window
    }
}

impl Marked for LogGrant {
    fn of(amount: u64, mark: u64) -> Self {
        // No log grants more than its limit, which fits.
        Self { stamp: Nanos::new(mark), amount: amount.try_into().unwrap_or(0) }
    }

    fn mark(&self) -> u64 {
        self.stamp.get()
    }
}

/// Stacks are not nested: a stack's grant is never a mark.
impl Marked for StackGrant {
    fn of(amount: u64, _: u64) -> Self {
        Self::empty(amount)
    }

    fn mark(&self) -> u64 {
        0
    }
}

macro_rules! any_algorithm {
    ($($(#[$doc:meta])* $name:ident($algorithm:ty) in $holder:ident,)+) => {
        /// Any of the algorithms, chosen at run time.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AnyAlgorithm {
            $($(#[$doc])* $name($algorithm),)+
        }

        /// The state of a client under [`AnyAlgorithm`].
        #[derive(Debug)]
        #[expect(missing_docs, reason = "one variant for each of AnyAlgorithm's")]
        #[non_exhaustive]
        pub enum AnyState {
            $($name($holder<<$algorithm as Algorithm>::State>),)+
        }

        /// The grant of a request admitted by [`AnyAlgorithm`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "one variant for each of AnyAlgorithm's")]
        #[non_exhaustive]
        pub enum AnyGrant {
            $($name(<$algorithm as Algorithm>::Grant),)+
        }

        impl AnyAlgorithm {
            /// Which algorithm it is; none if it is no quota that decides.
            pub fn kind(&self) -> Option<AlgorithmKind> {
                match self {
                    $(Self::$name(algorithm) => algorithm.kind(),)+
                }
            }

            /// What it grants: a quota, with its burst where that plays a part, or what is none.
            pub fn allowance(&self) -> Allowance {
                Algorithm::allowance(self)
            }

            /// The grant of `amount` units whose mark was this.
            pub(crate) fn grant(&self, amount: u64, mark: u64) -> AnyGrant {
                match self {
                    $(Self::$name(_) => AnyGrant::$name(Marked::of(amount, mark)),)+
                }
            }
        }

        impl AnyGrant {
            pub(crate) fn mark(&self) -> u64 {
                match self {
                    $(Self::$name(grant) => grant.mark(),)+
                }
            }
        }

        $(impl From<$algorithm> for AnyAlgorithm {
            fn from(algorithm: $algorithm) -> Self {
                Self::$name(algorithm)
            }
        })+

        impl fmt::Display for AnyAlgorithm {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name(algorithm) => algorithm.fmt(f),)+
                }
            }
        }

        /// A state or grant that another algorithm made is never met: the limiter pairs them. It
        /// is answered as a refusal all the same, so that a mistake cannot open a limit.
        impl Algorithm for AnyAlgorithm {
            type State = AnyState;
            type Grant = AnyGrant;

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(algorithm) => algorithm.name(),)+
                }
            }

            fn name_of_part(&self, part: usize) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name(algorithm) => algorithm.name_of_part(part),)+
                }
            }

            fn limit(&self) -> u64 {
                match self {
                    $(Self::$name(algorithm) => Algorithm::limit(algorithm),)+
                }
            }

            /// Of a quota, with its burst where that plays a part.
            fn allowance(&self) -> Allowance {
                match self {
                    $(Self::$name(algorithm) => Algorithm::allowance(algorithm),)+
                }
            }

            fn fresh(&self, since: Nanos) -> AnyState {
                match self {
                    $(Self::$name(algorithm) =>
                        AnyState::$name($holder::new(algorithm.fresh(since))),)+
                }
            }

            fn fresh_in(&self, since: Nanos, hundredth: u8) -> AnyState {
                match self {
                    $(Self::$name(algorithm) =>
                        AnyState::$name($holder::new(algorithm.fresh_in(since, hundredth))),)+
                }
            }

            #[inline]
            fn acquire(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
            ) -> Result<Option<AnyGrant>, Interrupted<AnyGrant>> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) => {
                        let taken = algorithm.acquire(state, now, cost);
                        Ok(taken.map_err(|torn| torn.map(AnyGrant::$name))?.map(AnyGrant::$name))
                    })+
                    _ => Ok(None),
                }
            }

            #[inline]
            fn acquire_leaving(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
                percent: u8,
            ) -> Result<Option<AnyGrant>, Interrupted<AnyGrant>> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) => {
                        let taken = algorithm.acquire_leaving(state, now, cost, percent);
                        Ok(taken.map_err(|torn| torn.map(AnyGrant::$name))?.map(AnyGrant::$name))
                    })+
                    _ => Ok(None),
                }
            }

            #[inline]
            fn acquire_or_tell(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
            ) -> Result<Result<AnyGrant, usize>, Interrupted<AnyGrant>> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) => {
                        let taken = algorithm.acquire_or_tell(state, now, cost);
                        Ok(taken.map_err(|torn| torn.map(AnyGrant::$name))?.map(AnyGrant::$name))
                    })+
                    _ => Ok(Err(0)),
                }
            }

            #[inline]
            fn check(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
            ) -> Checked<AnyGrant> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) => {
                        let checked = algorithm.check(state, now, cost);
                        let (grant, reading) =
                            checked.map_err(|torn| torn.map(AnyGrant::$name))?;
                        Ok((grant.map(AnyGrant::$name), reading))
                    })+
                    _ => Ok((None, self.foreign())),
                }
            }

            #[inline]
            fn check_or_tell(&self, state: &AnyState, now: Nanos, cost: u64) -> Told<AnyGrant> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) => {
                        let checked = algorithm.check_or_tell(state, now, cost);
                        let (grant, reading) =
                            checked.map_err(|torn| torn.map(AnyGrant::$name))?;
                        Ok((grant.map(AnyGrant::$name), reading))
                    })+
                    _ => Ok((Err(0), self.foreign())),
                }
            }

            fn check_each(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
                note: &mut dyn FnMut(&LimitReading),
            ) -> Checked<AnyGrant> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) => {
                        let checked = algorithm.check_each(state, now, cost, note);
                        let (grant, reading) =
                            checked.map_err(|torn| torn.map(AnyGrant::$name))?;
                        Ok((grant.map(AnyGrant::$name), reading))
                    })+
                    _ => Ok((None, self.foreign())),
                }
            }

            fn reserve(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
                patience: Duration,
            ) -> Result<Turn<AnyGrant>, Interrupted<AnyGrant>> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) => {
                        let turn = algorithm.reserve(state, now, cost, patience);
                        Ok(match turn.map_err(|torn| torn.map(AnyGrant::$name))? {
                            Turn::Granted(grant, wait) => {
                                Turn::Granted(AnyGrant::$name(grant), wait)
                            }
                            Turn::Reserved(place, wait) => Turn::Reserved(place, wait),
                            Turn::Refused(retry_after) => Turn::Refused(retry_after),
                        })
                    })+
                    _ => Ok(Turn::Refused(RetryAfter::Never)),
                }
            }

            fn stand_in(
                &self,
                state: &AnyState,
                place: Place,
                now: Nanos,
                cost: u64,
            ) -> Option<Stand<u128>> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        Algorithm::stand_in(algorithm, state, place, now, cost),)+
                    _ => None,
                }
            }

            fn is_last(&self, state: &AnyState, place: Place) -> bool {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.is_last(state, place),)+
                    _ => false,
                }
            }

            fn leave(&self, state: &AnyState, place: Place) -> Result<bool, Frozen> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.leave(state, place),)+
                    _ => Ok(false),
                }
            }

            #[inline]
            fn peek(&self, state: &AnyState, now: Nanos, cost: u64) -> Reading {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.peek(state, now, cost),)+
                    _ => self.foreign(),
                }
            }

            fn peek_each(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
                note: &mut dyn FnMut(&LimitReading),
            ) -> Reading {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.peek_each(state, now, cost, note),)+
                    _ => self.foreign(),
                }
            }

            #[inline]
            fn would_admit(&self, state: &AnyState, now: Nanos, cost: u64) -> bool {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.would_admit(state, now, cost),)+
                    _ => false,
                }
            }

            fn refund(&self, state: &AnyState, now: Nanos, grant: AnyGrant) -> Result<(), Frozen> {
                match (self, state, grant) {
                    $((Self::$name(algorithm), AnyState::$name(state), AnyGrant::$name(grant)) =>
                        algorithm.refund(state, now, grant),)+
                    _ => Ok(()),
                }
            }

            fn refund_adopted(
                &self,
                state: &AnyState,
                now: Nanos,
                grant: AnyGrant,
            ) -> Result<(), Frozen> {
                match (self, state, grant) {
                    $((Self::$name(algorithm), AnyState::$name(state), AnyGrant::$name(grant)) =>
                        algorithm.refund_adopted(state, now, grant),)+
                    _ => Ok(()),
                }
            }

            fn excess(&self, grant: AnyGrant, actual: u64) -> AnyGrant {
                match (self, grant) {
                    $((Self::$name(algorithm), AnyGrant::$name(grant)) =>
                        AnyGrant::$name(algorithm.excess(grant, actual)),)+
                    _ => grant,
                }
            }

            fn holds(&self) -> bool {
                match self {
                    $(Self::$name(algorithm) => algorithm.holds(),)+
                }
            }

            fn queues(&self) -> bool {
                match self {
                    $(Self::$name(algorithm) => Algorithm::queues(algorithm),)+
                }
            }

            fn release(
                &self,
                state: &AnyState,
                now: Nanos,
                grant: AnyGrant,
                adopted: bool,
            ) -> Result<(), Frozen> {
                match (self, state, grant) {
                    $((Self::$name(algorithm), AnyState::$name(state), AnyGrant::$name(grant)) =>
                        algorithm.release(state, now, grant, adopted),)+
                    _ => Ok(()),
                }
            }

            fn missed(&self, grant: &AnyGrant) -> u8 {
                match (self, grant) {
                    $((Self::$name(algorithm), AnyGrant::$name(grant)) =>
                        algorithm.missed(grant),)+
                    _ => 0,
                }
            }

            fn parts(&self) -> usize {
                match self {
                    $(Self::$name(algorithm) => algorithm.parts(),)+
                }
            }

            fn part(&self, grant: AnyGrant, part: usize) -> AnyGrant {
                match (self, grant) {
                    $((Self::$name(algorithm), AnyGrant::$name(grant)) =>
                        AnyGrant::$name(algorithm.part(grant, part)),)+
                    _ => grant,
                }
            }

            fn credit(
                &self,
                state: &AnyState,
                now: Nanos,
                amount: u64,
                part: usize,
            ) -> Result<(), Frozen> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        Algorithm::credit(algorithm, state, now, amount, part),)+
                    _ => Ok(()),
                }
            }

            fn charge(
                &self,
                state: &AnyState,
                now: Nanos,
                cost: u64,
                part: usize,
            ) -> Result<(), Frozen> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        Algorithm::charge(algorithm, state, now, cost, part),)+
                    _ => Ok(()),
                }
            }

            fn drain(&self, state: &AnyState, now: Nanos) -> Result<(), Frozen> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.drain(state, now),)+
                    _ => Ok(()),
                }
            }

            fn penalize(&self, state: &AnyState, now: Nanos, until: Nanos) -> Result<(), Frozen> {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        Algorithm::penalize(algorithm, state, now, until),)+
                    _ => Ok(()),
                }
            }

            fn owed(&self, state: &AnyState, now: Nanos) -> u64 {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        Algorithm::owed(algorithm, state, now),)+
                    _ => 0,
                }
            }

            fn is_idle(&self, state: &AnyState, now: Nanos) -> bool {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        Algorithm::is_idle(algorithm, state, now),)+
                    _ => false,
                }
            }

            fn freeze(&self, state: &AnyState) {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.freeze(state),)+
                    _ => {}
                }
            }

            fn freeze_if_idle(&self, state: &AnyState, now: Nanos) -> bool {
                match (self, state) {
                    $((Self::$name(algorithm), AnyState::$name(state)) =>
                        algorithm.freeze_if_idle(state, now),)+
                    _ => false,
                }
            }

            fn successor(&self, frozen: &AnyState) -> AnyState {
                match (self, frozen) {
                    $((Self::$name(algorithm), AnyState::$name(frozen)) =>
                        AnyState::$name($holder::new(algorithm.successor(frozen))),)+
                    _ => self.fresh(Nanos::ZERO),
                }
            }

            /// Between algorithms of different kinds, what is carried over is the units used.
            fn adopt(&self, old: &Self, frozen: &AnyState, change: Change) -> AnyState {
                match (self, old, frozen) {
                    $((Self::$name(algorithm), Self::$name(old), AnyState::$name(frozen)) =>
                        AnyState::$name($holder::new(
                            Algorithm::adopt(algorithm, old, frozen, change)
                        )),)+
                    _ => {
                        let used = old.owed(frozen, change.at);
                        let used = change.used(used, old.limit(), self.limit());
                        self.charged(change.at, 0, used)
                    }
                }
            }

            fn adopt_in(
                &self,
                old: &Self,
                frozen: &AnyState,
                change: Change,
                hundredth: u8,
            ) -> AnyState {
                match (self, old) {
                    (Self::Stack(_), Self::Stack(_)) => self.adopt(old, frozen, change),
                    (Self::Stack(_), _) => {
                        let used = old.owed(frozen, change.at);
                        let used = change.used(used, old.limit(), self.limit());
                        self.charged(change.at, hundredth, used)
                    }
                    _ => self.adopt(old, frozen, change),
                }
            }

            fn inherit(&mut self, old: &Self, change: Change) {
                match (self, old) {
                    $((Self::$name(algorithm), Self::$name(old)) =>
                        Algorithm::inherit(algorithm, old, change),)+
                    _ => {}
                }
            }
        }
    };
}

any_algorithm! {
    /// Everything, or nothing.
    Constant(Constant) in Inline,
    /// Token bucket, 64-bit word.
    TokenBucket(TokenBucket<u64>) in Inline,
    /// Token bucket, 128-bit word.
    WideTokenBucket(TokenBucket<u128>) in Box,
    /// Leaky bucket, 64-bit word.
    LeakyBucket(LeakyBucket<u64>) in Inline,
    /// Leaky bucket, 128-bit word.
    WideLeakyBucket(LeakyBucket<u128>) in Box,
    /// Fixed window, 64-bit word.
    FixedWindow(FixedWindow<u64>) in Inline,
    /// Fixed window, 128-bit word.
    WideFixedWindow(FixedWindow<u128>) in Box,
    /// Sliding counter, 64-bit word.
    SlidingCounter(SlidingCounter<u64>) in Inline,
    /// Sliding counter, 128-bit word.
    WideSlidingCounter(SlidingCounter<u128>) in Box,
    /// Sliding log.
    SlidingLog(SlidingLog) in Box,
    /// Permits at one time.
    InFlight(InFlight) in Inline,
    /// Several of the others.
    Stack(Stack) in Box,
}

impl AnyAlgorithm {
    /// A state that is fresh but for `used` units.
    pub(crate) fn charged(&self, at: Nanos, hundredth: u8, used: u64) -> AnyState {
        let mut state = self.fresh_in(at, hundredth);
        for part in 0..self.parts() {
            // Nobody else freezes a fresh state; it may itself have to grow.
            while self.charge(&state, at, used, part).is_err() {
                self.freeze(&state);
                state = self.successor(&state);
            }
        }
        state
    }

    /// The reading of a state that another algorithm made.
    fn foreign(&self) -> Reading {
        Reading {
            admitted: false,
            limit: self.limit(),
            remaining: 0,
            retry_after: RetryAfter::Never,
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::Quota;
    use alloc::string::ToString;

    #[test]
    fn every_name_parses_to_its_kind() {
        for kind in AlgorithmKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let text = "token-bucket".parse::<AlgorithmKind>().unwrap_err().to_string();
        assert!(text.starts_with("unknown algorithm: accepted are token_bucket, leaky_bucket, "));
    }

    #[test]
    fn a_state_is_two_words_long() {
        assert_eq!(size_of::<AnyState>(), 16);
    }

    #[test]
    fn the_narrowest_word_that_holds_the_quota_is_chosen() {
        let narrow = Quota::per_second(100).unwrap();
        let wide = Quota::per_second(u64::from(u32::MAX) - 1).unwrap();
        let make = |kind, quota| AnyAlgorithm::new(kind, quota).unwrap();
        let kind = AlgorithmKind::TokenBucket;
        assert!(matches!(make(kind, narrow), AnyAlgorithm::TokenBucket(_)));
        let slow = Quota::per_day(1).unwrap().with_burst(u64::from(u32::MAX)).unwrap();
        assert!(matches!(make(kind, slow), AnyAlgorithm::WideTokenBucket(_)));
        let kind = AlgorithmKind::SlidingCounter;
        assert!(matches!(make(kind, narrow), AnyAlgorithm::SlidingCounter(_)));
        assert!(matches!(make(kind, wide), AnyAlgorithm::WideSlidingCounter(_)));
        let kind = AlgorithmKind::FixedWindow { anchor: Anchor::FirstRequest };
        assert!(matches!(make(kind, narrow), AnyAlgorithm::WideFixedWindow(_)));
    }

    #[test]
    fn unlimited_and_blocked_are_values_of_their_own() {
        for kind in AlgorithmKind::ALL {
            let unlimited = AnyAlgorithm::new(kind, Allowance::Unlimited).unwrap();
            let state = unlimited.fresh(Nanos::ZERO);
            assert!(unlimited.check(&state, Nanos::ZERO, u64::MAX).unwrap().1.admitted);
            let blocked = AnyAlgorithm::new(kind, Allowance::Blocked).unwrap();
            let state = blocked.fresh(Nanos::ZERO);
            let reading = blocked.check(&state, Nanos::MAX, 1).unwrap().1;
            assert_eq!((reading.admitted, reading.retry_after), (false, RetryAfter::Never));
            assert!(blocked.check(&state, Nanos::MAX, 0).unwrap().1.admitted);
        }
    }

    #[test]
    fn an_algorithm_tells_what_it_was_made_of() {
        let quota = Quota::per_minute(100).unwrap().with_burst(20).unwrap();
        let wide = quota.with_burst(u64::MAX).unwrap();
        for (quota, kind) in
            [quota, wide].into_iter().flat_map(|q| AlgorithmKind::ALL.map(|k| (q, k)))
        {
            let algorithm = AnyAlgorithm::new(kind, quota).unwrap();
            assert_eq!((algorithm.kind(), algorithm.name()), (Some(kind), kind.name()));
            let told = match kind {
                AlgorithmKind::TokenBucket => quota,
                _ => quota.rate_only(),
            };
            assert_eq!(algorithm.allowance(), Allowance::Quota(told));
        }
        let kind = AlgorithmKind::LeakyBucket { queue: 3 };
        assert_eq!(AnyAlgorithm::new(kind, quota).unwrap().kind(), Some(kind));
        for ends in [Allowance::Unlimited, Allowance::Blocked] {
            let algorithm = AnyAlgorithm::new(kind, ends).unwrap();
            assert_eq!((algorithm.kind(), algorithm.allowance()), (None, ends));
        }
    }

    #[test]
    fn every_algorithm_says_what_it_does() {
        let quota = Quota::per_minute(100).unwrap().with_burst(20).unwrap();
        let text = |kind| AnyAlgorithm::new(kind, quota).unwrap().to_string();
        assert_eq!(text(AlgorithmKind::TokenBucket), "100 per 1m, burst 20, token bucket");
        let kind = AlgorithmKind::LeakyBucket { queue: 3 };
        assert_eq!(text(kind), "100 per 1m, queue 3, leaky bucket");
        let kind = AlgorithmKind::FixedWindow { anchor: Anchor::Aligned };
        assert_eq!(text(kind), "100 per 1m, fixed window");
        let kind = AlgorithmKind::FixedWindow { anchor: Anchor::FirstRequest };
        assert_eq!(text(kind), "100 per 1m, fixed window from the first request");
        let kind = AlgorithmKind::SlidingCounter;
        assert_eq!(text(kind), "100 per 1m, sliding window counter");
        let none = AnyAlgorithm::new(kind, Allowance::Blocked).unwrap();
        assert_eq!(none.to_string(), "blocked");
    }

    #[test]
    fn a_foreign_state_is_refused() {
        let quota = Quota::per_second(100).unwrap();
        let bucket = AnyAlgorithm::new(AlgorithmKind::TokenBucket, quota).unwrap();
        let counter = AnyAlgorithm::new(AlgorithmKind::SlidingCounter, quota).unwrap();
        let foreign = counter.fresh(Nanos::ZERO);
        assert_eq!(bucket.acquire(&foreign, Nanos::ZERO, 1), Ok(None));
        assert_eq!(bucket.acquire_leaving(&foreign, Nanos::ZERO, 1, 0), Ok(None));
        assert_eq!(bucket.acquire_or_tell(&foreign, Nanos::ZERO, 1), Ok(Err(0)));
        assert_eq!(bucket.check_or_tell(&foreign, Nanos::ZERO, 1).unwrap().0, Err(0));
        assert!(!bucket.check(&foreign, Nanos::ZERO, 1).unwrap().1.admitted);
        assert!(!bucket.peek(&foreign, Nanos::ZERO, 1).admitted);
        assert!(!bucket.would_admit(&foreign, Nanos::ZERO, 1));
        assert!(!bucket.freeze_if_idle(&foreign, Nanos::MAX));
    }
}
