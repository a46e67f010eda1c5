//! The two ends that are no quota: everything, and nothing.

use core::fmt;
use core::time::Duration;

use super::{AlgorithmKind, Grant, WordAlgorithm};
use crate::carry::Change;
use crate::decision::RetryAfter;
use crate::quota::Allowance;
use crate::time::Nanos;

/// Admits everything, or refuses everything that costs anything. Its word never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// Everything is admitted; `limit` and `remaining` read `u64::MAX`.
    Unlimited,
    /// Every cost above 0 is refused, with retry-after never; `limit` reads 0.
    Blocked,
}

impl Constant {
    pub(crate) fn kind(&self) -> Option<AlgorithmKind> {
        None
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unlimited => "unlimited",
            Self::Blocked => "blocked",
        })
    }
}

impl WordAlgorithm for Constant {
    type Word = u64;

    const NAME: &'static str = "constant";

    fn limit(&self) -> u64 {
        match self {
            Self::Unlimited => u64::MAX,
            Self::Blocked => 0,
        }
    }

    fn allowance(&self) -> Allowance {
        match self {
            Self::Unlimited => Allowance::Unlimited,
            Self::Blocked => Allowance::Blocked,
        }
    }

    fn start(&self, _since: Nanos) -> u64 {
        0
    }

    fn take(&self, word: u64, _now: Nanos, _cost: u64) -> Option<(u64, Grant)> {
        match self {
            Self::Unlimited => Some((word, Grant { window: 0, amount: 0 })),
            Self::Blocked => None,
        }
    }

    fn give_back(&self, _word: u64, _now: Nanos, _grant: Grant) -> Option<u64> {
        None
    }

    fn credit(&self, _word: u64, _now: Nanos, _amount: u64) -> Option<u64> {
        None
    }

    fn charge(&self, word: u64, _now: Nanos, _cost: u64) -> u64 {
        word
    }

    fn penalize(&self, word: u64, _now: Nanos, _until: Nanos) -> u64 {
        word
    }

    fn owed(&self, _word: u64, _now: Nanos) -> u64 {
        0
    }

    fn adopt(&self, _old: &Self, word: u64, _change: Change) -> u64 {
        word
    }

    fn is_idle(&self, _word: u64, _now: Nanos) -> bool {
        true
    }

    fn remaining(&self, _word: u64, _now: Nanos) -> u64 {
        WordAlgorithm::limit(self)
    }

    fn retry_after(&self, _word: u64, _now: Nanos, _cost: u64) -> RetryAfter {
        match self {
            Self::Unlimited => RetryAfter::Now,
            Self::Blocked => RetryAfter::Never,
        }
    }

    fn reset_after(&self, _word: u64, _now: Nanos) -> Duration {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::CarryOver;

    #[test]
    fn nothing_changes_it() {
        let (now, later) = (Nanos::new(5), Nanos::MAX);
        let change = Change { at: now, carry_over: CarryOver::Reset, moved: true };
        for (constant, limit) in [(Constant::Unlimited, u64::MAX), (Constant::Blocked, 0)] {
            assert_eq!(WordAlgorithm::limit(&constant), limit);
            assert_eq!(constant.start(now), 0);
            // No word but 0 is ever made; another one shows that it is handed on.
            let word = 7;
            assert_eq!(constant.charge(word, now, 9), word);
            assert_eq!(constant.penalize(word, now, later), word);
            assert_eq!(constant.adopt(&Constant::Blocked, word, change), word);
            assert_eq!(constant.give_back(word, now, Grant { window: 0, amount: 9 }), None);
            assert_eq!(constant.credit(word, now, 9), None);
            assert_eq!(constant.owed(word, now), 0);
            assert_eq!(constant.remaining(word, now), limit);
            assert!(constant.is_idle(word, now) && constant.reset_after(word, now).is_zero());
        }
    }
}
