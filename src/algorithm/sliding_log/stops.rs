//! Threads that stop anywhere in the ring's protocol, and helpers that come late.
//!
//! A thread can stop in one place that others notice: between its exchange of the control word and
//! the slots. Here any operation may stop there for ever, and any control word that ever was may be
//! completed again at any later time. No answer may differ from the oracle's.

use alloc::boxed::Box;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::oracle::Oracle;
use super::tests::{later, log, step};
use super::view::View;
use super::*;

#[derive(Clone, Debug)]
enum Op {
    Acquire {
        cost: u32,
    },
    Refund {
        which: usize,
        back: u32,
    },
    Credit {
        amount: u32,
    },
    /// A view of an earlier control word completes its operation.
    HelpLate {
        which: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1..4_u32).prop_map(|cost| Op::Acquire { cost }),
        3 => (any::<usize>(), 1..4_u32).prop_map(|(which, back)| Op::Refund { which, back }),
        1 => (1..6_u32).prop_map(|amount| Op::Credit { amount }),
        4 => any::<usize>().prop_map(|which| Op::HelpLate { which }),
    ]
}

/// A ring that lives for ever, so that late helpers can look at it.
fn leak(ring: Ring) -> &'static Ring {
    Box::leak(Box::new(ring))
}

fn agree(rule: &'static Rule, history: Vec<(i128, Op, bool)>) -> Result<(), TestCaseError> {
    let empty = Holding { latest: Nanos::ZERO, stamps: Vec::new() };
    let mut ring = leak(Ring::of(rule, &empty));
    let mut oracle = Oracle::new(u64::from(rule.limit()), rule.period(), 0);
    let mut views: Vec<View<'static>> = Vec::new();
    let mut grants = Vec::new();
    let mut now = 0;
    for (step, op, stops) in history {
        now = later(now, step);
        let at = Nanos::new(now);
        let mut which_grant = None;
        // What the operation does, up to its exchange; and then, unless it stops, to its slots.
        loop {
            let committed = ring.commit(rule, |view| {
                Ok(match op {
                    Op::Acquire { cost } => {
                        let step = ring.admission::<false>(rule, view, at, cost)?;
                        (step.0, step.1.map(|decided| decided.stamp))
                    }
                    Op::Refund { which, back } if !grants.is_empty() => {
                        let which = which % grants.len();
                        let (stamp, amount): (u64, u32) = grants[which];
                        which_grant = Some((which, back.min(amount)));
                        let stamp = Nanos::new(stamp);
                        let step = ring.refunding(rule, view, at, stamp, back.min(amount))?;
                        (step.0, step.1.map(|()| None))
                    }
                    Op::Credit { amount } => {
                        let step = ring.crediting(rule, view, at, amount)?;
                        (step.0, step.1.map(|()| None))
                    }
                    _ => (None, Ok(None)),
                })
            });
            let Ok((next, report)) = committed else {
                ring = leak(ring.successor(rule));
                continue;
            };
            let view = next.and_then(|next| View::of(ring, rule, next).ok());
            if let Some(view) = view {
                if !stops {
                    view.complete();
                }
                views.push(view);
            }
            let Ok(stamp) = report else { continue };
            if let Op::Acquire { cost } = op {
                let expected = oracle.check(now, u64::from(cost)).0.map(|(stamp, _)| stamp);
                prop_assert_eq!(stamp.map(Nanos::get), expected);
                grants.extend(expected.map(|stamp| (stamp, cost)));
            }
            break;
        }
        match op {
            Op::Acquire { .. } => {}
            Op::Refund { .. } => {
                if let Some((which, back)) = which_grant {
                    oracle.refund(now, (grants[which].0, u64::from(back)));
                    grants[which].1 -= back;
                    grants.retain(|&(_, amount)| amount > 0);
                }
            }
            Op::Credit { amount } => oracle.credit(now, u64::from(amount)),
            Op::HelpLate { which } if !views.is_empty() => views[which % views.len()].complete(),
            Op::HelpLate { .. } => {}
        }
        for cost in 1..=rule.limit() {
            let standing = ring.peek(rule, at, cost);
            let expected = oracle.reading(now, u64::from(cost));
            let units = oracle.at(now);
            prop_assert_eq!(u64::from(standing.used), units.len() as u64);
            prop_assert_eq!(standing.opens.is_none(), expected.admitted);
            prop_assert_eq!(standing.newest.map(Nanos::get), units.last().copied());
            let excess = (units.len() + cost as usize).saturating_sub(rule.limit() as usize);
            let opens = excess.checked_sub(1).map(|nth| units[nth]);
            prop_assert_eq!(standing.opens.map(Nanos::get), opens);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_thread_that_stops_anywhere_changes_no_answer(
        (limit, period, history) in (1..9_u64, 1..20_u64).prop_flat_map(|(limit, period)| {
            let steps = (step(period), op(), any::<bool>());
            (Just(limit), Just(period), prop::collection::vec(steps, 1..100))
        }),
    ) {
        agree(Box::leak(Box::new(log(limit, period).rule)), history)?;
    }
}
