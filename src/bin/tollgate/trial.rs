//! `tollgate replay`: each policy over the log, and what is told of it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use tollgate::{AlgorithmKind, AnyAlgorithm, Policies, Quota};

use crate::address::Prefixes;
use crate::args::Replay;
use crate::failure::Failure;
use crate::field::Field;
use crate::limit::ALGORITHMS;
use crate::log::{Log, Request, Wanted};
use crate::plot;
use crate::replay::{Outcome, replay};
use crate::report;
use crate::smallest::{Shape, Smallest};

/// What a set of policies is called, and what came of it.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) name: String,
    policies: Policies,
    pub(crate) outcome: Outcome,
    /// For each tier with one limit that had a request.
    pub(crate) smallest: Vec<(String, Smallest)>,
}

pub(crate) fn run(arguments: &Replay) -> Result<ExitCode, Failure> {
    let candidates = candidates(arguments)?;
    let mut log = read(arguments)?;
    let stretches = arguments.plot.as_ref().map(|_| plot::stretches(&log));
    let mut trials: Vec<Trial> = candidates
        .into_iter()
        .map(|(name, policies)| {
            let outcome = replay(policies.clone(), &log, stretches);
            Trial { name, policies, outcome, smallest: Vec::new() }
        })
        .collect();
    if let (Some(path), Some(stretches)) = (&arguments.plot, stretches) {
        plot::write(path, &trials, stretches)?;
    }

    // All that needed the order of time is done.
    let mut requests = std::mem::take(&mut log.requests);
    let span = (requests[0].time, requests[requests.len() - 1].time);
    requests.sort_by_key(|request| request.client);
    for trial in &mut trials {
        trial.smallest = smallest(&trial.policies, &requests, &log);
    }

    let report = report::Report::new(&log, span, requests.len(), &trials, arguments);
    crate::print(&if arguments.json { report.json()? } else { report.to_string() })?;
    let refused = trials.iter().any(|trial| trial.outcome.refused > 0);
    Ok(ExitCode::from(u8::from(arguments.fail_on_refused && refused)))
}

/// All that is to be tried.
fn candidates(arguments: &Replay) -> Result<Vec<(String, Policies)>, Failure> {
    let mut candidates = Vec::new();
    for path in &arguments.policy {
        let policies = Policies::from_file(path).map_err(Failure::new)?;
        candidates.push((path.display().to_string(), policies));
    }
    let kinds = match &arguments.algorithm[..] {
        _ if arguments.compare => &ALGORITHMS[..],
        [] => &[AlgorithmKind::TokenBucket],
        given => given,
    };
    for &quota in &arguments.limit {
        for &kind in kinds {
            let algorithm = algorithm(kind, quota, arguments)
                .map_err(|error| Failure::new(format_args!("--limit {quota}, {kind}: {error}")))?;
            candidates.push((algorithm.to_string(), Policies::new("default", algorithm)));
        }
    }
    Ok(candidates)
}

fn algorithm(
    kind: AlgorithmKind,
    quota: Quota,
    arguments: &Replay,
) -> Result<AnyAlgorithm, tollgate::QuotaError> {
    let (kind, quota) = match (kind, arguments.burst) {
        (AlgorithmKind::TokenBucket, Some(burst)) => (kind, quota.with_burst(burst)?),
        (AlgorithmKind::LeakyBucket { .. }, _) => {
            (AlgorithmKind::LeakyBucket { queue: arguments.queue }, quota)
        }
        _ => (kind, quota),
    };
    AnyAlgorithm::new(kind, quota)
}

/// The log, unless too much of it is unreadable or nothing is left.
fn read(arguments: &Replay) -> Result<Log, Failure> {
    let named = |name: &String| Field::Named(name.clone());
    let wanted = Wanted {
        format: arguments.format,
        time: arguments.time.as_ref().map_or(Field::Time, named),
        key: arguments.key.clone(),
        prefixes: Prefixes { v4: arguments.ipv4_prefix, v6: arguments.ipv6_prefix },
        cost: arguments.cost.as_ref().map(named),
        tier: arguments.tier.clone(),
    };
    let stdin = [PathBuf::from("-")];
    let logs = if arguments.logs.is_empty() { &stdin[..] } else { &arguments.logs };
    let log = Log::read(logs, &wanted)?;
    for complaint in &log.complaints {
        // Nowhere left to complain is no reason to stop.
        let _ = writeln!(io::stderr(), "{}", report::harmless(complaint));
    }
    if log.unreadable_percent() > arguments.max_bad {
        return Err(Failure::new(format_args!(
            "{} of {} lines are unreadable, {:.3} %: expected at most {} % (--max-bad)",
            log.unreadable,
            log.lines,
            log.unreadable_percent(),
            arguments.max_bad
        )));
    }
    if log.requests.is_empty() {
        return Err(Failure::new(format_args!(
            "no request to replay: {} lines, {} unreadable, {} without the key",
            log.lines, log.unreadable, log.without_key
        )));
    }
    Ok(log)
}

/// For each tier on its own, without the caps, which no client's limit can lift.
fn smallest(policies: &Policies, requests: &[Request], log: &Log) -> Vec<(String, Smallest)> {
    let tier_of = |request: &Request| {
        let named = log.tiers.get(request.tier);
        let known = policies.tiers().any(|(name, _)| name == named);
        if known { named } else { policies.default_tier() }
    };
    let limits = policies.tiers().filter_map(|(name, policy)| {
        let shape = Shape::of(policy)?;
        let requests: Vec<Request> =
            requests.iter().filter(|request| tier_of(request) == name).copied().collect();
        (!requests.is_empty()).then(|| (name.to_owned(), Smallest::new(shape, &requests, log)))
    });
    limits.collect()
}
