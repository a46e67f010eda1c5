//! `tollgate`: tries policies on access logs, and tells what a policy file promises.
//!
//! The log is read once into memory ([`log`]), each policy is run over it with the real limiter
//! and a manual clock ([`replay`]), and what came of it is told ([`report`], [`plot`]).

mod address;
mod args;
mod burst;
mod check;
mod failure;
mod field;
mod format;
mod input;
mod limit;
mod log;
mod panel;
mod plot;
mod replay;
mod report;
mod smallest;
mod timestamp;
mod trial;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Replay(arguments) => trial::run(&arguments),
        Command::Check(arguments) => check::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::DemoBurst(arguments) => burst::run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|failure| {
        // There is nowhere left to tell that stderr is closed.
        let _ = writeln!(io::stderr(), "tollgate: {failure}");
        ExitCode::from(2)
    })
}

/// Writes to stdout. A reader that has seen enough and left, such as `head`, is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format_args!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}
