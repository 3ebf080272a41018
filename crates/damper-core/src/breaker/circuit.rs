//! The inside of a breaker: admits calls, records their outcomes, and notifies the listener.

use super::settings::{BreakerSettings, CooldownRequest};
use super::state_machine::{CallDecision, StateMachine};
use super::state_word::{Generation, Phase, StateWord};
use super::transitions::Transitions;
use super::window::{CallTimes, Outcome, OutcomeCounts, OutcomeWindow};
use super::{BreakerConfig, BreakerStatus, Cause, CircuitOpen, OnStateChange, State, StateChange, Verdict};
use crate::sync::{AtomicBool, Ordering, const_unless_loom};
use crate::time::{Clock, LazyMicros, MicrosReading};
use core::time::Duration;

type Snapshot = super::state_word::Snapshot<u64>;

/// The word of a breaker, its settings, and the window of outcomes.
pub(super) struct Circuit<C, L> {
    word: StateWord<u64>,
    settings: BreakerSettings,
    window: OutcomeWindow,
    /// Whether calls are timed, because slow ones count or the window needs it.
    is_timed: bool,
    /// Whether no call is refused.
    metrics_only: AtomicBool,
    micros: LazyMicros,
    clock: C,
    listener: L,
}

/// Identifies an admitted call: its permit holds this until the outcome is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    generation: Generation,
    /// In microseconds; 0 if calls are not timed.
    began: u64,
}

impl Ticket {
    /// Whatever is recorded with it is discarded.
    const VOID: Self = Self { generation: Generation::NONE, began: 0 };
}

impl<C> Circuit<C, ()> {
    const_unless_loom! {
        /// A closed one, without a listener.
        pub(super) const fn closed(config: &BreakerConfig, clock: C) -> Self {
            let settings = BreakerSettings::new(config);
            let window = OutcomeWindow::new(config.window(), settings.counts_slow_calls());
            Self {
                word: StateWord::<u64>::closed(),
                is_timed: settings.has_rates() && (settings.counts_slow_calls() || window.is_timed()),
                window,
                settings,
                metrics_only: AtomicBool::new(false),
                micros: LazyMicros::new(),
                clock,
                listener: (),
            }
        }
    }

    pub(super) fn with_listener<L>(self, listener: L) -> Circuit<C, L> {
        let Self { word, settings, window, is_timed, metrics_only, micros, clock, listener: () } = self;
        Circuit { word, settings, window, is_timed, metrics_only, micros, clock, listener }
    }
}

impl<C, L> Circuit<C, L> {
    /// The state with its payload, whatever the clock reads.
    pub(super) fn phase(&self) -> Phase {
        self.word.load().phase()
    }
}

impl<C: Clock, L: OnStateChange> Circuit<C, L> {
    /// The time at which a call begins or ends, if calls are timed.
    #[inline]
    fn timestamp(&self) -> u64 {
        if self.is_timed { self.read_clock() } else { 0 }
    }

    /// Out of line, so that a breaker that times no calls is not slowed.
    #[inline(never)]
    fn read_clock(&self) -> u64 {
        self.now().micros
    }

    pub(super) fn state(&self) -> State {
        self.state_of(self.word.load()).0
    }

    pub(super) fn status(&self) -> BreakerStatus {
        let current = self.word.load();
        let (state, left) = self.state_of(current);
        let (counts, generation) = if self.settings.has_rates() {
            self.window.counts(if self.window.is_timed() { self.now().micros } else { 0 })
        } else {
            (OutcomeCounts::default(), current.generation())
        };
        let counts = match current.phase() {
            // The outcomes that tripped the breaker were counted in the last closed state.
            Phase::Open { .. } | Phase::HalfOpen(_) => counts,
            // Outcomes of an earlier state have no effect now.
            _ if generation != current.generation() => OutcomeCounts::default(),
            _ => counts,
        };
        BreakerStatus::new(current, state, left, counts, self.is_metrics_only())
    }

    /// Whether calls pass that would be refused.
    fn is_metrics_only(&self) -> bool {
        // ORDERING: Relaxed, as in `set_metrics_only`.
        self.metrics_only.load(Ordering::Relaxed)
    }

    pub(super) fn set_metrics_only(&self, is_on: bool) {
        // ORDERING: Relaxed: a flag that publishes nothing, and nothing is published with it.
        self.metrics_only.store(is_on, Ordering::Relaxed);
    }

    /// The refusal that a call would get now.
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
            match self.settings.admit(current, || self.now()) {
                CallDecision::Pass | CallDecision::Probe(_) => break,
                CallDecision::Refuse(open) => return Some(open),
                // A call would open it again.
                CallDecision::HalfOpenTooLong(now) => {
                    current = self.settings.opened(current, current.reopens() + 1, now, self.cooldown(Duration::ZERO));
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

    #[inline]
    fn succeeded(&self, ticket: Ticket) {
        if self.settings.has_rates() {
            self.record_in_window(ticket, false, Duration::ZERO);
        }
        if !self.word.load().is_closed_without_failure(ticket.generation) {
            self.succeeded_slow(ticket);
        }
    }

    /// Returns the snapshot after the success; `None` if the result is late, or the call was a slow probe.
    #[cold]
    fn succeeded_slow(&self, ticket: Ticket) -> Option<Snapshot> {
        if self.is_slow_probe(ticket) {
            self.failed(ticket, Duration::ZERO);
            return None;
        }
        self.after_success(ticket.generation)
    }

    /// Whether the call is a probe that took as long as a slow call.
    ///
    /// Reads the clock for probes only: the window has timed a call of the closed state already.
    fn is_slow_probe(&self, Ticket { generation, began }: Ticket) -> bool {
        self.settings.counts_slow_calls()
            && self.is_probe(generation)
            && self.settings.is_slow(self.timestamp().saturating_sub(began))
    }

    #[cold]
    fn failed(&self, ticket: Ticket, retry_after: Duration) {
        if self.settings.has_rates() {
            self.record_in_window(ticket, true, retry_after);
        }
        self.after_failure(ticket.generation, retry_after);
    }

    /// Records that the permit was dropped without a verdict.
    #[cold]
    pub(super) fn abandoned(&self, ticket: Ticket) {
        if self.settings.abandoned_probes_fail() && self.is_probe(ticket.generation) {
            self.failed(ticket, Duration::ZERO);
        } else {
            self.released(ticket.generation);
        }
    }

    /// Records the success of a probe whose call goes on, and returns the ticket for the rest of the call.
    ///
    /// If the success closes the breaker, the rest is a call of the closed state; otherwise its outcome is discarded. A
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
        match self.succeeded_slow(ticket) {
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
        let is_current = || self.word.load().generation() == generation;
        let call = || {
            let ended = self.timestamp();
            let slow = self.settings.is_slow(ended.saturating_sub(began));
            (Outcome { failed, slow }, CallTimes { began, ended })
        };
        let Some(counts) = self.window.record(generation, is_current, call) else {
            return;
        };
        if let Some(cause) = self.settings.trip_cause(counts, self.window.capacity()) {
            self.trip(generation, cause, retry_after);
        }
    }

    #[cold]
    fn is_disabled(&self, generation: Generation) -> bool {
        let current = self.word.load();
        current.generation() == generation && matches!(current.phase(), Phase::Disabled { .. })
    }

    #[cold]
    fn trip(&self, generation: Generation, cause: Cause, retry_after: Duration) {
        self.settle(generation, Some(cause), |current| match current.phase() {
            Phase::Closed { .. } => self.settings.opened(current, 0, self.now(), self.cooldown(retry_after)),
            _ => current,
        });
    }

    /// Brings the breaker into a state, whatever the one before, and ends metrics only.
    pub(super) fn force(&self, phase: Phase) {
        self.set_metrics_only(false);
        Transitions::force(self, phase);
    }
}

impl<C: Clock, L: OnStateChange> Transitions for Circuit<C, L> {
    type Settings = BreakerSettings;

    #[inline]
    fn word_and_settings(&self) -> (&StateWord<u64>, &BreakerSettings) {
        (&self.word, &self.settings)
    }

    fn now(&self) -> MicrosReading {
        self.micros.read(&self.clock)
    }

    #[inline]
    fn cooldown(&self, retry_after: Duration) -> CooldownRequest {
        CooldownRequest { retry_after, address: core::ptr::from_ref(self).addr() as u64 }
    }

    #[inline]
    fn changed(&self, old: Snapshot, new: Snapshot, cause: Option<Cause>) {
        let (from, to) = (old.phase().state(), new.phase().state());
        self.listener.on_state_change(StateChange {
            from,
            to,
            cause: cause.unwrap_or_else(|| Cause::of(from, to)),
            generation: new.generation().to_bits(),
        });
    }
}
