//! One policy over one log, by the real limiter.

use tollgate::{Limiter, ManualClock, Policies};

use crate::log::Log;
use crate::timestamp::MINUTE;

/// What would have come of a log under a policy.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    /// Of the refused, those that the client's own limit let pass: the global cap or the cap on
    /// clients refused them.
    pub(crate) refused_by_caps: u64,
    /// For each client.
    pub(crate) clients: Vec<Tally>,
    /// The minute with the most refusals, if there is any: the earliest of equals.
    pub(crate) worst: Option<(i64, Tally)>,
    /// Units for each stretch of time, from the first, if asked for.
    pub(crate) units: Vec<Tally>,
}

/// Admitted and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
}

impl Tally {
    pub(crate) fn offered(self) -> u64 {
        self.admitted.saturating_add(self.refused)
    }

    fn add(&mut self, admitted: bool, amount: u64) {
        let counter = if admitted { &mut self.admitted } else { &mut self.refused };
        *counter = counter.saturating_add(amount);
    }
}

/// Stretches of time of equal length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretches {
    pub(crate) first: i64,
    pub(crate) length: i64,
}

pub(crate) fn replay(policies: Policies, log: &Log, stretches: Option<Stretches>) -> Outcome {
    let clock = ManualClock::new();
    let limiter = Limiter::<u32>::with_policies(policies).clock(clock.clone()).build();
    let mut outcome = Outcome {
        admitted: 0,
        refused: 0,
        refused_by_caps: 0,
        clients: vec![Tally::default(); log.clients.len()],
        worst: None,
        units: Vec::new(),
    };
    let mut minute = (i64::MIN, Tally::default());
    for request in &log.requests {
        clock.set(log.now(request));
        let client = limiter.client(&request.client);
        let client = match request.tier {
            0 => client,
            tier => client.tier(log.tiers.get(tier)),
        };
        let decision = client.check(request.cost);
        let admitted = decision.is_admitted();

        outcome.admitted += u64::from(admitted);
        outcome.refused += u64::from(!admitted);
        outcome.refused_by_caps += u64::from(!admitted && !decision.refused_by_client());
        outcome.clients[request.client as usize].add(admitted, 1);
        let begin = request.time - request.time.rem_euclid(MINUTE);
        if begin != minute.0 {
            outcome.end_of(minute);
            minute = (begin, Tally::default());
        }
        minute.1.add(admitted, 1);
        if let Some(Stretches { first, length }) = stretches {
            let stretch = ((request.time - first) / length) as usize;
            if outcome.units.len() <= stretch {
                outcome.units.resize(stretch + 1, Tally::default());
            }
            outcome.units[stretch].add(admitted, request.cost);
        }
    }
    outcome.end_of(minute);
    outcome
}

impl Outcome {
    fn end_of(&mut self, minute: (i64, Tally)) {
        if minute.1.refused > self.worst.map_or(0, |(_, worst)| worst.refused) {
            self.worst = Some(minute);
        }
    }

    /// How many clients were refused anything.
    pub(crate) fn touched(&self) -> usize {
        self.clients.iter().filter(|tally| tally.refused > 0).count()
    }

    /// The numbers of the most refused clients; of equals the one that came first.
    pub(crate) fn most_refused(&self, top: usize) -> Vec<u32> {
        let refused = |&client: &u32| self.clients[client as usize].refused;
        let mut clients: Vec<u32> =
            (0..).take(self.clients.len()).filter(|client| refused(client) > 0).collect();
        clients.sort_by_key(|client| std::cmp::Reverse(refused(client)));
        clients.truncate(top);
        clients
    }
}
