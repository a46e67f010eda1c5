//! Where the policies come from: a file, followed while the proxy runs, or the built-in default.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::{ConfigError, Policies};

use crate::gateway::Gateway;

/// How often the file is looked at.
const POLL: Duration = Duration::from_millis(500);

/// The policies that hold without a file.
pub(crate) fn built_in() -> Result<Policies, ConfigError> {
    Policies::from_toml("default.toml", include_str!("default.toml"))
}

/// The policy file, and what it held when it was loaded.
pub(crate) struct PolicyFile {
    path: PathBuf,
    seen: Option<Vec<u8>>,
}

impl PolicyFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    pub(crate) fn load(&mut self) -> Result<Policies, ConfigError> {
        // If it changes between the two, it is loaded again.
        self.seen = fs::read(&self.path).ok();
        Policies::from_file(&self.path)
    }

    /// Whether the file is another than the one loaded. Its content tells: times of modification
    /// are coarse, and files are also replaced and linked.
    fn has_changed(&self) -> bool {
        fs::read(&self.path).ok() != self.seen
    }

    async fn changed(&self) {
        while !self.has_changed() {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Puts the file in force whenever it changes, and at each SIGHUP. A file with mistakes leaves
    /// the policies in force as they are.
    pub(crate) async fn follow(mut self, gateway: &Gateway) {
        let mut hangups = Hangups::new();
        loop {
            tokio::select! {
                () = hangups.next() => {}
                () = self.changed() => {}
            }
            self.reload(gateway);
        }
    }

    fn reload(&mut self, gateway: &Gateway) {
        let loaded = self.load();
        let path = self.path.display();
        match loaded {
            Ok(policies) => {
                let changes = changes(&gateway.policies(), &policies);
                println!("{path}: loaded, lines changed: {}", changes.len());
                changes.iter().for_each(|line| println!("{line}"));
                gateway.reload(policies);
            }
            Err(error) => eprintln!("{error}\n{path}: the policies in force stay as they are"),
        }
    }
}

/// The lines that went, and those that came.
fn changes(old: &Policies, new: &Policies) -> Vec<String> {
    let [old, new] = [old, new].map(ToString::to_string);
    let [old, new] = [&old, &new].map(|text| text.lines().collect::<BTreeSet<_>>());
    let went = old.difference(&new).map(|line| format!("- {line}"));
    let came = new.difference(&old).map(|line| format!("+ {line}"));
    went.chain(came).collect()
}

/// The SIGHUPs that the proxy gets, where there are any.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    #[cfg(unix)]
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self { signal: signal(SignalKind::hangup()).ok() }
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self {}
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            signal.recv().await;
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "[tier.free]\nalgorithm = \"leaky_bucket\"\nlimit = 5\nperiod = \"1s\"\n";

    #[test]
    fn what_changed_is_told_line_by_line() {
        let (old, new) =
            (built_in().unwrap(), Policies::from_toml("p.toml", OTHER).unwrap().max_clients(9));
        assert_eq!(
            changes(&old, &new),
            [
                "- at most 1000000 clients, then newcomers are refused",
                "- free (default): 50 per 1s, burst 20, token bucket",
                "+ at most 9 clients, then newcomers are refused",
                "+ free (default): 5 per 1s, queue 0, leaky bucket",
            ]
        );
        assert!(changes(&old, &old).is_empty());
    }

    #[test]
    fn a_change_is_seen_until_the_file_is_loaded() {
        let name = format!("tollgate-proxy-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = PolicyFile::new(path.clone());
        for text in [OTHER, "limit = 0", "[tier.free]\nblocked = true"] {
            fs::write(&path, text).unwrap();
            assert!(file.has_changed());
            assert_eq!(file.load().is_err(), text == "limit = 0");
            assert!(!file.has_changed());
        }
        fs::remove_file(&path).unwrap();
        assert!(file.has_changed() && file.load().is_err() && !file.has_changed());
    }
}
