//! The clients' keys, made before anything is timed.

use crate::contender::Key;

/// Marsaglia's xorshift64, enough for a shuffle.
#[derive(Debug)]
struct Random(u64);

impl Random {
    const SEED: Self = Self(0x9E37_79B9_7F4A_7C15);

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// `count` different keys, in an order that is shuffled but the same each time.
///
/// Shuffled, so that neither the processor's prefetcher nor the allocator's order helps.
pub fn client_keys<K: Key>(count: usize) -> Vec<K> {
    let mut keys: Vec<K> = (0..count).map(K::numbered).collect();
    let mut random = Random::SEED;
    for last in (1..keys.len()).rev() {
        keys.swap(last, (random.next() % (last as u64 + 1)) as usize);
    }
    keys
}

/// As many keys as there are, the n-th of them as often as 1/n: few clients make most requests.
pub fn zipf<K: Key>(keys: &[K]) -> Vec<K> {
    let mut sum = 0.0;
    let shares: Vec<f64> = (1..=keys.len())
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut random = Random::SEED;
    keys.iter()
        .map(|_| {
            let at = (random.next() >> 11) as f64 / (1_u64 << 53) as f64 * sum;
            let rank = shares.partition_point(|&share| share < at);
            keys[rank.min(keys.len() - 1)].clone()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::IpAddr;

    #[test]
    fn keys_are_different() {
        let keys = client_keys::<String>(1_000);
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 1_000);
        assert!(keys.iter().all(|key| key.len() == 15));
        assert!(!keys.is_sorted());
        assert_eq!(client_keys::<IpAddr>(1_000).iter().collect::<HashSet<_>>().len(), 1_000);
    }

    #[test]
    fn few_clients_make_most_requests() {
        let keys = client_keys::<u64>(1_000);
        let picked = zipf(&keys);
        let first = picked.iter().filter(|&key| *key == keys[0]).count();
        let second = picked.iter().filter(|&key| *key == keys[1]).count();
        // One in 7.5, and half as many.
        assert!((100..170).contains(&first) && (45..90).contains(&second), "{first} {second}");
    }
}
