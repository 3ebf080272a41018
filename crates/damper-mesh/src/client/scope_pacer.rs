//! Paces calls by the usage in recent responses.

use super::MeshBackoff;
use crate::document::{MeshDuration, RateLimitUsage, Response, Scope};
use damper_core::deadline::Deadline;
use damper_core::time::{Clock, Seed};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Decides when calls are sent, by the usage and the refusals in recent responses.
///
/// Each limit has its own pace: the global limit, the service's, the user's, a limit without a scope, and each
/// function's. A call waits for all limits that count it. Only a function's limit counts just the calls of that
/// function.
///
/// - A waiting call has a place, which is freed when the call is dropped or gives up. Only a sent call moves the pace.
///   Calls that wake in time are sent in order of arrival. A call that wakes late delays no other: after an interval it
///   has lost its place, and it gets the next one when it asks.
/// - After its wait a call asks again, so a pause that began meanwhile holds it too.
/// - A limit that says it never resets holds no call: no wait would help, and only a further response can say that it changed.
/// - The pause after a refusal ends by time alone. The spacing by usage follows the newest response. A response to an
///   older request can only make it slower.
pub struct ScopePacer<C> {
    state: Mutex<State>,
    /// A deadline that passed when the pacer was created. All times count from there.
    began: Deadline<C>,
    /// The percentage of a limit below which calls are slowed down.
    threshold: u32,
    backoff: MeshBackoff,
    seed: Seed,
}

impl<C: Clock> fmt::Debug for ScopePacer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopePacer").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}

/// Locked for a few steps per call, and per waiting call ahead of it.
#[derive(Default)]
struct State {
    shared: [Pace; SHARED],
    functions: HashMap<String, Pace>,
    waiting: BTreeMap<u64, Waiting>,
    /// The number of the last call that started to wait.
    joined: u64,
    /// The number of the last call that was sent.
    sent: u64,
}

/// The number of limits that count calls of all functions: global, service, user, and without a scope.
const SHARED: usize = 4;

/// The maximum number of functions whose pace is kept.
const FUNCTIONS: usize = 256;

/// A waiting call.
struct Waiting {
    function: Box<str>,
    due: Duration,
}

/// The pace of a limit.
#[derive(Clone, Copy, Default)]
struct Pace {
    /// The earliest time of the next call, because the service refused one.
    paused_until: Duration,
    /// The longest random delay after the pause.
    pause_spread: Duration,
    /// The interval between calls until `ends`.
    interval: Duration,
    /// The earliest time of the next call, unless `ends` comes first.
    next: Duration,
    /// The time at which the limit is unused again, so calls need no spacing.
    ends: Duration,
    /// The longest random delay after `ends`.
    ends_spread: Duration,
    /// The newest request whose response reported usage.
    newest: u64,
}

/// The time at which a call may be sent, and its longest random delay.
///
/// The delay keeps calls from leaving together.
#[derive(Clone, Copy)]
struct Place {
    at: Duration,
    spread: Duration,
}

/// The number of a sent request, which orders the responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent(u64);

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Takes its turn by [`Turn::send`], once it can be sent at once.
    Due,
    /// Waits this long, and asks again.
    Wait(Duration),
    /// Gives up, because the call does not accept this wait.
    GiveUp(Duration),
}

impl Pace {
    /// Returns the first place from `place` on, after earlier calls with these due times.
    ///
    /// A call that is late by an interval counts no more. It would delay every later call until it asks again.
    fn place(&self, mut place: Place, dues: &[Duration], now: Duration) -> Place {
        if self.paused_until > place.at {
            place = Place { at: self.paused_until, spread: self.pause_spread };
        }
        if place.at >= self.ends {
            return place;
        }
        let mut slot = self.next.max(self.paused_until);
        for due in dues.iter().filter(|due| due.saturating_add(self.interval) > now) {
            if *due > slot.max(place.at) {
                break;
            }
            slot = slot.max(*due).saturating_add(self.interval);
        }
        if slot >= self.ends {
            return Place { at: self.ends, spread: self.ends_spread };
        }
        if slot > place.at {
            place = Place { at: slot, spread: Duration::ZERO };
        }
        place
    }

    fn send(&mut self, now: Duration) {
        self.next = now.saturating_add(self.interval);
    }

    fn pause(&mut self, until: Duration, spread: Duration) {
        if until > self.paused_until {
            (self.paused_until, self.pause_spread) = (until, spread);
        }
    }

    /// Spaces calls by `interval` until `ends`.
    fn report(&mut self, Sent(number): Sent, now: Duration, interval: Duration, ends: Duration, spread: Duration) {
        let is_older = number < self.newest;
        self.newest = self.newest.max(number);
        let is_spacing = now < self.ends;
        if is_older && (interval.is_zero() || (is_spacing && interval <= self.interval)) {
            return;
        }
        let least = if is_older && is_spacing { (self.next, self.ends) } else { (Duration::ZERO, Duration::ZERO) };
        self.interval = interval;
        self.next = now.saturating_add(interval).max(least.0);
        self.ends = ends.max(least.1);
        self.ends_spread = spread;
    }

    fn is_free_at(&self, now: Duration) -> bool {
        self.free_at() <= now
    }

    fn free_at(&self) -> Duration {
        self.paused_until.max(self.ends)
    }
}

impl State {
    /// Returns the pace of a function, creating it if necessary.
    fn function(&mut self, function: &str, now: Duration) -> &mut Pace {
        if self.functions.len() >= FUNCTIONS && !self.functions.contains_key(function) {
            self.functions.retain(|_, pace| !pace.is_free_at(now));
            if self.functions.len() >= FUNCTIONS {
                let soonest = self.functions.iter().min_by_key(|(_, pace)| pace.free_at());
                let soonest = soonest.map(|(name, _)| name.clone());
                soonest.map(|name| self.functions.remove(&name));
            }
        }
        self.functions.entry(function.to_owned()).or_default()
    }

    /// Returns the first place of the call with the number `joined`.
    fn place(&self, joined: u64, function: &str, now: Duration) -> Place {
        let dues = |of: Option<&str>| {
            let earlier = self.waiting.range(..joined).map(|(_, waiting)| waiting);
            let counted = earlier.filter(|waiting| of.is_none_or(|function| *waiting.function == *function));
            let mut dues: Vec<_> = counted.map(|waiting| waiting.due).collect();
            dues.sort_unstable();
            dues
        };
        let own = self.functions.get(function).map(|pace| (pace, dues(Some(function))));
        let all = dues(None);
        let mut place = Place { at: now, spread: Duration::ZERO };
        loop {
            let before = place.at;
            place = self.shared.iter().fold(place, |place, pace| pace.place(place, &all, now));
            place = own.iter().fold(place, |place, (pace, dues)| pace.place(place, dues, now));
            // Another limit may not allow the later place.
            if place.at == before {
                return place;
            }
        }
    }

    fn send(&mut self, function: &str, now: Duration) -> Sent {
        self.shared.iter_mut().chain(self.functions.get_mut(function)).for_each(|pace| pace.send(now));
        self.sent += 1;
        Sent(self.sent)
    }
}

impl<C: Clock + Clone> ScopePacer<C> {
    /// Creates a pacer that slows calls down once less than `threshold` percent of a limit is left.
    pub fn new(threshold: u32, backoff: MeshBackoff, seed: Seed, clock: C) -> Self {
        let began = Deadline::with_clock(Duration::ZERO, clock);
        Self { state: Mutex::default(), began, threshold, backoff, seed }
    }

    /// Returns the shortest wait of a call of this function that is made now.
    pub fn peek(&self, function: &str) -> Duration {
        let now = self.now();
        self.lock().place(u64::MAX, function, now).at.saturating_sub(now)
    }

    /// Starts a call.
    pub fn turn<'a>(&'a self, function: &'a str) -> Turn<'a, C> {
        Turn { pacer: self, function, joined: None }
    }

    /// Records the usage or the refusal in the response to a request.
    pub fn note(&self, sent: Sent, function: &str, answer: &Response) {
        let now = self.now();
        if let Some((scope, retry_after)) = answer.refusal() {
            // Such a limit matters until a call passes. Its later reset does not.
            let Some(wait) = retry_after.filter(|wait| *wait != MeshDuration::NEVER) else { return };
            let (shortest, longest) = self.backoff.bounds(wait.duration(), 0);
            let mut state = self.lock();
            let pace = match shared(scope) {
                Some(index) => &mut state.shared[index],
                None => state.function(function, now),
            };
            pace.pause(now.saturating_add(shortest), longest.saturating_sub(shortest));
            return;
        }
        let mut usages = answer.meta.usages().peekable();
        if usages.peek().is_none() {
            return;
        }
        let mut state = self.lock();
        for (scope, usage) in usages {
            let (interval, ends, spread) = self.spacing(usage, now);
            let pace = match shared(scope) {
                Some(index) => &mut state.shared[index],
                // Functions that have enough left need no entry.
                None if interval.is_zero() && !state.functions.contains_key(function) => continue,
                None => state.function(function, now),
            };
            pace.report(sent, now, interval, ends, spread);
        }
    }

    /// Returns the interval, the end and the spread that a usage requires.
    ///
    /// All are zero if enough is left, or if the limit never resets.
    fn spacing(&self, usage: &RateLimitUsage, now: Duration) -> (Duration, Duration, Duration) {
        let resets_in = usage.resets_in.duration();
        match usage.pace(self.threshold) {
            Some(interval) if usage.resets_in != MeshDuration::NEVER => {
                (interval, now.saturating_add(resets_in), self.backoff.part_of(resets_in))
            }
            _ => (Duration::ZERO, Duration::ZERO, Duration::ZERO),
        }
    }

    /// Returns the time since the pacer was created.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the index of the pace that counts calls of all functions, or `None` for a function's limit.
fn shared(scope: Option<Scope>) -> Option<usize> {
    match scope {
        None => Some(0),
        Some(Scope::Global) => Some(1),
        Some(Scope::Service) => Some(2),
        Some(Scope::User) => Some(3),
        Some(Scope::Function) => None,
    }
}

/// A call until it is sent. Dropping it frees its place.
pub struct Turn<'a, C> {
    pacer: &'a ScopePacer<C>,
    function: &'a str,
    /// The number of the call among the waiting ones.
    joined: Option<u64>,
}

impl<C: Clock + Clone> Turn<'_, C> {
    /// Decides the next step, with a wait of at most `longest`.
    pub fn ask(&mut self, longest: Duration) -> Next {
        let Self { pacer, function, joined } = self;
        let now = pacer.now();
        let mut state = pacer.lock();
        let place = state.place(joined.unwrap_or(u64::MAX), function, now);
        let wait = place.at.saturating_sub(now);
        if wait.is_zero() {
            return Next::Due;
        }
        if wait > longest {
            joined.take().map(|joined| state.waiting.remove(&joined));
            return Next::GiveUp(wait);
        }
        let number = *joined.get_or_insert_with(|| {
            state.joined += 1;
            state.joined
        });
        let room = place.spread.min(longest.saturating_sub(wait));
        let due = place.at.saturating_add(drawn(room, pacer.seed.hash_one((number, now))));
        state.waiting.insert(number, Waiting { function: (*function).into(), due });
        Next::Wait(due.saturating_sub(now))
    }

    /// Takes the turn of a call that is sent now, which moves the pace of all others.
    ///
    /// Returns `None` if the call is not due any more, because another one was sent. Then it asks again.
    pub fn send(&mut self) -> Option<Sent> {
        let Self { pacer, function, joined } = self;
        let now = pacer.now();
        let mut state = pacer.lock();
        if state.place(joined.unwrap_or(u64::MAX), function, now).at > now {
            return None;
        }
        joined.take().map(|joined| state.waiting.remove(&joined));
        Some(state.send(function, now))
    }
}

/// Returns a random part of `room`.
pub(super) fn drawn(room: Duration, random: u64) -> Duration {
    let room = u64::try_from(room.as_nanos()).unwrap_or(u64::MAX);
    // The upper half of the product is uniform up to `room`.
    Duration::from_nanos(((u128::from(random) * (u128::from(room) + 1)) >> 64) as u64)
}

impl<C> fmt::Debug for Turn<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("function", &self.function).field("joined", &self.joined).finish_non_exhaustive()
    }
}

impl<C> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        if let Some(joined) = self.joined.take() {
            self.pacer.state.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&joined);
        }
    }
}
