//! The behaviour cases under `tests/traces/` (its README describes the format), through the public
//! API and through the mutex twin; and those of the folder named by `TOLLGATE_TRACES`, if set.

pub(crate) mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tollgate::{
    AlgorithmKind, Anchor, AnyAlgorithm, Limiter, ManualClock, Policies, Quota, QuotaError,
    RetryAfter,
};

use common::oracle::{Figures, Rule};
use common::subject::{Answer, Subject};
use common::twin::{Terms, Twin};

/// Algorithms and operations that the crate does not have yet: a case that needs one is counted
/// and named, and the twin alone runs it.
const NOT_BUILT: &[&str] = &[];

/// What the twin does not have.
const NOT_IN_TWIN: &[&str] = &["set_config"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(rename = "source")]
    _source: String,
    pub(crate) algorithm: String,
    pub(crate) config: Config,
    #[serde(rename = "note")]
    _note: String,
    pub(crate) steps: Vec<Step>,
    #[serde(default, rename = "tags")]
    _tags: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) burst: Option<u64>,
    pub(crate) queue: Option<u64>,
    anchor: Option<AnchorName>,
    pub(crate) global_limit: Option<u64>,
    pub(crate) global_period_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum AnchorName {
    FirstRequest,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) at_ns: u64,
    pub(crate) client: String,
    cost: u64,
    pub(crate) op: Op,
    pub(crate) repeat: Option<u64>,
    pub(crate) every_ns: Option<u64>,
    config: Option<Config>,
    expect: Expect,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Acquire,
    Peek,
    Refund,
    SetConfig,
    Sweep,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Peek => "peek",
            Self::Refund => "refund",
            Self::SetConfig => "set_config",
            Self::Sweep => "sweep",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    allowed: Option<bool>,
    remaining: Option<u64>,
    /// Present and `None` means never.
    #[serde(default, deserialize_with = "present")]
    retry_after_ns: Option<Option<u64>>,
    retry_after_ns_range: Option<(u64, u64)>,
    delay_ns: Option<u64>,
    delay_ns_range: Option<(u64, u64)>,
    allowed_count: Option<u64>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// A limit's algorithm and quota, for the crate and for the twin.
struct Limit {
    kind: Option<AlgorithmKind>,
    quota: Quota,
    terms: Terms,
}

impl Limit {
    /// `name` with capacity `burst` and, if it has a queue, `queue` places.
    fn new(name: &str, config: &Config, limit: u64, period: u64, burst: u64) -> Result<Self, Text> {
        let queue = config.queue.unwrap_or(0);
        let anchored = config.anchor == Some(AnchorName::FirstRequest);
        let rule = match name {
            "token_bucket" => Rule::TokenBucket { burst },
            "leaky_bucket" => Rule::LeakyBucket { queue },
            "fixed_window" if anchored => Rule::AnchoredWindow,
            "fixed_window" => Rule::FixedWindow,
            "sliding_counter" => Rule::SlidingCounter,
            "sliding_log" => Rule::SlidingLog,
            other => return Err(format!("algorithm {other:?} is unknown")),
        };
        let kind = match name.parse::<AlgorithmKind>() {
            Ok(AlgorithmKind::LeakyBucket { .. }) => Some(AlgorithmKind::LeakyBucket { queue }),
            Ok(AlgorithmKind::FixedWindow { .. }) if anchored => {
                Some(AlgorithmKind::FixedWindow { anchor: Anchor::FirstRequest })
            }
            Ok(kind) => Some(kind),
            Err(_) => None,
        };
        let quota = Quota::new(limit, Duration::from_nanos(period)).map_err(text)?;
        let quota = quota.with_burst(burst).map_err(text)?;
        Ok(Self { kind, quota, terms: (rule, Figures { limit, nanos: period }) })
    }

    fn algorithm(&self) -> Result<AnyAlgorithm, Text> {
        let kind = self.kind.ok_or("the algorithm's name does not parse")?;
        AnyAlgorithm::new(kind, self.quota).map_err(text)
    }
}

pub(crate) type Text = String;

fn text(error: QuotaError) -> Text {
    error.to_string()
}

impl Case {
    /// What the case needs of its limiter, beside acquire, peek and refund.
    fn needs(&self) -> BTreeSet<&str> {
        let ops = self.steps.iter().map(|step| step.op.name());
        ops.chain([self.algorithm.as_str()]).collect()
    }

    /// The algorithms that it runs as.
    pub(crate) fn names(&self) -> Vec<&str> {
        match self.algorithm.as_str() {
            "gcra" => vec!["token_bucket", "leaky_bucket"],
            own => vec![own],
        }
    }

    /// The client's limit and the cap under algorithm `name`; a field that it does not use is an
    /// error.
    fn limits(&self, name: &str, mut config: Config) -> Result<(Limit, Option<Limit>), Text> {
        let gcra = self.algorithm == "gcra";
        let uses = [
            ("burst", config.burst.is_some(), gcra || name == "token_bucket"),
            ("queue", config.queue.is_some(), !gcra && name == "leaky_bucket"),
            ("anchor", config.anchor.is_some(), name == "fixed_window"),
        ];
        if let Some((field, ..)) = uses.iter().find(|(_, given, used)| *given && !used) {
            return Err(format!("{field} means nothing to {}", self.algorithm));
        }
        let burst = config.burst.unwrap_or(config.limit);
        if gcra {
            config.queue = burst.checked_sub(1);
        }
        let client = Limit::new(name, &config, config.limit, config.period_ns, burst)?;
        let global = match (config.global_limit, config.global_period_ns) {
            (None, None) => None,
            (Some(limit), Some(period)) => {
                if gcra {
                    config.queue = limit.checked_sub(1);
                }
                Some(Limit::new(name, &config, limit, period, limit)?)
            }
            _ => return Err("half a global limit".to_owned()),
        };
        Ok((client, global))
    }

    fn crate_limiter(&self, name: &str) -> Result<Box<dyn Subject>, Text> {
        let policies = self.policies(name, self.config)?;
        let builder = Limiter::<String, _>::with_policies(policies).clock(ManualClock::new());
        Ok(Box::new(builder.build::<String>()))
    }

    pub(crate) fn policies(&self, name: &str, config: Config) -> Result<Policies, Text> {
        let (client, global) = self.limits(name, config)?;
        let policies = Policies::new("default", client.algorithm()?);
        Ok(match global {
            Some(global) => policies.global(global.algorithm()?),
            None => policies,
        })
    }

    pub(crate) fn twin(&self, name: &str) -> Result<Box<dyn Subject>, Text> {
        let (client, global) = self.limits(name, self.config)?;
        Ok(Box::new(Twin::new(client.terms, global.map(|global| global.terms))))
    }

    /// The first mismatch of the case, if there is one.
    pub(crate) fn run(&self, name: &str, subject: &dyn Subject) -> Result<(), Text> {
        for (index, step) in self.steps.iter().enumerate() {
            let told = |text| format!("step {index} ({step:?}): {text}");
            let run = match (step.op, step.config) {
                (Op::SetConfig, Some(config)) => {
                    let policies = self.policies(name, config)?;
                    let reloaded = subject.reload(policies, step.at_ns);
                    reloaded.then_some(()).ok_or_else(|| "it keeps its policies".to_owned())
                }
                (Op::SetConfig, None) => Err("set_config without a config".to_owned()),
                (_, Some(_)) => Err("a config without set_config".to_owned()),
                (_, None) => step.run(subject),
            };
            run.map_err(told)?;
        }
        Ok(())
    }
}

impl Step {
    fn run(&self, subject: &dyn Subject) -> Result<(), Text> {
        match (self.repeat, self.every_ns) {
            (None, None) => self.run_once(subject),
            (Some(times), Some(every)) => self.run_often(subject, times, every),
            _ => Err("repeat and every_ns come together".to_owned()),
        }
    }

    fn run_once(&self, subject: &dyn Subject) -> Result<(), Text> {
        let Self { ref client, cost, at_ns, .. } = *self;
        match self.op {
            Op::Acquire => self.expect.of(subject.check(client, cost, at_ns)),
            Op::Peek => self.expect.of(subject.peek(client, cost, at_ns)),
            Op::Refund => {
                subject.credit(client, cost, at_ns);
                let expect = Expect { allowed: None, ..self.expect };
                match self.expect.allowed {
                    Some(false) => Err("a refund cannot be refused".to_owned()),
                    _ => expect.of(subject.peek(client, 0, at_ns)),
                }
            }
            Op::Sweep => {
                subject.sweep(at_ns);
                Ok(())
            }
            Op::SetConfig => unreachable!("the case does it"),
        }
    }

    fn run_often(&self, subject: &dyn Subject, times: u64, every: u64) -> Result<(), Text> {
        let Expect { allowed_count: Some(expected), .. } = self.expect else {
            return Err("a repeated step counts what was allowed".to_owned());
        };
        let got = (0..times).filter(|i| {
            let now = self.at_ns + i * every;
            match self.op {
                Op::Acquire => subject.admits(&self.client, self.cost, now),
                Op::Peek => subject.peek(&self.client, self.cost, now).admitted(),
                op => panic!("{} cannot be repeated", op.name()),
            }
        });
        same("allowed_count", expected, got.count() as u64)
    }
}

impl Expect {
    fn of(&self, answer: Answer) -> Result<(), Text> {
        let got = answer.reading;
        let delay = got.delay.as_nanos() as u64;
        let retry = match got.retry_after {
            RetryAfter::OnRelease => unreachable!("no limit of permits in flight"),
            RetryAfter::Now => Some(0),
            RetryAfter::After(wait) => Some(wait.as_nanos() as u64),
            RetryAfter::Never => None,
        };
        if self.allowed_count.is_some() {
            return Err("allowed_count without repeat".to_owned());
        }
        if let Some(expected) = self.allowed {
            same("allowed", expected, got.admitted)?;
        }
        if let Some(expected) = self.remaining {
            same("remaining", expected, got.remaining)?;
        }
        if let Some(expected) = self.retry_after_ns {
            same("retry_after_ns", expected, retry)?;
        }
        if let Some(range) = self.retry_after_ns_range {
            within("retry_after_ns", range, retry)?;
        }
        if let Some(expected) = self.delay_ns {
            same("delay_ns", expected, delay)?;
        }
        if let Some(range) = self.delay_ns_range {
            within("delay_ns", range, Some(delay))?;
        }
        Ok(())
    }
}

fn same<T: Copy + PartialEq + Debug>(field: &str, expected: T, got: T) -> Result<(), Text> {
    if expected == got {
        Ok(())
    } else {
        Err(format!("{field}: expected {expected:?}, got {got:?}"))
    }
}

fn within(field: &str, (least, most): (u64, u64), got: Option<u64>) -> Result<(), Text> {
    match got {
        Some(got) if (least..=most).contains(&got) => Ok(()),
        _ => Err(format!("{field}: expected {least} to {most}, got {got:?}")),
    }
}

/// The case files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    assert!(!files.is_empty(), "{}: no *.jsonl", folder.display());
    files.sort();
    files
}

/// Every case of every folder, or what is wrong with its line.
fn cases() -> Vec<Result<Case, Text>> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let more = std::env::var_os("TOLLGATE_TRACES").map(PathBuf::from);
    let files = [Some(ours), more].into_iter().flatten().flat_map(|folder| files(&folder));
    let mut cases = Vec::new();
    for file in files {
        let content = std::fs::read_to_string(&file).unwrap();
        let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        cases.extend(lines.map(|(index, line)| {
            let told = |error| format!("{}:{}: {error}", file.display(), index + 1);
            serde_json::from_str::<Case>(line).map_err(told)
        }));
    }
    cases
}

/// Runs every case over the limiter that `make` gives for it, tells how many ran for each
/// algorithm and which did not and why, and fails if one of them does.
fn run_all(
    what: &str,
    not_built: &[&str],
    make: impl Fn(&Case, &str) -> Result<Box<dyn Subject>, Text>,
) {
    let mut ran: BTreeMap<String, u32> = BTreeMap::new();
    let mut waiting: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut failures = Vec::new();
    for case in cases() {
        let case = match case {
            Ok(case) => case,
            Err(error) => {
                failures.push(error);
                continue;
            }
        };
        let needs = case.needs();
        let missing: Vec<_> = not_built.iter().filter(|name| needs.contains(**name)).collect();
        if let Some(missing) = missing.first() {
            waiting.entry((**missing).to_owned()).or_default().push(case.id.clone());
            continue;
        }
        for name in case.names() {
            let result = make(&case, name).and_then(|subject| case.run(name, subject.as_ref()));
            if let Err(text) = result {
                failures.push(format!("{} as {name}: {text}", case.id));
            }
            let as_name = if case.algorithm == name { "" } else { " (as gcra)" };
            *ran.entry(format!("{name}{as_name}")).or_default() += 1;
        }
    }
    let mut report = format!("behaviour cases, {what}:");
    for (name, count) in &ran {
        report += &format!("\n  {name}: {count} ran");
    }
    for (missing, ids) in &waiting {
        report += &format!("\n  {missing} is not built: {} wait: {}", ids.len(), ids.join(" "));
    }
    // Straight to the stream: a test that passes is silent otherwise.
    std::io::stderr().write_all((report + "\n").as_bytes()).unwrap();
    assert!(ran.values().sum::<u32>() > 0, "no case ran");
    let count = failures.len();
    assert!(failures.is_empty(), "{what}: {count} failed\n{}", failures.join("\n"));
}

#[test]
fn the_crate_behaves_as_the_cases_say() {
    run_all("the crate", NOT_BUILT, Case::crate_limiter);
}

#[test]
fn the_twin_behaves_as_the_cases_say() {
    run_all("the mutex twin", NOT_IN_TWIN, Case::twin);
}
