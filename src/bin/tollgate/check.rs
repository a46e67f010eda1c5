//! `tollgate check`: whether policy files are sound, and what each policy promises.

use std::fmt::Write;

use tollgate::{AlgorithmKind, Allowance, AnyAlgorithm, Client, Policies, Quota};

use crate::args::Check;
use crate::failure::Failure;

pub(crate) fn run(arguments: &Check) -> Result<(), Failure> {
    let mut told = String::new();
    let mut mistakes = Vec::new();
    for file in &arguments.files {
        match Policies::from_file(file) {
            Ok(policies) => {
                let _ = writeln!(told, "{}: sound\n{}", file.display(), promises(&policies));
            }
            Err(error) => mistakes.push(error.to_string()),
        }
    }
    crate::print(&told)?;
    if mistakes.is_empty() { Ok(()) } else { Err(Failure::new(mistakes.join("\n"))) }
}

/// Each policy in plain words, then what holds for all clients together.
fn promises(policies: &Policies) -> String {
    let mut told = String::new();
    for (name, policy) in policies.tiers() {
        let default = if name == policies.default_tier() { " (default)" } else { "" };
        let _ = writeln!(told, "  {name}{default}: {policy}");
        told.push_str(&bounds(policy.algorithm()));
        let _ = writeln!(told, "    memory per client: {}", memory(policy.algorithm()));
    }
    if let Some(cap) = policies.global_cap() {
        let _ = writeln!(told, "  all clients together: {cap}");
        told.push_str(&bounds(cap.algorithm()));
    }
    // The cap on clients is the last line of the whole.
    let whole = policies.to_string();
    let _ = writeln!(told, "  {}", whole.lines().last().unwrap_or_default());
    told
}

fn bounds(algorithm: &AnyAlgorithm) -> String {
    let (Some(kind), Allowance::Quota(quota)) = (algorithm.kind(), algorithm.allowance()) else {
        return String::new();
    };
    let (once, window) = most(kind, quota);
    let mut told = String::new();
    let waiting = match kind {
        AlgorithmKind::LeakyBucket { queue } if queue > 0 => {
            format!(", {queue} of them told to wait")
        }
        _ => String::new(),
    };
    let _ = writeln!(told, "    at once: at most {once} units{waiting}");
    let _ = writeln!(told, "    in any window of {}: at most {window} units", period(quota));
    let _ = writeln!(
        told,
        "    sustained: {} units per second ({})",
        rate(quota.rate().per_second()),
        quota.rate()
    );
    told
}

/// The units admitted at one instant at most, and in any window of one period.
fn most(kind: AlgorithmKind, quota: Quota) -> (u128, u128) {
    let limit = u128::from(quota.limit());
    match kind {
        AlgorithmKind::TokenBucket => {
            let burst = u128::from(quota.burst());
            (burst, burst + limit)
        }
        AlgorithmKind::LeakyBucket { queue } => {
            let places = u128::from(queue) + 1;
            (places, places + limit)
        }
        // The end of one window and the begin of the next.
        AlgorithmKind::FixedWindow { .. } => (limit, 2 * limit),
        AlgorithmKind::SlidingCounter => (limit, 2 * limit - 1),
        // The log; an algorithm that is not known here has a limit all the same.
        _ => (limit, limit),
    }
}

/// The period as quotas tell it.
fn period(quota: Quota) -> String {
    let shown = Quota::new(1, quota.period()).map(|quota| quota.to_string()).unwrap_or_default();
    shown.trim_start_matches("1 per ").to_owned()
}

/// To four digits that count.
fn rate(per_second: f64) -> String {
    let places = (3.0 - per_second.log10().floor()).clamp(0.0, 15.0) as usize;
    let shown = format!("{per_second:.places$}");
    match shown.contains('.') {
        true => shown.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => shown,
    }
}

fn memory(algorithm: &AnyAlgorithm) -> String {
    let entry = size_of::<Client<AnyAlgorithm>>();
    let more = match algorithm {
        AnyAlgorithm::WideTokenBucket(_)
        | AnyAlgorithm::WideLeakyBucket(_)
        | AnyAlgorithm::WideFixedWindow(_)
        | AnyAlgorithm::WideSlidingCounter(_) => " and a word of 16".to_owned(),
        AnyAlgorithm::SlidingLog(_) => match algorithm.allowance() {
            Allowance::Quota(quota) => format!(
                " and, as used, 8 for each unit in the window, at most {}",
                u128::from(quota.limit()) * 8
            ),
            _ => String::new(),
        },
        _ => ", its word of 8 among them".to_owned(),
    };
    format!("{entry} bytes{more}; beside the key and its place in the map")
}
