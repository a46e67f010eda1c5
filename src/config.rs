//! Policies from a file: TOML, read field by field, so that every mistake can be told.

mod error;
mod field;
mod policy;
mod reader;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use std::path::Path;

use toml::de::DeTable;

pub use self::error::{ConfigError, Mistake};
use self::reader::{Reader, Section};
use crate::policy::Policies;

impl Policies {
    /// Reads `text`, the content of the file that messages call `file`.
    ///
    /// The whole format:
    ///
    /// ```
    /// let text = r#"
    /// default = "free"          # for clients of no or unknown tier; needed beside other tiers
    /// max_clients = 500_000     # 1,000,000 if left out
    /// when_full = "refuse"      # newcomers, once no client is idle; or "admit" them unlimited
    ///
    /// [tier.free]               # one section for each tier
    /// algorithm = "token_bucket"
    /// limit = 100               # a whole number, 1 to 18446744073709551615
    /// period = "1m"             # a whole number and ns, us, ms, s, m, h or d
    /// burst = 20                # token_bucket only; the limit if left out
    /// carry_over = "reset"      # on reload; or "proportional", or "keep", as if left out
    ///
    /// [tier.premium]
    /// algorithm = "sliding_counter"
    /// limit = 1000
    /// period = "1m"
    ///
    /// [tier.batch]
    /// algorithm = "fixed_window"
    /// limit = 10_000
    /// period = "1d"
    /// anchor = "first_request"  # fixed_window only; "aligned" if left out
    ///
    /// [tier.internal]
    /// unlimited = true          # or blocked = true; in the place of algorithm, limit and period
    ///
    /// [tier.model.limits.parallel]  # several limits, decided as one: 1 to 6, each with a name
    /// in_flight = 4                 # permits at one time; in the place of algorithm, limit, period
    ///
    /// [tier.model.limits.requests]
    /// algorithm = "token_bucket"
    /// limit = 60
    /// period = "1m"
    /// counts = "requests"           # each as one; "cost" if left out
    ///
    /// [tier.model.limits.tokens]
    /// algorithm = "token_bucket"
    /// limit = 90_000
    /// period = "1m"
    /// enforced = 25                 # for so many percent of clients, 0 is shadow; 100 if left out
    ///
    /// [global]                  # all clients together; may be left out
    /// algorithm = "leaky_bucket"
    /// limit = 5000
    /// period = "1s"
    /// queue = 10                # leaky_bucket only; 0 if left out
    /// "#;
    /// let policies = tollgate::Policies::from_toml("policies.toml", text)?;
    /// assert_eq!(policies.to_string(), "\
    /// batch: 10000 per 1d, fixed window from the first request
    /// free (default): 100 per 1m, burst 20, token bucket, reset on change
    /// internal: unlimited
    /// model: parallel: 4 in flight; requests: 60 per 1m, token bucket, counting requests; \
    /// tokens: 90000 per 1m, token bucket, enforced for 25 %
    /// premium: 1000 per 1m, sliding window counter
    /// all clients together: 5000 per 1s, queue 10, leaky bucket
    /// at most 500000 clients, then newcomers are refused
    /// ");
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    ///
    /// Algorithms are called what [`AlgorithmKind`](crate::AlgorithmKind) calls them, and
    /// [`CarryOver`](crate::CarryOver) tells what clients keep on reload. Unknown fields and
    /// sections are mistakes. `in_flight` may stand alone too. The names of limits are kept for as
    /// long as the process runs.
    ///
    /// # Errors
    /// If there is any mistake: the error has them all. In lines that are not TOML only that is
    /// told; the rest of the file is read all the same, but then nothing is said to be missing.
    ///
    /// ```
    /// let text = "[tier.free]\nalgorithm = \"token_bucket\"\nlimit = 0\nperiod = \"1 fortnight\"";
    /// let error = tollgate::Policies::from_toml("policies.toml", text).unwrap_err();
    /// assert_eq!(error.mistakes().len(), 2);
    /// assert!(error.to_string().starts_with("policies.toml:3: tier.free.limit = 0: expected"));
    /// ```
    pub fn from_toml(file: &str, text: &str) -> Result<Self, ConfigError> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut reader = Reader::new(text, errors);
        let policies = reader.policies(&Section::file(table.get_ref()));
        match (policies, reader.into_mistakes()) {
            (Ok(policies), mistakes) if mistakes.is_empty() => Ok(policies),
            (_, mistakes) => Err(ConfigError { file: file.to_string(), mistakes }),
        }
    }

    /// Reads the file at `path`: see [`from_toml`](Self::from_toml).
    ///
    /// # Errors
    /// If the file cannot be read, is not UTF-8, or there is any mistake in it.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let file = path.as_ref().display().to_string();
        match read(path.as_ref()) {
            Ok(text) => Self::from_toml(&file, &text),
            Err(mistake) => Err(ConfigError { file, mistakes: Vec::from([mistake]) }),
        }
    }
}

/// The number of the line at an offset, from 1.
fn line(text: &[u8], at: usize) -> usize {
    1 + text.iter().take(at).filter(|&&byte| byte == b'\n').count()
}

fn read(path: &Path) -> Result<String, Mistake> {
    let mistake = |line, problem: fmt::Arguments<'_>| Mistake {
        line,
        field: None,
        value: None,
        problem: problem.to_string(),
    };
    let bytes = std::fs::read(path)
        .map_err(|error| mistake(None, format_args!("{error}: expected a TOML file")))?;
    String::from_utf8(bytes).map_err(|error| {
        let line = line(error.as_bytes(), error.utf8_error().valid_up_to());
        mistake(Some(line), format_args!("not UTF-8: expected a TOML file"))
    })
}
