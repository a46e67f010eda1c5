//! The smallest limit under which at most so many percent of the clients would have been refused.
//!
//! For each client on its own: the smallest limit that refuses it nothing, by bisection, each step
//! a replay of its requests. The answer for any percentage is then one of these in their order.
//!
//! Bisection needs that what is enough stays enough when the limit grows. That is so here, and only
//! because one refusal ends a step: as long as nothing is refused the state tells all that was
//! asked for, whatever the limit, and a larger limit has room for no less of it. How *many* requests
//! are refused need not shrink as the limit grows: a large cost that now fits may keep out ten small
//! ones.

use tollgate::{AlgorithmKind, AnyAlgorithm, DirectLimiter, Policy, Quota};

use crate::log::{Log, Request};

/// A policy of one limit, to be tried with other limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    kind: AlgorithmKind,
    quota: Quota,
}

impl Shape {
    /// If there is a limit to vary.
    pub(crate) fn of(policy: &Policy) -> Option<Self> {
        let algorithm = policy.algorithm();
        match (algorithm.kind()?, algorithm.allowance()) {
            (kind, tollgate::Allowance::Quota(quota)) => Some(Self { kind, quota }),
            _ => None,
        }
    }

    /// The same with another limit, if that can be. A burst that is not the limit stays as it is.
    fn with(self, limit: u64) -> Option<AnyAlgorithm> {
        let quota = Quota::new(limit, self.quota.period()).ok()?;
        let quota = match self.quota.burst() {
            burst if burst == self.quota.limit() => quota,
            burst => quota.with_burst(burst).ok()?,
        };
        AnyAlgorithm::new(self.kind, quota).ok()
    }

    /// The smallest limit that refuses none of one client's requests, if there is any.
    fn smallest(self, requests: &[Request], log: &Log) -> Option<u64> {
        let refuses = |limit| {
            let limiter = DirectLimiter::new(self.with(limit)?, ());
            let mut requests = requests.iter();
            Some(requests.any(|request| !limiter.is_allowed_at(log.now(request), request.cost)))
        };
        // Limits up to `short` are too small, and those from `end` on are enough or cannot be.
        let (mut short, mut end) = (0, 1);
        while refuses(end) == Some(true) {
            if end == u64::MAX {
                return None;
            }
            short = end;
            end = end.saturating_mul(2);
        }
        while end - short > 1 {
            let middle = short + (end - short) / 2;
            if refuses(middle) == Some(true) {
                short = middle;
            } else {
                end = middle;
            }
        }
        refuses(end).is_some().then_some(end)
    }
}

/// The smallest limit for each client that made a request in a tier, in order; none is larger than
/// any.
#[derive(Debug)]
pub(crate) struct Smallest(Vec<Option<u64>>);

impl Smallest {
    /// `requests` are those of the tier, those of a client in a row.
    pub(crate) fn new(shape: Shape, requests: &[Request], log: &Log) -> Self {
        let clients = requests.chunk_by(|one, next| one.client == next.client);
        let mut limits: Vec<_> = clients.map(|requests| shape.smallest(requests, log)).collect();
        limits.sort_by_key(|limit| (limit.is_none(), *limit));
        Self(limits)
    }

    /// The smallest limit under which at most `percent` of the clients are refused anything.
    pub(crate) fn limit(&self, percent: f64) -> Option<u64> {
        let clients = self.0.len();
        let refused = (clients as f64 * percent / 100.0).floor() as usize;
        match clients.checked_sub(refused) {
            None | Some(0) => Some(1),
            Some(enough) => self.0[enough - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use tollgate::{Anchor, Policies};

    use super::*;
    use crate::replay::replay;

    fn shapes() -> Vec<Shape> {
        let plain = Quota::new(7, Duration::from_millis(100)).unwrap();
        let burst = plain.with_burst(9).unwrap();
        let shape = |kind, quota| Shape { kind, quota };
        vec![
            shape(AlgorithmKind::TokenBucket, plain),
            shape(AlgorithmKind::TokenBucket, burst),
            shape(AlgorithmKind::LeakyBucket { queue: 0 }, plain),
            shape(AlgorithmKind::LeakyBucket { queue: 6 }, plain),
            shape(AlgorithmKind::FixedWindow { anchor: Anchor::Aligned }, plain),
            shape(AlgorithmKind::FixedWindow { anchor: Anchor::FirstRequest }, plain),
            shape(AlgorithmKind::SlidingCounter, plain),
            shape(AlgorithmKind::SlidingLog, plain),
        ]
    }

    /// Requests of six clients within three periods and more.
    fn requests() -> impl Strategy<Value = Vec<Request>> {
        let request = (0..350_i64, 0..6_u32, 0..5_u64).prop_map(|(time, client, cost)| Request {
            time: time * 1_000_000,
            cost,
            client,
            tier: 0,
        });
        prop::collection::vec(request, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Every limit is tried, from 1 on, on the whole log by the whole limiter.
        #[test]
        fn it_is_the_first_of_all_limits(mut requests in requests(), index in 0..8_usize) {
            const MOST: u64 = 60;
            let shape = shapes()[index];
            requests.sort_by_key(|request| request.time);
            let log = Log::of(requests.clone(), 6);
            requests.sort_by_key(|request| request.client);
            let smallest = Smallest::new(shape, &requests, &log);
            let clients = smallest.0.len();
            let touched: Vec<usize> = (1..=MOST)
                .map(|limit| Policies::new("default", shape.with(limit).unwrap()))
                .map(|policies| replay(policies, &log, None).touched())
                .collect();
            for percent in [0.0, 1.0, 20.0, 50.0, 100.0] {
                let few = |&touched: &usize| touched as f64 * 100.0 <= clients as f64 * percent;
                let first = touched.iter().position(few).map(|index| index as u64 + 1);
                prop_assert_eq!(smallest.limit(percent).filter(|&limit| limit <= MOST), first);
                // Once it is enough it stays so.
                let enough = first.map_or(touched.len(), |first| first as usize - 1);
                prop_assert!(touched[enough..].iter().all(few));
            }
        }
    }
}
