//! Asking a bare state, as a limiter does.

use tollgate::{Algorithm, AnyAlgorithm, AnyState};

/// Asks until the state answers: one that must grow or turn gives way to its successor.
pub fn ask<T, E>(
    algorithm: &AnyAlgorithm,
    state: &mut AnyState,
    ask: impl Fn(&AnyState) -> Result<T, E>,
) -> T {
    for _step in 0..32 {
        match ask(state) {
            Ok(answer) => return answer,
            Err(_) => {
                // Only a log freezes itself.
                assert!(matches!(algorithm, AnyAlgorithm::SlidingLog(_)), "{state:?} is frozen");
                *state = algorithm.successor(state);
            }
        }
    }
    panic!("no successor answers: {state:?}");
}
