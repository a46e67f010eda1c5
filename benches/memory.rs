//! What a client takes: bytes of live heap, as asked of the allocator, for a million clients.
//!
//! `cargo bench -p tollgate-benches --bench memory`

use std::env;
use std::net::IpAddr;

use allocation_counter::measure;
use tollgate_benches::{Key, Policy, Subject, client_keys, contenders_at_scale};

fn told<K: Key>(what: &str, clients: usize) {
    let keys = client_keys::<K>(clients);
    let names: Vec<&str> =
        contenders_at_scale::<K>(Policy::ADMIT).iter().map(|subject| subject.name).collect();
    for (index, name) in names.into_iter().enumerate() {
        // The time given plays no part here, nor does the clock, nor who is pinned.
        if matches!(name, "precise" | "given" | "pinned" | "pinned-precise") {
            continue;
        }
        let mut kept = None;
        let held = measure(|| {
            let mut subject: Subject<K> = contenders_at_scale(Policy::ADMIT).swap_remove(index);
            subject.introduce(&keys);
            kept = Some(subject);
        });
        let name = if name == "coarse" { "tollgate" } else { name };
        println!("{what:<8} {name:<12} {:>6.1}", held.bytes_current as f64 / clients as f64);
        drop(kept);
    }
}

fn main() {
    // `cargo bench` passes `--bench`, `cargo test` does not.
    let clients = if env::args().any(|argument| argument == "--bench") { 1_000_000 } else { 1_000 };
    println!("# key contender bytes per client, of {clients}");
    told::<u64>("u64", clients);
    told::<IpAddr>("IpAddr", clients);
    told::<String>("String", clients);
}
