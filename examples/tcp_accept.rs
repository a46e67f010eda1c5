//! Each network may open 2 connections per second, 5 at once; others are closed at the door.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};

use tollgate::http::{Network, Prefixes};
use tollgate::{CoarseClock, Limiter, Quota, TokenBucket};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bucket = TokenBucket::<u64>::new(Quota::per_second(2)?.with_burst(5)?)?;
    let limiter = Limiter::<Network, _>::builder(bucket).clock(CoarseClock::new()).build();
    let prefixes = Prefixes::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 8080))?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        if limiter.is_allowed(&prefixes.cut(stream.peer_addr()?.ip())) {
            std::thread::spawn(move || -> io::Result<()> { stream.write_all(b"hello\n") });
        }
    }
    Ok(())
}
