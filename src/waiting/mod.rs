//! Waiting for a turn: who waits, until when, and what becomes of a wait that is given up.
//!
//! # Buckets
//! A waiter reserves its units in the word, like any other decision, at the first time at which they
//! fit; then it sleeps until that time, once. The word is the queue: turns are in the order of the
//! exchanges, nobody is woken in vain, and whoever does not wait finds the bucket empty until all
//! who do are served. A turn beyond the waiter's patience is not taken.
//!
//! A wait that is dropped before its turn gives its place back: see `places.rs`. In which sense that
//! is exact: nobody's turn is put off; no turn comes sooner than the quota allows, whoever takes
//! which place; when all who waited have given up, the word is as if none had; and a place that is
//! neither taken over before its turn, nor the last, has passed unused, as time does over a full
//! bucket.
//!
//! # Windows and logs
//! They do not know who will use what becomes free. A waiter asks again after the time that its
//! refusal told; of those that wake together the first come are served. `jitter` spreads them.
//!
//! # The cap
//! It is waited for after the client's own turn has come: a client that waits for itself keeps
//! nobody else waiting.

mod line;
mod places;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;
use core::future::{Future, IntoFuture};
use core::hash::{BuildHasher, Hash, Hasher};
use core::pin::Pin;
use core::time::Duration;

use self::line::{Answer, Global, Line, Own, Taken};
use self::places::Places;
use crate::algorithm::Algorithm;
use crate::decision::RetryAfter;
use crate::limiter::Limiter;
use crate::plan::Client;
use crate::registry::Registry;
use crate::tiered::{TierOf, TieredLimiter};
use crate::time::{Clock, Nanos};

/// Places given back that are not the last: of clients, and of the cap.
pub(crate) struct Returned<K> {
    clients: Places<K>,
    cap: Places<()>,
}

impl<K> Default for Returned<K> {
    fn default() -> Self {
        Self { clients: Places::default(), cap: Places::default() }
    }
}

impl<K, A, C, R> Limiter<K, A, C, R>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    C: Clock,
    R: Registry<K, Client<A>>,
{
    /// Waits until `cost` units of this client may pass, and charges them.
    ///
    /// Buckets give each waiter its turn in the order in which the waits began (polled first), and
    /// at most as many as the quota allows; windows and logs are asked again when something may
    /// have become free. The timer is tokio's, whose resolution is a millisecond: a turn comes up
    /// to that much late, and never early. What is given up, by dropping the future, is given back:
    /// a wait for a bucket leaves its place to the next one who comes.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Quota, TokenBucket};
    ///
    /// let quota = Quota::per_second(50)?.with_burst(1)?;
    /// let limiter = Limiter::<String, _>::new(TokenBucket::<u64>::new(quota)?);
    /// limiter.until_allowed("alice", 1).await?; // at once
    /// limiter.until_allowed("alice", 1).within(Duration::from_secs(1)).await?; // after 20 ms
    /// assert!(limiter.until_allowed("alice", 2).await.is_err(), "it never holds 2");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn until_allowed<'a, Q>(&'a self, key: &'a Q, cost: u64) -> Wait<'a, K, Q, A, C, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let (patience, jitter) = (Duration::MAX, Duration::ZERO);
        Wait { limiter: self, key, tier: None, cost, patience, jitter }
    }
}

impl<K, A, C, R, T> TieredLimiter<Limiter<K, A, C, R>, T>
where
    K: Hash + Eq + Clone,
    A: Algorithm,
    C: Clock,
    R: Registry<K, Client<A>>,
{
    /// [`Limiter::until_allowed`] in the client's tier.
    pub fn until_allowed<'a, Q>(&'a self, key: &'a Q, cost: u64) -> Wait<'a, K, Q, A, C, R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        T: TierOf<Q>,
    {
        self.limiter().until_allowed(key, cost).tier(self.tier_of(key))
    }
}

/// A wait, from [`Limiter::until_allowed`]. It begins when it is awaited.
#[must_use = "a wait does nothing unless it is awaited"]
pub struct Wait<'a, K, Q: ?Sized, A: Algorithm, C, R> {
    limiter: &'a Limiter<K, A, C, R>,
    key: &'a Q,
    tier: Option<&'a str>,
    cost: u64,
    patience: Duration,
    jitter: Duration,
}

impl<'a, K, Q, A, C, R> Wait<'a, K, Q, A, C, R>
where
    K: Borrow<Q> + Hash + Eq + Clone,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    A: Algorithm,
    C: Clock,
    R: Registry<K, Client<A>>,
{
    /// Waits at most so long. A turn that is known to come later is not waited for: the error comes
    /// at once.
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// In this tier. If the client is in another one, it moves.
    pub fn tier(self, tier: &'a str) -> Self {
        Self { tier: Some(tier), ..self }
    }

    /// Adds up to so much to each sleep, at random, as far as patience goes: so that what waits for
    /// the same window does not wake at the same time.
    pub fn jitter(self, most: Duration) -> Self {
        Self { jitter: most, ..self }
    }

    async fn until_allowed(self) -> Result<(), WaitError> {
        // What costs nothing is allowed, and makes no state.
        if self.cost == 0 {
            return Ok(());
        }
        let until = self.limiter.now().saturating_add(self.patience);
        let returned = self.limiter.returned();
        let (clients, places) = (self.limiter.all(), &returned.clients);
        let own = Own { clients, places, key: self.key, tier: self.tier };
        let hold = self.turn(&own, until).await?;
        if clients.plans().is_capped() {
            let cap = Global { cap: self.limiter.cap(), places: &returned.cap };
            self.turn(&cap, until).await?.keep();
        }
        hold.keep();
        Ok(())
    }

    /// Waits for a turn in `line`.
    async fn turn<'l, L: Line>(
        &'l self,
        line: &'l L,
        until: Nanos,
    ) -> Result<Hold<'l, L, C>, WaitError> {
        let clock = self.limiter.clock();
        loop {
            let now = clock.now();
            let patience = until.saturating_since(now);
            match line.stand(self.cost, now, patience) {
                Answer::Taken(taken, wait) => {
                    let hold = Hold { line, clock, taken: Some(taken) };
                    self.sleep(wait, patience).await;
                    return Ok(hold);
                }
                Answer::Never { limit } => {
                    return Err(WaitError::Never { cost: self.cost, limit });
                }
                Answer::Refused(retry_after) => {
                    let wait = match retry_after {
                        RetryAfter::After(wait) => wait,
                        // When a permit ends nobody can tell; the others no refusal tells. Asked
                        // again without spinning all the same: tokio sleeps a millisecond.
                        RetryAfter::OnRelease | RetryAfter::Now | RetryAfter::Never => {
                            Duration::from_nanos(1)
                        }
                    };
                    if wait > patience {
                        return Err(WaitError::TooLate { wait, patience });
                    }
                    self.sleep(wait, patience).await;
                }
            }
        }
    }

    async fn sleep(&self, wait: Duration, patience: Duration) {
        if !wait.is_zero() {
            let most = self.jitter.min(patience.saturating_sub(wait));
            tokio::time::sleep(wait.saturating_add(at_random(most))).await;
        }
    }
}

/// From nothing to `most`, evenly.
fn at_random(most: Duration) -> Duration {
    if most.is_zero() {
        return most;
    }
    // Each of these is seeded anew.
    let random = foldhash::fast::RandomState::default().build_hasher().finish();
    most.mul_f64((random >> 32) as f64 / f64::from(u32::MAX)).min(most)
}

/// What was taken of a line, given back unless it is kept.
struct Hold<'l, L: Line, C: Clock> {
    line: &'l L,
    clock: &'l C,
    taken: Option<Taken<L::Grant>>,
}

impl<L: Line, C: Clock> Hold<'_, L, C> {
    fn keep(mut self) {
        self.taken = None;
    }
}

impl<L: Line, C: Clock> Drop for Hold<'_, L, C> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken {
            self.line.leave(taken, self.clock.now());
        }
    }
}

impl<'a, K, Q, A, C, R> IntoFuture for Wait<'a, K, Q, A, C, R>
where
    K: Borrow<Q> + Hash + Eq + Clone + Send + Sync,
    Q: Hash + Eq + ToOwned<Owned = K> + Sync + ?Sized,
    A: Algorithm,
    C: Clock + Sync,
    R: Registry<K, Client<A>> + Sync,
{
    type Output = Result<(), WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.until_allowed())
    }
}

impl<K, Q, A, C, R> fmt::Debug for Wait<'_, K, Q, A, C, R>
where
    Q: fmt::Debug + ?Sized,
    A: Algorithm,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("key", &self.key)
            .field("tier", &self.tier)
            .field("cost", &self.cost)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Why there is nothing to wait for. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// It costs more than the limit can ever grant at once.
    Never {
        /// Units asked for.
        cost: u64,
        /// The most that are granted.
        limit: u64,
    },
    /// The turn comes later than it is waited for.
    TooLate {
        /// How long it would have been.
        wait: Duration,
        /// How much of the patience was left.
        patience: Duration,
    },
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never { cost, limit } => {
                write!(f, "cost {cost} is never granted: at most {limit} at once")
            }
            Self::TooLate { wait, patience } => {
                write!(f, "the turn would come after {wait:?}: expected it within {patience:?}")
            }
        }
    }
}

impl core::error::Error for WaitError {}
