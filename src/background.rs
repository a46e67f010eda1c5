//! A thread that sweeps, for those who want one.

use alloc::sync::Arc;
use core::hash::Hash;
use core::time::Duration;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};

use crate::algorithm::Algorithm;
use crate::limiter::Limiter;
use crate::plan::Client;
use crate::registry::Registry;
use crate::time::Clock;

/// A thread that sweeps a limiter. Dropping this stops it, and waits until it has stopped.
#[derive(Debug)]
#[must_use = "the thread stops when this is dropped"]
pub struct Sweeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Looks at up to `budget` clients of `limiter` once in each `every`, and publishes its metrics, if
    /// it has any (feature `metrics`). The thread also stops
    /// when the limiter is gone.
    ///
    /// Not needed to bound memory: newcomers sweep. It gives memory back when nobody new comes.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn spawn<K, A, C, R>(
        limiter: &Arc<Limiter<K, A, C, R>>,
        every: Duration,
        budget: usize,
    ) -> io::Result<Self>
    where
        K: Hash + Eq + Clone + Send + Sync + 'static,
        A: Algorithm,
        C: Clock + Send + Sync + 'static,
        R: Registry<K, Client<A>> + Send + Sync + 'static,
    {
        let limiter = Arc::downgrade(limiter);
        let (stop, stopped) = channel();
        let thread = Builder::new().name("tollgate-sweeper".into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
                let Some(limiter) = limiter.upgrade() else { break };
                limiter.sweep(budget);
                #[cfg(feature = "metrics")]
                limiter.publish_metrics();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        // Hanging up wakes the thread and ends it.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked (a clock or a hash of the user's did) there is nothing to add here.
            let _ = thread.join();
        }
    }
}
