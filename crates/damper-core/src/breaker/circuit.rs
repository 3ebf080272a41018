//! The inside of a breaker: admits calls, records their outcomes, and notifies the listener.

use super::breaker_state::BreakerState;
use super::config::MAX_COOLDOWN;
use super::live_settings::LiveSettings;
use super::recent_changes::{ChangeRecord, RecentChanges};
use super::settings::{BreakerSettings, CooldownRequest, RecordWords, WindowSettings};
use super::state_machine::{CallDecision, StateMachine};
use super::state_word::{Generation, Phase, StateWord};
use super::transitions::Transitions;
use super::window::{CallTimes, Outcome, OutcomeCounts, OutcomeWindow, WindowShape};
use super::wrapping_micros::WrappingMicros;
use super::{
    BreakerConfig, BreakerStatus, Cause, CircuitOpen, OnStateChange, SetConfigError, State, StateChange, Verdict,
};
use crate::sync::{AtomicBool, AtomicU32, Ordering, SpinWait, const_unless_loom};
use crate::time::{Clock, LazyMicros, Micros, MicrosReading};
use core::time::Duration;

type Snapshot = super::state_word::Snapshot<u64>;

/// The state of a breaker, its settings, and the window of outcomes.
pub(super) struct Circuit<C, L> {
    state: BreakerState,
    settings: LiveSettings,
    window: OutcomeWindow,
    changes: ChangeRecord,
    /// How often the breaker became open or forced open. Here, where it takes no room of its own.
    openings: AtomicU32,
    /// Whether calls pass even where the breaker would refuse them.
    metrics_only: AtomicBool,
    micros: LazyMicros,
    clock: C,
    listener: L,
}

/// Identifies an admitted call: its permit holds this until the outcome is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    generation: Generation,
    /// In microseconds; [`UNTIMED`] if calls were not timed then.
    began: u64,
}

/// The start of a call that is not timed. It counts at the moment at which it ends.
const UNTIMED: u64 = u64::MAX;

impl Ticket {
    /// A ticket whose outcome is discarded.
    const VOID: Self = Self { generation: Generation::NONE, began: UNTIMED };
}

impl<C> Circuit<C, ()> {
    const_unless_loom! {
        /// Creates a closed circuit, without a listener.
        pub(super) const fn closed(config: &BreakerConfig, clock: C) -> Self {
            let shape = WindowShape::new(config.window(), config.slow_rate().is_some());
            Self {
                state: BreakerState::closed(RecordWords::new(config).longest_cooldown()),
                window: OutcomeWindow::new(shape),
                settings: LiveSettings::new(config),
                changes: ChangeRecord::new(),
                openings: AtomicU32::new(0),
                metrics_only: AtomicBool::new(false),
                micros: LazyMicros::new(),
                clock,
                listener: (),
            }
        }
    }

    pub(super) fn with_listener<L>(self, listener: L) -> Circuit<C, L> {
        let Self { state, settings, window, changes, openings, metrics_only, micros, clock, listener: () } = self;
        Circuit { state, settings, window, changes, openings, metrics_only, micros, clock, listener }
    }
}

impl<C, L> Circuit<C, L> {
    /// Returns the state with its payload, without reading the clock.
    pub(super) fn phase(&self) -> Phase {
        self.state.word.load().phase()
    }
}

impl<C: Clock, L: OnStateChange> Circuit<C, L> {
    /// Returns the time at which a call begins or ends, if calls are timed.
    #[inline]
    fn timestamp(&self) -> u64 {
        if self.settings.is_timed() { self.read_clock() } else { UNTIMED }
    }

    /// Reads the clock. Out of line, so that it does not slow a breaker that times no calls.
    #[inline(never)]
    fn read_clock(&self) -> u64 {
        self.now().micros
    }

    pub(super) fn state(&self) -> State {
        self.state_of(self.state.word.load()).0
    }

    pub(super) fn status(&self) -> BreakerStatus {
        let current = self.state.word.load();
        let (state, left) = self.state_of(current);
        let window = self.settings.window(&self.state);
        let (counts, recorded_as) = if window.has_rates() {
            self.window.counts(window.shape(), if window.is_of_time() { self.now().micros } else { 0 })
        } else {
            (OutcomeCounts::default(), window.recorded_as(current.generation()))
        };
        let counts = match current.phase() {
            // The outcomes that tripped the breaker were counted in the last closed state.
            Phase::Open { .. } | Phase::HalfOpen(_) if window.has(recorded_as, current.generation()) => counts,
            // Outcomes of an earlier state have no effect now.
            _ if recorded_as != window.recorded_as(current.generation()) => OutcomeCounts::default(),
            _ => counts,
        };
        BreakerStatus::new(current, state, left, counts, self.is_metrics_only())
    }

    pub(super) fn recent_changes(&self) -> RecentChanges {
        // ORDERING: Relaxed: a count, through which nothing is published.
        let openings = self.openings.load(Ordering::Relaxed);
        self.changes.read(openings, || self.state.word.load().generation(), || self.now().micros)
    }

    /// Returns whether calls pass even where the breaker would refuse them.
    fn is_metrics_only(&self) -> bool {
        // ORDERING: Relaxed, as in `set_metrics_only`.
        self.metrics_only.load(Ordering::Relaxed)
    }

    pub(super) fn set_metrics_only(&self, is_on: bool) {
        // ORDERING: Relaxed: the flag publishes nothing, and nothing is published with it.
        self.metrics_only.store(is_on, Ordering::Relaxed);
    }

    /// Returns the refusal that a call would get now.
    #[inline]
    pub(super) fn refusal(&self) -> Option<CircuitOpen> {
        match self.closed_generation() {
            Ok(_) => None,
            Err(current) => self.refusal_slow(current),
        }
    }

    #[cold]
    fn refusal_slow(&self, mut current: Snapshot) -> Option<CircuitOpen> {
        while !self.is_metrics_only() {
            let settings = self.settings();
            let decision = settings.admit(current, || self.now(), || self.cooldown(Duration::ZERO));
            if self.are_in_force(&settings) {
                match decision {
                    CallDecision::Pass | CallDecision::Probe(_) => return None,
                    CallDecision::Refuse(open) => return Some(open),
                    // The next call would open the breaker again.
                    CallDecision::HalfOpenTooLong(next) => current = next,
                }
            }
        }
        None
    }

    /// Lets a call pass, or refuses it.
    #[inline]
    pub(super) fn admit(&self) -> Result<Ticket, CircuitOpen> {
        match self.closed_generation() {
            Ok(generation) => Ok(Ticket { generation, began: self.timestamp() }),
            Err(current) => self.admit_slow(current),
        }
    }

    #[cold]
    fn admit_slow(&self, current: Snapshot) -> Result<Ticket, CircuitOpen> {
        match self.admit_or_refuse(current) {
            Ok(generation) => Ok(Ticket { generation, began: self.timestamp() }),
            Err(_) if self.is_metrics_only() => Ok(Ticket::VOID),
            Err(open) => Err(open),
        }
    }

    /// Records the outcome of an admitted call.
    #[inline]
    pub(super) fn record(&self, ticket: Ticket, verdict: Verdict) {
        match verdict {
            Verdict::Success => self.succeeded(ticket),
            Verdict::Failure | Verdict::DeadlineExceeded => self.failed(ticket, Duration::ZERO),
            Verdict::RetryAfter(wait) => self.failed(ticket, wait),
            Verdict::Ignored => self.released(ticket.generation),
        }
    }

    /// Records a success. One that changes nothing writes nothing.
    #[inline]
    fn succeeded(&self, ticket: Ticket) {
        let changes_nothing = self.state.word.load().is_closed_without_failure(ticket.generation)
            && self.settings.is_healthy(&self.state, &self.window, ticket.generation);
        if !changes_nothing {
            self.ended(ticket, false, Duration::ZERO);
        }
    }

    #[cold]
    fn failed(&self, ticket: Ticket, retry_after: Duration) {
        if self.settings.has_rates() {
            self.ended(ticket, true, retry_after);
        } else if !self.counts_failure(ticket.generation) {
            self.failed_slow(ticket.generation, retry_after);
        }
    }

    /// Records a success or a failure in the window and in the state.
    #[inline(never)]
    fn ended(&self, ticket: Ticket, failed: bool, retry_after: Duration) {
        if self.settings.has_rates() {
            self.record_in_window(ticket, failed, retry_after);
        }
        if failed {
            if !self.counts_failure(ticket.generation) {
                self.failed_slow(ticket.generation, retry_after);
            }
        } else if !self.state.word.load().is_closed_without_failure(ticket.generation) {
            self.settle_success(ticket);
        }
    }

    /// Records a success in the state and returns the snapshot after it; `None` if the result is late.
    #[cold]
    fn settle_success(&self, Ticket { generation, began }: Ticket) -> Option<Snapshot> {
        self.settle(generation, None, |settings, current| match current.phase() {
            // Reads the clock only for probes: the window has already timed a call of the closed state.
            Phase::HalfOpen(_)
                if settings.counts_slow_calls() && settings.is_slow(self.read_clock().saturating_sub(began)) =>
            {
                settings.after_failure(current, || self.now(), self.cooldown(Duration::ZERO))
            }
            _ => settings.after_success(current),
        })
    }

    /// Counts a failure that leaves the breaker closed; returns whether it did.
    ///
    /// Returns `false` if the failure would change the state, or if another thread intervened.
    ///
    /// Called before [`failed_slow`](Self::failed_slow), because such a failure needs neither its registers nor a loop.
    #[inline]
    fn counts_failure(&self, generation: Generation) -> bool {
        let settings = self.settings();
        let current = self.state.word.load();
        current.generation() == generation
            && settings
                .counted_failure(current)
                .is_some_and(|next| self.are_in_force(&settings) && self.state.word.replace(current, next))
    }

    #[inline(never)]
    fn failed_slow(&self, generation: Generation, retry_after: Duration) {
        self.after_failure(generation, retry_after);
    }

    /// Records that the permit was dropped without a verdict.
    #[cold]
    pub(super) fn abandoned(&self, ticket: Ticket) {
        self.settle(ticket.generation, None, |settings, current| match current.phase() {
            Phase::HalfOpen(_) if settings.abandoned_probes_fail() => {
                settings.after_failure(current, || self.now(), self.cooldown(Duration::ZERO))
            }
            _ => settings.after_no_verdict(current),
        });
    }

    /// Records a probe's success while its call goes on, and returns the ticket for the rest of the call.
    ///
    /// If the success closes the breaker, the rest counts as a call of the closed state; otherwise its outcome is discarded. A
    /// call that is no probe keeps its ticket.
    #[inline]
    pub(super) fn probe_answered(&self, ticket: Ticket) -> Ticket {
        match self.closed_generation() {
            Ok(_) => ticket,
            Err(_) => self.probe_answered_slow(ticket),
        }
    }

    #[cold]
    fn probe_answered_slow(&self, ticket: Ticket) -> Ticket {
        if !self.is_probe(ticket.generation) {
            return ticket;
        }
        match self.settle_success(ticket) {
            Some(next) if next.is_closed() => Ticket { generation: next.generation(), began: self.timestamp() },
            _ => Ticket::VOID,
        }
    }

    /// Records the outcome of a call of the closed state in the window, and trips if a rate is reached.
    #[inline]
    fn record_in_window(&self, Ticket { generation, began }: Ticket, failed: bool, retry_after: Duration) {
        if self.closed_generation() != Ok(generation) && !self.is_disabled(generation) {
            return;
        }
        let settings = self.settings.window(&self.state);
        if settings.is_timed() {
            return self.record_timed(Ticket { generation, began }, settings, failed, retry_after);
        }
        let is_current = || self.is_recorded_in(generation, settings);
        let call = || (Outcome { failed, slow: false }, CallTimes::default());
        let recorded_as = settings.recorded_as(generation);
        let counts = self.window.record(settings.untimed_shape(), recorded_as, is_current, call);
        self.judge(generation, settings, counts, retry_after);
    }

    /// As [`record_in_window`](Self::record_in_window), under settings that time calls.
    #[inline]
    fn record_timed(
        &self,
        Ticket { generation, began }: Ticket,
        settings: WindowSettings,
        failed: bool,
        retry_after: Duration,
    ) {
        let is_current = || self.is_recorded_in(generation, settings);
        let call = || {
            let ended = self.read_clock();
            let began = if began == UNTIMED { ended } else { began };
            (Outcome { failed, slow: settings.is_slow(ended.saturating_sub(began)) }, CallTimes { began, ended })
        };
        let recorded_as = settings.recorded_as(generation);
        let counts = self.window.record(settings.shape(), recorded_as, is_current, call);
        self.judge(generation, settings, counts, retry_after);
    }

    /// Returns whether this generation's outcomes are recorded in the window of these settings.
    ///
    /// Other settings with the same window count too.
    #[cold]
    fn is_recorded_in(&self, generation: Generation, settings: WindowSettings) -> bool {
        self.state.word.load().generation() == generation && self.settings.window(&self.state).has_window_of(&settings)
    }

    /// Trips the breaker if the counts of its window require it.
    #[inline]
    fn judge(
        &self,
        generation: Generation,
        settings: WindowSettings,
        counts: Option<OutcomeCounts>,
        retry_after: Duration,
    ) {
        if let Some(counts) = counts
            && settings.trip_cause(counts).is_some()
        {
            self.trip_by(generation, settings, counts, retry_after);
        }
    }

    #[cold]
    fn is_disabled(&self, generation: Generation) -> bool {
        let current = self.state.word.load();
        current.generation() == generation && matches!(current.phase(), Phase::Disabled { .. })
    }

    /// Opens the breaker if its window requires it under the settings then in force.
    ///
    /// If these settings count another number of calls than `window` did, the calls in the window are counted again.
    #[cold]
    fn trip_by(&self, generation: Generation, window: WindowSettings, counts: OutcomeCounts, retry_after: Duration) {
        let spin_wait = SpinWait::new();
        loop {
            let settings = self.settings();
            let current = self.state.word.load();
            let (rates, now) = (settings.record.window(), self.now());
            let next = settings.opened(current, 0, now, self.cooldown(retry_after));
            if self.are_in_force(&settings) {
                if !rates.has_window_of(&window) || current.generation() != generation || !current.is_closed() {
                    return;
                }
                let is_counted = rates.shape() == window.shape();
                let counts = if is_counted { counts } else { self.window.counts(rates.shape(), now.micros).0 };
                let cause = rates.trip_cause(counts);
                if cause.is_none() || self.replace(current, next, cause) {
                    return;
                }
            }
            spin_wait.spin();
        }
    }

    /// Puts the breaker into a state, whatever the present one, and ends metrics only.
    pub(super) fn force(&self, phase: Phase) {
        self.set_metrics_only(false);
        Transitions::force(self, phase);
    }

    /// Opens the breaker for a first cooldown, whatever the present state, and ends metrics only.
    pub(super) fn trip(&self) {
        self.set_metrics_only(false);
        Transitions::trip(self);
    }

    /// Opens the breaker for `cooldown`, whatever the present state, and ends metrics only.
    pub(super) fn trip_for(&self, cooldown: Duration) {
        let micros = Micros::of_duration(cooldown.min(MAX_COOLDOWN)).max(1);
        self.state.make_room_for(micros);
        self.force(Phase::Open { until: WrappingMicros::from_micros(self.now().micros).after(micros).to_bits() });
    }

    /// Puts the settings of `config` in force.
    ///
    /// Does not touch the word, so it cannot undo a state change made by a call.
    pub(super) fn set_config(&self, config: &BreakerConfig) -> Result<(), SetConfigError> {
        let claim = self.settings.claim().ok_or(SetConfigError::Busy)?;
        let words = RecordWords::new(config);
        self.state.make_room_for(words.longest_cooldown());
        self.settings.publish(&claim, words, self.now().micros);
        Ok(())
    }
}

impl<C: Clock, L: OnStateChange> Transitions for Circuit<C, L> {
    type Word = u64;
    type Now = MicrosReading;
    type Request = CooldownRequest;
    type Settings<'a>
        = BreakerSettings<'a>
    where
        Self: 'a;

    #[inline]
    fn word(&self) -> &StateWord<u64> {
        &self.state.word
    }

    #[inline]
    fn settings(&self) -> BreakerSettings<'_> {
        self.settings.read(&self.state)
    }

    #[inline]
    fn are_in_force(&self, settings: &BreakerSettings<'_>) -> bool {
        self.settings.is_current(settings)
    }

    fn now(&self) -> MicrosReading {
        self.micros.read(&self.clock)
    }

    #[inline]
    fn cooldown(&self, retry_after: Duration) -> CooldownRequest {
        CooldownRequest { retry_after, address: core::ptr::from_ref(self).addr() as u64 }
    }

    /// Records when the half-open state began, if the thread that began it was stopped before doing so.
    #[cold]
    fn probe_refused(&self, current: Snapshot) {
        if self.state.half_open_since(current.generation()).is_none() {
            self.state.record_half_open(current.generation(), self.now().micros);
        }
    }

    #[inline]
    fn changed(&self, old: Snapshot, new: Snapshot, cause: Option<Cause>) {
        let (from, to) = (old.phase().state(), new.phase().state());
        let cause = cause.unwrap_or_else(|| Cause::of(from, to));
        let change = StateChange { from, to, cause, generation: new.generation().to_bits() };
        let now = self.now().micros;
        if to == State::HalfOpen {
            self.state.record_half_open(new.generation(), now);
        }
        // Before the listener, which may ask for it.
        self.changes.record(change, now);
        if matches!(to, State::Open | State::ForcedOpen) {
            // ORDERING: Relaxed: a count, through which nothing is published.
            self.openings.fetch_add(1, Ordering::Relaxed);
        }
        self.listener.on_state_change(change);
    }
}
