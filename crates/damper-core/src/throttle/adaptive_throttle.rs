//! The throttle: its constructors, calls and permits.
//!
//! The verdicts of the last 30 s are counted in 24 words. Each word has the number of its lap, so the first call of a later lap
//! resets it. The phase of the rule (formula, outage or recovery) and the time of the last call that was sent are a word each.

use super::call_counts::{BucketNumber, CallCounts, CallOutcome, CallSums};
use super::permit::sealed::Throttle;
use super::phase::{Phase, Rule, WHOLE};
use super::{ThrottlePermit, ThrottleStatus, Throttled};
use crate::breaker::Verdict;
use crate::gate::Forecast;
use crate::setting::Live;
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use crate::time::{Clock, DefaultClock, LazyMicros, random};
use crate::{CallError, OutOfRange};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;

/// The time without a sent call after which one is sent, in microseconds.
const PROBE_INTERVAL: u64 = 1_000_000;

/// The most that another thread's clock is ahead, in microseconds: an hour.
///
/// If it is more, the clock has stepped back.
const FURTHEST_AHEAD: u64 = 3_600_000_000;

/// Holds back calls that an overloaded service would reject.
///
/// It follows the adaptive throttling of Google's SRE book.
///
/// A client counts its calls of the last 30 s that have ended, including those that it refused itself, and refuses a call at
/// random with the probability
///
/// ```text
/// (requests − multiplier · accepted) / (requests + 1)
/// ```
///
/// So with the default multiplier of 2 about one rejected call is sent for each accepted one, and a client whose calls are mostly
/// accepted refuses none. In addition to the formula:
///
/// - Below ten calls in 30 s it refuses nothing, except in an outage.
/// - The refused share is at most 0.2 above the share that the service **rejects** of the calls that it gets. The formula alone refuses
///   nearly all calls of a service that rejects more than half of them for reasons of its own, such as one dead replica of two: the
///   fewer are sent, the fewer are accepted. With the bound, a service that accepts 45 % of the calls gets 25 % of them. To send more, set
///   [`max_refused`](Self::max_refused), or a multiplier above 1 / 0.45.
/// - In an **outage**, at least 10 verdicts on the calls of the last 5 s and none accepted, the throttle sends only 1 % at once.
///   The outage lasts until a call is accepted within 3.75 s of its start, however few calls are made. A service that takes more
///   than 5 s to accept a call does not end it.
/// - In a **recovery**, at least 3 such verdicts and 90 % accepted, it doubles the share that it sends each second.
/// - It sends a call whenever none was sent for a second, and 1 % always. So it detects a recovery.
///
/// A breaker refuses all calls for a configured time; a throttle refuses as many as the service rejects, which fits a service
/// that is overloaded but not gone. Count failures caused by overload as rejected: 503, a timeout, no connection. A 429 counts only where all
/// calls share the quota.
///
/// Put it in a `static` or an `Arc`, one for each service. It never locks or allocates.
///
/// # Timeouts
///
/// A call counts when it has ended, at the time at which it began. So put a timeout on calls, well below 5 s: a service that
/// never responds looks healthy until the first calls time out.
///
/// | timeout | an outage in which no call gets a response |
/// |---|---|
/// | up to 3.75 s | is detected after 10 timeouts, and a recovery as soon as calls are accepted |
/// | up to 30 s | is detected by the formula alone, once more than half of the calls of 30 s have timed out or were refused |
/// | longer | the same, but only if 10 calls time out within 1.25 s: they count at the oldest time of the window |
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::CallError;
/// use damper::throttle::AdaptiveThrottle;
///
/// static SEARCH: AdaptiveThrottle = AdaptiveThrottle::new();
///
/// match SEARCH.call(|| "42".parse::<u32>()) {
///     Ok(number) => assert_eq!(number, 42),
///     Err(CallError::Refused(throttled)) => println!("{throttled}"), // throttled, 87 % of the calls are not sent
///     Err(CallError::Failed(error)) => println!("{error}"),
/// }
/// # }
/// ```
pub struct AdaptiveThrottle<C = DefaultClock> {
    counts: CallCounts,
    phase: AtomicU64,
    /// When the last call was sent that might have been refused, in microseconds.
    sent: AtomicU64,
    /// The state of the generator that draws the calls to refuse; 0 before it has a seed.
    random: AtomicU64,
    rule: Live<Rule>,
    micros: LazyMicros,
    clock: C,
}

#[cfg(feature = "std")]
impl AdaptiveThrottle {
    const_unless_loom! {
        /// Creates a throttle that has seen no calls, on the [default clock](DefaultClock).
        #[must_use]
        pub const fn new() -> Self {
            Self::seeded(crate::time::Monotonic, 0)
        }
    }
}

#[cfg(feature = "std")]
impl Default for AdaptiveThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> AdaptiveThrottle<C> {
    const_unless_loom! {
        /// Creates a throttle on a clock of your own.
        ///
        /// The seed makes the calls that this client refuses differ from those of other clients. Use a serial number, or a random
        /// one.
        #[must_use]
        pub const fn with_clock(clock: C, seed: u64) -> Self {
            // Serial numbers differ in few bits.
            Self::seeded(clock, random::scatter(seed, 0) | 1)
        }
    }

    const_unless_loom! {
        const fn seeded(clock: C, seed: u64) -> Self {
            Self {
                counts: CallCounts::new(),
                phase: AtomicU64::new(Phase::Formula.word()),
                sent: AtomicU64::new(0),
                random: AtomicU64::new(seed),
                rule: Live::new(Rule::DEFAULT),
                micros: LazyMicros::new(),
                clock,
            }
        }
    }

    /// Sets how many calls may be made for each accepted one, rounded to thousandths. Default: 2.0.
    ///
    /// `calls` is from 1.0 to 10.0.
    ///
    /// A smaller one spares the service, and refuses more calls that would have succeeded.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::ManualClock;
    /// use damper::throttle::AdaptiveThrottle;
    ///
    /// let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7).multiplier(1.1)?;
    ///
    /// let error = AdaptiveThrottle::with_clock(ManualClock::new(), 7).multiplier(0.5).unwrap_err();
    /// assert_eq!(error.to_string(), "multiplier is 0.5, it must be 1.0 to 10.0");
    /// # let _ = throttle;
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn multiplier(self, calls: f64) -> Result<Self, OutOfRange> {
        self.set_multiplier(calls)?;
        Ok(self)
    }

    /// Sets the largest share of the calls that is refused, rounded to ten-thousandths. Default: 0.99.
    ///
    /// The share is from 0.0, which only counts, to 0.99. It holds in an outage too.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::ManualClock;
    /// use damper::throttle::AdaptiveThrottle;
    ///
    /// let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7).max_refused(0.5)?;
    /// for _ in 0..10 {
    ///     throttle.try_acquire().unwrap().rejected();
    /// }
    /// assert_eq!(throttle.status().share_refused(), 0.5);
    ///
    /// let error = AdaptiveThrottle::with_clock(ManualClock::new(), 7).max_refused(1.0).unwrap_err();
    /// assert_eq!(error.to_string(), "max_refused is 1.0, it must be 0.0 to 0.99");
    /// # Ok::<(), damper::OutOfRange>(())
    /// ```
    pub fn max_refused(self, share: f64) -> Result<Self, OutOfRange> {
        self.set_max_refused(share)?;
        Ok(self)
    }

    /// Changes the [multiplier](Self::multiplier) while calls are made. The counts stay.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is not 1.0 to 10.0. Then nothing has changed.
    pub fn set_multiplier(&self, calls: f64) -> Result<(), OutOfRange> {
        self.rule.update(|rule| rule.with_multiplier(calls))
    }

    /// Changes the [largest share that is refused](Self::max_refused) while calls are made. The counts stay.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if it is not 0.0 to 0.99. Then nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::ManualClock;
    /// use damper::throttle::AdaptiveThrottle;
    ///
    /// let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7);
    /// for _ in 0..10 {
    ///     throttle.try_acquire()?.rejected();
    /// }
    /// assert_eq!(throttle.status().share_refused(), 0.99);
    ///
    /// // All of the calls, whatever the service says, until the cause is known.
    /// throttle.set_max_refused(0.0).unwrap();
    /// assert_eq!(throttle.status().share_refused(), 0.0);
    /// # Ok::<(), damper::throttle::Throttled>(())
    /// ```
    pub fn set_max_refused(&self, share: f64) -> Result<(), OutOfRange> {
        self.rule.update(|rule| rule.with_max_refused(share))
    }

    /// Sets all of the rule.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(super) fn set_rule(&self, rule: Rule) {
        self.rule.set(rule);
    }

    /// Makes one call if the throttle lets it pass. `Err` is a rejection. A panic is no verdict.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E, Throttled>> {
        self.call_with(call, Verdict::of)
    }

    /// Makes one call as [`call`](Self::call) does; `classify` gives the verdict on what it returned.
    ///
    /// A [failure](Verdict::Failure) is a rejection.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever
    /// the verdict.
    #[inline]
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E, Throttled>> {
        let permit = self.try_acquire()?;
        let result = call();
        permit.record(classify(&result));
        result.map_err(CallError::Failed)
    }

    /// Awaits a future if the throttle lets it pass. `Err` is a rejection.
    ///
    /// The future asks the throttle when it is first polled. If it is dropped before it ended, the call counts as not made: put a
    /// timeout *into* the future, and make it an error there.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was.
    pub async fn run<T, E>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, CallError<E, Throttled>> {
        self.run_with(future, Verdict::of).await
    }

    /// Awaits a future as [`run`](Self::run) does; `classify` gives the verdict on what it returned.
    ///
    /// A [failure](Verdict::Failure) is a rejection.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if the future was not polled, [`CallError::Failed`] with its error if it was,
    /// whatever the verdict.
    pub async fn run_with<T, E>(
        &self,
        future: impl Future<Output = Result<T, E>>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E, Throttled>> {
        let permit = self.try_acquire()?;
        let result = future.await;
        permit.record(classify(&result));
        result.map_err(CallError::Failed)
    }

    /// Returns a permit for one call.
    ///
    /// # Errors
    ///
    /// [`Throttled`] if the throttle refuses the call.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::ManualClock;
    /// use damper::throttle::AdaptiveThrottle;
    ///
    /// let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7);
    /// for _ in 0..10 {
    ///     throttle.try_acquire()?.rejected(); // 503
    /// }
    /// assert_eq!(throttle.status().share_refused(), 0.99);
    /// # Ok::<(), damper::throttle::Throttled>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<ThrottlePermit<&Self>, Throttled> {
        self.admit().map(|began| ThrottlePermit::new(self, began))
    }

    /// Returns a permit as [`try_acquire`](Self::try_acquire) does, with its own reference to the throttle.
    ///
    /// The permit can outlive the borrow, as a response body or a spawned task needs.
    ///
    /// # Errors
    ///
    /// [`Throttled`] if the throttle refuses the call.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<ThrottlePermit<Arc<Self>>, Throttled> {
        self.admit().map(|began| ThrottlePermit::new(Arc::clone(self), began))
    }

    /// Returns the counts, and the share of the calls that the throttle refuses. Changes nothing.
    #[must_use]
    pub fn status(&self) -> ThrottleStatus {
        let now = self.micros.read(&self.clock).micros;
        let sums = self.counts.sums(BucketNumber::at(now));
        let (_, refused) = self.judge(self.phase.load(Ordering::Relaxed), &sums, now);
        ThrottleStatus::new(&sums, refused)
    }

    /// Returns the answer that the next call would get now, and changes nothing.
    ///
    /// It looks at the number that would be drawn for that call.
    pub(crate) fn forecast(&self) -> Forecast<Throttled> {
        let now = self.micros.read(&self.clock).micros;
        // ORDERING: Relaxed, as in `admit`.
        let phase = self.phase.load(Ordering::Relaxed);
        let (_, refused) = self.judge(phase, &self.counts.sums(BucketNumber::at(now)), now);
        let random = self.random.load(Ordering::Relaxed);
        if refused == 0 {
            return Forecast::Pass(None);
        }
        if random == 0 {
            // The first number comes from the operating system.
            return Forecast::Unknown;
        }
        let is_drawn = random::below(WHOLE, random::SplitMix::new(random).next()) < refused;
        let probe_in = until_probe(self.sent.load(Ordering::Relaxed), now).filter(|_| is_drawn);
        probe_in.map(|probe_in| Throttled::new(refused, probe_in)).into()
    }

    fn admit(&self) -> Result<BucketNumber, Throttled> {
        let now = self.micros.read(&self.clock).micros;
        let number = BucketNumber::at(now);
        let sums = self.counts.sums(number);
        // ORDERING: Relaxed, here and in the functions below: each word is the whole value, and nothing is published through it.
        // If another thread has changed the phase meanwhile, its change stays.
        let phase = self.phase.load(Ordering::Relaxed);
        let (next, refused) = self.judge(phase, &sums, now);
        if next != phase {
            _ = self.phase.compare_exchange(phase, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        if refused == 0 {
            return Ok(number);
        }
        self.send(refused, now).map(|()| number).map_err(|probe_in| {
            self.counts.count(number, number, CallOutcome::Refused);
            Throttled::new(refused, probe_in)
        })
    }

    /// Returns the word of the next phase, and the share that it refuses.
    fn judge(&self, phase: u64, sums: &CallSums, now: u64) -> (u64, u64) {
        let rule = self.rule.get();
        let phase = Phase::from_word(phase).after(sums, rule, now);
        (phase.word(), phase.refused(sums, rule, now))
    }

    /// Sends a call although a share is refused, or returns the microseconds until a probe is sent.
    fn send(&self, refused: u64, now: u64) -> Result<(), u64> {
        let sent = self.sent.load(Ordering::Relaxed);
        if random::below(WHOLE, self.draw()) >= refused {
            self.sent.store(now, Ordering::Relaxed);
            return Ok(());
        }
        if let Some(left) = until_probe(sent, now) {
            return Err(left);
        }
        // One of the threads that see that the interval is over sends a probe.
        match self.sent.compare_exchange(sent, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(PROBE_INTERVAL),
        }
    }

    fn draw(&self) -> u64 {
        #[cfg(feature = "std")]
        if self.random.load(Ordering::Relaxed) == 0 {
            let seed = random::draw() | 1;
            _ = self.random.compare_exchange(0, seed, Ordering::Relaxed, Ordering::Relaxed);
        }
        random::shared_next(&self.random)
    }
}

/// Returns the microseconds until a probe is sent, by when the last call was sent; `None` if it is time.
fn until_probe(sent: u64, now: u64) -> Option<u64> {
    let since = now.wrapping_sub(sent);
    match PROBE_INTERVAL.checked_sub(since) {
        Some(left) if left > 0 => Some(left),
        // The clock of another thread may be a little ahead of this one's.
        None if since >= u64::MAX - FURTHEST_AHEAD => Some(PROBE_INTERVAL),
        _ => None,
    }
}

impl<C: Clock> Throttle for AdaptiveThrottle<C> {
    #[allow(private_interfaces, reason = "the trait is sealed")]
    #[inline]
    fn count(&self, number: BucketNumber, outcome: CallOutcome) {
        let now = BucketNumber::at(self.micros.read(&self.clock).micros);
        self.counts.count(number, now, outcome);
    }
}

/// Shows only what does not change, without reading the clock.
impl<C> fmt::Debug for AdaptiveThrottle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdaptiveThrottle").field("rule", &self.rule).finish_non_exhaustive()
    }
}
