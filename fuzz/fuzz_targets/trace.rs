//! Any text as a behaviour case (`tests/traces/README.md` describes them): it never panics, and
//! wherever the case has one exact meaning the limiter meets, or misses, what it expects exactly as
//! the twin does.
#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tollgate::{Limiter, ManualClock, Quota};

#[allow(unused, reason = "the tests of that file are not run here")]
#[path = "../../tests/traces.rs"]
mod traces;

use traces::common::moves::LIFE;
use traces::{Case, Op};

fuzz_target!(|text: &str| {
    let Ok(case) = serde_json::from_str::<Case>(text) else { return };
    if !is_sound(&case) {
        return;
    }
    for name in case.names() {
        let Ok(policies) = case.policies(name, case.config) else { continue };
        let ours = Limiter::<String, _>::with_policies(policies.max_clients(CLIENTS));
        let ours = ours.clock(ManualClock::new()).build::<String>();
        let got = case.run(name, &ours);
        if is_exact(&case) {
            let twin = case.twin(name).expect("the crate took it");
            assert_eq!(case.run(name, twin.as_ref()), got, "{} as {name}", case.id);
        }
    }
});

/// A map for a million is slow to make.
const CLIENTS: usize = 64;

/// Whether it can be run, and soon.
fn is_sound(case: &Case) -> bool {
    let clients: HashSet<_> = case.steps.iter().map(|step| &step.client).collect();
    let repeats: u64 = case.steps.iter().map(|step| step.repeat.unwrap_or(1).min(1 << 20)).sum();
    let may_repeat = |op| matches!(op, Op::Acquire | Op::Peek);
    let ends = |from: u64, times: u64, every| from.checked_add(times.checked_mul(every)?);
    clients.len() <= CLIENTS
        && repeats <= 2_000
        && case.steps.iter().all(|step| match (step.repeat, step.every_ns) {
            (Some(times), Some(every)) => {
                may_repeat(step.op) && ends(step.at_ns, times, every).is_some()
            }
            _ => true,
        })
}

/// Whether the twin has an answer that the crate must have too: time goes on, nothing reaches
/// beyond the ten years that a word lasts, and every rate is one that a word tells exactly.
fn is_exact(case: &Case) -> bool {
    let config = &case.config;
    let most = config.burst.unwrap_or(config.limit).max(config.queue.unwrap_or(0));
    let exact = |limit: u64, period: u64, most: u64| {
        let rate = Quota::new(limit, Duration::from_nanos(period)).map(|quota| quota.rate());
        let whole = u128::from(period) * (1 + u128::from(most) / u128::from(limit.max(1)));
        rate.is_ok_and(|rate| rate.units() <= 29) && whole <= u128::from(LIFE / 4)
    };
    let cap = config.global_limit.zip(config.global_period_ns);
    let times = case.steps.iter().flat_map(|step| {
        let by = step.repeat.unwrap_or(0) * step.every_ns.unwrap_or(0);
        [step.at_ns, step.at_ns + by]
    });
    exact(config.limit, config.period_ns, most)
        && cap.is_none_or(|(limit, period)| exact(limit, period, limit.max(most)))
        && case.steps.iter().all(|step| step.op != Op::SetConfig)
        && times.clone().is_sorted()
        && times.clone().all(|time| time <= LIFE / 4)
}
