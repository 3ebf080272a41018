//! Slows calls down before the limit is reached.

use crate::document::{Meta, RateLimitUsage, Response, Scope, ScopedUsages};
use damper_core::deadline::Deadline;
use damper_core::store::LruStore;
use damper_core::time::Clock;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// When the next call may be made, by what answers said last.
///
/// The usage of one function is kept apart, so that a function which is over its limit slows no other down. A usage
/// without a scope counts for the function that was called.
pub(super) struct Pacer<C> {
    all: Lane<C>,
    /// There is one for every capacity that is not 0.
    functions: Option<LruStore<String, Lane<C>>>,
    /// The percentage of a limit below which calls are slowed down.
    threshold: u32,
    longest: Duration,
    clock: C,
}

/// The functions whose usage is remembered.
const FUNCTIONS: usize = 256;

/// The calls that one report is about. The lock is held for a few instructions.
struct Lane<C>(Mutex<Pace<C>>);

/// By what the next call is spaced.
struct Pace<C> {
    /// The interval between calls.
    interval: Duration,
    /// When the next call may be made: a deadline that passes then.
    next: Deadline<C>,
    /// When the limit is unused again, so that no call has to wait.
    ends: Deadline<C>,
}

impl<C: Clock + Clone> Lane<C> {
    fn new(clock: &C) -> Self {
        let now = Deadline::with_clock(Duration::ZERO, clock.clone());
        Self(Mutex::new(Pace { interval: Duration::ZERO, next: now.clone(), ends: now }))
    }

    /// Takes a place among the calls, and returns the wait until it is due.
    fn take(&self, clock: &C) -> Duration {
        let mut pace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = pace.next.remaining().min(pace.ends.remaining());
        pace.next = Deadline::with_clock(wait.saturating_add(pace.interval), clock.clone());
        wait
    }

    /// Spaces calls by `interval` until the limit is unused again, and lets the next one wait for so long.
    fn space(&self, interval: Duration, next_in: Duration, ends_in: Duration, clock: &C) {
        let deadline = |duration| Deadline::with_clock(duration, clock.clone());
        let mut pace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls that have a place already keep it.
        let taken = pace.next.remaining().min(pace.ends.remaining());
        *pace = Pace { interval, next: deadline(taken.max(next_in)), ends: deadline(ends_in) };
    }
}

impl<C: Clock + Clone> Pacer<C> {
    pub(super) fn new(threshold: u32, longest: Duration, clock: C) -> Self {
        let functions = LruStore::new(FUNCTIONS).ok();
        Self { all: Lane::new(&clock), functions, threshold, longest, clock }
    }

    fn lane(&self, function: &str) -> Option<Arc<Lane<C>>> {
        self.functions.as_ref().map(|functions| functions.get_or_insert_with(function, || Lane::new(&self.clock)))
    }

    /// Returns how long a call of this function waits.
    pub(super) fn wait(&self, function: &str) -> Duration {
        let known = self.functions.as_ref().and_then(|functions| functions.get(function));
        let own = known.map_or(Duration::ZERO, |lane| lane.take(&self.clock));
        own.max(self.all.take(&self.clock)).min(self.longest)
    }

    /// Notes what an answer to a call of this function says of its limits.
    pub(super) fn note(&self, function: &str, answer: &Response) {
        // A refusal names its wait. How long the limit takes until nothing of it is used does not matter then.
        if let Ok(Some(limited)) = answer.rate_limited() {
            let wait = limited.retry_after.map_or(Duration::ZERO, |wait| wait.duration());
            let pause = |lane: &Lane<C>| lane.space(Duration::ZERO, wait, wait, &self.clock);
            match limited.scope {
                Some(Scope::Global | Scope::Service | Scope::User) => pause(&self.all),
                Some(Scope::Function) | None => _ = self.lane(function).map(|lane| pause(&lane)),
            }
            return;
        }
        let Meta { rate_limit, rate_limits: ScopedUsages { global, service, function: own, user }, .. } = &answer.meta;
        if (rate_limit.is_some() || own.is_some())
            && let Some(lane) = self.lane(function)
        {
            self.slow(&lane, [rate_limit, own]);
        }
        if global.is_some() || service.is_some() || user.is_some() {
            self.slow(&self.all, [global, service, user]);
        }
    }

    /// Spaces calls as the tightest of the limits asks for, or not at all where all have enough left.
    fn slow<const N: usize>(&self, lane: &Lane<C>, usages: [&Option<RateLimitUsage>; N]) {
        let paces = usages.into_iter().flatten().filter_map(|usage| Some((usage.pace(self.threshold)?, usage)));
        let (interval, ends_in) = paces.max_by_key(|(interval, _)| *interval).map_or_else(
            || (Duration::ZERO, Duration::ZERO),
            |(interval, usage)| (interval.min(self.longest), usage.resets_in.duration()),
        );
        lane.space(interval, interval, ends_in, &self.clock);
    }
}
