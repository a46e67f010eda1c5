//! The strategy seam: what an algorithm is to the limiter, and what most of them are inside.
//!
//! An [`Algorithm`] holds validated parameters; the state of each client is apart from it. Most
//! are [`WordAlgorithm`]s: a pure transition over one packed word, run by the one
//! compare-and-swap loop of the crate. A new algorithm is one new file and one line in `any.rs`.

mod any;
mod constant;
mod fixed_window;
mod in_flight;
mod leaky_bucket;
mod sliding_counter;
mod sliding_log;
mod stack;
mod token_bucket;
mod virtual_time;

use core::fmt::{self, Debug};
use core::time::Duration;

pub use self::any::{AlgorithmKind, AnyAlgorithm, AnyGrant, AnyState, UnknownAlgorithm};
pub use self::constant::Constant;
pub use self::fixed_window::{Anchor, FixedWindow};
pub use self::in_flight::InFlight;
pub use self::leaky_bucket::LeakyBucket;
pub use self::sliding_counter::SlidingCounter;
pub use self::sliding_log::{Log, LogGrant, SlidingLog};
pub use self::stack::{Counts, Limit, Stack, StackError, StackGrant, StackState};
pub use self::token_bucket::TokenBucket;

use crate::carry::Change;
use crate::decision::{LimitReading, Reading, RetryAfter, share};
use crate::quota::Allowance;
use crate::time::Nanos;
use crate::word::{Cell, Frozen, Word};

/// The state was found frozen before a request was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted<G> {
    /// What had been taken from some of several limits by then: for the caller to give back, on
    /// the successor, before it starts over.
    pub taken: Option<G>,
}

impl<G> Interrupted<G> {
    /// With another kind of grant.
    pub(crate) fn map<H>(self, to: impl FnOnce(G) -> H) -> Interrupted<H> {
        Interrupted { taken: self.taken.map(to) }
    }
}

impl<G> From<Frozen> for Interrupted<G> {
    fn from(_: Frozen) -> Self {
        Self { taken: None }
    }
}

impl<G> fmt::Display for Interrupted<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Frozen, f)
    }
}

impl<G: Debug> core::error::Error for Interrupted<G> {}

/// What a check answers: a grant if it admitted, and the reading of the snapshot that decided.
pub type Checked<G> = Result<(Option<G>, Reading), Interrupted<G>>;

/// [`Checked`], with the number of the limit that refused in the place of no grant.
pub type Told<G> = Result<(Result<G, usize>, Reading), Interrupted<G>>;

/// A rate-limiting algorithm with its parameters.
///
/// All methods take the time as an argument. A state met frozen answers [`Frozen`]; the caller
/// gets the state that replaced it and starts over. A state belongs to the algorithm (the same
/// parameters) that made it.
///
/// # Progress
/// Everything here is lock-free; what writes nothing (a refusal, a peek) is wait-free.
pub trait Algorithm: Clone + Send + Sync + 'static {
    /// Its name: where there is a quota, as policies spell it.
    fn name(&self) -> &'static str;

    /// The name of one of its limits, and of that limit's algorithm.
    fn name_of_part(&self, part: usize) -> (&'static str, &'static str) {
        let _ = part;
        (LimitReading::ALONE, self.name())
    }

    /// The state of one client.
    type State: Debug + Send + Sync + 'static;
    /// What an exact refund must know of an admitted request.
    type Grant: Copy + Debug + Send + Sync + 'static;

    /// The most units that can ever be granted at once.
    fn limit(&self) -> u64;

    /// What it grants, for people and header fields.
    fn allowance(&self) -> Allowance;

    /// The state of a client that has used nothing. Requests that claim to be older than `since`
    /// are answered as if made then.
    fn fresh(&self, since: Nanos) -> Self::State;

    /// [`fresh`](Self::fresh) for a client in this hundredth of all clients, 0 to 99: for limits
    /// that are enforced for some of them only.
    fn fresh_in(&self, since: Nanos, hundredth: u8) -> Self::State {
        let _ = hundredth;
        self.fresh(since)
    }

    /// Takes `cost` units whole, or nothing: `None` is a refusal. A refusal writes nothing.
    /// Cost 0 is admitted and charges nothing.
    fn acquire(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
    ) -> Result<Option<Self::Grant>, Interrupted<Self::Grant>>;

    /// [`acquire`](Self::acquire) if that leaves more than `percent` of the limit (of several, the one
    /// with fewest units left); else `None`, and nothing is taken. A word decides it in one step; the
    /// default looks first and takes then, and what others take in between may leave less.
    #[inline]
    fn acquire_leaving(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
        percent: u8,
    ) -> Result<Option<Self::Grant>, Interrupted<Self::Grant>> {
        match self.peek(state, now, cost).leaves(percent, cost) {
            true => self.acquire(state, now, cost),
            false => Ok(None),
        }
    }

    /// [`acquire`](Self::acquire) that tells of a refusal which limit it was that refused first: for
    /// an algorithm with several [`parts`](Self::parts) to tell.
    #[inline]
    fn acquire_or_tell(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
    ) -> Result<Result<Self::Grant, usize>, Interrupted<Self::Grant>> {
        Ok(self.acquire(state, now, cost)?.ok_or(0))
    }

    /// [`acquire`](Self::acquire), with the reading of the snapshot that decided.
    fn check(&self, state: &Self::State, now: Nanos, cost: u64) -> Checked<Self::Grant>;

    /// [`check`](Self::check) that tells the same.
    #[inline]
    fn check_or_tell(&self, state: &Self::State, now: Nanos, cost: u64) -> Told<Self::Grant> {
        let (grant, reading) = self.check(state, now, cost)?;
        Ok((grant.ok_or(0), reading))
    }

    /// [`check`](Self::check) that also notes the reading of each limit there is in it.
    fn check_each(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
        note: &mut dyn FnMut(&LimitReading),
    ) -> Checked<Self::Grant> {
        let (grant, reading) = self.check(state, now, cost)?;
        let more_after = self.peek(state, now, reading.remaining.saturating_add(1)).retry_after;
        note(&LimitReading::new(self.allowance(), reading, more_after));
        Ok((grant, reading))
    }

    /// What [`check`](Self::check) would answer; takes nothing, and reads frozen states too.
    fn peek(&self, state: &Self::State, now: Nanos, cost: u64) -> Reading;

    /// [`peek`](Self::peek) that also notes the reading of each limit there is in it.
    fn peek_each(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
        note: &mut dyn FnMut(&LimitReading),
    ) -> Reading {
        let reading = self.peek(state, now, cost);
        let more_after = self.peek(state, now, reading.remaining.saturating_add(1)).retry_after;
        note(&LimitReading::new(self.allowance(), reading, more_after));
        reading
    }

    /// Whether [`acquire`](Self::acquire) would admit; takes nothing.
    fn would_admit(&self, state: &Self::State, now: Nanos, cost: u64) -> bool;

    /// Gives back what `grant` took, and no more. A grant is refunded once at most.
    fn refund(&self, state: &Self::State, now: Nanos, grant: Self::Grant) -> Result<(), Frozen>;

    /// [`refund`](Self::refund) of a grant made under other parameters, before the state was
    /// [adopted](Self::adopt). Where the grant cannot be told apart any more, nothing is given back.
    fn refund_adopted(
        &self,
        state: &Self::State,
        now: Nanos,
        grant: Self::Grant,
    ) -> Result<(), Frozen>;

    /// The part of `grant` that exceeds `actual` units.
    fn excess(&self, grant: Self::Grant, actual: u64) -> Self::Grant;

    /// Whether a grant is held until its permit ends, and is given back then.
    fn holds(&self) -> bool {
        false
    }

    /// Whether an admitted request may have to wait for its turn.
    fn queues(&self) -> bool {
        false
    }

    /// Gives back what is held until the permit ends, as its permit ended. `adopted` as for
    /// [`refund_adopted`](Self::refund_adopted).
    fn release(
        &self,
        state: &Self::State,
        now: Nanos,
        grant: Self::Grant,
        adopted: bool,
    ) -> Result<(), Frozen> {
        let _ = (state, now, grant, adopted);
        Ok(())
    }

    /// The limits that are not enforced and would have refused what `grant` admitted, a bit for each.
    fn missed(&self, grant: &Self::Grant) -> u8 {
        let _ = grant;
        0
    }

    /// How many limits there are in it. A change that is no decision is made to one at a time: so
    /// none is changed twice if a frozen state comes in between.
    fn parts(&self) -> usize {
        1
    }

    /// What of the grant concerns one limit.
    fn part(&self, grant: Self::Grant, part: usize) -> Self::Grant {
        let _ = part;
        grant
    }

    /// Takes `cost` units (at least 1) at the first time at which they fit, if that comes within
    /// `patience`. Buckets know that time and keep it as a [`Place`]; the others answer as
    /// [`check`](Self::check) does.
    fn reserve(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
        patience: Duration,
    ) -> Result<Turn<Self::Grant>, Interrupted<Self::Grant>> {
        let _ = patience;
        let (grant, reading) = self.check(state, now, cost)?;
        Ok(grant.map_or(Turn::Refused(reading.retry_after), |grant| {
            Turn::Granted(grant, reading.delay)
        }))
    }

    /// A place for `cost` units within one that was given back, if its turn is yet to come and the
    /// state still tells of it; and how long until then.
    fn stand_in(
        &self,
        state: &Self::State,
        place: Place,
        now: Nanos,
        cost: u64,
    ) -> Option<Stand<u128>> {
        let _ = (state, place, now, cost);
        None
    }

    /// Whether nothing was taken after this place.
    fn is_last(&self, state: &Self::State, place: Place) -> bool {
        let _ = (state, place);
        false
    }

    /// Gives a place back, if nothing was taken after it. Whether it did.
    fn leave(&self, state: &Self::State, place: Place) -> Result<bool, Frozen> {
        let _ = (state, place);
        Ok(false)
    }

    /// Gives `amount` units back without a grant, never beyond full.
    fn credit(
        &self,
        state: &Self::State,
        now: Nanos,
        amount: u64,
        part: usize,
    ) -> Result<(), Frozen>;

    /// Charges `cost` units that were used already, into debt if need be. How far the debt can go
    /// is said at each algorithm.
    fn charge(&self, state: &Self::State, now: Nanos, cost: u64, part: usize)
    -> Result<(), Frozen>;

    /// Takes all that is left.
    fn drain(&self, state: &Self::State, now: Nanos) -> Result<(), Frozen>;

    /// Admits nothing before `until`, or before what was the case already. A window stays shut to
    /// the end of the one that `until` lies in, a counter for one window more.
    fn penalize(&self, state: &Self::State, now: Nanos, until: Nanos) -> Result<(), Frozen>;

    /// Units missing from full at `now`, a started one counted whole; debt included. Reads frozen
    /// states too.
    fn owed(&self, state: &Self::State, now: Nanos) -> u64;

    /// Whether the state answers exactly as a fresh one would, at `now` and later.
    fn is_idle(&self, state: &Self::State, now: Nanos) -> bool;

    /// Freezes the state: it never changes again, and stays readable.
    fn freeze(&self, state: &Self::State);

    /// Freezes the state if it answers exactly as a fresh one would, in one atomic step.
    /// Whether this call froze it.
    fn freeze_if_idle(&self, state: &Self::State, now: Nanos) -> bool;

    /// The live state that takes over from a frozen one, with everything the frozen one held.
    /// Whoever meets the frozen state computes the same successor.
    fn successor(&self, frozen: &Self::State) -> Self::State;

    /// The live state under these parameters that takes over from one frozen under `old`.
    fn adopt(&self, old: &Self, frozen: &Self::State, change: Change) -> Self::State;

    /// [`adopt`](Self::adopt) for a client in this hundredth of all clients, which the state under
    /// `old` need not know.
    fn adopt_in(
        &self,
        old: &Self,
        frozen: &Self::State,
        change: Change,
        hundredth: u8,
    ) -> Self::State {
        let _ = hundredth;
        self.adopt(old, frozen, change)
    }

    /// Makes fresh states begin as ones that were there before the parameters changed from `old`:
    /// so it cannot be told whether an idle client was retired before the change.
    fn inherit(&mut self, old: &Self, change: Change);
}

/// The place of one who waits for a bucket: its part of the bucket's virtual time, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<W = u128> {
    pub(crate) start: W,
    pub(crate) end: W,
}

impl<W: Word> Place<W> {
    fn widened(self) -> Place {
        Place { start: self.start.into(), end: self.end.into() }
    }

    /// `None` if no word of this kind can have made it.
    fn narrowed(wide: Place) -> Option<Self> {
        Some(Self { start: W::from_u128(wide.start)?, end: W::from_u128(wide.end)? })
    }
}

/// A place, and how long until its turn.
pub type Stand<W> = (Place<W>, Duration);

/// The answer to a request that can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn<G> {
    /// Taken: it may proceed after so long.
    Granted(G, Duration),
    /// Taken: its turn comes after so long, and until then the place can be given back.
    Reserved(Place, Duration),
    /// Nothing is taken. Then it may be asked again.
    Refused(RetryAfter),
}

/// What a word algorithm must remember for an exact refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The window charged, for algorithms that have windows.
    pub(crate) window: u64,
    /// Units taken.
    pub(crate) amount: u64,
}

/// An algorithm whose state is one packed word, as pure functions of that word.
///
/// `word` is always the payload: what a function gives must not exceed [`Word::MAX`]. Where
/// nothing changes, `None` is given and nothing is written.
pub trait WordAlgorithm: Clone + Send + Sync + 'static {
    /// The integer that holds a client's state.
    type Word: Word;

    /// Its name: where there is a quota, as policies spell it.
    const NAME: &'static str;

    /// The most units that can ever be granted at once.
    fn limit(&self) -> u64;

    /// What it grants, for people and header fields.
    fn allowance(&self) -> Allowance;

    /// The word of a client that has used nothing.
    fn start(&self, since: Nanos) -> Self::Word;

    /// The word after taking `cost` (at least 1) at `now`; `None` if it does not fit. Nothing is
    /// written if the word stays the same.
    fn take(&self, word: Self::Word, now: Nanos, cost: u64) -> Option<(Self::Word, Grant)>;

    /// Whether those who wait can be told their turn: then there is [`stand`](Self::stand).
    const KEEPS_ORDER: bool = false;

    /// The place of `cost` units behind all that was taken, and how long until its turn; none if
    /// that never comes.
    fn stand(&self, word: Self::Word, now: Nanos, cost: u64) -> Option<Stand<Self::Word>> {
        let _ = (word, now, cost);
        None
    }

    /// The first place of `cost` units within `place` whose turn is yet to come, and how long until
    /// then.
    fn stand_in(
        &self,
        place: Place<Self::Word>,
        now: Nanos,
        cost: u64,
    ) -> Option<Stand<Self::Word>> {
        let _ = (place, now, cost);
        None
    }

    /// The word after giving back `grant`, if that changes it.
    fn give_back(&self, word: Self::Word, now: Nanos, grant: Grant) -> Option<Self::Word>;

    /// Whether a grant is held until its permit ends, and is given back then.
    const HOLDS: bool = false;

    /// Whether [`give_back`](Self::give_back) is right for grants made under other parameters too:
    /// not where a grant is tied to a window of its own period.
    const REFUNDS_SURVIVE_CHANGE: bool = false;

    /// The word after giving back `amount` (at least 1) without a grant, if that changes it.
    fn credit(&self, word: Self::Word, now: Nanos, amount: u64) -> Option<Self::Word>;

    /// The word after `cost` units that were used already, into debt as far as the word can tell.
    fn charge(&self, word: Self::Word, now: Nanos, cost: u64) -> Self::Word;

    /// The word that admits nothing before `until`.
    fn penalize(&self, word: Self::Word, now: Nanos, until: Nanos) -> Self::Word;

    /// Units missing from full at `now`, a started one counted whole; debt included.
    fn owed(&self, word: Self::Word, now: Nanos) -> u64;

    /// The word under these parameters for one under `old`.
    fn adopt(&self, old: &Self, word: Self::Word, change: Change) -> Self::Word;

    /// Makes [`start`](Self::start) give what [`adopt`](Self::adopt) gives for a word that was
    /// idle all along. Nothing to do where idle words are idle under any parameters.
    fn inherit(&mut self, old: &Self, change: Change) {
        let _ = (old, change);
    }

    /// Whether the word answers exactly as a fresh one would, at `now` and later.
    fn is_idle(&self, word: Self::Word, now: Nanos) -> bool;

    /// Units that would be admitted at `now`.
    fn remaining(&self, word: Self::Word, now: Nanos) -> u64;

    /// When `cost` would be admitted, seen from `now`; at least 1 ns if [`take`](Self::take)
    /// refuses it.
    fn retry_after(&self, word: Self::Word, now: Nanos, cost: u64) -> RetryAfter;

    /// How long until the word is idle, seen from `now`.
    fn reset_after(&self, word: Self::Word, now: Nanos) -> Duration;

    /// Whether there is a [`delay`](Self::delay).
    fn queues(&self) -> bool {
        false
    }

    /// How long a request admitted at `now`, which found `word`, waits for its turn.
    fn delay(&self, word: Self::Word, now: Nanos) -> Duration {
        let _ = (word, now);
        Duration::ZERO
    }
}

/// Makes a change to one limit after the other, from `done` on, which is how many it was made to: so a
/// caller that met a frozen state goes on where it was.
#[cfg(feature = "std")]
pub(crate) fn each_part(
    parts: usize,
    done: &mut usize,
    mut change: impl FnMut(usize) -> Result<(), Frozen>,
) -> Result<(), Frozen> {
    while *done < parts {
        change(*done)?;
        *done += 1;
    }
    Ok(())
}

/// The word after an acquire, and the grant.
type Taken<W> = (W, Grant);

/// The word that a step found, and what it took.
type Step<W> = (W, Option<Taken<W>>);

/// [`WordAlgorithm::take`] for any cost: 0 changes nothing.
fn take<A: WordAlgorithm>(
    algorithm: &A,
    word: A::Word,
    now: Nanos,
    cost: u64,
) -> Option<Taken<A::Word>> {
    match cost {
        0 => Some((word, Grant { window: 0, amount: 0 })),
        _ => algorithm.take(word, now, cost),
    }
}

/// One step of a cell: the word found and, if admitted, the word left behind.
#[inline]
fn step<A: WordAlgorithm>(
    algorithm: &A,
    state: &Cell<A::Word>,
    now: Nanos,
    cost: u64,
) -> Result<Step<A::Word>, Frozen> {
    state.update(|word| {
        let taken = take(algorithm, word, now, cost);
        (taken.map(|(next, _)| next).filter(|&next| next != word), (word, taken))
    })
}

/// What [`Cell::update`] needs of one step: the word to leave behind if it is another, and the grant.
#[inline]
fn taken_from<W: Word>(word: W, taken: Option<Taken<W>>) -> (Option<W>, Option<Grant>) {
    taken.map_or((None, None), |(next, grant)| ((next != word).then_some(next), Some(grant)))
}

/// Applies a change that is no decision; nothing is written where it changes nothing.
fn change<W: Word>(cell: &Cell<W>, next: impl Fn(W) -> W) -> Result<(), Frozen> {
    cell.update(|word| (Some(next(word)).filter(|&next| next != word), ()))
}

/// The reading of one step: the word found and, if admitted, the word left behind.
#[inline]
fn reading<A: WordAlgorithm>(
    algorithm: &A,
    found: A::Word,
    taken: Option<Taken<A::Word>>,
    now: Nanos,
    cost: u64,
) -> Reading {
    let left = taken.map_or(found, |(next, _)| next);
    Reading {
        admitted: taken.is_some(),
        limit: algorithm.limit(),
        remaining: algorithm.remaining(left, now),
        retry_after: match taken {
            Some(_) => RetryAfter::Now,
            None => algorithm.retry_after(found, now, cost),
        },
        reset_after: algorithm.reset_after(left, now),
        delay: match taken {
            Some(_) if cost > 0 => algorithm.delay(found, now),
            _ => Duration::ZERO,
        },
    }
}

impl<A: WordAlgorithm> Algorithm for A {
    type State = Cell<A::Word>;
    type Grant = Grant;

    fn name(&self) -> &'static str {
        A::NAME
    }

    fn limit(&self) -> u64 {
        WordAlgorithm::limit(self)
    }

    fn allowance(&self) -> Allowance {
        WordAlgorithm::allowance(self)
    }

    fn fresh(&self, since: Nanos) -> Self::State {
        Cell::new(self.start(since))
    }

    #[inline]
    fn acquire(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
    ) -> Result<Option<Grant>, Interrupted<Grant>> {
        Ok(state.update(|word| taken_from(word, take(self, word, now, cost)))?)
    }

    #[inline]
    fn acquire_leaving(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
        percent: u8,
    ) -> Result<Option<Grant>, Interrupted<Grant>> {
        let spare = share(WordAlgorithm::limit(self), percent);
        let Some(least) = cost.checked_add(spare).and_then(|units| units.checked_add(1)) else {
            return Ok(None);
        };
        Ok(state.update(|word| {
            let enough = take(self, word, now, least);
            taken_from(word, enough.and_then(|_| take(self, word, now, cost)))
        })?)
    }

    #[inline]
    fn check(&self, state: &Self::State, now: Nanos, cost: u64) -> Checked<Grant> {
        let (found, taken) = step(self, state, now, cost)?;
        Ok((taken.map(|(_, grant)| grant), reading(self, found, taken, now, cost)))
    }

    fn check_each(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
        note: &mut dyn FnMut(&LimitReading),
    ) -> Checked<Grant> {
        let (found, taken) = step(self, state, now, cost)?;
        let reading = reading(self, found, taken, now, cost);
        let left = taken.map_or(found, |(next, _)| next);
        let more_after = self.retry_after(left, now, reading.remaining.saturating_add(1));
        note(&LimitReading::new(WordAlgorithm::allowance(self), reading, more_after));
        Ok((taken.map(|(_, grant)| grant), reading))
    }

    fn reserve(
        &self,
        state: &Self::State,
        now: Nanos,
        cost: u64,
        patience: Duration,
    ) -> Result<Turn<Grant>, Interrupted<Grant>> {
        if !A::KEEPS_ORDER {
            let (grant, reading) = self.check(state, now, cost)?;
            let refused = Turn::Refused(reading.retry_after);
            return Ok(grant.map_or(refused, |grant| Turn::Granted(grant, reading.delay)));
        }
        Ok(state.update(|word| match self.stand(word, now, cost) {
            None => (None, Turn::Refused(RetryAfter::Never)),
            Some((_, wait)) if wait > patience => (None, Turn::Refused(RetryAfter::After(wait))),
            Some((place, wait)) => (Some(place.end), Turn::Reserved(place.widened(), wait)),
        })?)
    }

    fn stand_in(
        &self,
        state: &Self::State,
        place: Place,
        now: Nanos,
        cost: u64,
    ) -> Option<Stand<u128>> {
        let narrow = Place::narrowed(place)?;
        // A word that has gone back knows nothing of this place.
        if state.load().payload() < narrow.end {
            return None;
        }
        let (stand, wait) = WordAlgorithm::stand_in(self, narrow, now, cost)?;
        Some((stand.widened(), wait))
    }

    fn is_last(&self, state: &Self::State, place: Place) -> bool {
        Place::narrowed(place).is_some_and(|place| state.load().payload() == place.end)
    }

    fn leave(&self, state: &Self::State, place: Place) -> Result<bool, Frozen> {
        let Some(place) = Place::narrowed(place) else { return Ok(false) };
        state.update(|word| {
            let last = word == place.end;
            (last.then_some(place.start), last)
        })
    }

    #[inline]
    fn peek(&self, state: &Self::State, now: Nanos, cost: u64) -> Reading {
        let word = state.load().payload();
        let admitted = take(self, word, now, cost).is_some();
        let found = reading(self, word, None, now, cost);
        Reading {
            admitted,
            retry_after: if admitted { RetryAfter::Now } else { found.retry_after },
            delay: if admitted && cost > 0 { self.delay(word, now) } else { Duration::ZERO },
            ..found
        }
    }

    #[inline]
    fn would_admit(&self, state: &Self::State, now: Nanos, cost: u64) -> bool {
        take(self, state.load().payload(), now, cost).is_some()
    }

    fn refund(&self, state: &Self::State, now: Nanos, grant: Grant) -> Result<(), Frozen> {
        state.update(|word| match grant.amount {
            0 => (None, ()),
            _ => (self.give_back(word, now, grant), ()),
        })
    }

    fn refund_adopted(&self, state: &Self::State, now: Nanos, grant: Grant) -> Result<(), Frozen> {
        if A::REFUNDS_SURVIVE_CHANGE { self.refund(state, now, grant) } else { Ok(()) }
    }

    fn excess(&self, grant: Grant, actual: u64) -> Grant {
        // What is held until the permit ends is given back then.
        let amount = if A::HOLDS { 0 } else { grant.amount.saturating_sub(actual) };
        Grant { amount, ..grant }
    }

    fn holds(&self) -> bool {
        A::HOLDS
    }

    fn queues(&self) -> bool {
        WordAlgorithm::queues(self)
    }

    fn release(
        &self,
        state: &Self::State,
        now: Nanos,
        grant: Grant,
        adopted: bool,
    ) -> Result<(), Frozen> {
        match (A::HOLDS, adopted) {
            (false, _) => Ok(()),
            (true, false) => self.refund(state, now, grant),
            (true, true) => self.refund_adopted(state, now, grant),
        }
    }

    fn credit(&self, state: &Self::State, now: Nanos, amount: u64, _: usize) -> Result<(), Frozen> {
        state.update(|word| match amount {
            0 => (None, ()),
            _ => (WordAlgorithm::credit(self, word, now, amount), ()),
        })
    }

    fn charge(&self, state: &Self::State, now: Nanos, cost: u64, _: usize) -> Result<(), Frozen> {
        change(state, |word| match cost {
            0 => word,
            _ => WordAlgorithm::charge(self, word, now, cost),
        })
    }

    fn drain(&self, state: &Self::State, now: Nanos) -> Result<(), Frozen> {
        change(state, |word| {
            // What nobody holds cannot be released.
            let left = if A::HOLDS { 0 } else { self.remaining(word, now) };
            let taken = take(self, word, now, left);
            taken.map_or(word, |(next, _)| next)
        })
    }

    fn penalize(&self, state: &Self::State, now: Nanos, until: Nanos) -> Result<(), Frozen> {
        change(state, |word| WordAlgorithm::penalize(self, word, now, until))
    }

    fn owed(&self, state: &Self::State, now: Nanos) -> u64 {
        WordAlgorithm::owed(self, state.load().payload(), now)
    }

    fn is_idle(&self, state: &Self::State, now: Nanos) -> bool {
        WordAlgorithm::is_idle(self, state.load().payload(), now)
    }

    fn freeze(&self, state: &Self::State) {
        // Frozen before or by this call: it is the same.
        let _ = state.freeze_if(|_| true);
    }

    fn freeze_if_idle(&self, state: &Self::State, now: Nanos) -> bool {
        state.freeze_if(|word| WordAlgorithm::is_idle(self, word, now)) == Ok(true)
    }

    fn successor(&self, frozen: &Self::State) -> Self::State {
        Cell::new(frozen.load().payload())
    }

    fn adopt(&self, old: &Self, frozen: &Self::State, change: Change) -> Self::State {
        Cell::new(WordAlgorithm::adopt(self, old, frozen.load().payload(), change))
    }

    fn inherit(&mut self, old: &Self, change: Change) {
        WordAlgorithm::inherit(self, old, change);
    }
}
