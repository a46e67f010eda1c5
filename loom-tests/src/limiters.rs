//! Limiters over the stand-in map.

use loom::sync::Arc;
use tollgate::{
    AlgorithmKind, Anchor, AnyAlgorithm, Client, FixedWindow, Limit, Limiter, Nanos, Policies,
    Quota, Stack, TokenBucket,
};

use crate::StandIn;

/// When everything happens, unless said otherwise.
pub const NOW: Nanos = Nanos::new(1);

/// The algorithm of the clients.
pub type Bucket = TokenBucket<u64>;

/// A limiter without a clock of its own.
pub type Modelled = Limiter<u8, Bucket, (), StandIn<u8, Client<Bucket>>>;

/// `limit` units per second, all at once.
pub fn bucket(limit: u64) -> Bucket {
    Bucket::new(Quota::per_second(limit).unwrap()).unwrap()
}

/// `limit` units in each second.
pub fn window(limit: u64) -> FixedWindow<u64> {
    FixedWindow::new(Quota::per_second(limit).unwrap(), Anchor::Aligned).unwrap()
}

/// One tier with this limit.
pub fn policies(limit: u64) -> Policies<Bucket> {
    Policies::new("default", bucket(limit))
}

/// The cap for all clients.
pub fn cap(limit: u64) -> AnyAlgorithm {
    AnyAlgorithm::new(AlgorithmKind::TokenBucket, Quota::per_second(limit).unwrap()).unwrap()
}

/// A limiter under these policies.
pub fn limiter(policies: Policies<Bucket>) -> Arc<Modelled> {
    Arc::new(Limiter::with_registry(policies, (), StandIn::default()))
}

/// A limiter of several limits without a clock of its own.
pub type Stacked = Limiter<u8, Stack, (), StandIn<u8, Client<Stack>>>;

/// Token buckets of so many units each, by name.
pub fn stack(buckets: &[(&'static str, u64)]) -> Stack {
    Stack::new(buckets.iter().map(|&(name, limit)| Limit::new(name, cap(limit)))).unwrap()
}

/// A limiter under these policies.
pub fn stacked(policies: Policies<Stack>) -> Arc<Stacked> {
    Arc::new(Limiter::with_registry(policies, (), StandIn::default()))
}

/// What each of the client's limits has left at [`NOW`].
pub fn each_remaining(limiter: &Stacked, key: u8) -> Vec<u64> {
    limiter.client_at(&key, NOW).explain(0).limits().map(|limit| limit.reading.remaining).collect()
}

/// What a client has left at [`NOW`].
pub fn remaining(limiter: &Modelled, key: u8) -> u64 {
    limiter.peek_n_at(&key, 0, NOW).remaining()
}
