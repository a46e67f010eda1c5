//! The clients' keys, made before anything is timed.

/// `count` different keys of 15 bytes, in an order that is shuffled but the same each time.
///
/// Shuffled, so that neither the processor's prefetcher nor the allocator's order helps.
pub fn client_keys(count: usize) -> Vec<String> {
    let mut keys: Vec<String> = (0..count).map(|number| format!("client-{number:08}")).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for last in (1..keys.len()).rev() {
        // Marsaglia's xorshift64, enough for a shuffle.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        keys.swap(last, (state % (last as u64 + 1)) as usize);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_different_and_15_bytes_long() {
        let keys = client_keys(1_000);
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 1_000);
        assert!(keys.iter().all(|key| key.len() == 15));
        assert!(!keys.is_sorted());
    }
}
