//! What every behaviour test runs over: the crate's limiters and the twin, behind one interface.

use std::fmt::Debug;

use tollgate::{
    Algorithm, AnyAlgorithm, Decision, DirectLimiter, Limiter, ManualClock, Nanos, Policies,
    Reading,
};

/// A decision, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub reading: Reading,
    pub refused_by_client: bool,
    pub refused_by_global: bool,
}

impl Answer {
    pub fn admitted(&self) -> bool {
        self.reading.admitted
    }
}

impl From<Decision> for Answer {
    fn from(decision: Decision) -> Self {
        assert_ne!(decision.is_admitted(), decision.is_refused());
        Self {
            reading: Reading {
                admitted: decision.is_admitted(),
                limit: decision.limit(),
                remaining: decision.remaining(),
                retry_after: decision.retry_after(),
                reset_after: decision.reset_after(),
                delay: decision.delay(),
            },
            refused_by_client: decision.refused_by_client(),
            refused_by_global: decision.refused_by_global(),
        }
    }
}

/// Gives back, at the time given, what an admitted request paid.
pub type Refund<'a> = Box<dyn FnOnce(u64) + Send + 'a>;

/// The limiter whose algorithm is chosen at run time.
pub type Ours = Limiter<String, AnyAlgorithm, ManualClock>;

/// A limiter of clients by name.
pub trait Subject: Send + Sync {
    fn check(&self, key: &str, cost: u64, now: u64) -> Answer;
    fn peek(&self, key: &str, cost: u64, now: u64) -> Answer;
    fn acquire<'a>(&'a self, key: &'a str, cost: u64, now: u64) -> Result<Refund<'a>, Answer>;
    fn credit(&self, key: &str, amount: u64, now: u64);
    /// Whether `cost` is admitted, and no more than that; if so it is charged.
    fn admits(&self, key: &str, cost: u64, now: u64) -> bool;
    /// How many clients have a state.
    fn clients(&self) -> usize;
    /// Housekeeping, as much as there is.
    fn sweep(&self, _now: u64) {}
    /// Puts other policies in force, or keeps those it has: then it answers no.
    fn reload(&self, _policies: Policies, _now: u64) -> bool {
        false
    }
    /// The state's memory as text, where it can be seen.
    fn memory(&self) -> String {
        String::new()
    }
}

impl Subject for Ours {
    fn check(&self, key: &str, cost: u64, now: u64) -> Answer {
        self.check_n_at(key, cost, Nanos::new(now)).into()
    }

    fn peek(&self, key: &str, cost: u64, now: u64) -> Answer {
        self.peek_n_at(key, cost, Nanos::new(now)).into()
    }

    fn acquire<'a>(&'a self, key: &'a str, cost: u64, now: u64) -> Result<Refund<'a>, Answer> {
        match self.acquire_at(key, cost, Nanos::new(now)) {
            Ok(permit) => {
                assert!(permit.decision().is_admitted());
                Ok(Box::new(move |now| permit.refund_at(Nanos::new(now))))
            }
            Err(decision) => Err(decision.into()),
        }
    }

    fn credit(&self, key: &str, amount: u64, now: u64) {
        self.credit_at(key, amount, Nanos::new(now));
    }

    fn admits(&self, key: &str, cost: u64, now: u64) -> bool {
        match cost {
            1 => self.is_allowed_at(key, Nanos::new(now)),
            _ => self.check_n_at(key, cost, Nanos::new(now)).is_admitted(),
        }
    }

    fn clients(&self) -> usize {
        Limiter::clients(self)
    }

    fn sweep(&self, now: u64) {
        self.sweep_at(usize::MAX, Nanos::new(now));
    }

    fn reload(&self, policies: Policies, now: u64) -> bool {
        self.reload_at(policies, Nanos::new(now));
        true
    }
}

/// A limiter for one stream: it takes every name for the same one.
pub struct OneStream<A: Algorithm>(DirectLimiter<A>);

impl<A: Algorithm> OneStream<A> {
    pub fn new(algorithm: A) -> Self {
        Self(DirectLimiter::new(algorithm, ()))
    }
}

impl<A> Subject for OneStream<A>
where
    A: Algorithm + Debug + Send + Sync,
{
    fn check(&self, _key: &str, cost: u64, now: u64) -> Answer {
        self.0.check_at(Nanos::new(now), cost).into()
    }

    fn peek(&self, _key: &str, cost: u64, now: u64) -> Answer {
        self.0.peek_at(Nanos::new(now), cost).into()
    }

    fn acquire<'a>(&'a self, _key: &'a str, cost: u64, now: u64) -> Result<Refund<'a>, Answer> {
        match self.0.acquire_at(Nanos::new(now), cost) {
            Some(grant) => Ok(Box::new(move |now| self.0.refund_at(Nanos::new(now), grant))),
            None => Err(self.0.peek_at(Nanos::new(now), cost).into()),
        }
    }

    fn credit(&self, _key: &str, amount: u64, now: u64) {
        self.0.credit_at(Nanos::new(now), amount);
    }

    fn admits(&self, _key: &str, cost: u64, now: u64) -> bool {
        self.0.is_allowed_at(Nanos::new(now), cost)
    }

    fn clients(&self) -> usize {
        unreachable!("one stream has no clients")
    }

    fn memory(&self) -> String {
        format!("{:?}", self.0)
    }
}
