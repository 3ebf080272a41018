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
//! |  CALLS  | Σ LOG2 OF 2 · TICKS  |
//! ```
//!
//! Twice the ticks, so that half a tick has a logarithm of 0. On a coarse clock a call may take no tick. It counts as half of the
//! least latency of another call, because a logarithm of 0 ticks or of a nanosecond would outweigh all others.
//!
//! A call that ends adds a sample to the bank of the header that it has loaded, even if the header has changed since. A thread
//! that is stopped between the two may add to a bank that was already taken; the sample then counts in the window after next.
//! Only the thread that has the claim moves the header to the other bank. Then it takes the old bank: it swaps the sums for 0, so
//! that each sample is counted once.

use super::log2::{FRACTION_BITS, LOG2_BITS, log2_fixed, mean};
use super::rule::is_another;
use super::{BoundedRule, LimitBounds, LimitRule, WindowPlan, WindowSummary};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Claim, Field, Guarded, Ordering, const_unless_loom};
use crate::time::Clock;
use core::time::Duration;

/// The header of an adaptive limit's window.
const PARITY: Field = Field::lowest(1);
const PEAK: Field = PARITY.then(20);
const END: Field = PEAK.then(43);
const _: () = assert!(END.end() == u64::BITS, "fields must tile the word");
const _: () = assert!(super::LimitBounds::HIGHEST as u64 <= PEAK.max(), "a peak is at least a limit that was reached");

/// A bank of an adaptive limit's samples.
const LOG2_SUM: Field = Field::lowest(LOG2_BITS + 24);
const CALLS: Field = LOG2_SUM.then(24);
const _: () = assert!(CALLS.end() == u64::BITS, "fields must tile the word");
const _: () = assert!(
    (log2_fixed(MOST_LATENCY) + DOUBLED) * CALLS.max() <= LOG2_SUM.max(),
    "the sum of as many calls as are counted fits"
);

/// The highest latency in ticks. A later end counts as an earlier one.
const MOST_LATENCY: u64 = i64::MAX as u64;

/// The least latency before there is one: above all others, and so low that a negative one is below it.
const NO_LEAST: u64 = 1 << 62;

/// The logarithm of 2, by [`log2_fixed`].
const DOUBLED: u64 = 1 << FRACTION_BITS;

/// A bank with half of the calls that it can count: its window ends early.
///
/// The other half is for calls that end meanwhile.
const HALF_FULL: u64 = 1 << (u64::BITS - 1);

/// The most ticks of a window, for a clock of more than 73 GHz.
const MOST_TICKS: u64 = END.max() / 2;

/// The longest window.
const LONGEST: Duration = Duration::from_secs(60);

/// The least time without the end of a call after which one more call is let in.
///
/// Queued calls look again after it, because no other call may come that would be refused.
pub(in crate::concurrency) const STALLED: Duration = Duration::from_secs(10);

/// The number of the unloaded service's latencies that this time has at least.
const STALLED_LATENCIES: u32 = 4;

/// Stands for the ended calls before a call without a slot has looked.
const UNSEEN: u32 = u32::MAX;

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
    /// Counts changes of the state; wraps.
    version: u32,
    rule: R,
    plan: WindowPlan,
    /// The limit that lets in one more call after a stall, until the next plan.
    raised: u32,
    /// The highest limit that was planned, within the present bounds.
    highest: u32,
    /// Whether calls are still skipped.
    is_skipping: bool,
    /// When the plan was made, in ticks; unknown before the first sample.
    planned_at: Option<u64>,
    /// When the window began, in ticks.
    began_at: u64,
    /// The start of the known time without a refusal.
    ///
    /// That is the plan's start, or a later check of the peak.
    quiet_since: u64,
    /// The window's peak before that.
    peak: u32,
    /// The bounds that were set last.
    bounds: Option<NewBounds<R>>,
}

/// New bounds, and the rule's method that takes them.
#[derive(Debug)]
struct NewBounds<R> {
    bounds: LimitBounds,
    set: fn(&mut R, LimitBounds, u32) -> u32,
}

impl<R> Clone for NewBounds<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for NewBounds<R> {}

impl<R> State<R> {
    /// Returns the limit in force.
    fn limit(&self) -> u32 {
        self.plan.limit.max(self.raised)
    }

    /// Replaces the state by a changed copy and returns whether it did.
    ///
    /// It does not if the state has changed since it was copied.
    fn replace(&mut self, copy: Self) -> bool {
        let is_unchanged = self.version == copy.version;
        if is_unchanged {
            *self = Self { version: copy.version.wrapping_add(1), ..copy };
        }
        is_unchanged
    }

    /// Takes new bounds, and restarts the window after `skip` calls if they change the limit too much.
    ///
    /// They do if the earlier calls say nothing about the new limit. It runs the rule's code, so call it on copies.
    fn take(&mut self, new: NewBounds<R>, skip: u32) {
        let limit = self.plan.limit;
        self.plan.limit = (new.set)(&mut self.rule, new.bounds, limit);
        self.plan = self.plan.held();
        self.raised = 0;
        self.highest = self.highest.max(self.plan.limit).min(new.bounds.max());
        if is_another(f64::from(limit), f64::from(self.plan.limit)) {
            self.is_skipping = true;
            self.plan.skip = self.plan.skip.max(skip);
        }
        self.bounds = Some(new);
    }
}

/// The shared state of the measurement.
#[derive(Debug)]
pub(in crate::concurrency) struct Sampler<R> {
    header: AtomicU64,
    /// The window's ticks plus those that the clock may step back, in END's place.
    ///
    /// If END is not ahead by fewer than that, the time is over, or the clock has stepped back too far, or has gone full circle.
    /// 0 while calls are skipped, and before the first.
    span: AtomicU64,
    banks: [Bank; 2],
    /// The least latency so far that was not 0, in ticks.
    least: AtomicU64,
    /// The least number of calls in the window; 0 if it may end without any.
    fewest: AtomicU32,
    /// The number of calls that had ended in the window when a call without a slot looked last.
    ///
    /// [`UNSEEN`] if a call has freed its slot since.
    ended: AtomicU32,
    /// When such a call first found that number, in ticks.
    since: AtomicU64,
    is_claimed: AtomicBool,
    /// The rule and its plan.
    ///
    /// Only the thread with the claim and threads that set bounds change it. So the lock is free, except for these and for
    /// threads that read the rule.
    state: Guarded<State<R>>,
}

impl<R> Sampler<R> {
    const_unless_loom! {
        /// Creates a sampler before the first window of this plan.
        pub(in crate::concurrency) const fn new(rule: R, plan: WindowPlan) -> Self {
            Self {
                header: AtomicU64::new(0),
                span: AtomicU64::new(0),
                banks: [Bank::new(), Bank::new()],
                least: AtomicU64::new(NO_LEAST),
                // The first sample begins the window.
                fewest: AtomicU32::new(1),
                ended: AtomicU32::new(UNSEEN),
                since: AtomicU64::new(0),
                is_claimed: AtomicBool::new(false),
                state: Guarded::new(State { version: 0, rule, plan, raised: 0, highest: plan.limit, is_skipping: true, planned_at: None, began_at: 0, quiet_since: 0, peak: 0, bounds: None }),
            }
        }
    }
}

impl<R: LimitRule> Sampler<R> {
    /// Records that `in_flight` calls were in flight at once.
    #[inline]
    pub(in crate::concurrency) fn saw(&self, in_flight: u32) {
        // ORDERING: Relaxed, here and in `raise`: a peak publishes nothing. One that is recorded while the window changes may be
        // missed; the calls in flight are then the new window's first peak.
        let header = self.header.load(Ordering::Relaxed);
        if PEAK.get(header) < u64::from(in_flight) {
            self.raise(header, in_flight);
        }
    }

    /// Records that a call was refused under this limit, and raises the limit if no call ends any more.
    ///
    /// Only calls that have ended change the limit otherwise. If a limit that fell is filled by calls that hold their slots for
    /// long, all others would be refused for as long.
    #[cold]
    pub(in crate::concurrency) fn refused(&self, limit: u32, clock: &impl Clock, gate: &impl Gate) {
        self.saw(limit);
        self.raise_if_stalled(clock, gate);
    }

    /// Records that a call frees its slot, with or without an outcome.
    ///
    /// Calls that end in errors or are given up leave no sample, but they end.
    #[inline]
    pub(in crate::concurrency) fn freed(&self) {
        // ORDERING: Relaxed, as in `stalled_for`. Without refused calls nothing is written.
        if self.ended.load(Ordering::Relaxed) != UNSEEN {
            self.ended.store(UNSEEN, Ordering::Relaxed);
        }
    }

    /// Raises the peak. Out of line: in a window it is called as often as the peak rises.
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

    /// Records a call that succeeded and that began at this tick.
    #[inline]
    pub(in crate::concurrency) fn succeeded(&self, began: u64, clock: &impl Clock, gate: &impl Gate) {
        let now = clock.now();
        let ticks = now.wrapping_sub(began);
        // ORDERING: Relaxed, as in `lower_least`.
        let least = self.least.load(Ordering::Relaxed);
        // Below the least, or negative because the clock stepped back.
        let is_below = (ticks.wrapping_sub(least) as i64) < 0;
        let doubled = if is_below { self.lower_least(ticks) } else { log2_fixed(ticks) + DOUBLED };
        // ORDERING: Relaxed: counts publish nothing, and a sample of any bank is counted once. loom-tests:
        // adaptive::every_sample_is_counted_once.
        let header = self.header.load(Ordering::Relaxed);
        let sample = CALLS.put(1) | LOG2_SUM.put(doubled);
        let before = self.bank(header).successes.fetch_add(sample, Ordering::Relaxed);
        if before & HALF_FULL != 0 || self.may_end(header, now) {
            self.end_if_due(clock, gate);
        }
    }

    /// Returns the logarithm of twice a latency that is 0, negative or the least so far.
    ///
    /// If the clock stepped back, no time has passed.
    #[cold]
    fn lower_least(&self, ticks: u64) -> u64 {
        // ORDERING: Relaxed: the word publishes nothing. Only a swap of the value that was compared keeps the least of all
        // threads. loom-tests: adaptive::least_latency_is_that_of_all_threads.
        let mut least = self.least.load(Ordering::Relaxed);
        if ticks as i64 <= 0 {
            // Half of the least, of which twice is the least. Before there is one, a tick.
            return if least == NO_LEAST { DOUBLED } else { log2_fixed(least) };
        }
        while ticks < least {
            match self.least.compare_exchange_weak(least, ticks, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(newer) => least = newer,
            }
        }
        log2_fixed(ticks) + DOUBLED
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

    /// Returns the rule in its present state.
    pub(in crate::concurrency) fn rule(&self) -> R {
        self.state.read(|state| state.rule)
    }

    /// Changes the bounds of the rule and of the limit.
    pub(in crate::concurrency) fn set_bounds(&self, bounds: LimitBounds, gate: &impl Gate)
    where
        R: BoundedRule,
    {
        self.take(NewBounds { bounds, set: R::set_bounds }, gate);
    }

    /// Takes over the bounds that were set on another sampler, if any were.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    pub(in crate::concurrency) fn take_bounds_of(&self, other: &Self, gate: &impl Gate) {
        if let Some(bounds) = other.state.read(|state| state.bounds) {
            self.take(bounds, gate);
        }
    }

    fn take(&self, bounds: NewBounds<R>, gate: &impl Gate) {
        loop {
            let mut state = self.state.read(|state| *state);
            // ORDERING: Relaxed, here and below, as in `end_if_due` and `prepare`. A thread that begins another window meanwhile
            // takes the bounds itself.
            let counted = self.calls(self.header.load(Ordering::Relaxed));
            state.take(bounds, counted.saturating_add(gate.in_flight()));
            // If another window begins meanwhile, its number stays.
            let fewest = self.fewest.load(Ordering::Relaxed);
            if self.state.write(|current| current.replace(state)) {
                if state.is_skipping && state.plan.skip < fewest {
                    _ = self.fewest.compare_exchange(fewest, state.plan.skip, Ordering::Relaxed, Ordering::Relaxed);
                }
                break;
            }
        }
        self.set_limit(gate);
    }

    /// Puts the plan's limit in force.
    ///
    /// Call it last, because it wakes the admitted calls, and their wakers may panic.
    ///
    /// Another thread may have changed the plan and put its limit in force before this one does, so it checks again.
    fn set_limit(&self, gate: &impl Gate) {
        let planned = || self.state.read(State::limit);
        let mut limit = planned();
        loop {
            gate.set_limit(limit);
            match planned() {
                newer if newer == limit => return,
                newer => limit = newer,
            }
        }
    }

    /// Returns whether the time of the window is over, or it has none.
    #[inline]
    fn may_end(&self, header: u64, now: u64) -> bool {
        // ORDERING: Relaxed: with the span of another window this is a guess, which is checked again with the claim.
        header.wrapping_sub(END.put(now)) >= self.span.load(Ordering::Relaxed)
    }

    #[inline]
    fn bank(&self, header: u64) -> &Bank {
        &self.banks[PARITY.get(header) as usize]
    }

    /// Ends the window if it has enough calls, unless another thread does.
    #[cold]
    fn end_if_due(&self, clock: &impl Clock, gate: &impl Gate) {
        // ORDERING: Relaxed, here and in `calls`: a first check, which is repeated with the claim.
        let header = self.header.load(Ordering::Relaxed);
        if self.calls(header) < self.fewest.load(Ordering::Relaxed) && !self.is_half_full(header) {
            return;
        }
        let Some(_claim) = Claim::of(&self.is_claimed) else { return };
        // This thread sees the writes of the last holder of the claim: see `Claim::of`. That holder may have begun a window after
        // this thread last read the clock.
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

    /// Lets in one call more than are in flight if no call has ended for some time.
    ///
    /// Refused and queued calls ask for it. The limit does not exceed its highest value so far.
    #[cold]
    pub(in crate::concurrency) fn raise_if_stalled(&self, clock: &impl Clock, gate: &impl Gate) {
        let (now, ticks) = (clock.now(), Ticks::of(clock));
        if self.stalled_for(now, ticks).is_some_and(|time| time < STALLED) {
            return;
        }
        // Without the claim both words are a guess.
        let Some(_claim) = Claim::of(&self.is_claimed) else { return };
        let mut state = self.state.read(|state| *state);
        let patience = state.rule.baseline().unwrap_or_default().saturating_mul(STALLED_LATENCIES).max(STALLED);
        let stalled = self.stalled_for(now, ticks);
        if stalled.is_some_and(|time| time < patience) {
            return;
        }
        // ORDERING: Relaxed, as in `stalled_for`.
        self.ended.store(self.calls(self.header.load(Ordering::Relaxed)), Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        if stalled.is_none() {
            return;
        }
        // The gate leaves out one call in flight, but here none has ended.
        state.raised = gate.in_flight().saturating_add(2).min(state.highest);
        if self.state.write(|current| current.replace(state)) {
            self.set_limit(gate);
        }
    }

    /// Returns the time since a call without a slot found as many ended calls as now; `None` if none has.
    fn stalled_for(&self, now: u64, ticks: Ticks) -> Option<Duration> {
        // ORDERING: Relaxed: only a thread with the claim sets the two words, and they are read again with it. A call that frees
        // its slot meanwhile may be missed, or noticed again for one more `STALLED`. loom-tests:
        // adaptive::a_stall_lets_one_call_in.
        let calls = self.calls(self.header.load(Ordering::Relaxed));
        (self.ended.load(Ordering::Relaxed) == calls).then(|| ticks.elapsed(self.since.load(Ordering::Relaxed), now))
    }

    /// Resets the peak, which was full, so that the next check finds out whether calls are still refused.
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
        self.prepare(state, gate);
    }

    /// Begins to measure, after the planned number of calls was skipped.
    fn begin(&self, mut state: State<R>, now: u64, ticks: Ticks, gate: &impl Gate) {
        state.is_skipping = false;
        state.began_at = now;
        if state.planned_at.is_none() {
            state.planned_at = Some(now);
            state.quiet_since = now;
        }
        state.peak = 0;
        let state = self.prepare(state, gate);
        let length = if state.is_skipping { 0 } else { ticks.in_window(state.plan.length) };
        let header = self.advance(now, length, gate);
        self.bank(header).take();
        self.set_span(length, ticks);
    }

    /// Ends the window, and carries out the rule's plan.
    fn end(&self, mut state: State<R>, now: u64, ticks: Ticks, gate: &impl Gate) {
        // Meanwhile the other threads go on in the next window, of the old plan. That plan stays if the rule panics.
        let header = self.advance(now, ticks.in_window(state.plan.length), gate);
        let (mut successes, log2_sum, mut overloaded) = self.bank(header).take();
        if state.is_skipping {
            // The time of `unless_full` ended first, while calls were still skipped. They began under another limit.
            (successes, overloaded) = (0, 0);
        }
        let window = WindowSummary {
            successes,
            overloaded,
            log2_latency: (successes > 0).then(|| mean(log2_sum, successes) - 1.0 - ticks.log2_per_micro()),
            peak_in_flight: state.peak.max(PEAK.get(header) as u32),
            in_flight: gate.in_flight(),
            length: if state.is_skipping { Duration::ZERO } else { ticks.elapsed(state.began_at, now) },
            since_plan: state.planned_at.map_or(Duration::ZERO, |planned_at| ticks.elapsed(planned_at, now)),
        };
        state.plan = state.rule.next(&window).held();
        state.raised = 0;
        state.highest = state.highest.max(state.plan.limit);
        state.planned_at = Some(now);
        state.began_at = now;
        state.quiet_since = now;
        state.peak = 0;
        state.is_skipping = state.plan.skip > 0;
        let state = self.prepare(state, gate);
        let length = if state.is_skipping { 0 } else { ticks.in_window(state.plan.length) };
        self.end_after(now, length);
        self.set_span(length, ticks);
        self.set_limit(gate);
    }

    /// Replaces the state and returns it, before the header publishes it.
    ///
    /// Bounds that were set since the state was copied are put into the new one.
    fn prepare(&self, mut state: State<R>, gate: &impl Gate) -> State<R> {
        loop {
            let current = self.state.read(|current| *current);
            state.version = current.version;
            if let Some(new) = current.bounds
                && state.bounds.is_none_or(|old| old.bounds != new.bounds)
            {
                state.take(new, gate.in_flight());
            }
            if self.state.write(|current| current.replace(state)) {
                break;
            }
        }
        let fewest = match state.plan {
            WindowPlan { unless_full: Some(_), .. } => 0,
            plan if state.is_skipping => plan.skip,
            plan => plan.samples,
        };
        // ORDERING: Relaxed: a thread that reads another number tries the claim needlessly, or leaves it to the next thread.
        self.fewest.store(fewest, Ordering::Relaxed);
        state
    }

    fn set_span(&self, length: u64, ticks: Ticks) {
        let span = if length == 0 { 0 } else { length + ticks.step_back };
        // ORDERING: Relaxed, as in `may_end`; with the claim, which orders it.
        self.span.store(END.put(span), Ordering::Relaxed);
    }

    /// Moves on to the other bank for `ticks` ticks, and returns the header of the window that is over.
    fn advance(&self, now: u64, ticks: u64, gate: &impl Gate) -> u64 {
        // ORDERING: Relaxed, as in `stalled_for`.
        self.ended.store(UNSEEN, Ordering::Relaxed);
        // ORDERING: Relaxed, here and in `end_after`: other holders of the claim see it by the claim, and a sample may go to
        // either bank.
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

    /// Makes the window last for `ticks` ticks.
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

    /// Returns whether the window of this header has so many calls that it ends early.
    fn is_half_full(&self, header: u64) -> bool {
        self.bank(header).successes.load(Ordering::Relaxed) & HALF_FULL != 0
    }

    /// Returns the calls that have ended in the window of this header.
    fn calls(&self, header: u64) -> u32 {
        let bank = self.bank(header);
        let successes = CALLS.get(bank.successes.load(Ordering::Relaxed)) as u32;
        successes.saturating_add(bank.overloaded.load(Ordering::Relaxed))
    }
}

/// Returns the header with this peak, or the highest that fits.
const fn with_peak(header: u64, in_flight: u32) -> u64 {
    let peak = if in_flight as u64 > PEAK.max() { PEAK.max() } else { in_flight as u64 };
    header & !PEAK.put(PEAK.max()) | PEAK.put(peak)
}

/// Returns the END of a window that lasts for `ticks` ticks from `now`.
const fn ending(now: u64, ticks: u64) -> u64 {
    END.put(now.wrapping_add(ticks).wrapping_sub(1))
}

impl Bank {
    /// Empties the bank, and returns its successes, the sum of their logarithms, and its overloaded calls.
    fn take(&self) -> (u32, u64, u32) {
        // ORDERING: Relaxed: each swap takes every sample once. A load and a store would lose samples recorded between
        // them. loom-tests: adaptive::every_sample_is_counted_once.
        let successes = self.successes.swap(0, Ordering::Relaxed);
        (CALLS.get(successes) as u32, LOG2_SUM.get(successes), self.overloaded.swap(0, Ordering::Relaxed))
    }
}

/// The ticks of a clock, to convert them where a window ends.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    frequency: u64,
    /// The ticks that the clock may step back; few enough that END can be behind.
    step_back: u64,
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl Ticks {
    fn of(clock: &impl Clock) -> Self {
        Self { frequency: clock.frequency(), step_back: clock.max_step_back().min(MOST_TICKS / 2) }
    }

    /// Returns the ticks of a window of this length, rounded up.
    fn in_window(self, length: Duration) -> u64 {
        let ticks = (length.min(LONGEST).as_nanos() * u128::from(self.frequency)).div_ceil(NANOS_PER_SECOND);
        u64::try_from(ticks).unwrap_or(MOST_TICKS).min(MOST_TICKS)
    }

    /// Returns the time between two readings, rounded down; zero if the clock stepped back or stands still.
    fn elapsed(self, from: u64, to: u64) -> Duration {
        let ticks = (to.wrapping_sub(from) as i64).max(0) as u128;
        let nanos = (ticks * NANOS_PER_SECOND).checked_div(self.frequency.into()).unwrap_or(0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the binary logarithm of the ticks in a microsecond.
    fn log2_per_micro(self) -> f64 {
        const LOG2_OF_A_MILLION: f64 = 19.931_568_569_324_174;
        mean(log2_fixed(self.frequency), 1) - LOG2_OF_A_MILLION
    }
}

#[cfg(test)]
mod tests;
