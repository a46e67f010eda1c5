//! The formats of logs. Each reads a line into a [`Record`], which knows its fields by name.

pub(crate) mod combined;
pub(crate) mod csv;
pub(crate) mod json;

use std::borrow::Cow;

use crate::field::{self, Field};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Auto,
    /// The combined or the common log format
    #[value(alias = "common")]
    Combined,
    /// One JSON object a line
    Json,
    /// Comma-separated, with a line of names first
    Csv,
}

impl Format {
    /// What the first line of a log looks like.
    pub(crate) fn of(line: &str) -> Self {
        if line.starts_with('{') {
            Self::Json
        } else if line.contains(',') && combined::parse(line).is_err() {
            Self::Csv
        } else {
            Self::Combined
        }
    }
}

/// What one line tells.
pub(crate) trait Record {
    /// The field of this name.
    fn named(&self, name: &str) -> Option<Cow<'_, str>>;

    /// The request header of this normal name.
    fn header(&self, name: &str) -> Option<Cow<'_, str>>;

    fn get(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Named(name) => self.named(name).and_then(field::present),
            Field::Header(name) => self.header(name).and_then(field::present),
            Field::Time | Field::Address | Field::User => self.first(field.names()),
            Field::Path => self.first(field.names()).map(field::path),
        }
    }

    fn first(&self, names: &[&str]) -> Option<Cow<'_, str>> {
        names.iter().find_map(|name| self.named(name).and_then(field::present))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_the_format() {
        for (line, format) in [
            (r#"{"ts": 1}"#, Format::Json),
            ("time,ip", Format::Csv),
            (r#"::1 - - [17/May/2015:10:05:03 +0000] "GET /a,b HTTP/1.1" 200 1"#, Format::Combined),
            ("what is this", Format::Combined),
        ] {
            assert_eq!(Format::of(line), format, "{line}");
        }
    }
}
