//! The policy file, followed while the proxy runs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate::Policies;

use crate::Clients;

/// How often the file is looked at.
const POLL: Duration = Duration::from_millis(500);

/// Puts the file in force whenever it changes, and at each SIGHUP. A file with mistakes leaves the
/// policies in force as they are.
pub(crate) async fn follow(file: PathBuf, limiter: Arc<Clients>) {
    // Its content tells: times of modification are coarse, and files are also replaced and linked.
    let mut seen = fs::read(&file).ok();
    loop {
        let hung_up = tokio::select! {
            () = hangup() => true,
            () = tokio::time::sleep(POLL) => false,
        };
        let found = fs::read(&file).ok();
        if !hung_up && found == seen {
            continue;
        }
        seen = found;
        match Policies::from_file(&file) {
            Ok(policies) => {
                let changed = limiter.reload(policies.clone());
                tracing::info!(%policies, changed, "reloaded");
            }
            Err(error) => tracing::error!(%error, "the policies in force stay as they are"),
        }
    }
}

/// The next SIGHUP, where there are any.
async fn hangup() {
    #[cfg(unix)]
    if let Ok(mut hangup) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) {
        hangup.recv().await;
        return;
    }
    std::future::pending::<()>().await;
}
