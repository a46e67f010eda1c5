//! The log in memory: what is needed of each request, ordered by time.
//!
//! A request takes 24 bytes, a client its key. Servers write a line when a request ends, so lines
//! are out of order where they tell when it began; they are counted, and sorted.

use std::collections::HashMap;
use std::io::{BufRead, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tollgate::Nanos;

use crate::address::Prefixes;
use crate::failure::Failure;
use crate::field::{Field, Key};
use crate::format::csv::Csv;
use crate::format::{Format, Record, combined, json};
use crate::input;
use crate::timestamp::{self, DAY};

/// Words last ten years from the clock's origin.
const LONGEST: i64 = 3650 * DAY;
/// How many unreadable lines are shown.
const SHOWN: usize = 5;

/// What is asked of each line.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) format: Format,
    pub(crate) time: Field,
    pub(crate) key: Key,
    pub(crate) prefixes: Prefixes,
    pub(crate) cost: Option<Field>,
    pub(crate) tier: Option<Field>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Nanoseconds since 1970.
    pub(crate) time: i64,
    pub(crate) cost: u64,
    /// An index into [`Log::clients`].
    pub(crate) client: u32,
    /// An index into [`Log::tiers`]; 0 is the default tier.
    pub(crate) tier: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) requests: Vec<Request>,
    pub(crate) clients: Names,
    pub(crate) tiers: Names,
    pub(crate) lines: u64,
    pub(crate) unreadable: u64,
    /// The first few unreadable lines: where, and why.
    pub(crate) complaints: Vec<String>,
    /// Earlier than a line before them in their file.
    pub(crate) out_of_order: u64,
    /// Without what tells clients apart, and so not limited.
    pub(crate) without_key: u64,
    origin: i64,
}

impl Log {
    /// Reads all logs, and puts their requests in order.
    pub(crate) fn read(paths: &[PathBuf], wanted: &Wanted) -> Result<Self, Failure> {
        let mut log = Self::default();
        // The name of the default tier is the policy file's business.
        log.tiers.number("");
        for path in paths {
            Reader { log: &mut log, wanted, path, latest: i64::MIN, key: String::new() }.read()?;
        }
        // Stable: requests of the same time stay in the order of their lines.
        log.requests.sort_by_key(|request| request.time);
        let (first, last) = (log.first(), log.last());
        if last.saturating_sub(first) > LONGEST {
            return Err(Failure::new(format_args!(
                "the logs go from {} to {}: expected at most ten years",
                timestamp::shown(first),
                timestamp::shown(last)
            )));
        }
        log.origin = first.div_euclid(DAY) * DAY;
        Ok(log)
    }

    /// These requests, in order, of so many clients.
    #[cfg(test)]
    pub(crate) fn of(requests: Vec<Request>, clients: u32) -> Self {
        let mut log = Self { requests, ..Self::default() };
        for client in 0..clients {
            log.clients.number(&client.to_string());
        }
        log
    }

    pub(crate) fn first(&self) -> i64 {
        self.requests.first().map_or(0, |request| request.time)
    }

    pub(crate) fn last(&self) -> i64 {
        self.requests.last().map_or(0, |request| request.time)
    }

    /// The time as the limiter's clock tells it, whose origin is the first day's midnight: so
    /// windows begin on the minute, the hour or the day in UTC.
    pub(crate) fn now(&self, request: &Request) -> Nanos {
        Nanos::new(request.time.abs_diff(self.origin))
    }

    pub(crate) fn unreadable_percent(&self) -> f64 {
        self.unreadable as f64 * 100.0 / self.lines.max(1) as f64
    }
}

/// Names, each with a number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Rc<str>, u32>,
    names: Vec<Rc<str>>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        // Names alone would take more memory than there is before their numbers ran out.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let name: Rc<str> = name.into();
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// Reads one file.
struct Reader<'a> {
    log: &'a mut Log,
    wanted: &'a Wanted,
    path: &'a Path,
    latest: i64,
    /// Kept for its room.
    key: String,
}

impl Reader<'_> {
    fn read(mut self) -> Result<(), Failure> {
        let mut input = input::open(self.path)?;
        let mut first = Vec::new();
        let mut skipped = 0;
        while first.trim_ascii().is_empty() {
            first.clear();
            if input.read_until(b'\n', &mut first).map_err(|error| self.failure(&error))? == 0 {
                return Ok(());
            }
            skipped += 1;
        }
        let format = match self.wanted.format {
            Format::Auto => Format::of(&String::from_utf8_lossy(&first)),
            given => given,
        };
        let number = skipped - 1;
        let input = Cursor::new(first).chain(input);
        match format {
            Format::Csv => self.read_csv(input, number),
            _ => self.read_lines(input, number, format),
        }
    }

    fn read_lines(
        &mut self,
        mut input: impl BufRead,
        mut number: u64,
        format: Format,
    ) -> Result<(), Failure> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line).map_err(|error| self.failure(&error))? == 0 {
                return Ok(());
            }
            number += 1;
            let text = String::from_utf8_lossy(line.trim_ascii_end());
            if text.is_empty() {
                continue;
            }
            let outcome = match format {
                Format::Json => json::parse(&text).and_then(|record| self.add(&record)),
                _ => combined::parse(&text).and_then(|record| self.add(&record)),
            };
            self.count(number, outcome);
        }
    }

    fn read_csv(&mut self, input: impl BufRead, skipped: u64) -> Result<(), Failure> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(input);
        let names = reader.headers().map_err(|error| self.failure(&error))?.clone();
        let mut bytes = csv::ByteRecord::new();
        loop {
            if !reader.read_byte_record(&mut bytes).map_err(|error| self.failure(&error))? {
                return Ok(());
            }
            let number = skipped + bytes.position().map_or(0, csv::Position::line);
            let values = csv::StringRecord::from_byte_record_lossy(bytes.clone());
            let outcome = if values.len() == names.len() {
                self.add(&Csv { names: &names, values: &values })
            } else {
                Err(format!("{} values: expected {}", values.len(), names.len()))
            };
            self.count(number, outcome);
        }
    }

    fn add(&mut self, record: &impl Record) -> Result<(), String> {
        let time =
            record.get(&self.wanted.time).ok_or("no time: expected --time FIELD to name it")?;
        let time = timestamp::parse(&time)
            .ok_or_else(|| format!("time {time:?}: expected {}", timestamp::EXPECTED))?;
        let cost = match &self.wanted.cost {
            None => 1,
            Some(field) => {
                let cost = record.get(field).ok_or("no cost")?;
                cost.parse().map_err(|_| {
                    format!("cost {cost:?}: expected a whole number, 0 to {}", u64::MAX)
                })?
            }
        };
        // From here on the line is read.
        self.log.out_of_order += u64::from(time < self.latest);
        self.latest = self.latest.max(time);
        if !self.key(record) {
            self.log.without_key += 1;
            return Ok(());
        }
        let client = self.log.clients.number(&self.key);
        let tier = self.wanted.tier.as_ref().and_then(|tier| record.get(tier));
        let tier = tier.map_or(0, |tier| self.log.tiers.number(&tier));
        self.log.requests.push(Request { time, cost, client, tier });
        Ok(())
    }

    /// Writes the key, its parts with tabs between. Whether all of them are there.
    fn key(&mut self, record: &impl Record) -> bool {
        self.key.clear();
        for (index, field) in self.wanted.key.0.iter().enumerate() {
            let Some(part) = record.get(field) else { return false };
            if index > 0 {
                self.key.push('\t');
            }
            match field {
                Field::Address => self.wanted.prefixes.write(&part, &mut self.key),
                _ => self.key.push_str(&part),
            }
        }
        true
    }

    fn count(&mut self, number: u64, outcome: Result<(), String>) {
        self.log.lines += 1;
        if let Err(problem) = outcome {
            self.log.unreadable += 1;
            if self.log.complaints.len() < SHOWN {
                self.log.complaints.push(format!("{}:{number}: {problem}", self.path.display()));
            }
        }
    }

    fn failure(&self, error: &impl std::fmt::Display) -> Failure {
        Failure::new(format_args!("{}: {error}", self.path.display()))
    }
}
