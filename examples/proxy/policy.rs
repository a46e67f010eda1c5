//! The policy file: the quota of every client, and the cap they share.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::Duration;

use tollgate::{AlgorithmKind, AnyAlgorithm, Limiter, Quota};
use toml::Value;

use crate::section::Section;

const DEFAULT: &str = include_str!("default.toml");

/// What the proxy enforces.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) client: Limit,
    pub(crate) global: Option<Limit>,
}

impl Policy {
    /// Reads the file at `path`, or the embedded default.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, PolicyError> {
        let Some(path) = path else {
            return Self::parse("default.toml", DEFAULT);
        };
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| PolicyError(format!("{file}: {error}: expected a TOML file")))?;
        Self::parse(&file, &text)
    }

    /// Reads `text`, the content of `file`.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self, PolicyError> {
        let table = text.parse().map_err(|error| PolicyError(format!("{file}: {error}")))?;
        let mut client = Section { file, prefix: "", fields: table };
        let global = match client.fields.remove("global") {
            None => None,
            Some(Value::Table(fields)) => {
                Some(Section { file, prefix: "global.", fields }.limit()?)
            }
            Some(value) => {
                return Err(client.wrong("global", value, "expected a section, [global]"));
            }
        };
        Ok(Self { client: client.limit()?, global })
    }

    /// A limiter that holds each client, and all of them together, to this policy.
    pub(crate) fn limiter(&self) -> Limiter<String, AnyAlgorithm> {
        let builder = Limiter::<String, _>::builder(self.client.algorithm);
        match &self.global {
            None => builder.build(),
            Some(global) => builder.global(global.algorithm).build(),
        }
    }
}

/// An algorithm and its quota.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) kind: AlgorithmKind,
    pub(crate) quota: Quota,
    pub(crate) algorithm: AnyAlgorithm,
}

impl Limit {
    /// The most requests that can be admitted within any time of length `elapsed`.
    pub(crate) fn most_admitted_in(&self, elapsed: Duration) -> u128 {
        let limit = u128::from(self.quota.limit());
        let period = self.quota.period().as_nanos();
        let accrued = limit * elapsed.as_nanos() / period;
        match self.kind {
            AlgorithmKind::TokenBucket => u128::from(self.quota.burst()) + accrued,
            AlgorithmKind::LeakyBucket { queue } => 1 + u128::from(queue) + accrued,
            // As many whole windows as fit, and a part of one at either end.
            _ => limit * (elapsed.as_nanos() / period + 2),
        }
    }
}

/// What is wrong with a policy: the file, the field, its value, and what would be accepted.
#[derive(Debug)]
pub(crate) struct PolicyError(pub(crate) String);

impl Display for PolicyError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::Table;

    const MINIMAL: &str = "algorithm = \"token_bucket\"\nlimit = 10\nperiod = \"1s\"\n";

    fn error(text: &str) -> String {
        Policy::parse("p.toml", text).unwrap_err().to_string()
    }

    /// [`MINIMAL`] with one field replaced.
    fn with(field: &str, value: &str) -> String {
        let mut fields: Table = MINIMAL.parse().unwrap();
        let value: Table = format!("{field} = {value}").parse().unwrap();
        fields.extend(value);
        fields.to_string()
    }

    #[test]
    fn the_embedded_policy_is_valid() {
        let policy = Policy::load(None).unwrap();
        assert_eq!(policy.client.kind, AlgorithmKind::TokenBucket);
        assert!(policy.global.is_none());
    }

    #[test]
    fn both_limits_are_read() {
        let text = format!(
            "{MINIMAL}burst = 3\n[global]\nalgorithm = \"leaky_bucket\"\n\
             limit = 7\nperiod = \"500ms\"\nqueue = 4\n"
        );
        let Policy { client, global: Some(global) } = Policy::parse("p.toml", &text).unwrap()
        else {
            panic!("no global limit");
        };
        assert_eq!((client.quota.limit(), client.quota.burst()), (10, 3));
        assert_eq!(global.kind, AlgorithmKind::LeakyBucket { queue: 4 });
        assert_eq!(global.quota.period(), Duration::from_millis(500));
    }

    #[test]
    fn every_algorithm_has_its_name() {
        for name in ["token_bucket", "leaky_bucket", "fixed_window", "sliding_counter"] {
            Policy::parse("p.toml", &with("algorithm", &format!("{name:?}"))).unwrap();
        }
    }

    #[test]
    fn errors_name_file_field_value_and_what_would_be_accepted() {
        for (field, value, accepted) in [
            ("limit", "0", "at least 1"),
            ("limit", "-5", "a whole number"),
            ("limit", "\"many\"", "a whole number"),
            ("limit", "1.5", "a whole number"),
            ("burst", "0", "a whole number, at least 1"),
            ("queue", "-1", "a whole number"),
            ("queue", "1", "leaky_bucket"),
            ("period", "\"0s\"", "at least 1ns"),
            ("period", "\"999999999d\"", "at most"),
            ("period", "\"99999999999999999d\"", "ms, s, m, h or d"),
            ("period", "\"1 fortnight\"", "ms, s, m, h or d"),
            ("period", "60", "ms, s, m, h or d"),
            ("algorithm", "1", "in quotes"),
            ("limt", "1", "limit, period"),
            ("global", "1", "[global]"),
        ] {
            let error = error(&with(field, value));
            assert!(error.starts_with(&format!("p.toml: {field} = {value}: ")), "{error}");
            assert!(error.contains(accepted), "{error}");
        }
        let error = error(&with("algorithm", "\"magic\""));
        assert!(error.starts_with("p.toml: algorithm = magic: unknown algorithm: "), "{error}");
    }

    #[test]
    fn a_missing_field_is_named_with_its_section() {
        assert!(error("limit = 1").starts_with("p.toml: algorithm is missing: expected a name"));
        let text = format!("{MINIMAL}[global]\nalgorithm = \"token_bucket\"\nlimit = 1");
        assert!(error(&text).starts_with("p.toml: global.period is missing: expected a whole"));
    }

    #[test]
    fn text_that_is_not_toml_is_shown_with_its_place() {
        assert!(error("limit == 1").contains("line 1"));
    }

    #[test]
    fn a_bucket_admits_its_burst_and_what_accrues() {
        let policy = Policy::parse("p.toml", &with("burst", "3")).unwrap();
        assert_eq!(policy.client.most_admitted_in(Duration::from_millis(99)), 3);
        assert_eq!(policy.client.most_admitted_in(Duration::from_millis(100)), 4);
    }
}
