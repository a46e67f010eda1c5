//! The global cap: one state that all clients share, replaced by the same protocol as theirs.

use alloc::sync::Arc;
use core::fmt;

use crate::algorithm::{Algorithm, AnyAlgorithm, AnyState};
use crate::plan::{Client, Plan};
use crate::sync::Slot;
use crate::time::Nanos;
use crate::word::Frozen;

/// The cap's state and the plan that it was made under. Without a cap, a plan that admits all.
pub(crate) struct Cap {
    slot: Slot<Client<AnyAlgorithm>>,
}

impl Cap {
    pub(crate) fn new(plan: Arc<Plan<AnyAlgorithm>>) -> Self {
        Self { slot: Slot::new(Client::fresh(plan, Nanos::ZERO)) }
    }

    /// Asks the cap's state until it is met current and unfrozen; helps to replace it otherwise.
    pub(crate) fn ask<T>(
        &self,
        now: Nanos,
        ask: impl Fn(&Plan<AnyAlgorithm>, &AnyState) -> Result<T, Frozen>,
    ) -> T {
        loop {
            let client = self.slot.load();
            if client.plan.is_current() {
                if let Ok(answer) = ask(&client.plan, &client.state) {
                    return answer;
                }
            }
            client.plan.algorithm.freeze(&client.state);
            self.slot.replace(&client, Arc::new(client.successor(None, now)));
        }
    }
}

impl fmt::Debug for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.load().plan.fmt(f)
    }
}
