//! Comma-separated values. The first record has the names.

use std::borrow::Cow;

use csv::StringRecord;

use super::Record;
use crate::field;

#[derive(Debug)]
pub(crate) struct Csv<'a> {
    pub(crate) names: &'a StringRecord,
    pub(crate) values: &'a StringRecord,
}

impl Csv<'_> {
    fn value(&self, is: impl Fn(&str) -> bool) -> Option<Cow<'_, str>> {
        self.values.get(self.names.iter().position(is)?).map(Cow::Borrowed)
    }
}

impl Record for Csv<'_> {
    fn named(&self, name: &str) -> Option<Cow<'_, str>> {
        self.value(|other| other == name)
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.value(|other| field::tells_header(other, name))
    }
}
