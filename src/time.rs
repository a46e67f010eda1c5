//! Time as a number, and the clocks that tell it.
//!
//! Every decision can be made `_at` a given time; a [`Clock`] is only where the other calls get
//! theirs. This is the one file that reads the operating system's clock.
//!
//! A limiter needs a clock that does not follow the calendar. Both system clocks here are
//! monotonic. A clock that steps back gains nobody anything: each state takes the later of the time
//! given and the latest that its word tells.

#![allow(clippy::disallowed_methods, reason = "this file is where the clock is read")]

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use crate::sync::{AtomicU64, Ordering};

/// Nanoseconds since the origin of a clock: a point in time, 0 to 584 years.
///
/// Arithmetic saturates; it never wraps and never panics.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// The clock's origin. It is a time like any other, not "never".
    pub const ZERO: Self = Self(0);
    /// The last time that can be told, 584 years after the origin.
    pub const MAX: Self = Self(u64::MAX);

    /// The time `nanos` nanoseconds after the origin.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This time plus `duration`, at most [`Nanos::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration_to_nanos(duration)))
    }

    /// The duration from `earlier` to this time, zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Nanos {
    /// The time `since_origin` after the origin, at most [`Nanos::MAX`].
    fn from(since_origin: Duration) -> Self {
        Self(duration_to_nanos(since_origin))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// Whole nanoseconds of a duration, at most `u64::MAX`.
pub(crate) fn duration_to_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells the time to a limiter.
///
/// `now` should be cheap and should not go back. If it does go back, or leaps, no limit opens: a
/// stale time is answered as if it were the latest time seen, and a leap forward is believed. One that
/// is taken back is waited out, by the clients that it was told of and by those made after a sweep.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Nanos;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Nanos {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Nanos {
        (**self).now()
    }
}

/// A clock that stands still until it is told to move, for tests and simulations.
///
/// Clones share the time. Wait-free.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, ManualClock, Nanos};
///
/// let clock = ManualClock::new();
/// let same = clock.clone();
/// clock.advance(Duration::from_millis(5));
/// assert_eq!(same.now(), Nanos::new(5_000_000));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that stands at its origin.
    pub fn new() -> Self {
        Self::starting_at(Nanos::ZERO)
    }

    /// A clock that stands at `now`.
    pub fn starting_at(now: Nanos) -> Self {
        Self(Arc::new(AtomicU64::new(now.get())))
    }

    /// Moves the clock forward by `duration`; it stops at [`Nanos::MAX`].
    pub fn advance(&self, duration: Duration) {
        let by = duration_to_nanos(duration);
        let mut now = self.0.load(Ordering::Relaxed);
        // Relaxed: the time is one self-contained word; it publishes nothing else.
        while let Err(seen) = self.0.compare_exchange_weak(
            now,
            now.saturating_add(by),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            now = seen;
        }
    }

    /// Sets the clock to `now`, forward or back.
    pub fn set(&self, now: Nanos) {
        self.0.store(now.get(), Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(feature = "std")]
pub use self::system::{CoarseClock, MonotonicClock};

#[cfg(feature = "std")]
mod system {
    use super::{Clock, Duration, Nanos};

    /// The precise monotonic clock; its origin is its creation. The default.
    ///
    /// It is the clock of [`Instant`](std::time::Instant), on Linux read as plain nanoseconds.
    /// Resolution: nanoseconds. Cost: 20 to 30 ns a reading on current x86-64 machines, which is
    /// about as much as the decision itself; [`CoarseClock`] costs less.
    #[derive(Clone, Copy, Debug)]
    pub struct MonotonicClock(source::Precise);

    impl MonotonicClock {
        /// A clock whose origin is now.
        pub fn new() -> Self {
            Self(source::Precise::new())
        }
    }

    impl Default for MonotonicClock {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Clock for MonotonicClock {
        #[inline]
        fn now(&self) -> Nanos {
            self.0.now()
        }
    }

    /// A monotonic clock that costs a few nanoseconds a reading and lags behind by a bounded time.
    ///
    /// On Linux it is `CLOCK_MONOTONIC_COARSE`: no thread; the lag is at most one tick of the
    /// kernel (1 to 10 ms; [`CoarseClock::lag`] tells). On other systems a thread moves the time on
    /// each millisecond for as long as a clone lives; there the lag is bounded only by how late the
    /// scheduler runs that thread.
    ///
    /// The time it tells is never later than the real one. Measured from outside, an interval of
    /// length `t` can hold what the limit grants in `t` plus the lag, and a client may wait up to
    /// the lag longer than told; over any longer time the lag does not add up.
    #[derive(Clone, Debug)]
    pub struct CoarseClock(source::Coarse);

    impl CoarseClock {
        /// A clock whose origin is now.
        pub fn new() -> Self {
            Self(source::Coarse::new())
        }

        /// How far behind the precise clock a reading can be.
        pub fn lag(&self) -> Duration {
            self.0.lag()
        }
    }

    impl Default for CoarseClock {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Clock for CoarseClock {
        #[inline]
        fn now(&self) -> Nanos {
            self.0.now()
        }
    }

    #[cfg(target_os = "linux")]
    mod source {
        use super::{Duration, Nanos};
        use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

        pub(super) type Precise = Source<false>;
        pub(super) type Coarse = Source<true>;

        #[derive(Clone, Copy, Debug)]
        pub(super) struct Source<const COARSE: bool> {
            origin: u64,
        }

        impl<const COARSE: bool> Source<COARSE> {
            const ID: ClockId = if COARSE { ClockId::MonotonicCoarse } else { ClockId::Monotonic };

            pub(super) fn new() -> Self {
                Self { origin: to_nanos(clock_gettime(Self::ID)) }
            }

            #[inline]
            pub(super) fn now(&self) -> Nanos {
                Nanos::new(to_nanos(clock_gettime(Self::ID)).saturating_sub(self.origin))
            }
        }

        impl Coarse {
            #[expect(clippy::unused_self, reason = "the ticker of other systems needs it")]
            pub(super) fn lag(&self) -> Duration {
                Duration::from_nanos(to_nanos(clock_getres(Self::ID)))
            }
        }

        /// Monotonic times are not negative: both fields fit.
        #[inline]
        fn to_nanos(time: Timespec) -> u64 {
            (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
        }
    }

    #[cfg(not(target_os = "linux"))]
    mod source {
        use super::{Clock, Duration, Nanos};
        use crate::time::{ManualClock, duration_to_nanos};
        use std::sync::{Arc, Weak};
        use std::time::Instant;

        #[derive(Clone, Copy, Debug)]
        pub(super) struct Precise {
            origin: Instant,
        }

        impl Precise {
            pub(super) fn new() -> Self {
                Self { origin: Instant::now() }
            }

            pub(super) fn now(&self) -> Nanos {
                Nanos::new(duration_to_nanos(self.origin.elapsed()))
            }
        }

        const TICK: Duration = Duration::from_millis(1);

        #[derive(Clone, Debug)]
        pub(super) struct Coarse {
            now: Arc<ManualClock>,
        }

        impl Coarse {
            pub(super) fn new() -> Self {
                let now = Arc::new(ManualClock::new());
                let told: Weak<ManualClock> = Arc::downgrade(&now);
                std::thread::spawn(move || {
                    let precise = Precise::new();
                    while let Some(now) = told.upgrade() {
                        now.set(precise.now());
                        drop(now);
                        std::thread::sleep(TICK);
                    }
                });
                Self { now }
            }

            pub(super) fn now(&self) -> Nanos {
                self.now.now()
            }

            #[expect(clippy::unused_self, reason = "one interface for every system")]
            pub(super) fn lag(&self) -> Duration {
                TICK
            }
        }
    }
}
