//! Quotas: `limit` per `period` with an optional `burst`, validated once into exact integers.

use core::cmp::Ordering;
use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;

/// How much a client may use: `limit` cost units per `period`, and how many of them at once.
///
/// `limit` and `burst` are 1 to `u64::MAX` cost units, `period` is 1 ns to `u64::MAX` ns
/// (584 years). Without a burst of its own a quota bursts up to its limit. What the units are
/// (requests, bytes, tokens) is the caller's business.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// let quota = Quota::new(100, Duration::from_secs(60))?.with_burst(20)?;
/// assert_eq!(quota.to_string(), "100 per 1m, burst 20");
/// assert!(Quota::per_second(0).is_err());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: NonZeroU64,
    period: NonZeroU64,
    burst: Option<NonZeroU64>,
}

impl Quota {
    /// `limit` units per `period`.
    ///
    /// # Errors
    /// If `limit` or `period` is zero, or `period` is longer than `u64::MAX` ns.
    pub const fn new(limit: u64, period: Duration) -> Result<Self, QuotaError> {
        let Some(limit) = NonZeroU64::new(limit) else {
            return Err(QuotaError::ZeroLimit);
        };
        let nanos = period.as_nanos();
        if nanos > u64::MAX as u128 {
            return Err(QuotaError::PeriodTooLong { given: period });
        }
        let Some(period) = NonZeroU64::new(nanos as u64) else {
            return Err(QuotaError::ZeroPeriod);
        };
        Ok(Self { limit, period, burst: None })
    }

    /// `limit` units per second: `per_second(5)` means five each second.
    ///
    /// # Errors
    /// If `limit` is zero.
    pub const fn per_second(limit: u64) -> Result<Self, QuotaError> {
        Self::new(limit, Duration::from_secs(1))
    }

    /// `limit` units per minute.
    ///
    /// # Errors
    /// If `limit` is zero.
    pub const fn per_minute(limit: u64) -> Result<Self, QuotaError> {
        Self::new(limit, Duration::from_secs(60))
    }

    /// `limit` units per hour.
    ///
    /// # Errors
    /// If `limit` is zero.
    pub const fn per_hour(limit: u64) -> Result<Self, QuotaError> {
        Self::new(limit, Duration::from_secs(60 * 60))
    }

    /// `limit` units per day of 24 hours.
    ///
    /// # Errors
    /// If `limit` is zero.
    pub const fn per_day(limit: u64) -> Result<Self, QuotaError> {
        Self::new(limit, Duration::from_secs(24 * 60 * 60))
    }

    /// The same rate with room for `burst` units at once.
    ///
    /// Only the bucket algorithms burst; windows and logs are bounded by the limit itself.
    ///
    /// # Errors
    /// If `burst` is zero.
    pub const fn with_burst(self, burst: u64) -> Result<Self, QuotaError> {
        match NonZeroU64::new(burst) {
            Some(burst) => Ok(Self { burst: Some(burst), ..self }),
            None => Err(QuotaError::ZeroBurst),
        }
    }

    /// Units per period.
    pub const fn limit(&self) -> u64 {
        self.limit.get()
    }

    /// The period.
    pub const fn period(&self) -> Duration {
        Duration::from_nanos(self.period.get())
    }

    /// Units at once: the burst if one was given, else the limit.
    pub const fn burst(&self) -> u64 {
        match self.burst {
            Some(burst) => burst.get(),
            None => self.limit.get(),
        }
    }

    /// The rate, exact.
    pub const fn rate(&self) -> Rate {
        Rate::new(self.limit, self.period)
    }

    /// The quota without its burst, for algorithms in which that plays no part.
    pub(crate) const fn rate_only(self) -> Self {
        Self { burst: None, ..self }
    }

    pub(crate) const fn period_nanos(&self) -> u64 {
        self.period.get()
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.limit, Period(self.period.get()))?;
        match self.burst {
            Some(burst) => write!(f, ", burst {burst}"),
            None => Ok(()),
        }
    }
}

/// A period in the largest unit that tells it exactly: `1m`, `90s`, `1500us`.
pub(crate) struct Period(pub(crate) u64);

impl Period {
    /// The units in nanoseconds, largest first, and their names.
    pub(crate) const UNITS: [(u64, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = Self::UNITS.iter().find(|(nanos, _)| self.0 != 0 && self.0 % nanos == 0);
        let (nanos, unit) = exact.copied().unwrap_or((1, "ns"));
        write!(f, "{}{unit}", self.0 / nanos)
    }
}

/// A rate as a fraction in lowest terms: `units` per `nanos` nanoseconds.
///
/// Rates are ordered by how fast they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    units: NonZeroU64,
    nanos: NonZeroU64,
}

impl Rate {
    pub(crate) const fn new(units: NonZeroU64, nanos: NonZeroU64) -> Self {
        let (mut a, mut b) = (units.get(), nanos.get());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        // Both quotients are at least 1, so neither replacement is ever used.
        let units = match NonZeroU64::new(units.get() / a) {
            Some(reduced) => reduced,
            None => units,
        };
        let nanos = match NonZeroU64::new(nanos.get() / a) {
            Some(reduced) => reduced,
            None => nanos,
        };
        Self { units, nanos }
    }

    /// The numerator.
    pub const fn units(&self) -> u64 {
        self.units.get()
    }

    /// The denominator, in nanoseconds.
    pub const fn nanos(&self) -> u64 {
        self.nanos.get()
    }

    /// Units per second, rounded to what a float can tell: for people, not for decisions.
    pub fn per_second(&self) -> f64 {
        self.units.get() as f64 * 1e9 / self.nanos.get() as f64
    }

    /// The fastest rate that is not faster than this one and whose numerator is at most
    /// `largest`, if there is one.
    pub(crate) fn approximate(self, largest: u64) -> Option<Self> {
        if self.units() <= largest {
            return Some(self);
        }
        // A numerator this large is far beyond any word that asks: the loop is short.
        let candidates = (1..=largest).filter_map(NonZeroU64::new).filter_map(|units| {
            let nanos = (u128::from(units.get()) * u128::from(self.nanos()))
                .div_ceil(u128::from(self.units()));
            let nanos = NonZeroU64::new(u64::try_from(nanos).ok()?)?;
            Some(Self::new(units, nanos))
        });
        candidates.max()
    }

    /// Whether this rate is near enough to `exact` to stand for it (invariant I10): within 1e-6 up
    /// to 1,000 per second, 1e-4 up to 10^6, 1e-3 up to 10^7, 2 % above.
    pub(crate) fn stands_for(self, exact: Self) -> bool {
        let tolerance = match exact.per_second() {
            rate if rate <= 1e3 => 1e-6,
            rate if rate <= 1e6 => 1e-4,
            rate if rate <= 1e7 => 1e-3,
            _ => 2e-2,
        };
        (self.per_second() / exact.per_second() - 1.0).abs() <= tolerance
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.units()) * u128::from(other.nanos());
        let right = u128::from(other.units()) * u128::from(self.nanos());
        left.cmp(&right)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.units, Period(self.nanos.get()))
    }
}

/// Why a quota was not accepted. Each message names the value, the bound and what would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The limit was zero.
    ZeroLimit,
    /// The period was zero.
    ZeroPeriod,
    /// The burst was zero.
    ZeroBurst,
    /// The period does not fit in 64 bits of nanoseconds.
    PeriodTooLong {
        /// The period given.
        given: Duration,
    },
    /// The quota is sound, but this algorithm's word cannot hold it.
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// The value given.
        given: u64,
        /// The largest value accepted beside the rest of the quota.
        max: u64,
        /// What would be accepted.
        instead: &'static str,
    },
    /// The rate cannot be told closely enough by this algorithm's word.
    RateNotRepresentable {
        /// The rate asked for.
        given: Rate,
        /// The nearest rate that is not faster, if there is one.
        nearest: Option<Rate>,
        /// What would be accepted.
        instead: &'static str,
    },
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroLimit => f.write_str(
                "limit 0: a limit is at least 1 (to refuse everything use the allowance `blocked`)",
            ),
            Self::ZeroPeriod => f.write_str("period 0: a period is at least 1ns"),
            Self::ZeroBurst => f.write_str("burst 0: a burst is at least 1"),
            Self::PeriodTooLong { given } => write!(
                f,
                "period {given:?}: a period is at most {:?}",
                Duration::from_nanos(u64::MAX)
            ),
            Self::TooLarge { what, given, max, instead } => {
                write!(f, "{what} {given}: at most {max} here; {instead}")
            }
            Self::RateNotRepresentable { given, nearest, instead } => {
                write!(f, "rate {given}: ")?;
                match nearest {
                    Some(nearest) => write!(f, "the nearest that fits is {nearest}")?,
                    None => f.write_str("no near rate fits")?,
                }
                write!(f, "; {instead}")
            }
        }
    }
}

impl core::error::Error for QuotaError {}

/// What a client is granted: a quota, or one of the two ends that are no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allowance {
    /// So much per period.
    Quota(Quota),
    /// So many permits at one time.
    InFlight(u64),
    /// Everything is admitted.
    Unlimited,
    /// Everything that costs anything is refused, for ever.
    Blocked,
}

impl From<Quota> for Allowance {
    fn from(quota: Quota) -> Self {
        Self::Quota(quota)
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(quota) => quota.fmt(f),
            Self::InFlight(limit) => write!(f, "{limit} in flight"),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Blocked => f.write_str("blocked"),
        }
    }
}

/// Ten years: how long a word must last from its clock's origin, in nanoseconds.
pub(crate) const LIFETIME: u64 = (10 * 365 + 3) * 86_400_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(units: u64, nanos: u64) -> Rate {
        Rate::new(NonZeroU64::new(units).unwrap(), NonZeroU64::new(nanos).unwrap())
    }

    /// Each bound of I10 from both sides, at the rates at which it changes.
    #[test]
    fn a_rate_stands_for_another_if_it_is_near_enough() {
        let slower_by_one_in = |parts: u64, per_second: u64| {
            let exact = rate(per_second, 1_000_000_000);
            rate(per_second * (parts - 1), 1_000_000_000 * parts).stands_for(exact)
        };
        assert!(slower_by_one_in(2_000_000, 1_000) && !slower_by_one_in(500_000, 1_000));
        assert!(slower_by_one_in(500_000, 1_001));
        assert!(slower_by_one_in(20_000, 1_000_000) && !slower_by_one_in(5_000, 1_000_000));
        assert!(slower_by_one_in(5_000, 1_000_001));
        assert!(slower_by_one_in(2_000, 10_000_000) && !slower_by_one_in(500, 10_000_000));
        assert!(slower_by_one_in(500, 10_000_001) && !slower_by_one_in(40, 10_000_001));
    }

    #[test]
    fn ten_years_have_at_most_three_leap_days() {
        assert_eq!(Duration::from_nanos(LIFETIME), Duration::from_secs(3_653 * 86_400));
    }

    #[test]
    fn zeroes_are_refused_by_name() {
        assert_eq!(Quota::per_second(0), Err(QuotaError::ZeroLimit));
        assert_eq!(Quota::new(1, Duration::ZERO), Err(QuotaError::ZeroPeriod));
        assert_eq!(Quota::per_second(1).unwrap().with_burst(0), Err(QuotaError::ZeroBurst));
        let given = Duration::MAX;
        assert_eq!(Quota::new(1, given), Err(QuotaError::PeriodTooLong { given }));
    }

    #[test]
    fn per_second_means_per_second() {
        let quota = Quota::per_second(5).unwrap();
        assert_eq!((quota.limit(), quota.period()), (5, Duration::from_secs(1)));
        assert_eq!(Quota::per_minute(7).unwrap().period(), Duration::from_secs(60));
        assert_eq!(Quota::per_hour(7).unwrap().period(), Duration::from_secs(3_600));
        assert_eq!(Quota::per_day(7).unwrap().period(), Duration::from_secs(86_400));
    }

    #[test]
    fn burst_is_the_limit_unless_given() {
        let quota = Quota::per_second(5).unwrap();
        assert_eq!(quota.burst(), 5);
        assert_eq!(quota.with_burst(9).unwrap().burst(), 9);
        assert_eq!(quota.with_burst(9).unwrap().limit(), 5);
    }

    #[test]
    fn prints_itself_in_plain_words() {
        let text = |nanos| Quota::new(3, Duration::from_nanos(nanos)).unwrap().to_string();
        assert_eq!(text(86_400_000_000_000), "3 per 1d");
        assert_eq!(text(5_400_000_000_000), "3 per 90m");
        assert_eq!(text(1_500_000), "3 per 1500us");
        assert_eq!(text(7), "3 per 7ns");
        assert_eq!(Allowance::Unlimited.to_string(), "unlimited");
        assert_eq!(Allowance::Blocked.to_string(), "blocked");
    }

    #[test]
    fn rates_are_in_lowest_terms_and_ordered_by_speed() {
        assert_eq!(rate(700_000_000, 1_000_000_000), rate(7, 10));
        assert!(rate(7, 10) > rate(2, 3));
        assert_eq!(rate(100, 1_000_000_000).to_string(), "1 per 10ms");
        assert!((rate(7, 10).per_second() - 7e8).abs() < 1.0);
    }

    #[test]
    fn an_approximation_is_the_nearest_from_below() {
        assert_eq!(rate(7, 10).approximate(29), Some(rate(7, 10)));
        // 103 per 100 ns: 29/28 would be too fast, nothing else lies between it and 1/1.
        assert_eq!(rate(103, 100).approximate(29), Some(rate(1, 1)));
        assert!(!rate(1, 1).stands_for(rate(103, 100)));
        let prime = rate(999, 1_000_000_000);
        let near = prime.approximate(29).unwrap();
        assert!(near <= prime && near.units() <= 29 && near.stands_for(prime), "{near}");
    }

    #[test]
    fn errors_name_value_bound_and_remedy() {
        let error = QuotaError::TooLarge {
            what: "limit",
            given: 70_000,
            max: 65_536,
            instead: "use sliding_counter",
        };
        assert_eq!(error.to_string(), "limit 70000: at most 65536 here; use sliding_counter");
        assert!(QuotaError::ZeroLimit.to_string().contains("at least 1"));
        let error = QuotaError::RateNotRepresentable {
            given: rate(103, 100),
            nearest: Some(rate(1, 1)),
            instead: "use the wide word",
        };
        assert_eq!(
            error.to_string(),
            "rate 103 per 100ns: the nearest that fits is 1 per 1ns; use the wide word"
        );
    }
}
