//! One exact model per algorithm: what fits, what a charge does, what giving back does.

mod anchored;
mod buckets;
mod log;
mod windows;

pub use self::anchored::Anchored;
pub use self::buckets::{Leaky, Tokens};
pub use self::log::Log;
pub use self::windows::{Weighing, Windows};

/// What an admitted request paid, as the model needs it to give it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paid {
    /// Units.
    pub amount: u64,
    /// The window, the window's start, or the stamp that they went under.
    pub place: u128,
}

/// The state of one client. Times never go back here: the oracle sees to that.
pub trait Model: Send {
    /// The most units at once.
    fn capacity(&self) -> u64;

    /// Whether `cost` units (1 to capacity) fit at `at` if nothing comes before.
    fn fits(&self, at: u128, cost: u64) -> bool;

    /// Takes `cost` units, which fit.
    fn charge(&mut self, at: u128, cost: u64) -> Paid;

    /// Gives back what one request paid.
    fn refund(&mut self, at: u128, paid: Paid);

    /// Gives `amount` units back, whoever paid them.
    fn credit(&mut self, at: u128, amount: u64);

    /// Whether an admitted request waits until what it found there has left.
    fn queues(&self) -> bool {
        false
    }
}
