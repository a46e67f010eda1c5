//! What a thread has of its own: its stripe, when it samples next, the races it lost.

use core::cell::Cell;

use crate::sync::{Ordering, StaticU64, serial};

/// Stripes that threads have to themselves; further threads share one.
pub(super) const STRIPES: usize = 256;

/// The stripe of a thread that has none to itself.
const SHARED: usize = STRIPES;
/// The stripe of a thread that has not counted yet.
const NONE: usize = usize::MAX;

/// A bit for each stripe that a thread has: the lowest free one is given away, so that the numbers
/// stay small.
static TAKEN: [StaticU64; STRIPES / 64] = [const { StaticU64::new(0) }; STRIPES / 64];

#[cold]
fn take() -> usize {
    for (index, taken) in TAKEN.iter().enumerate() {
        let mut seen = taken.load(Ordering::Relaxed);
        while seen != u64::MAX {
            let free = seen.trailing_ones();
            let next = seen | 1 << free;
            // Acquire: what the last owner counted must be visible to the next one, who adds to it
            // without an exchange. Pairs with the Release in `drop`.
            match taken.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return 64 * index + free as usize,
                Err(now) => seen = now,
            }
        }
    }
    SHARED
}

thread_local! {
    static LOCAL: Local = const { Local::new(NONE) };
}

pub(super) struct Local {
    stripe: Cell<usize>,
    /// The state of a generator, 0 until it is seeded.
    random: Cell<u32>,
    lost_races: Cell<u32>,
    pub(super) decisions: Countdown,
    pub(super) refusals: Countdown,
}

/// How many events are left until one is looked at; 0 before the first.
pub(super) struct Countdown(Cell<u32>);

impl Local {
    const fn new(stripe: usize) -> Self {
        Self {
            stripe: Cell::new(stripe),
            random: Cell::new(0),
            lost_races: Cell::new(0),
            decisions: Countdown(Cell::new(0)),
            refusals: Countdown(Cell::new(0)),
        }
    }

    /// The thread's own number below [`STRIPES`], if it has one.
    #[inline]
    pub(super) fn stripe(&self) -> usize {
        match self.stripe.get() {
            NONE => {
                self.stripe.set(take());
                self.stripe.get()
            }
            stripe => stripe,
        }
    }

    /// How many races the thread has lost since it was asked last.
    #[inline]
    pub(super) fn lost_races(&self) -> u32 {
        let lost = self.lost_races.get();
        if lost > 0 {
            self.lost_races.set(0);
        }
        lost
    }

    /// From 1 to `2 * mean - 1`, evenly: regular gaps would fall in step with regular clients.
    #[cold]
    fn gap(&self, mean: u32) -> u32 {
        let mut random = self.random.get();
        if random == 0 {
            random = (serial() as u32).wrapping_mul(0x9e37_79b9) | 1;
        }
        // Marsaglia's xorshift: never 0.
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        1 + random % (2 * mean - 1)
    }
}

impl Countdown {
    /// Whether this event is one to look at: one of `mean` on average.
    #[inline]
    pub(super) fn is_due(&self, local: &Local, mean: u32) -> bool {
        let left = self.0.get();
        if left > 1 {
            self.0.set(left - 1);
            return false;
        }
        self.0.set(local.gap(mean));
        left == 1
    }

    /// The event before was none.
    pub(super) fn put_back(&self) {
        self.0.set(self.0.get() + 1);
    }

    /// The next event is to be looked at in the place of this one.
    pub(super) fn put_off(&self) {
        self.0.set(1);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let stripe = self.stripe.get();
        if stripe < STRIPES {
            // Release: pairs with the Acquire in `take`.
            TAKEN[stripe / 64].fetch_and(!(1 << (stripe % 64)), Ordering::Release);
        }
    }
}

/// Shows the thread's own to `look`.
#[inline]
pub(super) fn with<T>(look: impl Fn(&Local) -> T) -> T {
    LOCAL.try_with(&look).unwrap_or_else(|_| with_none(look))
}

/// A thread that is ending has nothing to itself any more.
#[cold]
#[inline(never)]
fn with_none<T>(look: impl Fn(&Local) -> T) -> T {
    look(&Local::new(SHARED))
}

/// Called when an exchange was lost to another thread, which is when there is time to count.
pub(crate) fn lost_race() {
    with(|local| local.lost_races.set(local.lost_races.get().saturating_add(1)));
}
