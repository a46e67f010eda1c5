//! The report for people.

use std::fmt;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Row, Table};

use super::{PolicyReport, Report, SmallestReport, harmless};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = &self.log;
        writeln!(
            f,
            "{} requests of {} clients, {} to {}",
            log.requests, log.clients, log.first, log.last
        )?;
        writeln!(
            f,
            "{} lines: {} unreadable, {} out of order, {} without the key",
            log.lines, log.unreadable, log.out_of_order, log.without_key
        )?;
        let mut all = table([
            "policy",
            "requests",
            "admitted",
            "refused",
            "refused %",
            "clients refused",
            "refuses nobody",
        ]);
        for policy in &self.policies {
            all.add_row([
                harmless(&policy.policy),
                policy.requests.to_string(),
                policy.admitted.to_string(),
                policy.refused.to_string(),
                format!("{:.2}", policy.refused as f64 * 100.0 / policy.requests as f64),
                format!("{} ({:.2} %)", policy.clients_refused, policy.clients_refused_percent),
                policy.nobody(),
            ]);
        }
        writeln!(f, "\n{all}")?;
        self.policies.iter().try_for_each(|policy| write!(f, "\n{policy}"))
    }
}

impl PolicyReport {
    /// The smallest limit that refuses nobody, for each tier.
    fn nobody(&self) -> String {
        let asked =
            self.smallest_limit.iter().filter(|smallest| smallest.percent_of_clients == 0.0);
        let limits = asked.map(|smallest| match smallest.limit {
            Some(limit) => format!("from {limit}"),
            None => "never".to_owned(),
        });
        limits.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for PolicyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", harmless(&self.policy))?;
        match &self.worst_minute {
            Some(minute) => writeln!(
                f,
                "  worst minute: {}, {} of {} requests refused",
                minute.begin, minute.refused, minute.requests
            )?,
            None => writeln!(f, "  nothing refused")?,
        }
        if self.refused_by_caps > 0 {
            writeln!(f, "  refused by a cap, not by the client's limit: {}", self.refused_by_caps)?;
        }
        self.smallest_limit.iter().try_for_each(|smallest| writeln!(f, "  {smallest}"))?;
        if self.most_refused.is_empty() {
            return Ok(());
        }
        let mut most = table(["most refused", "requests", "admitted", "refused"]);
        for client in &self.most_refused {
            most.add_row([
                harmless(&client.key),
                client.requests.to_string(),
                client.admitted.to_string(),
                client.refused.to_string(),
            ]);
        }
        writeln!(f, "{most}")
    }
}

impl fmt::Display for SmallestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "smallest limit in tier {} that refuses ", harmless(&self.tier))?;
        match self.percent_of_clients {
            0.0 => f.write_str("nobody: ")?,
            percent => write!(f, "at most {percent} % of clients: ")?,
        }
        match self.limit {
            Some(limit) => write!(f, "{limit}"),
            None => f.write_str("there is none"),
        }
    }
}

/// Names to the left, numbers to the right.
fn table<const N: usize>(head: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(Row::from(head));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
