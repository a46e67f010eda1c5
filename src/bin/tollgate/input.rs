//! Logs as streams of bytes: files or stdin, gzip or zstd told by their first bytes, and a
//! progress bar on a terminal.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::failure::Failure;

/// Files below this are read before a bar could be looked at.
const LONG: u64 = 32 << 20;
const BUFFER: usize = 256 << 10;

/// Opens the log at `path`; "-" is stdin.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    raw(path)
        .and_then(decoded)
        .map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))
}

fn raw(path: &Path) -> io::Result<Box<dyn Read>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other("a directory: expected a log"));
    }
    if metadata.len() < LONG {
        return Ok(Box::new(file));
    }
    // It is drawn on stderr, if that is a terminal, and cleared at the end.
    let style = "{wide_bar} {bytes}/{total_bytes} {eta}";
    let style = ProgressStyle::with_template(style).map_err(io::Error::other)?;
    let bar = ProgressBar::new(metadata.len()).with_style(style);
    Ok(Box::new(bar.with_finish(ProgressFinish::AndClear).wrap_read(file)))
}

fn decoded(raw: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let mut raw = BufReader::with_capacity(BUFFER, raw);
    // A pipe may give less at first than there is.
    let mut first = Vec::new();
    raw.by_ref().take(4).read_to_end(&mut first)?;
    let magic = first.clone();
    let whole = io::Cursor::new(first).chain(raw);
    Ok(match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole))),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let decoder = zstd::Decoder::with_buffer(whole)?;
            Box::new(BufReader::with_capacity(BUFFER, decoder))
        }
        _ => Box::new(whole),
    })
}
