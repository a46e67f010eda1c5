//! Any sequence of operations on a client of several limits, some in shadow, some counting requests,
//! one of permits in flight: every limit stands as its exact oracle says.
#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tollgate::AnyAlgorithm;

mod drawn;
#[allow(unused, reason = "the tests of that file are not run here")]
#[path = "../../tests/stacks.rs"]
mod tests;

use tests::common::families::{Family, Numbers};
use tests::{Act, Story};

#[derive(Debug)]
struct Drawn(Story);

impl<'a> Arbitrary<'a> for Drawn {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let limits = u.int_in_range(1..=3)?;
        let limits = (0..limits).map(|_| limit(u)).collect::<Result<_>>()?;
        let parallel = u.int_in_range(1..=4)?;
        let mut moves = Vec::new();
        while !u.is_empty() && moves.len() < 200 {
            moves.push((drawn::step(u)?, act(u)?));
        }
        Ok(Self((limits, parallel, moves)))
    }
}

fn limit(u: &mut Unstructured<'_>) -> Result<(Family, Numbers, bool, bool)> {
    let (family, numbers) = drawn::limit(u)?;
    match AnyAlgorithm::new(family.kind_for(numbers), numbers.quota()) {
        Ok(_) => Ok((family, numbers, u.arbitrary()?, u.ratio(1, 4)?)),
        Err(_) => Err(arbitrary::Error::IncorrectFormat),
    }
}

fn act(u: &mut Unstructured<'_>) -> Result<Act> {
    let which = |u: &mut Unstructured<'_>| Ok(usize::from(u8::arbitrary(u)?));
    Ok(match u.int_in_range(0..=7)? {
        0..=2 => Act::Acquire(u64::from(u8::arbitrary(u)? % 8)),
        3 => Act::Acquire(drawn::number(u)?),
        4 => Act::Refund(which(u)?),
        5 => Act::Settle(which(u)?, drawn::number(u)?),
        6 => Act::Drop(which(u)?),
        _ => Act::Sweep,
    })
}

fuzz_target!(|story: Drawn| {
    tests::play(story.0).unwrap_or_else(|error| panic!("{error}"));
});
