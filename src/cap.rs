//! The global cap: one state that all clients share, replaced by the same protocol as theirs.

use alloc::sync::Arc;
use core::fmt;

use crate::algorithm::{Algorithm, AnyAlgorithm, AnyGrant, AnyState};
use crate::grants::{Back, Granted, Torn};
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
        Self { slot: Slot::new(Client::fresh(plan, Nanos::ZERO, 0)) }
    }

    /// Asks the cap's state until it is met current and unfrozen; helps to replace it otherwise.
    pub(crate) fn ask<T>(
        &self,
        now: Nanos,
        mut ask: impl FnMut(&Plan<AnyAlgorithm>, &AnyState) -> Result<T, Torn<AnyAlgorithm>>,
    ) -> T {
        loop {
            let client = self.slot.load();
            let mut torn = None;
            if client.plan.is_current() {
                match ask(&client.plan, &client.state) {
                    Ok(answer) => return answer,
                    Err(taken) => torn = taken,
                }
            }
            client.plan.algorithm.freeze(&client.state);
            self.slot.replace(&client, Arc::new(client.successor(None, now, 0)));
            if let Some(granted) = torn {
                self.give(granted, now, Back::All);
            }
        }
    }

    /// Asks the cap's state once, if it is current.
    pub(crate) fn once<T>(
        &self,
        ask: impl FnOnce(&Plan<AnyAlgorithm>, &AnyState) -> T,
    ) -> Option<T> {
        let client = self.slot.load();
        client.plan.is_current().then(|| ask(&client.plan, &client.state))
    }

    /// Gives `back` what the cap granted.
    pub(crate) fn give(&self, granted: Granted<AnyGrant>, now: Nanos, back: Back) {
        let mut done = 0;
        self.ask(now, |plan, state| {
            granted.give(back, plan, state, now, &mut done).map_err(|Frozen| None)
        });
    }
}

impl fmt::Debug for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.load().plan.fmt(f)
    }
}
