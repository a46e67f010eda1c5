//! What is wrong with a file of policies: everything, in the order of its lines.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What is wrong with a file of policies: all of it, not just the first mistake.
///
/// Prints one line for each [`Mistake`], in the order of the file, with its place in front:
///
/// ```text
/// policies.toml:7: tier.free.limit = 0: expected a whole number, 1 to 18446744073709551615
/// policies.toml:9: tier.free.period: missing: expected a whole number and a unit in quotes, ...
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) file: String,
    pub(super) mistakes: Vec<Mistake>,
}

impl ConfigError {
    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The mistakes, at least one, in the order of their lines.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let between = if index == 0 { "" } else { "\n" };
            write!(f, "{between}{}", self.file)?;
            if let Some(line) = mistake.line {
                write!(f, ":{line}")?;
            }
            write!(f, ": {mistake}")?;
        }
        Ok(())
    }
}

impl core::error::Error for ConfigError {}

/// One mistake in a file of policies. Prints as one line, without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The line of the field, or of the section that lacks it, from 1; none if the file could not
    /// be read at all.
    pub line: Option<usize>,
    /// The field with its section, such as `tier.free.limit`; none if it is not about a field.
    pub field: Option<String>,
    /// The value given, as it stands in the file, cut short if need be; none if it is missing.
    pub value: Option<String>,
    /// What is wrong with it, and what would be accepted.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.field, &self.value) {
            (Some(field), Some(value)) => write!(f, "{field} = {value}: ")?,
            (Some(text), None) | (None, Some(text)) => write!(f, "{text}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn an_error_prints_one_line_for_each_mistake() {
        let mistake = |line, field: Option<&str>, value: Option<&str>| Mistake {
            line,
            field: field.map(Into::into),
            value: value.map(Into::into),
            problem: "expected more".into(),
        };
        let mistakes = vec![
            mistake(None, None, None),
            mistake(Some(1), None, Some("=")),
            mistake(Some(2), Some("default"), None),
            mistake(Some(3), Some("global.limit"), Some("0")),
        ];
        let error = ConfigError { file: "p.toml".into(), mistakes };
        assert_eq!(
            error.to_string(),
            "p.toml: expected more\n\
             p.toml:1: =: expected more\n\
             p.toml:2: default: expected more\n\
             p.toml:3: global.limit = 0: expected more"
        );
        assert_eq!((error.file(), error.mistakes().len()), ("p.toml", 4));
    }
}
