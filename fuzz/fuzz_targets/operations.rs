//! Any sequence of operations on one client, under any quota that a word takes: every field of every
//! answer is the exact oracle's.
#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tollgate::AnyAlgorithm;

mod drawn;
#[allow(unused, reason = "the tests of that file are not run here")]
#[path = "../../tests/properties.rs"]
mod tests;

use tests::common::families::words;
use tests::common::moves::{Act, Cost, LIFE, Step};
use tests::common::oracle::Oracle;

#[derive(Debug)]
struct History {
    algorithm: AnyAlgorithm,
    terms: tests::common::twin::Terms,
    start: u64,
    period: u64,
    moves: Vec<(Step, Act)>,
}

impl<'a> Arbitrary<'a> for History {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let (family, numbers) = drawn::limit(u)?;
        let words = words(family.kind_for(numbers), numbers.quota());
        // What a word cannot hold it refuses to be made for.
        let (_, algorithm) = u.choose(&words)?;
        let Ok(algorithm) = algorithm.clone() else {
            return Err(arbitrary::Error::IncorrectFormat);
        };
        let terms = family.terms(numbers, &algorithm);
        let start = drawn::number(u)?.min(LIFE / 2);
        let mut moves = Vec::new();
        while !u.is_empty() && moves.len() < 200 {
            moves.push((drawn::step(u)?, act(u)?));
        }
        Ok(Self { algorithm, terms, start, period: numbers.period, moves })
    }
}

fn cost(u: &mut Unstructured<'_>) -> Result<Cost> {
    Ok(match u.int_in_range(0..=4)? {
        0 => Cost::Exactly(u64::from(u8::arbitrary(u)? % 4)),
        1 => Cost::Remaining(u.int_in_range(-1..=1)?),
        2 => Cost::Capacity(u.int_in_range(-1..=1)?),
        3 => Cost::Share(u.arbitrary()?),
        _ => Cost::Exactly(drawn::number(u)?),
    })
}

fn act(u: &mut Unstructured<'_>) -> Result<Act> {
    Ok(match u.int_in_range(0..=7)? {
        0..=3 => Act::Acquire(cost(u)?),
        4 => Act::Peek(cost(u)?),
        5 | 6 => Act::Refund(usize::from(u8::arbitrary(u)?)),
        _ => Act::Credit(cost(u)?),
    })
}

fuzz_target!(|history: History| {
    let History { algorithm, terms: (rule, figures), start, period, moves } = history;
    tests::play(&algorithm, Oracle::new(rule, figures), (start, period), &moves)
        .unwrap_or_else(|error| panic!("{error}"));
});
