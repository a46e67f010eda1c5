//! The path that `benches/instructions.py` looks at: some decisions that are all admitted or all
//! refused, by one function that is compiled on its own.
//!
//! `paths admitted|refused typed|any DECISIONS`

use std::env;
use std::hint::black_box;
use std::process::ExitCode;

use tollgate::{
    Algorithm, AlgorithmKind, AnyAlgorithm, Limiter, ManualClock, Nanos, PapayaRegistry, Policies,
    Policy as Rule, TokenBucket,
};
use tollgate_benches::{Policy, client_keys};

/// One decision of a limiter whose algorithm is known at compile time.
#[inline(never)]
pub fn decide_typed(
    limiter: &Limiter<String, TokenBucket, ManualClock>,
    key: &str,
    now: Nanos,
) -> bool {
    limiter.is_allowed_at(key, now)
}

/// One decision of a limiter whose algorithm is chosen at run time.
#[inline(never)]
pub fn decide_any(
    limiter: &Limiter<String, AnyAlgorithm, ManualClock>,
    key: &str,
    now: Nanos,
) -> bool {
    limiter.is_allowed_at(key, now)
}

/// A limiter without a clock of the system, which valgrind may not be able to read.
fn limiter<A: Algorithm>(algorithm: A) -> Limiter<String, A, ManualClock>
where
    Rule<A>: From<A>,
{
    let policies = Policies::new("default", algorithm);
    let clients = PapayaRegistry::new(1_000_000, foldhash::fast::RandomState::default());
    Limiter::with_registry(policies, ManualClock::new(), clients)
}

fn admitted(decisions: u64, key: &str, mut decide: impl FnMut(&str, Nanos) -> bool) -> u64 {
    // The first request makes the client, and under `REFUSE` uses its limit up.
    decide(key, Nanos::ZERO);
    let mut admitted = 0;
    for turn in 1..=decisions {
        admitted += u64::from(decide(black_box(key), Nanos::new(turn)));
    }
    admitted
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [answer, kind, decisions] = arguments.as_slice() else {
        return usage();
    };
    let policy = match answer.as_str() {
        "admitted" => Policy::ADMIT,
        "refused" => Policy::REFUSE,
        _ => return usage(),
    };
    let Ok(decisions) = decisions.parse::<u64>() else {
        return usage();
    };
    // Where things are, so that the trace can be read: code, stack.
    let stack = 0_u8;
    println!("code {:p}", decide_typed as *const ());
    println!("stack {:p}", &raw const stack);
    let key = client_keys::<String>(1).remove(0);
    let count = match kind.as_str() {
        "typed" => {
            let limiter = limiter(policy.token_bucket());
            admitted(decisions, &key, |key, now| decide_typed(&limiter, key, now))
        }
        "any" => {
            let limiter = limiter(policy.any(AlgorithmKind::TokenBucket));
            admitted(decisions, &key, |key, now| decide_any(&limiter, key, now))
        }
        _ => return usage(),
    };
    assert_eq!(count, if policy.admits { decisions } else { 0 }, "the run was not all {answer}");
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: paths admitted|refused typed|any DECISIONS");
    ExitCode::from(2)
}
