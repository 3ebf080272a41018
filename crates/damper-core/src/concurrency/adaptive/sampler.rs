//! Measures the calls of one window after another, without a lock, and asks the rule when one is over.
//!
//! The header:
//!
//! ```text
//!  63      21 20        1    0
//! |   END    |   PEAK   | PARITY |
//! ```
//!
//! | field | unit | meaning |
//! |---|---|---|
//! | END | ticks, of which these are the lowest bits | the last tick before the window may end |
//! | PEAK | calls | the most in flight in this window |
//! | PARITY | | of the window's number: which bank its samples go to |
//!
//! A bank:
//!
//! ```text
//!  63    40 39                    0
//! |  CALLS  |   Σ LOG2 OF TICKS    |
//! ```
//!
//! A call that ends adds a sample to the bank of the header that it has loaded, whatever happens meanwhile. A thread that
//! stands between the two for longer adds to a bank that was taken already; the sample is then one of the window after
//! next. Only the thread that has the claim moves the header to the other bank, and then takes the old bank.

use super::log2::{LOG2_BITS, log2_fixed, mean};
use super::{LimitRule, WindowPlan, WindowSummary};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Field, Guarded, Ordering, const_unless_loom};
use crate::time::Clock;
use core::time::Duration;

const PARITY: Field = Field::lowest(1);
const PEAK: Field = PARITY.then(20);
const END: Field = PEAK.then(43);
const _: () = assert!(END.end() == u64::BITS, "fields must tile the word");
const _: () = assert!(super::LimitBounds::HIGHEST as u64 <= PEAK.max(), "a peak is at least a limit that was reached");

const LOG2_SUM: Field = Field::lowest(LOG2_BITS + 24);
const CALLS: Field = LOG2_SUM.then(24);
const _: () = assert!(CALLS.end() == u64::BITS, "fields must tile the word");
const _: () =
    assert!(log2_fixed(u64::MAX) * CALLS.max() <= LOG2_SUM.max(), "the sum of as many calls as are counted fits");

/// Of a bank with half of the calls that it can count: its window ends early. The other half is for calls that end
/// meanwhile.
const HALF_FULL: u64 = 1 << (u64::BITS - 1);

/// The most ticks of a window, for a clock of more than 73 GHz.
const MOST_TICKS: u64 = END.max() / 2;

/// The longest window.
const LONGEST: Duration = Duration::from_secs(60);

/// The samples of every other window.
#[derive(Debug)]
struct Bank {
    successes: AtomicU64,
    overloaded: AtomicU32,
}

impl Bank {
    const_unless_loom! {
        const fn new() -> Self {
            Self { successes: AtomicU64::new(0), overloaded: AtomicU32::new(0) }
        }
    }
}

/// The limit that the measurement follows and sets.
pub(in crate::concurrency) trait Gate {
    fn in_flight(&self) -> u32;
    fn set_limit(&self, limit: u32);
}

/// The rule, and the window that it has planned.
#[derive(Clone, Copy, Debug)]
struct State<R> {
    rule: R,
    plan: WindowPlan,
    /// Whether calls are skipped still.
    is_skipping: bool,
    /// When the plan was made, in ticks; unknown before the first sample.
    planned_at: Option<u64>,
    /// When the window began, in ticks.
    began_at: u64,
    /// Since when no call was refused as far as is known: the plan's beginning, or a later look at the peak.
    quiet_since: u64,
    /// The window's peak before that.
    peak: u32,
}

/// The shared state of the measurement.
#[derive(Debug)]
pub(in crate::concurrency) struct Sampler<R> {
    header: AtomicU64,
    /// The window's ticks, and those that the clock may step back, in END's place. If END is not ahead by fewer than that, the
    /// time is over, or the clock has stepped back too far, or has gone full circle. 0 while calls are skipped, and before the
    /// first.
    span: AtomicU64,
    banks: [Bank; 2],
    /// How many calls the window takes at least; 0 if it may end without.
    fewest: AtomicU32,
    is_claimed: AtomicBool,
    /// Only the thread with the claim changes it, so its lock is free but for those that look at the rule.
    state: Guarded<State<R>>,
}

impl<R> Sampler<R> {
    const_unless_loom! {
        /// Before the first window of this plan.
        pub(in crate::concurrency) const fn new(rule: R, plan: WindowPlan) -> Self {
            Self {
                header: AtomicU64::new(0),
                span: AtomicU64::new(0),
                banks: [Bank::new(), Bank::new()],
                // The first sample begins the window.
                fewest: AtomicU32::new(1),
                is_claimed: AtomicBool::new(false),
                state: Guarded::new(State { rule, plan, is_skipping: true, planned_at: None, began_at: 0, quiet_since: 0, peak: 0 }),
            }
        }
    }
}

impl<R: LimitRule> Sampler<R> {
    /// Records that so many calls were in flight at once.
    #[inline]
    pub(in crate::concurrency) fn saw(&self, in_flight: u32) {
        // ORDERING: Relaxed, here and in `raise`: a peak publishes nothing. One that is recorded while the window changes may
        // be missed; the calls in flight are then the new window's first peak.
        let header = self.header.load(Ordering::Relaxed);
        if PEAK.get(header) < u64::from(in_flight) {
            self.raise(header, in_flight);
        }
    }

    /// Out of line: in a window it is called as often as the peak rises.
    #[cold]
    fn raise(&self, mut header: u64, in_flight: u32) {
        while PEAK.get(header) < u64::from(in_flight) {
            match self.header.compare_exchange_weak(
                header,
                with_peak(header, in_flight),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(newer) => header = newer,
            }
        }
    }

    /// Records a call that succeeded, which began at this tick.
    #[inline]
    pub(in crate::concurrency) fn succeeded(&self, began: u64, clock: &impl Clock, gate: &impl Gate) {
        let now = clock.now();
        // A clock that stepped back has counted nothing.
        let ticks = (now.wrapping_sub(began) as i64).max(0) as u64;
        // ORDERING: Relaxed: counts publish nothing, and a sample of any bank is counted once. loom-tests:
        // adaptive::every_sample_is_counted_once.
        let header = self.header.load(Ordering::Relaxed);
        let sample = CALLS.put(1) | LOG2_SUM.put(log2_fixed(ticks));
        let before = self.bank(header).successes.fetch_add(sample, Ordering::Relaxed);
        if self.may_end(header, now) || before & HALF_FULL != 0 {
            self.end_if_due(clock, gate);
        }
    }

    /// Records a call that the service refused as overloaded, or that timed out.
    #[cold]
    pub(in crate::concurrency) fn overloaded(&self, clock: &impl Clock, gate: &impl Gate) {
        let now = clock.now();
        // ORDERING: Relaxed, as in `succeeded`.
        let header = self.header.load(Ordering::Relaxed);
        self.bank(header).overloaded.fetch_add(1, Ordering::Relaxed);
        if self.may_end(header, now) {
            self.end_if_due(clock, gate);
        }
    }

    /// Returns the rule as it is now.
    pub(in crate::concurrency) fn rule(&self) -> R {
        self.state.read(|state| state.rule)
    }

    /// Whether the time of the window is over, or it has none.
    #[inline]
    fn may_end(&self, header: u64, now: u64) -> bool {
        // ORDERING: Relaxed: with the span of another window this is a guess, which is made again with the claim.
        header.wrapping_sub(END.put(now)) >= self.span.load(Ordering::Relaxed)
    }

    #[inline]
    fn bank(&self, header: u64) -> &Bank {
        &self.banks[PARITY.get(header) as usize]
    }

    /// Ends the window if it has enough calls, unless another thread does.
    #[cold]
    fn end_if_due(&self, clock: &impl Clock, gate: &impl Gate) {
        // ORDERING: Relaxed, here and in `calls`: a first look, which is repeated with the claim.
        let header = self.header.load(Ordering::Relaxed);
        if self.calls(header) < self.fewest.load(Ordering::Relaxed) && !self.is_half_full(header) {
            return;
        }
        let Some(_claim) = Claim::of(&self.is_claimed) else { return };
        // This thread sees the writes of the last holder of the claim: see `Claim::of`. That thread may have begun a window after
        // this one last read the clock.
        let now = clock.now();
        let header = self.header.load(Ordering::Relaxed);
        let is_half_full = self.is_half_full(header);
        if !self.may_end(header, now) && !is_half_full {
            return;
        }
        let state = self.state.read(|state| *state);
        let ticks = Ticks::of(clock);
        let fewest = if state.is_skipping { state.plan.skip.max(1) } else { state.plan.samples };
        if self.calls(header) >= fewest || is_half_full {
            if state.is_skipping {
                self.begin(state, now, ticks, gate);
            } else {
                self.end(state, now, ticks, gate);
            }
        } else if let Some(patience) = state.plan.unless_full
            && state.planned_at.is_some()
            && ticks.elapsed(state.quiet_since, now) >= patience
        {
            if PEAK.get(header) < u64::from(state.plan.limit) {
                self.end(state, now, ticks, gate);
            } else {
                self.be_patient(state, now, gate);
            }
        }
    }

    /// Forgets the peak, which was full, so that the next look finds out whether calls are still refused.
    fn be_patient(&self, mut state: State<R>, now: u64, gate: &impl Gate) {
        // ORDERING: Relaxed, as in `raise`.
        let mut header = self.header.load(Ordering::Relaxed);
        while let Err(newer) = self.header.compare_exchange_weak(
            header,
            with_peak(header, gate.in_flight()),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            header = newer;
        }
        state.peak = state.peak.max(PEAK.get(header) as u32);
        state.quiet_since = now;
        self.prepare(state);
    }

    /// Begins to measure, after as many calls were skipped as were to be.
    fn begin(&self, mut state: State<R>, now: u64, ticks: Ticks, gate: &impl Gate) {
        state.is_skipping = false;
        state.began_at = now;
        if state.planned_at.is_none() {
            state.planned_at = Some(now);
            state.quiet_since = now;
        }
        state.peak = 0;
        self.prepare(state);
        let length = ticks.in_window(state.plan.length);
        let header = self.advance(now, length, gate);
        self.bank(header).take();
        self.set_span(length, ticks);
    }

    /// Ends the window, and does what the rule plans.
    fn end(&self, mut state: State<R>, now: u64, ticks: Ticks, gate: &impl Gate) {
        // The other threads go on in the next window meanwhile, of the old plan. That it is if the rule panics.
        let header = self.advance(now, ticks.in_window(state.plan.length), gate);
        let (mut successes, log2_sum, mut overloaded) = self.bank(header).take();
        if state.is_skipping {
            // Its patience ended first. The calls began under another limit.
            (successes, overloaded) = (0, 0);
        }
        let window = WindowSummary {
            successes,
            overloaded,
            log2_latency: (successes > 0).then(|| mean(log2_sum, successes) - ticks.log2_per_micro()),
            peak_in_flight: state.peak.max(PEAK.get(header) as u32),
            in_flight: gate.in_flight(),
            length: if state.is_skipping { Duration::ZERO } else { ticks.elapsed(state.began_at, now) },
            since_plan: state.planned_at.map_or(Duration::ZERO, |planned_at| ticks.elapsed(planned_at, now)),
        };
        state.plan = state.rule.next(&window).held();
        state.planned_at = Some(now);
        state.began_at = now;
        state.quiet_since = now;
        state.peak = 0;
        state.is_skipping = state.plan.skip > 0;
        self.prepare(state);
        let length = if state.is_skipping { 0 } else { ticks.in_window(state.plan.length) };
        self.end_after(now, length);
        self.set_span(length, ticks);
        // Last, because it wakes the calls that are let in, and their wakers may panic.
        gate.set_limit(state.plan.limit);
    }

    /// Replaces the state, before the header says that it holds.
    fn prepare(&self, state: State<R>) {
        let fewest = match state.plan {
            WindowPlan { unless_full: Some(_), .. } => 0,
            plan if state.is_skipping => plan.skip,
            plan => plan.samples,
        };
        // ORDERING: Relaxed: a thread that reads another number tries the claim needlessly, or leaves it to the next one.
        self.fewest.store(fewest, Ordering::Relaxed);
        self.state.write(|current| *current = state);
    }

    fn set_span(&self, length: u64, ticks: Ticks) {
        let span = if length == 0 { 0 } else { length + ticks.step_back };
        // ORDERING: Relaxed, as in `may_end`; with the claim, which orders it.
        self.span.store(END.put(span), Ordering::Relaxed);
    }

    /// Moves on to the other bank, for so many ticks, and returns the header of the window that is over.
    fn advance(&self, now: u64, ticks: u64, gate: &impl Gate) -> u64 {
        // ORDERING: Relaxed, here and in `end_after`: other holders of the claim see it by the claim, and a sample may go to either
        // bank.
        let mut header = self.header.load(Ordering::Relaxed);
        loop {
            let parity = PARITY.put(PARITY.get(header) + 1);
            let next = with_peak(ending(now, ticks) | parity, gate.in_flight());
            match self.header.compare_exchange_weak(header, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(over) => return over,
                Err(newer) => header = newer,
            }
        }
    }

    /// Lets the window last for so many ticks.
    fn end_after(&self, now: u64, ticks: u64) {
        let mut header = self.header.load(Ordering::Relaxed);
        loop {
            let next = ending(now, ticks) | PARITY.put(PARITY.get(header)) | PEAK.put(PEAK.get(header));
            match self.header.compare_exchange_weak(header, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => header = newer,
            }
        }
    }

    /// Whether the window of this header has as many calls as end it early.
    fn is_half_full(&self, header: u64) -> bool {
        self.bank(header).successes.load(Ordering::Relaxed) & HALF_FULL != 0
    }

    /// The calls that have ended in the window of this header.
    fn calls(&self, header: u64) -> u32 {
        let bank = self.bank(header);
        let successes = CALLS.get(bank.successes.load(Ordering::Relaxed)) as u32;
        successes.saturating_add(bank.overloaded.load(Ordering::Relaxed))
    }
}

/// The header with this peak, or the highest that fits.
const fn with_peak(header: u64, in_flight: u32) -> u64 {
    let peak = if in_flight as u64 > PEAK.max() { PEAK.max() } else { in_flight as u64 };
    header & !PEAK.put(PEAK.max()) | PEAK.put(peak)
}

/// The END of a window that lasts for so many ticks from now on.
const fn ending(now: u64, ticks: u64) -> u64 {
    END.put(now.wrapping_add(ticks).wrapping_sub(1))
}

impl Bank {
    /// Empties the bank, and returns its successes, the sum of their logarithms, and its overloaded calls.
    fn take(&self) -> (u32, u64, u32) {
        // ORDERING: Relaxed: the swap takes what is there, once. A load and a store would lose what comes in between. loom-tests:
        // adaptive::every_sample_is_counted_once.
        let successes = self.successes.swap(0, Ordering::Relaxed);
        (CALLS.get(successes) as u32, LOG2_SUM.get(successes), self.overloaded.swap(0, Ordering::Relaxed))
    }
}

/// The right to end a window, of one thread at a time. Given back when it is dropped, also by a panic.
struct Claim<'a>(&'a AtomicBool);

impl<'a> Claim<'a> {
    fn of(is_claimed: &'a AtomicBool) -> Option<Self> {
        // ORDERING: Acquire pairs with the Release in `drop`: this thread sees the header and the state that the last holder
        // has left. loom-tests: adaptive::no_window_ends_before_its_time, adaptive::no_window_ends_twice.
        is_claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok().then(|| Self(is_claimed))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // ORDERING: Release, as in `of`.
        self.0.store(false, Ordering::Release);
    }
}

/// The ticks of a clock, to convert them where a window ends.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    frequency: u64,
    /// How many the clock may step back; no more than leave room for END to be behind.
    step_back: u64,
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl Ticks {
    fn of(clock: &impl Clock) -> Self {
        Self { frequency: clock.frequency(), step_back: clock.max_step_back().min(MOST_TICKS / 2) }
    }

    /// The ticks of a window of this length, rounded up.
    fn in_window(self, length: Duration) -> u64 {
        let ticks = (length.min(LONGEST).as_nanos() * u128::from(self.frequency)).div_ceil(NANOS_PER_SECOND);
        u64::try_from(ticks).unwrap_or(MOST_TICKS).min(MOST_TICKS)
    }

    /// The time between two readings, rounded down; none if the clock stepped back or stands still.
    fn elapsed(self, from: u64, to: u64) -> Duration {
        let ticks = (to.wrapping_sub(from) as i64).max(0) as u128;
        let nanos = (ticks * NANOS_PER_SECOND).checked_div(self.frequency.into()).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The binary logarithm of the ticks in a microsecond.
    fn log2_per_micro(self) -> f64 {
        const LOG2_OF_A_MILLION: f64 = 19.931_568_569_324_174;
        mean(log2_fixed(self.frequency), 1) - LOG2_OF_A_MILLION
    }
}

#[cfg(test)]
mod tests;
