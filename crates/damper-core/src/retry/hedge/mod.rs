//! A second attempt beside a slow first one.

// | file | type |
// |---|---|
// | here | `Hedge`: when and how often a call is hedged, and at what cost |
// | `config` | `HedgeConfig`, its builder and its error |
// | `live_config` | `LiveConfig`: the settings of a hedge in use |
// | `status` | `HedgeStatus`: what a hedge did, and what it did not do |
// | `latencies` | `Latencies`: the latencies of recent calls, and a percentile of them |
// | `hedged_call` | `HedgedCall`: the concurrent attempts of one call; the rules |
// | `future` | `HedgeFuture`: makes the attempts of one call |

mod config;
mod future;
mod hedged_call;
mod latencies;
mod live_config;
mod status;

pub use config::{HedgeConfig, HedgeConfigBuilder};
use future::HedgeFuture;
pub use hedged_call::HedgedCall;
pub use status::HedgeStatus;

use super::{Budget, EveryErr, Failure, RepeatedCall, Unlimited};
use crate::Reads;
use crate::sync::{AtomicU32, AtomicU64, Ordering, SetOnce};
use crate::time::{Clock, DefaultClock, LazyMicros, Sleep};
use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;
use latencies::Latencies;
use live_config::LiveConfig;

const THOUSAND: u32 = 1_000;

/// The most extra requests at once, in thousandths.
const CAPACITY: u32 = 10 * THOUSAND;

/// Makes a second attempt when the first is slow, and takes the first response.
///
/// Use it for calls that may be made twice.
///
/// A few calls in a hundred are slow by chance, and a second attempt is not. The delay before it is a percentile of the
/// recent latency (30 s, at least 200 calls), and at least 1 ms. By default the share of calls that exceed it is three quarters of
/// the allowed [extra requests](HedgeConfigBuilder::max_extra). Over any interval the extra requests are at most
/// the allowed part of the calls, plus 10. So when everything becomes slow, hedges do not make it slower.
///
/// By default it does nothing where more than 1.5 % of the calls are equally slow, because the percentile is then the latency of a slow
/// call. It also does nothing where failures use up the extra requests: inside of a [`Retry`](crate::Retry), which repeats failures, set
/// [`repeat_failures`](HedgeConfigBuilder::repeat_failures) to false. The [status](Hedge::status) shows both.
/// Of 20,000 simulated calls that take 10 ms, or 1 s if they are slow (`tests/core/retry/hedge.rs`):
///
/// | slow calls | failing calls | settings | slow calls with another attempt |
/// |---|---|---|---|
/// | 1 % | none | the default | 100 % |
/// | 3 % | none | the default | 0 % |
/// | 3 % | none | `percentile(0.95)` | 64 % |
/// | 3 % | none | `max_extra(0.05)` | 100 % |
/// | 1 % | 10 % | the default | 23 % |
/// | 1 % | 10 % | `repeat_failures(false)` | 100 % |
///
/// A success ends the call and drops the other attempts. A failure that another attempt may mend starts the next one at
/// once, or at the time that the server [sets](Failure::pushback) for it, as gRPC's pushback does, if that is within 5 minutes. If the
/// server is over its limit, declines a retry or asks for another wait, there are no further attempts. A failure that no attempt
/// mends ends the call. The exception is an error of a hedge: it may be a refusal by a limit of this process, so the
/// first attempt continues. The last failure is the call's.
///
/// A hedge has no deadline. The deadline of the [`Retry`](crate::Retry) around it bounds all attempts.
///
/// Share one `Hedge` by reference or in an `Arc`, one for each kind of call. All latencies are in one histogram of 18
/// kB. Put it inside a [`Retry`](crate::Retry), and give both the same [budget](Hedge::budget), because a hedge is a
/// retry too.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "tokio")] {
/// use damper::retry::{Hedge, HedgeConfig};
///
/// # async fn fetch(_: &str) -> Result<String, std::io::Error> { Ok("page".to_owned()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let hedge = Hedge::new(HedgeConfig::DEFAULT); // at most 2 % more requests
/// let page = hedge.run(|_attempt| fetch("https://example.com/")).await?;
/// # Ok(())
/// # }
/// # run().unwrap(); }
/// ```
#[cfg(feature = "alloc")]
pub struct Hedge<C = DefaultClock, B = Unlimited, V = EveryErr> {
    config: LiveConfig,
    /// Whether the budget counts the calls.
    counts_calls: bool,
    /// It is not set while the delay was always fixed.
    latencies: SetOnce<Latencies>,
    micros: LazyMicros,
    /// The extra requests left, in thousandths.
    allowance: AtomicU32,
    counts: Counts,
    budget: B,
    retryable: V,
    clock: C,
}

/// The extra requests since the hedge was made.
#[derive(Debug)]
struct Counts {
    made: AtomicU64,
    over_allowance: AtomicU64,
    over_budget: AtomicU64,
}

#[cfg(feature = "std")]
impl Hedge {
    /// Creates a hedge without any calls yet, on the [default clock](DefaultClock).
    #[must_use]
    pub fn new(config: HedgeConfig) -> Self {
        Self::with_clock(config, crate::time::Monotonic)
    }
}

impl<C: Clock> Hedge<C> {
    /// Creates a hedge on a clock of your own. Allocates its histogram unless the delay is fixed.
    #[must_use]
    pub fn with_clock(config: HedgeConfig, clock: C) -> Self {
        let hedge = Self {
            config: LiveConfig::new(&config),
            counts_calls: false,
            latencies: SetOnce::new(),
            micros: LazyMicros::new(),
            allowance: AtomicU32::new(CAPACITY),
            counts: Counts {
                made: AtomicU64::new(0),
                over_allowance: AtomicU64::new(0),
                over_budget: AtomicU64::new(0),
            },
            budget: Unlimited,
            retryable: EveryErr,
            clock,
        };
        hedge.set_config(&config);
        hedge
    }
}

impl<C, B, V> Hedge<C, B, V> {
    /// Sets a retry budget that also pays for hedges, by reference or in an `Arc`. Default: [`Unlimited`].
    ///
    /// The hedge does not count calls in it, unless it [is told to](Self::counting_calls). A [`Retry`](crate::Retry) around the hedge does
    /// so, once per call.
    #[must_use]
    pub fn budget<N: Budget>(self, budget: N) -> Hedge<C, N, V> {
        let Self { config, counts_calls, latencies, micros, allowance, counts, retryable, clock, .. } = self;
        Hedge { config, counts_calls, latencies, micros, allowance, counts, budget, retryable, clock }
    }

    /// Counts each call and the outcomes of its attempts in the [budget](Self::budget). Default: it counts none.
    ///
    /// It is for a hedge without a [`Retry`](crate::Retry) around it, whose budget would hear of no failure otherwise. An attempt that fails
    /// counts if another may mend it, or if the server declined another. One that is dropped does not count.
    ///
    /// With a [`RetryThrottle`](super::RetryThrottle) that is the "retry throttling" of gRPC (gRFC A6).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::retry::{Hedge, HedgeConfig, RetryThrottle};
    ///
    /// let hedge = Hedge::new(HedgeConfig::DEFAULT).budget(RetryThrottle::new(10, 0.1)?).counting_calls();
    /// # let _ = hedge;
    /// # }
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    #[must_use]
    pub fn counting_calls(self) -> Self {
        Self { counts_calls: true, ..self }
    }

    /// Sets which outcomes another attempt may mend. Default: [`EveryErr`]. Any other outcome ends the call.
    #[must_use]
    pub fn when<T, E, F: Fn(&Result<T, E>) -> Option<Failure>>(self, failure: F) -> Hedge<C, B, F> {
        let Self { config, counts_calls, latencies, micros, allowance, counts, budget, clock, .. } = self;
        Hedge { config, counts_calls, latencies, micros, allowance, counts, budget, retryable: failure, clock }
    }

    /// Returns the settings in force.
    #[must_use]
    pub fn config(&self) -> HedgeConfig {
        self.config.get()
    }

    /// Changes the settings while calls are made. The latencies and the extra requests that are left stay.
    ///
    /// A call in flight keeps the delay that it waits for. If the delay was fixed until now, it follows the latency once enough calls were seen,
    /// and the histogram is allocated here.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::retry::{Hedge, HedgeConfig};
    ///
    /// let hedge = Hedge::new(HedgeConfig::DEFAULT);
    /// hedge.set_config(&HedgeConfig::builder().max_extra(0.05).build()?);
    /// assert_eq!(hedge.config().max_extra(), 0.05);
    /// # }
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn set_config(&self, config: &HedgeConfig) {
        if config.fixed_delay().is_none() && self.latencies.get().is_none() {
            // Another thread may have set it meanwhile, which does as well.
            _ = self.latencies.set(Box::new(Latencies::new()));
        }
        self.config.set(config);
    }

    /// Returns the clock that measures latencies.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    const fn retryable(&self) -> &V {
        &self.retryable
    }
}

impl<C: Clock, B: Budget, V> Hedge<C, B, V> {
    /// Returns the delay before a hedge now, or `None` if too few calls were seen.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        self.delay_at(self.now())
    }

    /// Returns the delay before a hedge at `now`, in microseconds.
    #[inline]
    fn delay_at(&self, now: u64) -> Option<Duration> {
        if let Some(delay) = self.config.fixed_delay() {
            return Some(delay);
        }
        let exceeding = u64::from(self.config.counts().exceeding_in_millionths());
        match self.latencies.get()?.percentile(now, exceeding) {
            0 => None,
            micros => Some(Duration::from_micros(micros).max(self.config.min_delay())),
        }
    }

    /// Returns how many extra requests were made, how many were not, and the delay. Changes nothing.
    #[must_use]
    pub fn status(&self) -> HedgeStatus {
        // ORDERING: Relaxed, here and where they are counted: the counts publish nothing.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { made, over_allowance, over_budget } = &self.counts;
        HedgeStatus::new(count(made), count(over_allowance), count(over_budget), self.delay(), self.median())
    }

    /// Returns the median of the recent latency, if it is known and the delay follows it.
    fn median(&self) -> Option<Duration> {
        if self.config.fixed_delay().is_some() {
            return None;
        }
        match self.latencies.get()?.median() {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    /// Makes a call, with another attempt if the first is slow or fails.
    ///
    /// The operation gets the attempt's number, starting at 1. Await the result directly with the feature `tokio`, or
    /// choose a sleep with [`sleeping_by`](RepeatedCall::sleeping_by) on another runtime.
    pub fn run<O, F, T, E>(&self, operation: O) -> RepeatedCall<&Self, O>
    where
        V: Reads<Result<T, E>, Option<Failure>>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        RepeatedCall { policy: self, operation }
    }

    /// Counts a call, which allows a part of an extra request.
    fn began(&self, counts_calls: bool) {
        self.give(self.config.counts().extra_in_thousandths());
        if counts_calls {
            self.budget.began();
        }
    }

    /// Counts the outcome of an attempt in the budget.
    fn count(&self, failure: Option<Failure>, is_extra: bool) {
        match failure {
            None if is_extra => self.budget.retry_succeeded(Failure::TRANSIENT),
            None => self.budget.succeeded(),
            Some(failure) if failure.counts() => self.budget.failed(),
            Some(_) => {}
        }
    }

    /// Returns whether an extra request is allowed, and withdraws it from all budgets.
    ///
    /// The budgets are the hedge's and `call_budget`.
    fn try_hedge(&self, call_budget: &impl Budget) -> bool {
        let Counts { made, over_allowance, over_budget } = &self.counts;
        if !self.take() {
            over_allowance.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        // If the second budget refuses, the first one's withdrawal is lost. Of the two that a layer passes, one is
        // `Unlimited`.
        let is_allowed = self.budget.try_withdraw() && call_budget.try_withdraw();
        if !is_allowed {
            self.give(THOUSAND);
        }
        let count = if is_allowed { made } else { over_budget };
        count.fetch_add(1, Ordering::Relaxed);
        is_allowed
    }

    /// Records the latency of a first attempt that ended at `now`, in microseconds.
    ///
    /// The latency of an attempt that was dropped is its age.
    fn record(&self, now: u64, latency: u64) {
        if let Some(latencies) = self.latencies.get() {
            latencies.record(now, latency);
        }
    }

    /// Reads the clock in microseconds.
    fn now(&self) -> u64 {
        self.micros.read(&self.clock).micros
    }

    fn give(&self, thousandths: u32) {
        // ORDERING: Relaxed, here and below, as the word is the whole state.
        // loom-tests: hedge::extra_requests_are_bounded.
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

impl<'a, C: Clock, B: Budget, V, O> RepeatedCall<&'a Hedge<C, B, V>, O> {
    /// Returns a future that makes the call and sleeps by `sleep`, on any runtime.
    pub fn sleeping_by<S, F, T, E>(self, sleep: S) -> HedgeFuture<'a, C, B, V, O, F, S, Result<T, E>>
    where
        S: Sleep,
        V: Reads<Result<T, E>, Option<Failure>>,
        O: FnMut(u32) -> F,
        F: Future<Output = Result<T, E>>,
    {
        HedgeFuture::new(self.policy, self.operation, sleep)
    }
}

/// Sleeps by tokio's timer.
///
/// # Panics
///
/// If it waits for its next attempt outside a tokio runtime with a timer. Elsewhere use
/// [`sleeping_by`](RepeatedCall::sleeping_by).
#[cfg(feature = "tokio")]
impl<'a, C, B, V, O, F, T, E> IntoFuture for RepeatedCall<&'a Hedge<C, B, V>, O>
where
    C: Clock,
    B: Budget,
    V: Reads<Result<T, E>, Option<Failure>>,
    O: FnMut(u32) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, E>;
    type IntoFuture = HedgeFuture<'a, C, B, V, O, F, crate::time::TokioSleep, Result<T, E>>;

    fn into_future(self) -> Self::IntoFuture {
        self.sleeping_by(crate::time::TokioSleep)
    }
}

impl<C, B: fmt::Debug, V> fmt::Debug for Hedge<C, B, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedge").field("config", &self.config).field("budget", &self.budget).finish_non_exhaustive()
    }
}
