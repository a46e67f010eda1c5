//! The fields of a file of policies: their names, what each accepts, and how it is read.

use core::fmt;
use core::time::Duration;

use alloc::string::{String, ToString};

use toml::de::DeValue;

use crate::algorithm::{AlgorithmKind, Anchor, Counts, InFlight};
use crate::carry::CarryOver;
use crate::policy::WhenFull;
use crate::quota::Period;

/// A field that holds a `T`.
pub(super) struct Field<T> {
    pub(super) name: &'static str,
    /// What is accepted: to follow "expected".
    pub(super) expected: &'static (dyn fmt::Display + Sync),
    /// The value, if it is one that is accepted.
    pub(super) read: fn(&DeValue<'_>) -> Option<T>,
}

/// What stands outside of the sections, and the names of these.
pub(super) const FILE: [&str; 5] =
    [DEFAULT.name, MAX_CLIENTS.name, WHEN_FULL.name, "tier", "global"];

/// What a section for one tier, or for all clients together, may hold.
pub(super) const POLICY: [&str; 11] = [
    ALGORITHM.name,
    LIMIT.name,
    PERIOD.name,
    BURST.name,
    QUEUE.name,
    ANCHOR.name,
    CARRY_OVER.name,
    IN_FLIGHT.name,
    UNLIMITED.name,
    BLOCKED.name,
    LIMITS,
];

/// The section of several limits in the place of one.
pub(super) const LIMITS: &str = "limits";

/// What one limit of several may hold.
pub(super) const ONE_LIMIT: [&str; 9] = [
    ALGORITHM.name,
    LIMIT.name,
    PERIOD.name,
    BURST.name,
    QUEUE.name,
    ANCHOR.name,
    IN_FLIGHT.name,
    COUNTS.name,
    ENFORCED.name,
];

/// What has no meaning beside [`IN_FLIGHT`], [`UNLIMITED`] or [`BLOCKED`].
pub(super) const LIMITED: [&str; 6] =
    [ALGORITHM.name, LIMIT.name, PERIOD.name, BURST.name, QUEUE.name, ANCHOR.name];

pub(super) const DEFAULT: Field<String> = Field {
    name: "default",
    expected: &"the name of a tier in quotes",
    read: |value| value.as_str().map(ToString::to_string),
};

pub(super) const MAX_CLIENTS: Field<usize> = Field {
    name: "max_clients",
    expected: COUNT,
    // There can be no more clients than addresses.
    read: |value| count(value).map(|max| max.try_into().unwrap_or(usize::MAX)),
};

pub(super) const WHEN_FULL: Field<WhenFull> = Field {
    name: "when_full",
    expected: &r#""refuse" or "admit""#,
    read: |value| choice(value, &[("refuse", WhenFull::Refuse), ("admit", WhenFull::Admit)]),
};

pub(super) const ALGORITHM: Field<AlgorithmKind> =
    Field { name: "algorithm", expected: &Algorithms, read: |value| value.as_str()?.parse().ok() };

pub(super) const LIMIT: Field<u64> = Field { name: "limit", expected: COUNT, read: count };

pub(super) const PERIOD: Field<Duration> = Field {
    name: "period",
    expected: &"a whole number and ns, us, ms, s, m, h or d in quotes, such as \"1m\", from \
                \"1ns\" to \"213503d\"",
    read: |value| period(value.as_str()?).map(Duration::from_nanos),
};

pub(super) const BURST: Field<u64> = Field { name: "burst", expected: COUNT, read: count };

pub(super) const QUEUE: Field<u64> = Field {
    name: "queue",
    expected: &"a whole number, 0 to 18446744073709551614",
    read: |value| whole(value).filter(|&queue| queue < u64::MAX),
};

pub(super) const ANCHOR: Field<Anchor> = Field {
    name: "anchor",
    expected: &r#""aligned" or "first_request""#,
    read: |value| {
        choice(value, &[("aligned", Anchor::Aligned), ("first_request", Anchor::FirstRequest)])
    },
};

pub(super) const CARRY_OVER: Field<CarryOver> = Field {
    name: "carry_over",
    expected: &r#""keep", "proportional" or "reset""#,
    read: |value| {
        let choices = [
            ("keep", CarryOver::Keep),
            ("proportional", CarryOver::Proportional),
            ("reset", CarryOver::Reset),
        ];
        choice(value, &choices)
    },
};

pub(super) const IN_FLIGHT: Field<u64> = Field {
    name: "in_flight",
    expected: &"a whole number, 1 to 2147483647",
    read: |value| count(value).filter(|&limit| InFlight::new(limit).is_ok()),
};

pub(super) const COUNTS: Field<Counts> = Field {
    name: "counts",
    expected: &r#""cost" or "requests""#,
    read: |value| choice(value, &[("cost", Counts::Cost), ("requests", Counts::Requests)]),
};

pub(super) const ENFORCED: Field<u8> = Field {
    name: "enforced",
    expected: &"a whole number, 0 to 100: the percentage of clients; 0 is shadow",
    read: |value| whole(value).filter(|&percent| percent <= 100).map(|percent| percent as u8),
};

pub(super) const UNLIMITED: Field<bool> =
    Field { name: "unlimited", expected: &"true or false", read: |value| value.as_bool() };

pub(super) const BLOCKED: Field<bool> =
    Field { name: "blocked", expected: &"true or false", read: |value| value.as_bool() };

const COUNT: &&str = &"a whole number, 1 to 18446744073709551615";

/// The names of all algorithms.
struct Algorithms;

impl fmt::Display for Algorithms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one of")?;
        for (index, kind) in AlgorithmKind::ALL.iter().enumerate() {
            write!(f, "{} \"{kind}\"", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn count(value: &DeValue<'_>) -> Option<u64> {
    whole(value).filter(|&count| count > 0)
}

fn choice<T: Copy>(value: &DeValue<'_>, choices: &[(&str, T)]) -> Option<T> {
    let name = value.as_str()?;
    choices.iter().find(|(choice, _)| *choice == name).map(|&(_, choice)| choice)
}

/// The nanoseconds of `1m`, `90s`, `1500us`: at least one.
fn period(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (nanos, _) = Period::UNITS.iter().find(|(_, name)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*nanos).filter(|&period| period > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<T>(field: &Field<T>, text: &str) -> Option<T> {
        (field.read)(DeValue::parse(text).unwrap().get_ref())
    }

    #[test]
    fn periods_have_units() {
        for (text, nanos) in [
            ("1ns", 1),
            ("20us", 20_000),
            ("500ms", 500_000_000),
            ("1s", 1_000_000_000),
            ("007m", 420_000_000_000),
            ("2h", 7_200_000_000_000),
            ("213503d", 213_503 * 86_400_000_000_000),
        ] {
            assert_eq!(period(text), Some(nanos), "{text}");
        }
        for text in ["", "1", "s", "-1s", "+1s", "1.5s", "1 s", "1S", "1µs", "0s", "1ss", "213504d"]
        {
            assert_eq!(period(text), None, "{text}");
        }
        assert_eq!(period("99999999999999999999999ns"), None);
    }

    proptest! {
        #[test]
        fn a_printed_period_is_read_back(nanos in 1..=u64::MAX) {
            prop_assert_eq!(period(&Period(nanos).to_string()), Some(nanos));
        }
    }

    #[test]
    fn counts_are_whole_and_fit() {
        for (text, count) in [("1", 1), ("+1_000", 1_000), ("0xff", 255), ("0b11", 3)] {
            assert_eq!(read(&LIMIT, text), Some(count), "{text}");
        }
        // TOML promises 63 bits only, but the text is there.
        assert_eq!(read(&LIMIT, "18446744073709551615"), Some(u64::MAX));
        for text in ["0", "-1", "1.0", "1e3", "inf", "true", "'1'", "18446744073709551616"] {
            assert_eq!(read(&LIMIT, text), None, "{text}");
        }
        assert_eq!(read(&QUEUE, "0"), Some(0));
        assert_eq!(read(&QUEUE, "18446744073709551614"), Some(u64::MAX - 1));
        assert_eq!(read(&QUEUE, "18446744073709551615"), None);
    }

    #[test]
    fn every_algorithm_is_offered_and_accepted() {
        for kind in AlgorithmKind::ALL {
            assert_eq!(read(&ALGORITHM, &format!("'{kind}'")), Some(kind));
            assert!(ALGORITHM.expected.to_string().contains(&format!("\"{kind}\"")));
        }
        assert_eq!(read(&ALGORITHM, "'magic'"), None);
    }

    /// What a field offers in quotes is accepted, and nothing else is.
    #[test]
    fn every_choice_offered_is_accepted() {
        fn offered<T>(field: &Field<T>) -> usize {
            assert!(read(field, "''").is_none() && read(field, "1").is_none());
            let expected = field.expected.to_string();
            let offers = expected.split('"').skip(1).step_by(2);
            offers.inspect(|offer| assert!(read(field, &format!("'{offer}'")).is_some())).count()
        }
        assert_eq!((offered(&WHEN_FULL), offered(&ANCHOR), offered(&CARRY_OVER)), (2, 2, 3));
        assert_eq!(offered(&PERIOD), 3);
    }
}
