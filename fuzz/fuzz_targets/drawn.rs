//! The moves and quotas of `tests/common`, drawn from a fuzzer's bytes. Numbers are drawn with their
//! magnitude, so that small ones, the edges of fields, and the ends are all a few bits away.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::tests::common::families::{FAMILIES, Family, Numbers};
use super::tests::common::moves::Step;

/// Any magnitude, or one beside a power of two.
pub(crate) fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    let size = u.int_in_range(0..=64_u32)?;
    let edge = 1_u64.checked_shl(size).unwrap_or(u64::MAX);
    Ok(match u.int_in_range(0..=3)? {
        0 => edge.saturating_sub(1),
        1 => edge,
        2 => edge.saturating_add(1),
        _ => u64::arbitrary(u)? & edge.saturating_sub(1),
    })
}

/// A number that people choose, or any.
pub(crate) fn amount(u: &mut Unstructured<'_>) -> Result<u64> {
    const COMMON: &[u64] = &[1, 2, 3, 5, 7, 10, 29, 60, 100, 1_000, 10_000, 700_000_000];
    Ok(if u.arbitrary()? { *u.choose(COMMON)? } else { number(u)?.max(1) })
}

/// A period that people choose, or any, in nanoseconds.
pub(crate) fn period(u: &mut Unstructured<'_>) -> Result<u64> {
    const SECOND: u64 = 1_000_000_000;
    const COMMON: &[u64] =
        &[1, 10, 1_000_000, SECOND, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND];
    Ok(if u.arbitrary()? { *u.choose(COMMON)? } else { number(u)?.max(1) })
}

/// Any algorithm, and numbers that it may not take.
pub(crate) fn limit(u: &mut Unstructured<'_>) -> Result<(Family, Numbers)> {
    let numbers = Numbers { limit: amount(u)?, period: period(u)?, capacity: amount(u)? };
    Ok((*u.choose(FAMILIES)?, numbers))
}

/// One nanosecond before, at, or after.
fn beside(u: &mut Unstructured<'_>) -> Result<i64> {
    u.int_in_range(-1..=1)
}

pub(crate) fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=5)? {
        0 => Step::Stay,
        1 => Step::By(number(u)?),
        2 => Step::Part(u64::from(u8::arbitrary(u)?)),
        3 => Step::Retry(beside(u)?),
        4 => Step::Reset(beside(u)?),
        _ => Step::Edge(beside(u)?),
    })
}
