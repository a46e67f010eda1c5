//! What the sections of a file mean: one policy each, and all of them together.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::sync::{Mutex, PoisonError};

use super::field::{self, Field};
use super::reader::{Reader, Reported, Section};
use crate::algorithm::{AlgorithmKind, AnyAlgorithm, Constant, InFlight, Limit, Stack};
use crate::policy::{Policies, Policy};
use crate::quota::{Quota, QuotaError};

impl Reader<'_> {
    /// The whole file.
    pub(super) fn policies(&mut self, file: &Section<'_>) -> Result<Policies, Reported> {
        self.check_names(file, &field::FILE);
        let max_clients = self.optional(file, &field::MAX_CLIENTS);
        let when_full = self.optional(file, &field::WHEN_FULL);
        let global = self.section(file, "global");
        let global = global.and_then(|global| global.map(|cap| self.cap(&cap)).transpose());
        let default = self.default_tier(file);
        let mut tiers = self.tiers(file)?;

        let default = default?;
        let policy = tiers.remove(&default).ok_or(Reported)?;
        let mut policies = Policies::new(default, policy).when_full(when_full?.unwrap_or_default());
        policies = tiers.into_iter().fold(policies, |all, (name, policy)| all.tier(name, policy));
        if let Some(cap) = global? {
            policies = policies.global(cap);
        }
        if let Some(max) = max_clients? {
            policies = policies.max_clients(max);
        }
        Ok(policies)
    }

    /// What holds for all clients together: for each of them, or in shadow.
    fn cap(&mut self, section: &Section<'_>) -> Result<Policy, Reported> {
        let policy = self.policy(section)?;
        if let AnyAlgorithm::Stack(stack) = policy.algorithm() {
            let percents = stack.limits().iter().map(Limit::enforced_percent);
            if percents.into_iter().any(|percent| !matches!(percent, 0 | 100)) {
                let problem = "expected enforced = 0 or 100 here: a share of clients has no cap";
                return Err(self.wrong(section, field::LIMITS, problem));
            }
        }
        Ok(policy)
    }

    fn tiers(&mut self, file: &Section<'_>) -> Result<BTreeMap<String, Policy>, Reported> {
        let Some(tiers) = self.section(file, "tier")?.filter(|tiers| !tiers.fields.is_empty())
        else {
            return Err(self.missing(file, "tier", "one section or more, such as [tier.free]"));
        };
        let read = tiers.fields.keys().map(|name| {
            let name = name.get_ref();
            let policy = self.section(&tiers, name)?.map(|tier| self.policy(&tier)).transpose()?;
            Ok((String::from(&**name), policy.ok_or(Reported)?))
        });
        // All of them are read before the first mistake ends it.
        read.collect::<Vec<_>>().into_iter().collect()
    }

    /// The name of the default tier: the only one, unless it is said.
    fn default_tier(&mut self, file: &Section<'_>) -> Result<String, Reported> {
        let given = self.optional(file, &field::DEFAULT)?;
        let tiers = file.fields.get("tier").and_then(|tiers| tiers.get_ref().as_table());
        let names: Vec<&str> =
            tiers.iter().flat_map(|tiers| tiers.keys()).map(|name| &**name.get_ref()).collect();
        let accepted = format!("one of the tiers: {names:?}");
        match (given, &names[..]) {
            // That there is no tier is a mistake of its own.
            (_, []) => Err(Reported),
            (Some(given), names) if names.contains(&&*given) => Ok(given),
            (Some(_), _) => {
                Err(self.wrong(file, field::DEFAULT.name, format_args!("expected {accepted}")))
            }
            (None, [only]) => Ok(String::from(*only)),
            (None, _) => Err(self.missing(file, field::DEFAULT.name, accepted)),
        }
    }

    fn policy(&mut self, section: &Section<'_>) -> Result<Policy, Reported> {
        self.check_names(section, &field::POLICY);
        let carry_over = self.optional(section, &field::CARRY_OVER);
        let algorithm = self.algorithm(section);
        Ok(Policy::new(algorithm?).carry_over(carry_over?.unwrap_or_default()))
    }

    fn algorithm(&mut self, section: &Section<'_>) -> Result<AnyAlgorithm, Reported> {
        if section.has(field::LIMITS) {
            // What one limit is made of has no meaning beside several.
            let alone = field::POLICY.iter().copied();
            let alone =
                alone.filter(|name| ![field::CARRY_OVER.name, field::LIMITS].contains(name));
            let alone = self.without(section, alone, field::LIMITS);
            let stack = self.stack(section)?;
            return alone.and(Ok(AnyAlgorithm::Stack(stack)));
        }
        let mut given = |field| self.optional(section, field).map(Option::unwrap_or_default);
        match (given(&field::UNLIMITED), given(&field::BLOCKED)) {
            (Ok(false), Ok(false)) => self.one_limit(section),
            (Ok(true), Ok(false)) => self.constant(section, &field::UNLIMITED, Constant::Unlimited),
            (Ok(false), Ok(true)) => self.constant(section, &field::BLOCKED, Constant::Blocked),
            (Ok(true), Ok(true)) => {
                Err(self.wrong(section, field::BLOCKED.name, "expected without unlimited = true"))
            }
            _ if field::LIMITED.iter().any(|name| section.has(name)) => {
                self.limited(section).and(Err(Reported))
            }
            _ => Err(Reported),
        }
    }

    /// What takes the place of a limit, and so stands without one.
    fn constant(
        &mut self,
        section: &Section<'_>,
        field: &Field<bool>,
        constant: Constant,
    ) -> Result<AnyAlgorithm, Reported> {
        let in_flight = self.without(section, [field::IN_FLIGHT.name], field.name);
        self.without(section, field::LIMITED, &format!("{} = true", field.name))?;
        in_flight.map(|()| AnyAlgorithm::Constant(constant))
    }

    /// Notes the fields that have no meaning beside `other`.
    fn without(
        &mut self,
        section: &Section<'_>,
        names: impl IntoIterator<Item = &'static str>,
        other: &str,
    ) -> Result<(), Reported> {
        let mut outcome = Ok(());
        for name in names.into_iter().filter(|name| section.has(name)) {
            outcome = Err(self.wrong(section, name, format_args!("expected without {other}")));
        }
        outcome
    }

    /// Several limits, a section each.
    fn stack(&mut self, section: &Section<'_>) -> Result<Stack, Reported> {
        let Some(limits) = self.section(section, field::LIMITS)? else {
            return Err(Reported);
        };
        let read = limits.fields.keys().map(|name| {
            let name = name.get_ref();
            let limit = self.section(&limits, name)?.map(|limit| self.named_limit(name, &limit));
            limit.unwrap_or(Err(Reported))
        });
        // All of them are read before the first mistake ends it.
        let read: Vec<_> = read.collect();
        let limits: Vec<Limit> = read.into_iter().collect::<Result<_, _>>()?;
        Stack::new(limits).map_err(|error| self.wrong(section, field::LIMITS, error))
    }

    fn named_limit(&mut self, name: &str, section: &Section<'_>) -> Result<Limit, Reported> {
        self.check_names(section, &field::ONE_LIMIT);
        let counts = self.optional(section, &field::COUNTS);
        let enforced = self.optional(section, &field::ENFORCED);
        let limit = Limit::new(kept(name), self.one_limit(section)?);
        let limit = counts?.into_iter().fold(limit, Limit::counts);
        Ok(limit.enforced_for(enforced?.unwrap_or(100)))
    }

    /// A limit of permits in flight, or one of a rate.
    fn one_limit(&mut self, section: &Section<'_>) -> Result<AnyAlgorithm, Reported> {
        let Some(limit) = self.optional(section, &field::IN_FLIGHT)? else {
            return self.limited(section);
        };
        self.without(section, field::LIMITED, field::IN_FLIGHT.name)?;
        let in_flight = InFlight::new(limit).map(AnyAlgorithm::InFlight);
        in_flight.map_err(|error| self.wrong(section, field::IN_FLIGHT.name, error))
    }

    fn limited(&mut self, section: &Section<'_>) -> Result<AnyAlgorithm, Reported> {
        let kind = self.required(section, &field::ALGORITHM);
        let limit = self.required(section, &field::LIMIT);
        let period = self.required(section, &field::PERIOD);
        let burst = self.only_with("token_bucket", kind, section, &field::BURST);
        let queue = self.only_with("leaky_bucket", kind, section, &field::QUEUE);
        let anchor = self.only_with("fixed_window", kind, section, &field::ANCHOR);

        let quota = Quota::new(limit?, period?);
        let quota = match burst? {
            Some(burst) => quota.and_then(|quota| quota.with_burst(burst)),
            None => quota,
        };
        let kind = match (kind?, queue?, anchor?) {
            (_, Some(queue), _) => AlgorithmKind::LeakyBucket { queue },
            (_, _, Some(anchor)) => AlgorithmKind::FixedWindow { anchor },
            (kind, None, None) => kind,
        };
        let algorithm = quota.and_then(|quota| AnyAlgorithm::new(kind, quota));
        algorithm.map_err(|error| self.unsound(section, error))
    }

    /// A field that only the algorithm named `owner` has.
    fn only_with<T>(
        &mut self,
        owner: &str,
        kind: Result<AlgorithmKind, Reported>,
        section: &Section<'_>,
        field: &Field<T>,
    ) -> Result<Option<T>, Reported> {
        match kind {
            Ok(kind) if kind.name() != owner && section.has(field.name) => {
                let problem = format!("expected only with algorithm = {owner:?}");
                Err(self.wrong(section, field.name, problem))
            }
            _ => self.optional(section, field),
        }
    }

    /// Each field may be, but together they cannot be enforced; the error says why and what could.
    fn unsound(&mut self, section: &Section<'_>, error: QuotaError) -> Reported {
        let what = match error {
            QuotaError::TooLarge { what, .. } => what,
            _ => field::LIMIT.name,
        };
        // `period in ns` is the period; a burst or queue that is not given follows from the limit.
        let given = what.split(' ').find(|name| section.has(name));
        self.wrong(section, given.unwrap_or(field::LIMIT.name), error)
    }
}

/// A name that lives as long as the process, each once: decisions carry the names of limits, and
/// copy no text.
fn kept(name: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    // A panic between the two steps leaves the set as it was.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(name) {
        return known;
    }
    let name = String::from(name).leak();
    kept.insert(name);
    name
}
