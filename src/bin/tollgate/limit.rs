//! A limit on the command line, `60/1m`, and the ways to enforce it.

use std::time::Duration;

use tollgate::{AlgorithmKind, Anchor, Quota};

/// From the loosest to the strictest at the edge of a window.
pub(crate) const ALGORITHMS: [AlgorithmKind; 5] = [
    AlgorithmKind::FixedWindow { anchor: Anchor::Aligned },
    AlgorithmKind::TokenBucket,
    AlgorithmKind::SlidingCounter,
    AlgorithmKind::SlidingLog,
    AlgorithmKind::LeakyBucket { queue: 0 },
];

const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

pub(crate) fn parse(text: &str) -> Result<Quota, String> {
    let expected = || {
        "expected LIMIT/PERIOD, such as 60/1m: whole numbers, and ns, us, ms, s, m, h or d; a \
         period is at most 213503d"
            .to_owned()
    };
    let (limit, period) = text.split_once('/').ok_or_else(expected)?;
    let limit = whole(limit).ok_or_else(expected)?;
    let nanos = nanos(period).ok_or_else(expected)?;
    Quota::new(limit, Duration::from_nanos(nanos)).map_err(|error| error.to_string())
}

fn nanos(period: &str) -> Option<u64> {
    let (number, unit) = period.split_at(period.find(|c: char| c.is_ascii_alphabetic())?);
    let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
    whole(number)?.checked_mul(*nanos)
}

/// Digits alone: a sign is none of them.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_quota() {
        for (text, shown) in [
            ("60/1m", "60 per 1m"),
            ("1/1500us", "1 per 1500us"),
            ("7/24h", "7 per 1d"),
            ("18446744073709551615/1ns", "18446744073709551615 per 1ns"),
            ("1/213503d", "1 per 213503d"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn anything_else_is_told_what_would_do() {
        for text in
            ["", "60", "60/m", "60/1", "60/1w", "+6/1s", "6/+1s", "6/-1s", "6/1.5s", "6/213504d"]
        {
            assert!(parse(text).unwrap_err().contains("such as 60/1m"), "{text}");
        }
        assert!(parse("0/1s").unwrap_err().contains("at least 1"));
        assert!(parse("1/0s").unwrap_err().contains("at least 1ns"));
    }
}
