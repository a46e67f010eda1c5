//! How it ends, and what it writes beside the report.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{SAMPLE, failure, text, tollgate};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn refusals_fail_only_if_asked() {
    for (limit, arguments, code) in [
        ("5/20s", &[][..], 0),
        ("5/20s", &["--fail-on-refused"], 1),
        ("500/20s", &["--fail-on-refused"], 0),
    ] {
        let arguments = [&["replay", SAMPLE, "--limit", limit], arguments].concat();
        assert_eq!(tollgate(&arguments, b"").status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn the_table_tells_what_people_ask() {
    let output = tollgate(&["replay", SAMPLE, "--limit", "5/20s"], b"");
    let table = text(&output.stdout);
    for part in [
        "1200 requests of 270 clients, 2015-05-17T10:05:00Z to ",
        "0 unreadable, 1122 out of order",
        "5 per 20s, token bucket",
        "worst minute: 2015-05-17T",
        "that refuses nobody: 11\n",
        "that refuses at most 1 % of clients: 11\n",
        "10.0.0.105",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn a_log_cannot_command_the_terminal() {
    let log = "{\"ts\":1,\"ip\":\"\\u001b[2J\"}\n".repeat(2);
    let output = tollgate(&["replay", "--limit", "1/1d"], log.as_bytes());
    let table = text(&output.stdout);
    assert!(table.contains("\\u{1b}[2J") && !table.contains('\u{1b}'), "{table}");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let arguments = ["replay", SAMPLE, "--limit", "5/20s", "--compare", "--json", "--top", "300"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(told, "");
}

#[test]
fn mistakes_in_arguments_end_with_2() {
    for (arguments, told) in [
        (&["replay", SAMPLE][..], "--limit"),
        (&["replay", "--limit", "5"], "such as 60/1m"),
        (&["replay", "--limit", "5/1s", "--algorithm", "magic"], "token_bucket"),
        (&["replay", "--limit", "5/1s", "--key", "cookie"], "expected address"),
        (&["replay", "--limit", "5/1s", "--max-bad", "101"], "from 0 to 100"),
        (&["replay", "--limit", "70000/1s", "--algorithm", "sliding_log"], "65536"),
        (&["replay", "--policy", "no/such.toml"], "no/such.toml"),
        (&["check", "no/such.toml"], "no/such.toml"),
    ] {
        let error = failure(arguments, b"");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn check_tells_what_a_policy_promises() {
    let file = path("check.toml");
    let policies = "default = \"free\"\n\
        [tier.free]\nalgorithm = \"token_bucket\"\nlimit = 100\nperiod = \"1m\"\nburst = 20\n\
        [tier.log]\nalgorithm = \"sliding_log\"\nlimit = 50\nperiod = \"1s\"\n\
        [tier.paced]\nalgorithm = \"leaky_bucket\"\nlimit = 10\nperiod = \"1s\"\nqueue = 4\n\
        [tier.window]\nalgorithm = \"fixed_window\"\nlimit = 7\nperiod = \"1h\"\n";
    fs::write(&file, policies).unwrap();
    let output = tollgate(&["check", file.to_str().unwrap()], b"");
    assert!(output.status.success());
    let told = text(&output.stdout);
    for part in [
        "free (default): 100 per 1m, burst 20, token bucket\n    at once: at most 20 units\n",
        "in any window of 1m: at most 120 units\n    sustained: 1.667 units per second",
        "at once: at most 50 units\n    in any window of 1s: at most 50 units\n",
        "at once: at most 5 units, 4 of them told to wait\n    in any window of 1s: at most 15 units\n",
        "in any window of 1h: at most 14 units\n    sustained: 0.001944 units per second",
        "8 for each unit in the window, at most 400",
        "at most 1000000 clients, then newcomers are refused",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }

    fs::write(&file, policies.replace("limit = 7", "limit = 0")).unwrap();
    let error = failure(&["check", file.to_str().unwrap()], b"");
    assert!(error.contains("tier.window.limit = 0: expected"), "{error}");
}

#[test]
fn pictures_are_written_whole() {
    let picture = path("replay.svg");
    let plot = picture.to_str().unwrap();
    let arguments = ["replay", SAMPLE, "--limit", "5/20s", "--compare", "--plot", plot];
    assert!(tollgate(&arguments, b"").status.success());
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("5 per 20s, token bucket: 6.58 % of requests refused"));

    let error = failure(&["demo-burst", "--plot", "no/such/place.svg"], b"");
    assert!(error.contains("no/such/place.svg"), "{error}");
}

/// The picture in the README is the one that the tool draws.
#[test]
fn the_picture_of_the_readme_is_up_to_date() {
    let picture = path("burst.svg");
    assert!(tollgate(&["demo-burst", "--plot", picture.to_str().unwrap()], b"").status.success());
    let drawn = fs::read_to_string(&picture).unwrap();
    let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/boundary-burst.svg");
    assert_eq!(drawn, fs::read_to_string(shown).unwrap());
}
