//! What is told of a log and the policies tried on it: for people, and for programs.

mod table;

use serde::Serialize;

use crate::args::Replay;
use crate::failure::Failure;
use crate::log::Log;
use crate::replay::Tally;
use crate::timestamp;
use crate::trial::Trial;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    log: LogReport,
    policies: Vec<PolicyReport>,
}

#[derive(Debug, Serialize)]
struct LogReport {
    lines: u64,
    unreadable: u64,
    out_of_order: u64,
    without_key: u64,
    requests: usize,
    clients: usize,
    first: String,
    last: String,
}

#[derive(Debug, Serialize)]
struct PolicyReport {
    policy: String,
    requests: u64,
    admitted: u64,
    refused: u64,
    refused_by_caps: u64,
    clients_refused: usize,
    clients_refused_percent: f64,
    most_refused: Vec<ClientReport>,
    worst_minute: Option<MinuteReport>,
    smallest_limit: Vec<SmallestReport>,
}

#[derive(Debug, Serialize)]
struct ClientReport {
    key: String,
    requests: u64,
    admitted: u64,
    refused: u64,
}

#[derive(Debug, Serialize)]
struct MinuteReport {
    begin: String,
    requests: u64,
    admitted: u64,
    refused: u64,
}

#[derive(Debug, Serialize)]
struct SmallestReport {
    tier: String,
    /// At most so many percent of the tier's clients are refused anything.
    percent_of_clients: f64,
    /// None if there is no such limit.
    limit: Option<u64>,
}

impl Report {
    pub(crate) fn new(
        log: &Log,
        span: (i64, i64),
        requests: usize,
        trials: &[Trial],
        arguments: &Replay,
    ) -> Self {
        let log_report = LogReport {
            lines: log.lines,
            unreadable: log.unreadable,
            out_of_order: log.out_of_order,
            without_key: log.without_key,
            requests,
            clients: log.clients.len(),
            first: timestamp::shown(span.0),
            last: timestamp::shown(span.1),
        };
        let policies = trials.iter().map(|trial| PolicyReport::new(log, trial, arguments));
        Self { log: log_report, policies: policies.collect() }
    }

    pub(crate) fn json(&self) -> Result<String, Failure> {
        let json = serde_json::to_string_pretty(self).map_err(Failure::new)?;
        Ok(json + "\n")
    }
}

impl PolicyReport {
    fn new(log: &Log, trial: &Trial, arguments: &Replay) -> Self {
        let outcome = &trial.outcome;
        let most_refused = outcome.most_refused(arguments.top).into_iter().map(|client| {
            let Tally { admitted, refused } = outcome.clients[client as usize];
            let key = log.clients.get(client).to_owned();
            ClientReport { key, requests: admitted + refused, admitted, refused }
        });
        let worst_minute = outcome.worst.map(|(begin, tally)| MinuteReport {
            begin: timestamp::shown(begin),
            requests: tally.offered(),
            admitted: tally.admitted,
            refused: tally.refused,
        });
        let smallest_limit = trial.smallest.iter().flat_map(|(tier, smallest)| {
            arguments.percent.iter().map(|&percent| SmallestReport {
                tier: tier.clone(),
                percent_of_clients: percent,
                limit: smallest.limit(percent),
            })
        });
        Self {
            policy: trial.name.clone(),
            requests: outcome.admitted + outcome.refused,
            admitted: outcome.admitted,
            refused: outcome.refused,
            refused_by_caps: outcome.refused_by_caps,
            clients_refused: outcome.touched(),
            clients_refused_percent: outcome.touched() as f64 * 100.0 / log.clients.len() as f64,
            most_refused: most_refused.collect(),
            worst_minute,
            smallest_limit: smallest_limit.collect(),
        }
    }
}

/// What came from a log, so that it cannot command a terminal; the parts of a key with commas
/// between.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.push_str(", "),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}
