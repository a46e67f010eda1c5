//! `tollgate demo-burst`: what each algorithm makes of a burst across the edge of a window.
//!
//! One client with a limit of 100 per second sends a request each millisecond, for a tenth of a
//! second before the edge and a tenth after it. Drawn is, for each time, the second that ends there.

use std::time::Duration;

use tollgate::{AlgorithmKind, AnyAlgorithm, DirectLimiter, Nanos, Quota};

use crate::args::DemoBurst;
use crate::failure::Failure;
use crate::limit::ALGORITHMS;
use crate::panel::{self, Panel};

const LIMIT: u64 = 100;
/// In milliseconds; the edge is at 1000.
const SENT: std::ops::Range<u64> = 900..1100;
const DRAWN: std::ops::Range<u64> = 850..2150;
const SECOND: u64 = 1000;

pub(crate) fn run(arguments: &DemoBurst) -> Result<(), Failure> {
    let panels = ALGORITHMS.map(panel).into_iter().collect::<Result<Vec<_>, _>>();
    let panels = panels.map_err(Failure::new)?;
    let caption = format!(
        "One client, limit {LIMIT} per second, sends {} requests across the edge of a window at \
         1 s. Requests in the last second:",
        SENT.count()
    );
    let picture = panel::draw(&panels, &caption, &|x| format!("{:.1} s", x / 1000.0))
        .map_err(|error| Failure::new(format_args!("{}: {error}", arguments.plot.display())))?;
    panel::save(&arguments.plot, &picture)
}

fn panel(kind: AlgorithmKind) -> Result<Panel, tollgate::QuotaError> {
    let algorithm = AnyAlgorithm::new(kind, Quota::per_second(LIMIT)?)?;
    let admitted = admitted(algorithm);
    let sent: Vec<u64> = SENT.collect();
    let series =
        |times: &[u64]| DRAWN.map(|end| (end as f64, in_second(times, end) as f64)).collect();
    let most = DRAWN.map(|end| in_second(&admitted, end)).max().unwrap_or(0);
    let name = kind.name().replace('_', " ");
    Ok(Panel {
        title: format!("{name}: {most} admitted within one second"),
        offered: series(&sent),
        admitted: series(&admitted),
        bound: Some(LIMIT as f64),
    })
}

/// When requests were admitted.
fn admitted(algorithm: AnyAlgorithm) -> Vec<u64> {
    let limiter = DirectLimiter::new(algorithm, ());
    let at = |time: u64| Nanos::from(Duration::from_millis(time));
    SENT.filter(|&time| limiter.is_allowed_at(at(time), 1)).collect()
}

/// How many of these times are in the second that ends at `end`.
fn in_second(times: &[u64], end: u64) -> usize {
    times.iter().filter(|&&time| time <= end && end < time + SECOND).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the edge, the first hundred; after it, what each algorithm's rule gives for a
    /// hundred milliseconds.
    #[test]
    fn each_algorithm_admits_what_its_rule_says() {
        let counts = ALGORITHMS.map(|kind| {
            let quota = Quota::per_second(LIMIT).unwrap();
            admitted(AnyAlgorithm::new(kind, quota).unwrap()).len()
        });
        // All that a new window has; a token each 10 ms; the tenth of the window before that has
        // slid out; nothing; one each 10 ms.
        assert_eq!(counts, [200, 119, 109, 100, 20]);
    }
}
