//! When a call is hedged, how often, and what that may cost.

use super::latencies::Latencies;
use super::{HedgeConfig, HedgeFuture};
use crate::retry::{AnyError, Budget, Failure, Retryable, Unlimited};
use crate::sync::{AtomicU32, Ordering};
use crate::time::{Clock, DefaultClock, LazyMicros, Sleep};
use core::fmt;
use core::time::Duration;

const THOUSAND: u32 = 1_000;

/// The extra requests that there may be at once, in thousandths.
const CAPACITY: u32 = 10 * THOUSAND;

/// Makes a second attempt where the first one takes longer than most calls do, and takes the answer that comes first: for
/// calls that may be made twice.
///
/// A few calls in a hundred are slow because of where they happened to go, and a second attempt is not. The delay before
/// it is that percentile of the recent latency (30 s, at least 200 calls) which three quarters of the
/// [extra requests](super::HedgeConfigBuilder::max_extra) allowed will exceed, at least 1 ms. Over any interval the extra
/// requests are at most that part of the calls, and 10: so when everything becomes slow, hedges do not make it slower.
///
/// A success ends the call and drops the other attempts. A failure that another attempt may mend starts the next one at
/// once, unless the server asked for a wait or is over a limit: then there are no further attempts. A failure that no attempt
/// mends ends the call, but for the error of a hedge: that may be a refusal by a limit of this process, and leaves the
/// first attempt alone. The last failure is the call's.
///
/// A hedge has no deadline of its own: that of the [`Retry`](crate::Retry) around it holds for all attempts.
///
/// Share one `Hedge` by reference or in an `Arc`, one for each kind of call: the latencies of all are in one histogram, of 18
/// kB. Put it inside of a [`Retry`](crate::Retry), and give both the same [budget](Hedge::budget): a hedge is a retry, too.
///
/// # Examples
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use damper::retry::{Hedge, HedgeConfig};
///
/// # async fn fetch(_: &str) -> Result<String, std::io::Error> { Ok("page".to_owned()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hedge = Hedge::new(HedgeConfig::DEFAULT); // at most 2 % more requests
/// let page = hedge.run(|_attempt| fetch("https://example.com/")).await?;
/// # Ok(())
/// # }
/// ```
pub struct Hedge<C = DefaultClock, B = Unlimited, V = AnyError> {
    config: HedgeConfig,
    /// None where the delay is fixed.
    latencies: Option<Latencies>,
    micros: LazyMicros,
    /// What is left of the extra requests, in thousandths.
    allowance: AtomicU32,
    budget: B,
    retryable: V,
    clock: C,
}

#[cfg(feature = "std")]
impl Hedge {
    /// Creates a hedge on the [default clock](DefaultClock) that has seen no calls yet.
    #[must_use]
    pub fn new(config: HedgeConfig) -> Self {
        Self::with_clock(config, crate::time::Monotonic)
    }
}

impl<C: Clock> Hedge<C> {
    /// Creates a hedge on a clock of your own. Allocates its histogram, if the
    /// delay is not fixed.
    #[must_use]
    pub fn with_clock(config: HedgeConfig, clock: C) -> Self {
        Self {
            config,
            latencies: config.fixed_delay().is_none().then(Latencies::new),
            micros: LazyMicros::new(),
            allowance: AtomicU32::new(CAPACITY),
            budget: Unlimited,
            retryable: AnyError,
            clock,
        }
    }
}

impl<C, B, V> Hedge<C, B, V> {
    /// Sets the budget of retries that hedges are taken from too, by reference or in an `Arc`. Default: [`Unlimited`].
    ///
    /// Calls are not counted in it: a [`Retry`](crate::Retry) around the hedge does that, once.
    #[must_use]
    pub fn budget<N: Budget>(self, budget: N) -> Hedge<C, N, V> {
        let Self { config, latencies, micros, allowance, retryable, clock, .. } = self;
        Hedge { config, latencies, micros, allowance, budget, retryable, clock }
    }

    /// Sets which outcomes another attempt may mend. Default: [`AnyError`]. Any other outcome ends the call.
    #[must_use]
    pub fn when<T, E, F: Fn(&Result<T, E>) -> Option<Failure>>(self, failure: F) -> Hedge<C, B, F> {
        let Self { config, latencies, micros, allowance, budget, clock, .. } = self;
        Hedge { config, latencies, micros, allowance, budget, retryable: failure, clock }
    }

    /// Returns the settings.
    #[must_use]
    pub const fn config(&self) -> &HedgeConfig {
        &self.config
    }

    /// Returns the clock that latencies are measured on.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    pub(super) const fn retryable(&self) -> &V {
        &self.retryable
    }
}

impl<C: Clock, B: Budget, V> Hedge<C, B, V> {
    /// Returns after which time a call is hedged now; `None` while too few calls were seen to say.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        if let Some(delay) = self.config.fixed_delay() {
            return Some(delay);
        }
        // Three quarters of what is allowed, in millionths.
        let exceeding = u64::from(self.config.extra_in_thousandths()) * 750;
        match self.latencies.as_ref()?.percentile(self.now(), exceeding) {
            0 => None,
            micros => Some(Duration::from_micros(micros).max(self.config.min_delay())),
        }
    }

    /// Calls, and makes another attempt where the first is slow or fails; the operation gets the attempt's number, from 1.
    /// Await it as it is where the feature `tokio` is on, or name what to [sleep by](HedgeRun::sleeping_by) on another runtime.
    pub fn run<O, F, T, E>(&self, operation: O) -> HedgeRun<'_, C, B, V, O>
    where
        V: Retryable<T, E>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        HedgeRun { hedge: self, operation }
    }

    /// Counts a call, which allows a part of an extra request.
    pub(super) fn began(&self) {
        self.give(self.config.extra_in_thousandths());
    }

    /// Returns whether an extra request may be made, and takes it from both budgets.
    pub(super) fn try_hedge(&self) -> bool {
        if !self.take() {
            return false;
        }
        let is_allowed = self.budget.try_withdraw();
        if !is_allowed {
            self.give(THOUSAND);
        }
        is_allowed
    }

    /// Records how long a first attempt took, or has taken when it was dropped.
    pub(super) fn record(&self, latency: Duration) {
        if let Some(latencies) = &self.latencies {
            latencies.record(self.now(), u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// The clock in microseconds.
    pub(super) fn now(&self) -> u64 {
        self.micros.read(&self.clock).micros
    }

    fn give(&self, thousandths: u32) {
        // ORDERING: Relaxed, here and below: the word is the whole state. loom-tests: hedge::extra_requests_are_bounded.
        let mut allowance = self.allowance.load(Ordering::Relaxed);
        while allowance < CAPACITY {
            let more = (allowance + thousandths).min(CAPACITY);
            match self.allowance.compare_exchange_weak(allowance, more, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(present) => allowance = present,
            }
        }
    }

    fn take(&self) -> bool {
        let mut allowance = self.allowance.load(Ordering::Relaxed);
        while let Some(less) = allowance.checked_sub(THOUSAND) {
            match self.allowance.compare_exchange_weak(allowance, less, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(present) => allowance = present,
            }
        }
        false
    }
}

/// A call that is hedged. Made by [`Hedge::run`].
///
/// Nothing is called before it is awaited.
#[must_use = "nothing is called before it is awaited"]
pub struct HedgeRun<'a, C, B, V, O> {
    hedge: &'a Hedge<C, B, V>,
    operation: O,
}

impl<'a, C: Clock, B: Budget, V, O> HedgeRun<'a, C, B, V, O> {
    /// Returns a future that makes the call and sleeps by `sleep`, on any runtime.
    pub fn sleeping_by<S, F, T, E>(self, sleep: S) -> HedgeFuture<'a, C, B, V, O, F, S, Result<T, E>>
    where
        S: Sleep,
        V: Retryable<T, E>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        HedgeFuture::new(self.hedge, self.operation, sleep)
    }
}

/// Sleeps by tokio's timer.
///
/// # Panics
///
/// Polled outside of a tokio runtime whose timer is enabled, once it waits for its next attempt. Elsewhere: [`sleeping_by`](HedgeRun::sleeping_by).
#[cfg(feature = "tokio")]
impl<'a, C, B, V, O, F, T, E> IntoFuture for HedgeRun<'a, C, B, V, O>
where
    C: Clock,
    B: Budget,
    V: Retryable<T, E>,
    O: FnMut(u32) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, E>;
    type IntoFuture = HedgeFuture<'a, C, B, V, O, F, crate::time::TokioSleep, Result<T, E>>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(crate::time::TokioSleep)
    }
}

impl<C, B, V, O> fmt::Debug for HedgeRun<'_, C, B, V, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HedgeRun").finish_non_exhaustive()
    }
}

impl<C, B: fmt::Debug, V> fmt::Debug for Hedge<C, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedge").field("config", &self.config).field("budget", &self.budget).finish_non_exhaustive()
    }
}
