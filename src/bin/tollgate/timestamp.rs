//! The times of logs, in nanoseconds since 1970 UTC.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const DAY: i64 = 24 * 60 * MINUTE;

/// What is accepted: to follow "expected".
pub(crate) const EXPECTED: &str = "17/May/2015:10:05:03 +0000, RFC 3339, or a number of s, ms, us \
                                   or ns since 1970; from 1678 to 2261";

/// The first and the last months that 64 bits can tell are left out, so that the days and weeks
/// around a time can be told as well.
const FARTHEST: i64 = i64::MAX - 100 * DAY;

/// Reads any of the forms in which logs tell the time; where there is no offset, UTC is meant.
pub(crate) fn parse(text: &str) -> Option<i64> {
    any(text).filter(|time| (-FARTHEST..=FARTHEST).contains(time))
}

fn any(text: &str) -> Option<i64> {
    if text.as_bytes().get(2) == Some(&b'/') {
        return common(text.as_bytes());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return epoch(text);
    }
    let time = match text.parse::<Timestamp>() {
        Ok(time) => time,
        Err(_) => Offset::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok()?,
    };
    i64::try_from(time.as_nanosecond()).ok()
}

/// `17/May/2015:10:05:03 +0000`: the hot path.
fn common(text: &[u8]) -> Option<i64> {
    const MONTHS: [&[u8]; 12] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let text: &[u8; 26] = text.try_into().ok()?;
    let digit = |at: usize| text[at].is_ascii_digit().then(|| (text[at] - b'0') as i8);
    let two = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
    let between = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')];
    if between.iter().any(|&(at, byte)| text[at] != byte) {
        return None;
    }
    let year = i16::from(two(7)?) * 100 + i16::from(two(9)?);
    let month = MONTHS.iter().position(|&month| text[3..6] == *month)? as i8 + 1;
    // A leap second counts as the second before it.
    let second = two(18)?;
    let second = if second == 60 { 59 } else { second };
    let local = DateTime::new(year, month, two(0)?, two(12)?, two(15)?, second, 0).ok()?;
    let offset = (i64::from(two(22)?) * 60 + i64::from(two(24)?)) * 60;
    let offset = match text[21] {
        b'+' => offset,
        b'-' => -offset,
        _ => return None,
    };
    let utc = Offset::UTC.to_timestamp(local).ok()?.as_second() - offset;
    utc.checked_mul(SECOND)
}

/// A number since 1970, perhaps with a fraction. Its size tells the unit: each gives the years 1973
/// to 5138, or to 2262, where nanoseconds end.
fn epoch(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.contains('.') {
        return None;
    }
    let number: i64 = whole.parse().ok()?;
    let unit = match number {
        0..100_000_000_000 => SECOND,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    // Nine digits tell a second to the nanosecond; what is finer is cut off.
    let digits: i64 = format!("{fraction:0<9.9}").parse().ok()?;
    number.checked_mul(unit)?.checked_add(digits / (SECOND / unit))
}

/// For people: to the second, or as finely as it is told.
pub(crate) fn shown(nanos: i64) -> String {
    let time = Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::MAX);
    time.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_one_time_are_alike() {
        for text in [
            "17/May/2015:10:05:03 +0000",
            "17/May/2015:12:35:03 +0230",
            "16/May/2015:22:05:03 -1200",
            "2015-05-17T10:05:03Z",
            "2015-05-17T12:05:03+02:00",
            "2015-05-17 10:05:03",
            "2015-05-17T10:05:03.000",
            "1431857103",
            "1431857103.000",
            "1431857103000",
            "1431857103000000",
            "1431857103000000000",
        ] {
            assert_eq!(parse(text), Some(1_431_857_103 * SECOND), "{text}");
        }
    }

    #[test]
    fn fractions_are_kept_to_the_nanosecond() {
        for (text, nanos) in [
            ("1431857103.5241024", 524_102_400),
            ("1431857103.1234567899", 123_456_789),
            ("1431857103000.25", 250_000),
            ("2015-05-17T10:05:03.000000001Z", 1),
        ] {
            assert_eq!(parse(text), Some(1_431_857_103 * SECOND + nanos), "{text}");
        }
    }

    #[test]
    fn leap_years_and_seconds_are_known() {
        assert_eq!(parse("29/Feb/2016:23:59:60 +0000"), parse("29/Feb/2016:23:59:59 +0000"));
        assert!(parse("29/Feb/2016:23:59:60 +0000").is_some());
        assert_eq!(parse("29/Feb/2015:00:00:00 +0000"), None);
    }

    #[test]
    fn anything_else_is_no_time() {
        for text in [
            "",
            ".",
            "-",
            "-5",
            "1.2.3",
            "yesterday",
            "17/May/2015",
            "17/may/2015:10:05:03 +0000",
            "17/May/2015:10:05:03 00000",
            "17/May/2015:10:05:03 +000x",
            "17/May/2015:24:00:00 +0000",
            "17/May/2015:10:60:00 +0000",
            "17/May/9999:10:05:03 +0000",
            "2015-13-01T00:00:00Z",
            "1677-09-21T01:00:00Z",
            "2262-04-11T00:00:00Z",
            "99999999999999999999",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_shown_as_it_is_read() {
        let text = "2015-05-17T10:05:03Z";
        assert_eq!(shown(parse(text).unwrap()), text);
    }
}
