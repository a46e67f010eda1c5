//! What is decided, counted for a dashboard through the [`metrics`](https://docs.rs/metrics) facade; who
//! is refused most.
//!
//! ```
//! use tollgate::metrics::Metrics;
//! use tollgate::{Limiter, Quota, TokenBucket};
//!
//! let limiter = Limiter::<String, _>::builder(TokenBucket::<u64>::new(Quota::per_second(10)?)?)
//!     .metrics(Metrics::new("api").top_refused(100))
//!     .build::<String>();
//! limiter.is_allowed("alice");
//! limiter.publish_metrics(); // now and then: before each scrape, or from a Sweeper
//! for refused in limiter.top_refused(10) {
//!     println!("{}: about {} times", refused.key, refused.count);
//! }
//! # Ok::<(), tollgate::QuotaError>(())
//! ```
//!
//! | metric | kind | labels beside `limiter` | what |
//! |---|---|---|---|
//! | `tollgate_admitted_total` | counter | `tier` | requests admitted |
//! | `tollgate_refused_total` | counter | `tier`, `limit`, `algorithm` | requests refused |
//! | `tollgate_would_have_refused_total` | counter | `tier`, `limit`, `algorithm` | requests admitted that this limit, in shadow, would have refused |
//! | `tollgate_lost_races_total` | counter | `tier` | exchanges tried again because another thread's came first |
//! | `tollgate_decision_seconds` | histogram | | the time of a decision, to an eighth: one of about 1,024 is timed |
//! | `tollgate_clients` | gauge | | clients that have a state |
//! | `tollgate_created_total` | counter | | states made for clients that had none |
//! | `tollgate_retired_total` | counter | | idle states removed |
//! | `tollgate_refused_full_total` | counter | | newcomers refused because there was no room |
//!
//! A client's key is never a label. `limit` is the name of a limit of a [`Stack`](crate::Stack),
//! `client` for one that is alone, and `global` for the cap, which has no `algorithm`. A refusal counts
//! once, at the limit that refused first: the cap if it was seen to be used up, else the client's
//! limits in their order, else the cap. For want of room it counts in `tollgate_refused_full_total`
//! alone.
//!
//! Each call of `is_allowed`, `check` and `acquire`, in all their forms, counts once. Peeks, waits and a
//! [`DirectLimiter`](crate::DirectLimiter) do not count, and what is given back afterwards has been
//! admitted all the same. An [`AllOf`](crate::AllOf) asks each of its limiters, and
//! [`acquire_up_to`](crate::Handle::acquire_up_to) as often as it must. Races lost outside of a
//! decision count at the thread's next one.
//!
//! # What it costs
//! Each thread counts in rows of its own, on cache lines that no other thread writes, by a load and a
//! store: no exchange, no lock, no allocation, no call of the facade; 2 to 5 ns a decision. Only
//! beyond four threads for each processor (16 at least, 256 at most) do the last to come share a row. A
//! row of a tier is 128 bytes long, one of the histogram 768. What is timed is timed by the precise
//! clock, and one reading of it is part of the time. [`Limiter::publish_metrics`] adds the rows up and
//! hands the sums over.
//!
//! # Who is refused most
//! [`Metrics::top_refused`] sets places aside for the clients refused most. Only refusals pay for that:
//! one of about 64 is looked at, and written to a table under a lock that no decision waits for. There
//! a key is copied when it takes a place, into the memory of the one that was there; that allocates
//! while places are free, or if there is too little memory.
//!
//! Of `N` refusals and `m` places: a count is too high by at most its `error`, which is at most
//! `N / m`, and who was refused more than `N / m` times has a place. To all three comes what the sample
//! is off by: for a client refused `f` times its standard deviation is about `8 * sqrt(f)`, which is
//! 8 % of 10,000. The algorithm is Space-Saving: A. Metwally, D. Agrawal, A. El Abbadi, *Efficient
//! Computation of Frequent and Top-k Elements in Data Streams*, ICDT 2005.

mod latency;
mod local;
mod stripes;
mod tally;
mod top;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use std::sync::{Mutex, PoisonError};

use ::metrics::{
    Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use self::latency::Latency;
pub(crate) use self::local::lost_race;
use self::tally::Series;
pub(crate) use self::tally::{Labels, Tally};
pub use self::top::Refused;
use self::top::Top;
use crate::algorithm::Algorithm;
use crate::limiter::Limiter;
use crate::stats::Stats;

/// What a limiter counts, for [`LimiterBuilder::metrics`](crate::LimiterBuilder::metrics).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    limiter: String,
    places: usize,
}

impl Metrics {
    /// For a limiter of this name, which is the label `limiter`. Two limiters of one name publish
    /// the higher of their counts.
    pub fn new(limiter: impl Into<String>) -> Self {
        Self { limiter: limiter.into(), places: 0 }
    }

    /// Also keeps the clients refused most, in so many places: for
    /// [`Limiter::top_refused`]. 0, unless set, is none.
    #[must_use]
    pub fn top_refused(self, places: usize) -> Self {
        Self { places, ..self }
    }
}

/// The counts of a limiter.
pub(crate) struct Meter<K> {
    name: Arc<str>,
    /// One for each tier, and for each set of limits that it has had.
    tallies: Mutex<Vec<Arc<Tally>>>,
    latency: Latency,
    top: Option<Top<K>>,
}

impl<K> Meter<K> {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            name: metrics.limiter.into(),
            tallies: Mutex::default(),
            latency: Latency::new(),
            top: (metrics.places > 0).then(|| Top::new(metrics.places)),
        }
    }

    fn tallies(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Tally>>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tally of these labels. For who makes plans: it may wait.
    pub(crate) fn tally(&self, labels: Labels) -> Arc<Tally> {
        let mut tallies = self.tallies();
        if let Some(known) = tallies.iter().find(|tally| tally.labels == labels) {
            return known.clone();
        }
        let tally = Arc::new(Tally::new(labels));
        tallies.push(tally.clone());
        tally
    }

    /// Decides, and counts how long that took if it is one of the decisions that are timed. As if it had
    /// never been, where nothing was `decided`.
    #[inline]
    pub(crate) fn time<T>(
        &self,
        decide: impl FnOnce() -> T,
        decided: impl FnOnce(&T) -> bool,
    ) -> T {
        if local::with(Latency::is_due) {
            return self.latency.time(decide, decided);
        }
        let answer = decide();
        if !decided(&answer) {
            local::with(Latency::uncount);
        }
        answer
    }

    /// Sees who was refused.
    #[inline]
    pub(crate) fn refused<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(top) = &self.top {
            top.saw(key);
        }
    }

    fn publish(&self, stats: Stats) {
        describe();
        let of_limiter = vec![Label::new("limiter", self.name.clone())];
        for (series, sum) in sums(&self.tallies()) {
            let mut labels = of_limiter.clone();
            labels.push(Label::new("tier", series.tier.to_owned()));
            if let Some((limit, algorithm)) = series.limit {
                labels.push(Label::from_static_parts("limit", limit));
                labels.extend(algorithm.map(|name| Label::from_static_parts("algorithm", name)));
            }
            counter!(series.metric, labels).absolute(sum);
        }
        let labels = || of_limiter.clone();
        gauge!(names::CLIENTS, labels()).set(stats.clients as f64);
        counter!(names::CREATED, labels()).absolute(stats.created);
        counter!(names::RETIRED, labels()).absolute(stats.retired);
        counter!(names::REFUSED_FULL, labels()).absolute(stats.refused_full);
        let seconds = histogram!(names::DECISION, labels());
        self.latency.hand_over(|time, times| seconds.record_many(time, times as usize));
    }
}

/// The sum of each series over all tallies.
fn sums(tallies: &[Arc<Tally>]) -> BTreeMap<Series<'_>, u64> {
    let mut sums = BTreeMap::new();
    for (series, sum) in tallies.iter().flat_map(|tally| tally.sums()) {
        *sums.entry(series).or_default() += sum;
    }
    sums
}

mod names {
    pub(super) const ADMITTED: &str = "tollgate_admitted_total";
    pub(super) const REFUSED: &str = "tollgate_refused_total";
    pub(super) const WOULD_HAVE_REFUSED: &str = "tollgate_would_have_refused_total";
    pub(super) const LOST_RACES: &str = "tollgate_lost_races_total";
    pub(super) const DECISION: &str = "tollgate_decision_seconds";
    pub(super) const CLIENTS: &str = "tollgate_clients";
    pub(super) const CREATED: &str = "tollgate_created_total";
    pub(super) const RETIRED: &str = "tollgate_retired_total";
    pub(super) const REFUSED_FULL: &str = "tollgate_refused_full_total";
}

fn describe() {
    for (name, what) in [
        (names::ADMITTED, "Requests admitted"),
        (names::REFUSED, "Requests refused, each at the limit that refused first"),
        (names::WOULD_HAVE_REFUSED, "Requests admitted that a limit in shadow would have refused"),
        (names::LOST_RACES, "Exchanges tried again because another thread's came first"),
        (names::CREATED, "States made for clients that had none"),
        (names::RETIRED, "Idle states removed"),
        (names::REFUSED_FULL, "Newcomers refused because there was no room"),
    ] {
        describe_counter!(name, Unit::Count, what);
    }
    describe_gauge!(names::CLIENTS, Unit::Count, "Clients that have a state");
    describe_histogram!(
        names::DECISION,
        Unit::Seconds,
        "Time of a decision, one of about 1,024 timed"
    );
}

impl<K> fmt::Debug for Meter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("limiter", &self.name).finish_non_exhaustive()
    }
}

impl<K, A: Algorithm, C, R> Limiter<K, A, C, R> {
    /// Hands what was counted to the [recorder](https://docs.rs/metrics) of the process: see
    /// [`metrics`](crate::metrics). Nothing, if the builder did not ask to count.
    ///
    /// For now and then: it adds up, allocates, calls the recorder, and may wait for a reload. No
    /// decision waits for it. A [`Sweeper`](crate::Sweeper) calls it after each sweep.
    pub fn publish_metrics(&self) {
        if let Some(meter) = self.all().meter() {
            meter.publish(self.stats());
        }
    }

    /// The `n` clients refused most since the limiter was made, most first, with about how often and
    /// how far that may be off: see [`metrics`](crate::metrics#who-is-refused-most). Nobody, if the
    /// builder set no places aside.
    ///
    /// Copies keys, and may wait for a decision that does; no decision waits for it.
    pub fn top_refused(&self, n: usize) -> Vec<Refused<K>>
    where
        K: Clone,
    {
        let top = self.all().meter().and_then(|meter| meter.top.as_ref());
        top.map_or_else(Vec::new, |top| top.first(n))
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use core::cell::Cell as Once;

    use super::*;
    use crate::word::Cell;

    #[test]
    fn a_lost_race_is_counted_with_the_decision() {
        let tally = Tally::new(Labels { tier: "free".into(), limits: Vec::new() });
        let of = |metric| tally.sums().find(|(series, _)| series.metric == metric);
        let sum = |metric| of(metric).unwrap().1;
        let cell = Cell::<u64>::new(0);
        let rivals = Once::new(3_u32);
        let raced = cell.update(|payload| {
            // Somebody else comes first, three times.
            if rivals.replace(rivals.get().saturating_sub(1)) > 0 {
                cell.update(|payload| (Some(payload + 1), ())).unwrap();
            }
            (Some(payload + 1), ())
        });
        assert_eq!((raced, cell.load().payload()), (Ok(()), 4));
        assert_eq!(sum(names::LOST_RACES), 0);
        tally.admitted(0, 0);
        tally.refused(0);
        assert_eq!(sum(names::LOST_RACES), 3);
        assert_eq!(sum(names::ADMITTED), 1);
    }
}
