//! Formats, compression, keys, costs, tiers; lines that are out of order or unreadable.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use super::{SAMPLE, failure, replay, text, tollgate};

const FIXED: [&str; 4] = ["--limit", "5/20s", "--algorithm", "fixed_window"];

/// A file that no other test writes.
fn file(name: &str, content: &[u8]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&FIXED[..], arguments].concat()
}

/// The keys of refused clients when one request a day may pass.
fn refused(log: &str, arguments: &[&str]) -> Vec<(String, u64)> {
    let arguments = [&["--limit", "1/1d", "--algorithm", "fixed_window"], arguments].concat();
    let report = replay(&arguments, log.as_bytes());
    let clients = report["policies"][0]["most_refused"].as_array().unwrap();
    let client = |client: &Value| {
        (client["key"].as_str().unwrap().to_owned(), client["refused"].as_u64().unwrap())
    };
    clients.iter().map(client).collect()
}

#[test]
fn a_log_is_the_same_compressed_or_from_stdin() {
    let plain = fs::read(SAMPLE).unwrap();
    let expected = replay(&with(&[SAMPLE]), b"");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    for bytes in [&plain, &gzip, &zstd] {
        assert_eq!(replay(&FIXED, bytes), expected);
        assert_eq!(replay(&with(&["-"]), bytes), expected);
    }
    assert_eq!(replay(&with(&[&file("sample.gz", &gzip)]), b""), expected);
    // As `cat a.gz b.gz` and log rotation make them.
    let (head, tail) = plain.split_at(plain.iter().position(|&byte| byte == b'\n').unwrap() + 1);
    let mut members = Vec::new();
    for part in [head, tail] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(part).unwrap();
        members.extend(gzip.finish().unwrap());
    }
    assert_eq!(replay(&FIXED, &members), expected);
}

/// The sample, told in other formats.
#[test]
fn formats_tell_the_same() {
    let expected = replay(&with(&[SAMPLE]), b"");
    let (mut json, mut csv) = (String::new(), String::from("time,client_ip\n"));
    for line in fs::read_to_string(SAMPLE).unwrap().lines() {
        let address = line.split(' ').next().unwrap();
        let (from, to) = (line.find('[').unwrap() + 1, line.find(']').unwrap());
        let time = &line[from..to];
        json += &format!("{{\"time_local\":\"{time}\",\"remote_addr\":\"{address}\"}}\n");
        csv += &format!("{time},{address}\n");
    }
    assert_eq!(replay(&FIXED, json.as_bytes()), expected);
    assert_eq!(replay(&FIXED, csv.as_bytes()), expected);
}

#[test]
fn a_cut_archive_is_an_error() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&fs::read(SAMPLE).unwrap()).unwrap();
    let gzip = gzip.finish().unwrap();
    let error = failure(&[&["replay"], &FIXED[..]].concat(), &gzip[..gzip.len() / 2]);
    assert!(error.starts_with("tollgate: -: "), "{error}");
}

#[test]
fn keys_are_what_was_asked_for() {
    let log = r#"2001:db8::1 - alice [17/May/2015:10:05:03 +0000] "GET /a?1 HTTP/1.1" 200 1 "-" "x"
2001:db8::2 - alice [17/May/2015:10:05:03 +0000] "GET /a?2 HTTP/1.1" 200 1 "-" "y"
192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /b HTTP/1.1" 200 1 "-" "x"
192.0.2.2 - - [17/May/2015:10:05:03 +0000] "GET /b HTTP/1.1" 200 1 "-" "y"
192.0.2.2 - bob [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1 "-" "y"
"#;
    let one = |key: &str, refused: u64| (key.to_owned(), refused);
    assert_eq!(refused(log, &[]), [one("2001:db8::/64", 1), one("192.0.2.2", 1)]);
    assert_eq!(refused(log, &["--ipv6-prefix", "128"]), [one("192.0.2.2", 1)]);
    assert_eq!(
        refused(log, &["--ipv4-prefix", "24"]),
        [one("192.0.2.0/24", 2), one("2001:db8::/64", 1)]
    );
    assert_eq!(refused(log, &["--key", "user"]), [one("alice", 1)]);
    assert_eq!(refused(log, &["--key", "path"]), [one("/a", 2), one("/b", 1)]);
    assert_eq!(refused(log, &["--key", "header:User-Agent"]), [one("y", 2), one("x", 1)]);
    assert_eq!(refused(log, &["--key", "user,path"]), [one("alice\t/a", 1)]);
    let report = replay(&[&FIXED[..], &["--key", "user"]].concat(), log.as_bytes());
    assert_eq!(report["log"]["without_key"], 2);
    assert_eq!(report["log"]["requests"], 3);
}

#[test]
fn times_and_costs_have_any_name() {
    let log = "when,who,units\n1431857103,a,4\n1431857103,a,2\n1431857103,a,1\n1431857103,b,6\n";
    let fields = ["--time", "when", "--key", "field:who", "--cost", "units"];
    let report = replay(&with(&fields), log.as_bytes());
    // 4, not 2, then 1; 6 never fits.
    let policy = &report["policies"][0];
    assert_eq!((&policy["admitted"], &policy["refused"]), (&Value::from(2), &Value::from(2)));
    // Client a is refused nothing from 7 on, b from 6 on.
    assert_eq!(policy["smallest_limit"][0]["limit"], 7);
}

#[test]
fn tiers_are_those_of_the_policy_file() {
    let policies = "default = \"free\"\n\
        [tier.free]\nalgorithm = \"fixed_window\"\nlimit = 1\nperiod = \"1d\"\n\
        [tier.gold]\nalgorithm = \"fixed_window\"\nlimit = 2\nperiod = \"1d\"\n\
        [global]\nalgorithm = \"fixed_window\"\nlimit = 4\nperiod = \"1d\"\n";
    let path = file("tiers.toml", policies.as_bytes());
    let mut log = String::from("ts,ip,plan\n");
    for (ip, plan, requests) in [("a", "gold", 3), ("b", "free", 2), ("c", "", 2), ("d", "x", 1)] {
        log += &format!("1431857103,{ip},{plan}\n").repeat(requests);
    }
    let report = replay(&["--policy", &path, "--tier", "field:plan"], log.as_bytes());
    let policy = &report["policies"][0];
    // Two of a's, one of b's and c's; then all is used up, and what is refused to d is not its own.
    assert_eq!(policy["admitted"], 4);
    assert_eq!(policy["refused_by_caps"], 1);
    let limits = policy["smallest_limit"].as_array().unwrap();
    let limits: Vec<_> =
        limits.iter().map(|limit| (limit["tier"].as_str(), limit["limit"].as_u64())).collect();
    assert_eq!(limits[0], (Some("free"), Some(2)));
    assert_eq!(limits[2], (Some("gold"), Some(3)));
}

#[test]
fn lines_out_of_order_are_counted_and_sorted() {
    let line = |second: u32| {
        format!("::1 - - [17/May/2015:10:05:{second:02} +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    let log = [0, 20, 1, 21, 2, 22].map(line).concat();
    let report = replay(&["--limit", "2/20s", "--algorithm", "fixed_window"], log.as_bytes());
    assert_eq!(report["log"]["out_of_order"], 2);
    assert_eq!(report["policies"][0]["refused"], 2);
}

#[test]
fn unreadable_lines_are_counted_shown_and_bounded() {
    let sample = fs::read_to_string(SAMPLE).unwrap();
    let mut log: Vec<_> = sample.lines().take(98).collect();
    log.insert(3, "no log at all");
    log.insert(50, "a - - [tomorrow] \"GET / HTTP/1.1\" 200 1");
    log.insert(60, "");
    let log = log.join("\n");
    let arguments = [&["replay", "--json"], &FIXED[..], &["--max-bad", "2"]].concat();
    let output = tollgate(&arguments, log.as_bytes());
    let stderr = text(&output.stderr);
    assert!(stderr.contains("-:4: no time: expected"), "{stderr}");
    assert!(stderr.contains("-:51: time \"tomorrow\": expected 17/May/2015"), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["log"]["lines"], 100);
    assert_eq!(report["log"]["unreadable"], 2);

    let arguments = [&["replay"], &FIXED[..], &["--max-bad", "1.9"]].concat();
    let error = failure(&arguments, log.as_bytes());
    assert!(error.contains("2 of 100 lines are unreadable, 2.000 %: expected at most 1.9 %"));
}

#[test]
fn nothing_to_replay_is_an_error() {
    for (arguments, log) in [(&[][..], ""), (&[], "\n\n"), (&["--key", "user"], "ts,ip\n1,a\n")] {
        let error = failure(&[&["replay"], &FIXED[..], arguments].concat(), log.as_bytes());
        assert!(error.contains("no request to replay"), "{error}");
    }
    let error = failure(&[&["replay"], &with(&["no/such.log"])[..]].concat(), b"");
    assert!(error.contains("no/such.log: "), "{error}");
}

#[test]
fn a_log_of_more_than_ten_years_is_an_error() {
    let error = failure(&[&["replay"], &FIXED[..]].concat(), b"ts,ip\n1,a\n1431857103,a\n");
    assert!(error.contains("expected at most ten years"), "{error}");
}
