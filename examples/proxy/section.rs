//! One section of the policy file: its fields, checked one by one.

use std::fmt::Display;
use std::time::Duration;

use tollgate::{AlgorithmKind, AnyAlgorithm, Quota, QuotaError, UnknownAlgorithm};
use toml::{Table, Value};

use crate::policy::{Limit, PolicyError};

const FIELDS: [&str; 5] = ["algorithm", "limit", "period", "burst", "queue"];
const NAME: &str = "expected a name in quotes, such as \"token_bucket\"";
const COUNT: &str = "expected a whole number, at least 1";
const PLACES: &str = "expected a whole number, 0 if nothing may wait";
const PERIOD: &str =
    "expected a whole number and ms, s, m, h or d in quotes, such as \"500ms\" or \"1m\"";

/// The fields of one limit, and where they stand.
pub(crate) struct Section<'a> {
    pub(crate) file: &'a str,
    /// What the names of its fields begin with in messages.
    pub(crate) prefix: &'static str,
    pub(crate) fields: Table,
}

impl Section<'_> {
    /// The limit that the fields describe.
    pub(crate) fn limit(&self) -> Result<Limit, PolicyError> {
        self.check_names()?;
        let kind = self.kind()?;
        let quota = self.quota(kind)?;
        let algorithm = AnyAlgorithm::new(kind, quota).map_err(|error| self.unsound(error))?;
        Ok(Limit { kind, quota, algorithm })
    }

    fn check_names(&self) -> Result<(), PolicyError> {
        match self.fields.iter().find(|(field, _)| !FIELDS.contains(&field.as_str())) {
            None => Ok(()),
            Some((field, value)) => {
                let known = format!("unknown field: accepted are {}", FIELDS.join(", "));
                Err(self.wrong(field, value, known))
            }
        }
    }

    fn kind(&self) -> Result<AlgorithmKind, PolicyError> {
        let name = self.required("algorithm", NAME, Value::as_str)?;
        let kind =
            name.parse().map_err(|error: UnknownAlgorithm| self.wrong("algorithm", name, error))?;
        match (kind, self.optional("queue", PLACES, whole)?) {
            (AlgorithmKind::LeakyBucket { .. }, Some(queue)) => {
                Ok(AlgorithmKind::LeakyBucket { queue })
            }
            (kind, None) => Ok(kind),
            (_, Some(queue)) => Err(self.wrong("queue", queue, "expected with leaky_bucket only")),
        }
    }

    fn quota(&self, kind: AlgorithmKind) -> Result<Quota, PolicyError> {
        let limit = self.required("limit", COUNT, count)?;
        let period = self.required("period", PERIOD, duration)?;
        let quota = Quota::new(limit, period).map_err(|error| self.unsound(error))?;
        match (kind, self.optional("burst", COUNT, count)?) {
            (AlgorithmKind::TokenBucket, Some(burst)) => {
                quota.with_burst(burst).map_err(|error| self.unsound(error))
            }
            (_, None) => Ok(quota),
            (_, Some(burst)) => Err(self.wrong("burst", burst, "expected with token_bucket only")),
        }
    }

    fn required<'t, T>(
        &'t self,
        field: &str,
        expected: &str,
        read: impl Fn(&'t Value) -> Option<T>,
    ) -> Result<T, PolicyError> {
        self.optional(field, expected, read)?
            .ok_or_else(|| self.error(format_args!("{field} is missing: {expected}")))
    }

    fn optional<'t, T>(
        &'t self,
        field: &str,
        expected: &str,
        read: impl Fn(&'t Value) -> Option<T>,
    ) -> Result<Option<T>, PolicyError> {
        let value = self.fields.get(field);
        value.map(|value| read(value).ok_or_else(|| self.wrong(field, value, expected))).transpose()
    }

    /// The quota cannot be enforced; the error says why and what could.
    fn unsound(&self, error: QuotaError) -> PolicyError {
        let field = match error {
            QuotaError::ZeroPeriod | QuotaError::PeriodTooLong { .. } => "period",
            QuotaError::TooLarge { what, .. } if self.fields.contains_key(what) => what,
            _ => "limit",
        };
        self.wrong(field, &self.fields[field], error)
    }

    pub(crate) fn wrong(
        &self,
        field: &str,
        value: impl Display,
        problem: impl Display,
    ) -> PolicyError {
        self.error(format_args!("{field} = {value}: {problem}"))
    }

    fn error(&self, problem: impl Display) -> PolicyError {
        PolicyError(format!("{}: {}{problem}", self.file, self.prefix))
    }
}

fn whole(value: &Value) -> Option<u64> {
    value.as_integer()?.try_into().ok()
}

fn count(value: &Value) -> Option<u64> {
    whole(value).filter(|&count| count > 0)
}

fn duration(value: &Value) -> Option<Duration> {
    let text = value.as_str()?;
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(millis.checked_mul(number.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_units() {
        for (text, millis) in [("500ms", 500), ("1s", 1_000), ("2m", 120_000), ("1d", 86_400_000)] {
            let period = duration(&Value::String(text.into()));
            assert_eq!(period, Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "1", "s", "-1s", "1.5s", "1 s", "1S"] {
            assert_eq!(duration(&Value::String(text.into())), None, "{text}");
        }
    }
}
