//! Any text as a file of policies: an answer and never a panic. What is accepted prints itself, can
//! be put in force, and decides.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{Limiter, ManualClock, Policies};

fuzz_target!(|text: &str| {
    match Policies::from_toml("policies.toml", text) {
        Ok(policies) => {
            let printed = policies.to_string();
            assert!(printed.lines().count() > policies.tiers().count(), "{printed}");
            let again = Policies::from_toml("policies.toml", text);
            assert_eq!(again.as_ref(), Ok(&policies));
            let tiers: Vec<_> = policies.tiers().map(|(name, _)| name.to_owned()).collect();
            // Room for a handful: a map for a million is slow to make.
            let limiter = Limiter::<u8, _>::with_policies(policies.max_clients(8));
            let limiter = limiter.clock(ManualClock::new()).build::<u8>();
            for (key, tier) in (0..8).zip(tiers) {
                let decision = limiter.client(&key).tier(&*tier).check(1);
                assert_ne!(decision.is_admitted(), decision.is_refused(), "{printed}");
            }
        }
        Err(error) => {
            let lines = 1 + text.matches('\n').count();
            assert!(!error.mistakes().is_empty());
            assert_eq!(error.to_string().lines().count(), error.mistakes().len());
            assert!(error.mistakes().iter().all(|m| m.line.is_some_and(|line| line <= lines)));
        }
    }
});
