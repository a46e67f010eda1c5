//! The command line.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand};
use tollgate::{AlgorithmKind, Quota};

use crate::field::{Field, Key};
use crate::format::Format;
use crate::limit;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  --fail-on-refused was given and a request would have been refused
  2  bad arguments or input, or an output that cannot be written
Ctrl-C ends it at once, by the signal.";

#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about, after_help = EXIT_CODES)]
/// Tries rate limits on yesterday's access log, before they bite a customer.
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell whom policies would have refused, had they been in force when a log was written
    #[command(after_help = EXIT_CODES)]
    Replay(Box<Replay>),
    /// Check policy files, and tell what each policy promises
    #[command(after_help = EXIT_CODES)]
    Check(Check),
    /// Draw what each algorithm makes of a burst across the edge of a window
    #[command(after_help = EXIT_CODES)]
    DemoBurst(DemoBurst),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("tried").args(["policy", "limit"]).required(true).multiple(true)))]
pub(crate) struct Replay {
    /// Access logs, plain, gzip or zstd; stdin if there is none, or for "-"
    pub(crate) logs: Vec<PathBuf>,

    /// A TOML file of policies to try; may be given several times
    #[arg(long, short, value_name = "FILE")]
    pub(crate) policy: Vec<PathBuf>,
    /// A limit to try, such as 60/1m (ns, us, ms, s, m, h, d); may be given several times
    #[arg(long, short, value_name = "LIMIT/PERIOD", value_parser = limit::parse)]
    pub(crate) limit: Vec<Quota>,
    /// How each --limit is enforced: token_bucket (the default), leaky_bucket, fixed_window,
    /// sliding_counter or sliding_log; may be given several times
    #[arg(long, short, value_name = "NAME", requires = "limit")]
    pub(crate) algorithm: Vec<AlgorithmKind>,
    /// Units at once, for token buckets of --limit [default: the limit]
    #[arg(long, value_name = "UNITS", requires = "limit")]
    pub(crate) burst: Option<u64>,
    /// Places in the queue, for leaky buckets of --limit
    #[arg(long, value_name = "UNITS", default_value_t = 0, requires = "limit")]
    pub(crate) queue: u64,
    /// Enforce each --limit by every algorithm, side by side
    #[arg(long, requires = "limit", conflicts_with = "algorithm")]
    pub(crate) compare: bool,

    /// The format of the logs; "auto" looks at the first line of each
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub(crate) format: Format,
    /// What tells clients apart: address, user, path, header:NAME or field:NAME, or several with
    /// commas between. Requests without it are not limited
    #[arg(long, value_name = "FIELDS", default_value = "address")]
    pub(crate) key: Key,
    /// Leading bits of an IPv4 address that tell clients apart
    #[arg(long, value_name = "BITS", default_value_t = 32, value_parser = clap::value_parser!(u8).range(..=32))]
    pub(crate) ipv4_prefix: u8,
    /// Leading bits of an IPv6 address that tell clients apart
    #[arg(long, value_name = "BITS", default_value_t = 64, value_parser = clap::value_parser!(u8).range(..=128))]
    pub(crate) ipv6_prefix: u8,
    /// The field that holds the time [default: those of nginx, Caddy, Envoy and Traefik]
    #[arg(long, value_name = "FIELD")]
    pub(crate) time: Option<String>,
    /// The field that holds what a request costs, a whole number [default: each costs 1]
    #[arg(long, value_name = "FIELD")]
    pub(crate) cost: Option<String>,
    /// What tells a request's tier in policy files, in the way of --key [default: all are in the
    /// default tier]
    #[arg(long, value_name = "FIELD", requires = "policy")]
    pub(crate) tier: Option<Field>,
    /// More unreadable lines than this percentage are an error
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub(crate) max_bad: f64,

    /// Look for the smallest limit under which at most so many percent of the clients would have
    /// been refused anything; may be given several times
    #[arg(long, value_name = "P", default_values_t = [0.0, 1.0], value_parser = percent)]
    pub(crate) percent: Vec<f64>,
    /// How many of the most refused clients are shown
    #[arg(long, value_name = "CLIENTS", default_value_t = 5)]
    pub(crate) top: usize,
    /// Print JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw offered against admitted units over time, for each policy
    #[arg(long, value_name = "SVG")]
    pub(crate) plot: Option<PathBuf>,
    /// Exit with 1 if any request would have been refused
    #[arg(long)]
    pub(crate) fail_on_refused: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// TOML files of policies
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoBurst {
    /// Where the picture goes
    #[arg(long, value_name = "SVG")]
    pub(crate) plot: PathBuf,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("expected a number from 0 to 100".into()),
    }
}
