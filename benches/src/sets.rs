//! Who is compared with whom.

use tollgate::{AlgorithmKind, Anchor, CoarseClock, MonotonicClock};

use crate::contender::{Key, Policy};
use crate::measure::Subject;
#[cfg(feature = "metrics")]
use crate::ours::Checked;
use crate::ours::{Clocked, Given, Pinned, Stream, Tick};
use crate::peers::{Governor, GovernorStream, GovernorTick, RateLimit, RateNet};
use crate::twin::{LogTwin, MutexTwin, OneMutex};

/// All limiters of many clients, none of which has seen a client yet.
pub fn contenders<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    let any = || policy.any(AlgorithmKind::TokenBucket);
    let mut all = contenders_at_scale(policy);
    all.insert(5, Subject::ours("any-coarse", Clocked::new(any(), CoarseClock::new())));
    all.insert(6, Subject::ours("any-given", Given::new(any())));
    all.push(Subject::peer("one-mutex", OneMutex::new(policy)));
    all
}

/// Those that a million clients are brought to.
pub fn contenders_at_scale<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    let bucket = policy.token_bucket();
    vec![
        Subject::ours("coarse", Clocked::new(bucket, CoarseClock::new())),
        Subject::ours("precise", Clocked::new(bucket, MonotonicClock::new())),
        Subject::ours("given", Given::new(bucket)),
        Subject::ours("pinned", Pinned::new(bucket, CoarseClock::new())),
        Subject::ours("pinned-precise", Pinned::new(bucket, MonotonicClock::new())),
        Subject::peer("governor", Governor::new(policy)),
        Subject::peer("rate-net", RateNet::new(policy)),
        Subject::peer("mutex-twin", MutexTwin::new(policy)),
    ]
}

/// One stream, no keys.
pub fn streams<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    vec![
        Subject::ours("coarse", Stream::new(policy, CoarseClock::new())),
        Subject::ours("precise", Stream::new(policy, MonotonicClock::new())),
        Subject::peer("governor", GovernorStream::new(policy)),
        Subject::peer("ratelimit", RateLimit::new(policy)),
    ]
}

/// An algorithm, ours and rate-net's.
pub fn algorithms<K: Key>(kind: AlgorithmKind, policy: Policy) -> Vec<Subject<K>> {
    let theirs = match kind {
        AlgorithmKind::LeakyBucket { .. } => rate_net::Algorithm::LeakyBucket,
        AlgorithmKind::FixedWindow { .. } => rate_net::Algorithm::FixedWindow,
        AlgorithmKind::SlidingCounter => rate_net::Algorithm::SlidingWindowCounter,
        AlgorithmKind::SlidingLog => rate_net::Algorithm::SlidingWindowLog,
        _ => rate_net::Algorithm::TokenBucket,
    };
    vec![
        Subject::ours("coarse", Clocked::new(policy.any(kind), CoarseClock::new())),
        Subject::ours("precise", Clocked::new(policy.any(kind), MonotonicClock::new())),
        Subject::peer("rate-net", RateNet::by(theirs, policy)),
    ]
}

/// The algorithms that [`algorithms`] compares, but for the log.
pub const KINDS: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyBucket { queue: 999_999_999 },
    AlgorithmKind::FixedWindow { anchor: Anchor::Aligned },
    AlgorithmKind::SlidingCounter,
];

/// Sliding logs.
pub fn logs<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    let log = policy.sliding_log();
    vec![
        Subject::ours("precise", Clocked::new(log, MonotonicClock::new())),
        Subject::peer("log-twin", LogTwin::new(policy)),
        Subject::peer("rate-net", RateNet::by(rate_net::Algorithm::SlidingWindowLog, policy)),
    ]
}

/// Three limits decided as one, and the last of them alone.
pub fn stacks<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    let any = policy.any(AlgorithmKind::TokenBucket);
    vec![
        Subject::ours("coarse", Clocked::new(policy.stack(), CoarseClock::new())),
        Subject::ours("precise", Clocked::new(policy.stack(), MonotonicClock::new())),
        Subject::peer("alone-coarse", Clocked::new(any.clone(), CoarseClock::new())),
        Subject::peer("alone-precise", Clocked::new(any, MonotonicClock::new())),
    ]
}

/// With a cap for all clients, and without.
pub fn caps<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    let cap = Policy::ADMIT.any(AlgorithmKind::TokenBucket);
    let bucket = policy.token_bucket();
    vec![
        Subject::ours("coarse", Clocked::capped(bucket, cap, CoarseClock::new())),
        Subject::peer("no-cap", Clocked::new(bucket, CoarseClock::new())),
        Subject::peer("governor", Governor::new(policy)),
    ]
}

/// One that counts its decisions, and one that does not.
#[cfg(feature = "metrics")]
pub fn counted<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    let bucket = policy.token_bucket();
    vec![
        Subject::ours("counted", Given::counted(bucket, 0)),
        Subject::ours("with-top", Given::counted(bucket, 100)),
        Subject::peer("not", Given::new(bucket)),
    ]
}

/// [`counted`], asked for reasons.
#[cfg(feature = "metrics")]
pub fn counted_checks<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    let bucket = policy.token_bucket();
    vec![
        Subject::ours("counted", Checked(Given::counted(bucket, 0))),
        Subject::ours("with-top", Checked(Given::counted(bucket, 100))),
        Subject::peer("not", Checked(Given::new(bucket))),
    ]
}

/// [`counted`], with three limits of which the last refuses.
#[cfg(feature = "metrics")]
pub fn counted_stacks<K: Key>(policy: Policy) -> Vec<Subject<K>> {
    vec![
        Subject::ours("counted", Given::counted(policy.stack(), 0)),
        Subject::ours("with-top", Given::counted(policy.stack(), 100)),
        Subject::ours("checked", Checked(Given::counted(policy.stack(), 0))),
        Subject::peer("not", Given::new(policy.stack())),
        Subject::peer("not-checked", Checked(Given::new(policy.stack()))),
    ]
}

/// Clocks alone.
pub fn clocks<K: Key>() -> Vec<Subject<K>> {
    vec![
        Subject::ours("coarse", Tick::coarse()),
        Subject::ours("precise", Tick::precise()),
        Subject::peer("governor", GovernorTick::default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::client_keys;
    use std::net::IpAddr;

    fn answers<K: Key>(policy: Policy, subjects: Vec<Subject<K>>) {
        let keys = client_keys(10);
        for mut subject in subjects {
            for _ in 0..policy.burst.min(1_000) {
                subject.introduce(&keys);
            }
            subject.lap(&keys, 1_000).must_be(policy, subject.name);
            subject.lap_of_threads(2, &keys, 1_000).must_be(policy, subject.name);
        }
    }

    #[test]
    fn every_contender_admits_and_refuses_when_it_should() {
        for policy in [Policy::ADMIT, Policy::FULL, Policy::REFUSE] {
            answers::<String>(policy, contenders(policy));
            answers::<IpAddr>(policy, contenders_at_scale(policy));
        }
        for policy in [Policy::ADMIT, Policy::REFUSE] {
            answers::<u64>(policy, streams(policy));
            answers::<u64>(policy, stacks(policy));
            answers::<u64>(policy, caps(policy));
        }
        #[cfg(feature = "metrics")]
        for policy in [Policy::ADMIT, Policy::REFUSE] {
            answers::<u64>(policy, counted(policy));
            answers::<u64>(policy, counted_checks(policy));
            answers::<u64>(policy, counted_stacks(policy));
        }
        for kind in KINDS {
            answers::<u64>(Policy::WINDOW, algorithms(kind, Policy::WINDOW));
        }
        answers::<u64>(Policy::full_log(10), logs(Policy::full_log(10)));
        answers::<u64>(Policy::ADMIT, clocks());
    }
}
