//! The picture of a replay: for each policy, what was offered and what would have been admitted.

use std::path::Path;

use crate::failure::Failure;
use crate::log::Log;
use crate::panel::{self, Panel};
use crate::replay::Stretches;
use crate::report::harmless;
use crate::timestamp::{DAY, MINUTE, SECOND, shown};
use crate::trial::Trial;

/// As many stretches of time as can be told apart.
const MOST: i64 = 400;
const LENGTHS: [(i64, &str); 15] = [
    (SECOND, "second"),
    (2 * SECOND, "2 seconds"),
    (5 * SECOND, "5 seconds"),
    (10 * SECOND, "10 seconds"),
    (30 * SECOND, "30 seconds"),
    (MINUTE, "minute"),
    (5 * MINUTE, "5 minutes"),
    (10 * MINUTE, "10 minutes"),
    (30 * MINUTE, "30 minutes"),
    (60 * MINUTE, "hour"),
    (180 * MINUTE, "3 hours"),
    (360 * MINUTE, "6 hours"),
    (DAY, "day"),
    (7 * DAY, "week"),
    (28 * DAY, "4 weeks"),
];

/// The stretches into which the log is cut.
pub(crate) fn stretches(log: &Log) -> Stretches {
    let enough = |&&(length, _): &&(i64, &str)| (log.last() - log.first()) / length < MOST;
    // Ten years have 130 times 4 weeks.
    let length = LENGTHS.iter().find(enough).map_or(28 * DAY, |&(length, _)| length);
    Stretches { first: log.first().div_euclid(length) * length, length }
}

pub(crate) fn write(path: &Path, trials: &[Trial], stretches: Stretches) -> Result<(), Failure> {
    let length = LENGTHS.iter().find(|(length, _)| *length == stretches.length);
    let every = length.map_or("", |(_, name)| name);
    let panels = trials.iter().map(|trial| {
        // Each stretch is level from its begin to its end.
        let level = |units: fn(&crate::replay::Tally) -> u64| {
            let points = trial.outcome.units.iter().enumerate().flat_map(|(index, tally)| {
                let units = units(tally) as f64;
                [(index as f64, units), (index as f64 + 1.0, units)]
            });
            points.collect::<Vec<_>>()
        };
        let refused = trial.outcome.refused as f64 * 100.0
            / (trial.outcome.admitted + trial.outcome.refused) as f64;
        Panel {
            title: format!("{}: {refused:.2} % of requests refused", harmless(&trial.name)),
            offered: level(|tally| tally.offered()),
            admitted: level(|tally| tally.admitted),
            bound: None,
        }
    });
    let panels: Vec<_> = panels.collect();
    let label = |x: f64| {
        let time = stretches.first + (x * stretches.length as f64) as i64;
        let time = shown(time - time.rem_euclid(SECOND));
        if stretches.length >= 360 * MINUTE {
            time[..10].to_owned()
        } else if stretches.length >= 5 * MINUTE {
            format!("{} {}", &time[5..10], &time[11..16])
        } else {
            time[11..19].to_owned()
        }
    };
    let caption = format!("units each {every}, from {} (UTC)", shown(stretches.first));
    let picture = panel::draw(&panels, &caption, &label)
        .map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))?;
    panel::save(path, &picture)
}
