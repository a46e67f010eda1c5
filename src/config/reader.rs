//! Reads the fields of a file's sections, and collects the mistakes.

use core::fmt;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Mistake;
use super::field::Field;
use super::line;

/// It is among the mistakes already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported;

/// A part of the file: the file as a whole, or what stands under `[its.name]`.
pub(super) struct Section<'a> {
    /// What the names of its fields begin with.
    prefix: String,
    /// Where in the text it begins.
    start: usize,
    pub(super) fields: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// The file as a whole.
    pub(super) fn file(fields: &'a DeTable<'a>) -> Self {
        Self { prefix: String::new(), start: 0, fields }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// The name of a field with its section, as TOML spells it: in quotes where it must be.
    fn full_name(&self, name: &str) -> String {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match !name.is_empty() && name.chars().all(bare) {
            true => format!("{}{name}", self.prefix),
            false => format!("{}{name:?}", self.prefix),
        }
    }
}

/// Reads a file. What it cannot read it notes, and reads on.
pub(super) struct Reader<'a> {
    text: &'a str,
    mistakes: Vec<Mistake>,
    /// Whether the text is TOML throughout.
    sound: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `text`, which was not TOML where `errors` say.
    pub(super) fn new(text: &'a str, errors: Vec<toml::de::Error>) -> Self {
        let mut reader = Self { text, mistakes: Vec::new(), sound: errors.is_empty() };
        for error in errors {
            reader.broken(&error);
        }
        reader
    }

    /// All mistakes, in the order of their lines.
    pub(super) fn into_mistakes(self) -> Vec<Mistake> {
        let mut mistakes = self.mistakes;
        mistakes.sort_by_key(|mistake| mistake.line);
        mistakes
    }

    /// The field's value, if it has one.
    pub(super) fn optional<T>(
        &mut self,
        section: &Section<'_>,
        field: &Field<T>,
    ) -> Result<Option<T>, Reported> {
        let Some(value) = section.fields.get(field.name) else {
            return Ok(None);
        };
        match (field.read)(value.get_ref()) {
            Some(value) => Ok(Some(value)),
            None => {
                Err(self.wrong(section, field.name, format_args!("expected {}", field.expected)))
            }
        }
    }

    pub(super) fn required<T>(
        &mut self,
        section: &Section<'_>,
        field: &Field<T>,
    ) -> Result<T, Reported> {
        let value = self.optional(section, field)?;
        value.ok_or_else(|| self.missing(section, field.name, field.expected))
    }

    /// The section of this name, if there is one.
    pub(super) fn section<'s>(
        &mut self,
        outer: &Section<'s>,
        name: &str,
    ) -> Result<Option<Section<'s>>, Reported> {
        let Some((key, value)) = outer.fields.get_key_value(name) else {
            return Ok(None);
        };
        let full_name = outer.full_name(name);
        match value.get_ref() {
            DeValue::Table(fields) => Ok(Some(Section {
                prefix: format!("{full_name}."),
                start: key.span().start,
                fields,
            })),
            _ => Err(self.wrong(outer, name, format_args!("expected a section, [{full_name}]"))),
        }
    }

    /// Notes the fields that are not among `known`.
    pub(super) fn check_names(&mut self, section: &Section<'_>, known: &[&str]) {
        for name in section.fields.keys().map(Spanned::get_ref) {
            if !known.contains(&&**name) {
                let accepted = known.join(", ");
                self.wrong(section, name, format_args!("unknown: accepted here are {accepted}"));
            }
        }
    }

    /// Notes what is wrong with a field that is there.
    pub(super) fn wrong(
        &mut self,
        section: &Section<'_>,
        name: &str,
        problem: impl fmt::Display,
    ) -> Reported {
        let (at, value) = match section.fields.get_key_value(name) {
            Some((key, value)) => (key.span().start, Some(self.shown(value))),
            None => (section.start, None),
        };
        self.note(at, Some(section.full_name(name)), value, problem)
    }

    /// Notes that a field is not there. Where the text is not TOML throughout it may be: then
    /// nothing is said.
    pub(super) fn missing(
        &mut self,
        section: &Section<'_>,
        name: &str,
        expected: impl fmt::Display,
    ) -> Reported {
        match self.sound {
            true => self.wrong(section, name, format_args!("missing: expected {expected}")),
            false => Reported,
        }
    }

    /// Notes a place where the text is not TOML.
    fn broken(&mut self, error: &toml::de::Error) {
        let at = error.span().map_or(0, |span| span.start);
        let text = self.text.lines().nth(self.line(at) - 1).unwrap_or_default().trim();
        let word =
            |value: &str| value.contains(char::is_alphabetic) && !value.contains(['"', '\'']);
        let hint = match text.split_once('=') {
            Some((_, value)) if word(value) => " (names and periods stand in quotes)",
            _ => "",
        };
        let value = Some(shortened(text)).filter(|text| !text.is_empty());
        self.note(at, None, value, format_args!("not TOML: {}{hint}", error.message()));
    }

    /// Notes a mistake; but nothing more of a line that is not TOML: it would only follow.
    fn note(
        &mut self,
        at: usize,
        field: Option<String>,
        value: Option<String>,
        problem: impl fmt::Display,
    ) -> Reported {
        let line = Some(self.line(at));
        let broken = |mistake: &Mistake| mistake.field.is_none() && mistake.line == line;
        if !self.mistakes.iter().any(broken) {
            self.mistakes.push(Mistake { line, field, value, problem: problem.to_string() });
        }
        Reported
    }

    fn line(&self, at: usize) -> usize {
        line(self.text.as_bytes(), at)
    }

    /// A value as it stands in the text.
    fn shown(&self, value: &Spanned<DeValue<'_>>) -> String {
        match value.get_ref() {
            DeValue::Table(_) => "a section".to_owned(),
            DeValue::Array(_) => "a list".to_owned(),
            _ => shortened(self.text.get(value.span()).unwrap_or_default()),
        }
    }
}

/// The beginning of the first line of `text`, fit for a line of messages.
fn shortened(text: &str) -> String {
    const LENGTH: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(LENGTH).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_short() {
        assert_eq!(shortened(""), "");
        assert_eq!(shortened("'\tvalue'"), "' value'");
        assert_eq!(shortened("\"\"\"\nmore"), "\"\"\"...");
        let long = "\u{e9}".repeat(61);
        assert_eq!(shortened(&long), format!("{}...", "\u{e9}".repeat(60)));
        assert_eq!(shortened(&long[2..]), long[2..]);
    }

    #[test]
    fn names_are_quoted_where_toml_quotes_them() {
        let fields = DeTable::new();
        let section = Section { prefix: "tier.".to_owned(), ..Section::file(&fields) };
        let names =
            ["pro-2_a", "", "a b", "a.b", "\u{e9}", "a\nb"].map(|name| section.full_name(name));
        let expected = [
            "tier.pro-2_a",
            "tier.\"\"",
            "tier.\"a b\"",
            "tier.\"a.b\"",
            "tier.\"\u{e9}\"",
            "tier.\"a\\nb\"",
        ];
        assert_eq!(names, expected);
    }
}
