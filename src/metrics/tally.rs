//! What was decided in one tier, by limit.

use alloc::string::String;
use alloc::vec::Vec;

use super::stripes::Stripes;
use super::{local, names};
use crate::algorithm::Stack;

/// Where each counter lies in a row, which is two cache lines long.
const ADMITTED: usize = 0;
const REFUSED: usize = 1;
const REFUSED_BY_CAP: usize = REFUSED + Stack::MAX;
const MISSED: usize = REFUSED_BY_CAP + 1;
const MISSED_BY_CAP: usize = MISSED + Stack::MAX;
const LOST_RACES: usize = MISSED_BY_CAP + 1;
const COUNTERS: usize = LOST_RACES + 1;

const _: () = assert!(COUNTERS == 16);

/// A tier and its limits, by which counts are told apart. Two plans of a tier whose limits have the
/// same names and algorithms have one tally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) tier: String,
    /// The name and the algorithm of each limit.
    pub(crate) limits: Vec<(&'static str, &'static str)>,
}

/// The counts of one tier.
pub(crate) struct Tally {
    pub(super) labels: Labels,
    counts: Stripes<COUNTERS>,
}

impl Tally {
    pub(super) fn new(labels: Labels) -> Self {
        Self { labels, counts: Stripes::new() }
    }

    #[inline]
    fn count(&self, counter: usize) {
        local::with(|local| {
            self.counts.add(local, counter, 1);
            let lost = local.lost_races();
            if lost > 0 {
                self.counts.add(local, LOST_RACES, lost.into());
            }
        });
    }

    /// `missed` and `missed_by_cap` have a bit for each limit in shadow that would have refused.
    #[inline]
    pub(crate) fn admitted(&self, missed: u8, missed_by_cap: u8) {
        self.count(ADMITTED);
        if missed | missed_by_cap != 0 {
            self.missed(missed, missed_by_cap);
        }
    }

    #[cold]
    fn missed(&self, missed: u8, missed_by_cap: u8) {
        let limits = (0..Stack::MAX).filter(|limit| missed & 1 << limit != 0);
        limits.for_each(|limit| self.count(MISSED + limit));
        if missed_by_cap != 0 {
            self.count(MISSED_BY_CAP);
        }
    }

    /// Refused by the client's limit of this number.
    #[inline]
    pub(crate) fn refused(&self, limit: usize) {
        self.count(REFUSED + limit.min(Stack::MAX - 1));
    }

    pub(crate) fn refused_by_cap(&self) {
        self.count(REFUSED_BY_CAP);
    }

    /// Every series, with its sum.
    pub(super) fn sums(&self) -> impl Iterator<Item = (Series<'_>, u64)> {
        let tier = &*self.labels.tier;
        let of_tier = |metric, counter| (Series { metric, tier, limit: None }, counter);
        let limits = self.labels.limits.iter().take(Stack::MAX).enumerate();
        let own = limits.map(|(at, &(limit, of))| ((limit, Some(of)), REFUSED + at, MISSED + at));
        let cap = [(("global", None), REFUSED_BY_CAP, MISSED_BY_CAP)];
        let by_limit = own.chain(cap).flat_map(move |(limit, refused, missed)| {
            let series = |metric| Series { metric, tier, limit: Some(limit) };
            [(series(names::REFUSED), refused), (series(names::WOULD_HAVE_REFUSED), missed)]
        });
        let all = [of_tier(names::ADMITTED, ADMITTED), of_tier(names::LOST_RACES, LOST_RACES)];
        let all = all.into_iter().chain(by_limit);
        all.map(|(series, counter)| (series, self.counts.sum(counter)))
    }
}

/// What a count is told by. Tallies of one tier, with other limits, have some series in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Series<'t> {
    pub(super) metric: &'static str,
    pub(super) tier: &'t str,
    /// The limit and its algorithm: none for the cap, whose algorithm can change while a tier's limits
    /// stay.
    pub(super) limit: Option<(&'static str, Option<&'static str>)>,
}
