//! What an admitted request was granted, and how it ends: limit by limit.

use crate::algorithm::{Algorithm, each_part};
use crate::plan::Plan;
use crate::time::Nanos;
use crate::word::Frozen;

/// A grant, and the plan that it was made under.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted<G> {
    plan: u64,
    /// How many limits the plan has.
    parts: u8,
    /// Whether something is held until the permit ends.
    pub(crate) holds: bool,
    /// Which limits in shadow would have refused it, a bit for each.
    pub(crate) missed: u8,
    grant: G,
}

/// What a decision that met a frozen state had taken from some of several limits.
pub(crate) type Torn<A> = Option<Granted<<A as Algorithm>::Grant>>;

/// What comes back of a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Back {
    /// All of it.
    All,
    /// What exceeds so many units.
    Excess(u64),
    /// What is held until the permit ends.
    Held,
}

impl<G: Copy> Granted<G> {
    pub(crate) fn new<A: Algorithm<Grant = G>>(plan: &Plan<A>, grant: G) -> Self {
        let Plan { id, algorithm, .. } = plan;
        Self {
            plan: *id,
            // There are never as many as 255.
            parts: algorithm.parts() as u8,
            holds: algorithm.holds(),
            missed: algorithm.missed(&grant),
            grant,
        }
    }

    /// Gives `back` to one limit after the other, from `done` on, which is how many have got it.
    /// To a client that moved to another policy or tier, what can still be told apart.
    pub(crate) fn give<A: Algorithm<Grant = G>>(
        self,
        back: Back,
        plan: &Plan<A>,
        state: &A::State,
        now: Nanos,
        done: &mut usize,
    ) -> Result<(), Frozen> {
        let algorithm = &plan.algorithm;
        let adopted = self.plan != plan.id;
        each_part(self.parts.into(), done, |part| {
            let mut grant = algorithm.part(self.grant, part);
            if let Back::Excess(actual) = back {
                grant = algorithm.excess(grant, actual);
            }
            match (back, adopted) {
                (Back::Held, _) => algorithm.release(state, now, grant, adopted),
                (_, false) => algorithm.refund(state, now, grant),
                (_, true) => algorithm.refund_adopted(state, now, grant),
            }
        })
    }
}
