//! Policies: which algorithm each tier of clients is held to, and what holds for all of them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use crate::algorithm::AnyAlgorithm;
use crate::carry::CarryOver;

/// What the clients of one tier are held to, and what they keep when it is replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy<A = AnyAlgorithm> {
    pub(crate) algorithm: A,
    pub(crate) carry_over: CarryOver,
}

impl<A> Policy<A> {
    /// A policy under which, when it takes over from another, clients keep what they hold.
    pub const fn new(algorithm: A) -> Self {
        Self { algorithm, carry_over: CarryOver::Keep }
    }

    /// What clients keep when this policy takes over from another.
    #[must_use]
    pub fn carry_over(self, carry_over: CarryOver) -> Self {
        Self { carry_over, ..self }
    }

    /// What the clients are held to.
    pub const fn algorithm(&self) -> &A {
        &self.algorithm
    }
}

impl<A> From<A> for Policy<A> {
    fn from(algorithm: A) -> Self {
        Self::new(algorithm)
    }
}

impl<A: fmt::Display> fmt::Display for Policy<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.algorithm.fmt(f)?;
        match self.carry_over {
            CarryOver::Keep => Ok(()),
            CarryOver::Proportional => f.write_str(", carried over in proportion"),
            CarryOver::Reset => f.write_str(", reset on change"),
        }
    }
}

/// What happens to a newcomer when there are as many clients as may be, and none is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// It is refused, and told when a client will be idle.
    #[default]
    Refuse,
    /// It is admitted without a limit of its own, and counted.
    Admit,
}

/// A whole set of policies: the tiers, the global cap, the cap on clients.
///
/// ```
/// use tollgate::{Policies, Quota, TokenBucket};
///
/// let bucket = |limit| Ok::<_, tollgate::QuotaError>(TokenBucket::<u64>::new(Quota::per_second(limit)?)?);
/// let policies = Policies::new("free", bucket(10)?).tier("premium", bucket(100)?);
/// assert_eq!(policies.to_string(), "\
/// free (default): 10 per 1s, token bucket
/// premium: 100 per 1s, token bucket
/// at most 1000000 clients, then newcomers are refused
/// ");
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policies<A = AnyAlgorithm> {
    pub(crate) default: String,
    pub(crate) tiers: BTreeMap<String, Policy<A>>,
    pub(crate) global: Option<Policy<AnyAlgorithm>>,
    pub(crate) max_clients: usize,
    pub(crate) when_full: WhenFull,
}

impl<A> Policies<A> {
    /// One tier, which is the default: for clients whose tier is not named, or unknown.
    pub fn new(default: impl Into<String>, policy: impl Into<Policy<A>>) -> Self {
        let default = default.into();
        Self {
            tiers: BTreeMap::from([(default.clone(), policy.into())]),
            default,
            global: None,
            max_clients: 1_000_000,
            when_full: WhenFull::Refuse,
        }
    }

    /// One more tier, or another policy for one that is there.
    #[must_use]
    pub fn tier(mut self, name: impl Into<String>, policy: impl Into<Policy<A>>) -> Self {
        self.tiers.insert(name.into(), policy.into());
        self
    }

    /// Holds all clients together to `cap`, tried after the client's own limit.
    #[must_use]
    pub fn global(self, cap: impl Into<Policy<AnyAlgorithm>>) -> Self {
        Self { global: Some(cap.into()), ..self }
    }

    /// The cap on clients, 1,000,000 unless set; 0 counts as 1.
    #[must_use]
    pub fn max_clients(self, max: usize) -> Self {
        Self { max_clients: max.max(1), ..self }
    }

    /// What happens to newcomers beyond the cap on clients.
    #[must_use]
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// The name of the default tier.
    pub fn default_tier(&self) -> &str {
        &self.default
    }

    /// The tiers by name.
    pub fn tiers(&self) -> impl Iterator<Item = (&str, &Policy<A>)> {
        self.tiers.iter().map(|(name, policy)| (&**name, policy))
    }

    /// What all clients together are held to, if they are.
    pub fn global_cap(&self) -> Option<&Policy<AnyAlgorithm>> {
        self.global.as_ref()
    }
}

/// In plain words, one line each.
impl<A: fmt::Display> fmt::Display for Policies<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, policy) in &self.tiers {
            let default = if *name == self.default { " (default)" } else { "" };
            writeln!(f, "{name}{default}: {policy}")?;
        }
        if let Some(cap) = &self.global {
            writeln!(f, "all clients together: {cap}")?;
        }
        let then = match self.when_full {
            WhenFull::Refuse => "newcomers are refused",
            WhenFull::Admit => "newcomers are admitted unlimited",
        };
        writeln!(f, "at most {} clients, then {then}", self.max_clients)
    }
}
