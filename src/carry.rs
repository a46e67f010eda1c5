//! What a client keeps when its limit changes under it.

use crate::time::Nanos;

/// What a client keeps when a policy is replaced by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CarryOver {
    /// What it holds: a bucket's tokens, cut to the new capacity; a window's or a log's count.
    #[default]
    Keep,
    /// The same part of its limit: half used stays half used.
    Proportional,
    /// Nothing: it begins afresh.
    Reset,
}

/// A change of a client's limit: when, and what is carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What accrued until then is paid at the old rate.
    pub at: Nanos,
    /// What is kept.
    pub carry_over: CarryOver,
    /// Whether the client moved to another tier, rather than its tier to another policy. It then
    /// keeps what it *used* rather than what it holds, and nothing is reset: so a client gains
    /// nothing by moving, and one that owes nothing is as good as new wherever it goes.
    pub moved: bool,
}

impl Change {
    /// Units used under the new limit, of those used under the old.
    pub(crate) fn used(&self, used: u64, old_limit: u64, new_limit: u64) -> u64 {
        match self.carry_over {
            CarryOver::Keep => used,
            CarryOver::Proportional => {
                scale(used.into(), new_limit, old_limit).try_into().unwrap_or(u64::MAX)
            }
            CarryOver::Reset if self.moved => used,
            CarryOver::Reset => 0,
        }
    }
}

/// `amount * by / of`, rounded up, at most `u128::MAX`. `of` 0 counts as 1.
pub(crate) fn scale(amount: u128, by: u64, of: u64) -> u128 {
    let (by, of) = (u128::from(by), u128::from(of.max(1)));
    // The remainder is below 2^64, so its product fits.
    (amount / of).saturating_mul(by).saturating_add((amount % of * by).div_ceil(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_rounds_up_and_saturates() {
        assert_eq!(scale(10, 3, 4), 8);
        assert_eq!(scale(8, 3, 4), 6);
        assert_eq!(scale(7, 3, 0), 21);
        assert_eq!(scale(u128::MAX, 3, 2), u128::MAX);
        assert_eq!(scale(u128::MAX, u64::MAX, u64::MAX), u128::MAX);
    }

    #[test]
    fn each_rule_keeps_what_it_says() {
        let change = |carry_over, moved| Change { at: Nanos::ZERO, carry_over, moved };
        assert_eq!(change(CarryOver::Keep, false).used(5, 10, 20), 5);
        assert_eq!(change(CarryOver::Proportional, false).used(5, 10, 21), 11);
        assert_eq!(change(CarryOver::Reset, false).used(5, 10, 20), 0);
        assert_eq!(change(CarryOver::Reset, true).used(5, 10, 20), 5);
        assert_eq!(change(CarryOver::Proportional, true).used(u64::MAX, 1, 2), u64::MAX);
    }
}
