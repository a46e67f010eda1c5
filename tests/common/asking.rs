//! Asking a bare state, as a limiter does.

use tollgate::{Algorithm, Frozen};

/// Asks until the state answers: one that cannot go on as it is gives way to its successor.
pub fn ask<A: Algorithm, T>(
    algorithm: &A,
    state: &mut A::State,
    ask: impl Fn(&A::State) -> Result<T, Frozen>,
) -> T {
    // A log takes a few steps at most to the form and the room that it needs.
    for _step in 0..32 {
        match ask(state) {
            Ok(answer) => return answer,
            Err(Frozen) => *state = algorithm.successor(state),
        }
    }
    panic!("no successor answers: {state:?}");
}
