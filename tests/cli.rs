//! The binary, as it is called: what it counts, what it reads, how it ends.
#![cfg(feature = "cli")]

#[path = "cli/counts.rs"]
mod counts;
#[path = "cli/inputs.rs"]
mod inputs;
#[path = "cli/outputs.rs"]
mod outputs;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SAMPLE: &str = "tests/data/access.log";

/// Runs `tollgate` with these arguments and this on its stdin.
fn tollgate(arguments: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // It may end before it has read all: arguments come first.
    let _ = child.stdin.take().expect("it is piped").write_all(stdin);
    child.wait_with_output().expect("it ends")
}

/// The report of `tollgate replay --json`.
fn replay(arguments: &[&str], stdin: &[u8]) -> Value {
    let output = tollgate(&[&["replay", "--json"], arguments].concat(), stdin);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it prints UTF-8")
}

/// What it says when it ends with code 2.
fn failure(arguments: &[&str], stdin: &[u8]) -> String {
    let output = tollgate(arguments, stdin);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    text(&output.stderr).to_owned()
}
