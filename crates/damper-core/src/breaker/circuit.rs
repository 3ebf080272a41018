//! The inside of a breaker: admits calls, records their outcomes, and notifies the listener.

use super::state_machine::{CallDecision, CooldownRequest, StateMachine};
use super::state_word::{Generation, Packed, Phase, Snapshot, StateWord};
use super::window::{CallTimes, Outcome, OutcomeCounts, OutcomeWindow};
use super::{BreakerConfig, BreakerStatus, Cause, CircuitOpen, OnStateChange, State, StateChange, Verdict};
use crate::sync::{AtomicBool, Backoff, Ordering, const_unless_loom};
use crate::time::{Clock, LazyMicros, MicrosReading};
use core::time::Duration;

/// The word of a breaker, the state machine that computes its next value, and the window of outcomes.
pub(super) struct Circuit<C, L> {
    word: StateWord,
    machine: StateMachine,
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
pub(super) struct Ticket {
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
            let machine = StateMachine::new(config);
            let window = OutcomeWindow::new(config.window(), machine.counts_slow_calls());
            Self {
                word: StateWord::closed(),
                is_timed: machine.has_rates() && (machine.counts_slow_calls() || window.is_timed()),
                window,
                machine,
                metrics_only: AtomicBool::new(false),
                micros: LazyMicros::new(),
                clock,
                listener: (),
            }
        }
    }

    pub(super) fn with_listener<L>(self, listener: L) -> Circuit<C, L> {
        let Self { word, machine, window, is_timed, metrics_only, micros, clock, listener: () } = self;
        Circuit { word, machine, window, is_timed, metrics_only, micros, clock, listener }
    }
}

impl<C, L> Circuit<C, L> {
    /// The state with its payload, whatever the clock reads.
    pub(super) fn phase(&self) -> Phase {
        self.word.load().phase
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

    /// Reads the clock: after the word, so that only its own skew can put it before the reading in the word.
    fn now(&self) -> MicrosReading {
        self.micros.read(&self.clock)
    }

    /// A cooldown that the server asks to last for `retry_after`.
    fn cooldown(&self, retry_after: Duration) -> CooldownRequest {
        CooldownRequest { retry_after, address: core::ptr::from_ref(self).addr() as u64 }
    }

    /// The state that a call would find now, and for how many microseconds it would be refused.
    fn state_of(&self, current: Snapshot) -> (State, Option<u64>) {
        self.machine.state_at(current, || self.now(), self.cooldown(Duration::ZERO))
    }

    pub(super) fn state(&self) -> State {
        self.state_of(self.word.load()).0
    }

    pub(super) fn status(&self) -> BreakerStatus {
        let current = self.word.load();
        let (state, left) = self.state_of(current);
        let (counts, generation) = if self.machine.has_rates() {
            self.window.counts(if self.window.is_timed() { self.now().micros } else { 0 })
        } else {
            (OutcomeCounts::default(), current.generation)
        };
        let counts = match current.phase {
            // The outcomes that tripped the breaker were counted in the last closed state.
            Phase::Open { .. } | Phase::HalfOpen(_) => counts,
            // Outcomes of an earlier state have no effect now.
            _ if generation != current.generation => OutcomeCounts::default(),
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
        match self.word.closed_generation() {
            Ok(_) => None,
            Err(current) => self.refusal_slow(current),
        }
    }

    #[cold]
    fn refusal_slow(&self, current: Packed) -> Option<CircuitOpen> {
        let mut current = current.unpack();
        while !self.is_metrics_only() {
            match self.machine.admit(current, || self.now()) {
                CallDecision::Pass | CallDecision::Probe(_) => break,
                CallDecision::Open(left) => return Some(CircuitOpen::for_micros(left)),
                CallDecision::Probing => return Some(CircuitOpen::PROBING),
                CallDecision::Forced => return Some(CircuitOpen::FORCED),
                // A call would open it again.
                CallDecision::HalfOpenTooLong(now) => {
                    current = self.machine.reopened(current, now, self.cooldown(Duration::ZERO));
                }
            }
        }
        None
    }

    /// Lets a call pass, or refuses it.
    #[inline]
    pub(super) fn admit(&self) -> Result<Ticket, CircuitOpen> {
        match self.word.closed_generation() {
            Ok(generation) => Ok(Ticket { generation, began: self.timestamp() }),
            Err(current) => self.admit_slow(current),
        }
    }

    #[cold]
    fn admit_slow(&self, current: Packed) -> Result<Ticket, CircuitOpen> {
        match self.admit_or_refuse(current.unpack()) {
            Ok(generation) => Ok(Ticket { generation, began: self.timestamp() }),
            Err(_) if self.is_metrics_only() => Ok(Ticket::VOID),
            Err(open) => Err(open),
        }
    }

    fn admit_or_refuse(&self, mut current: Snapshot) -> Result<Generation, CircuitOpen> {
        let backoff = Backoff::new();
        loop {
            match self.machine.admit(current, || self.now()) {
                CallDecision::Pass => return Ok(current.generation),
                CallDecision::Probe(next) => {
                    if self.replace(current, next, None) {
                        return Ok(next.generation);
                    }
                }
                CallDecision::Open(left) => return Err(CircuitOpen::for_micros(left)),
                CallDecision::Probing => return Err(CircuitOpen::PROBING),
                CallDecision::Forced => return Err(CircuitOpen::FORCED),
                CallDecision::HalfOpenTooLong(now) => {
                    let next = self.machine.reopened(current, now, self.cooldown(Duration::ZERO));
                    // If the swap fails, the state that another thread left there is judged next.
                    _ = self.replace(current, next, Some(Cause::HalfOpenTooLong));
                }
            }
            backoff.spin();
            current = self.word.load();
        }
    }

    /// Records the outcome of an admitted call.
    #[inline]
    pub(super) fn record(&self, ticket: Ticket, verdict: Verdict) {
        match verdict {
            Verdict::Success => self.succeeded(ticket),
            Verdict::Failure => self.failed(ticket, Duration::ZERO),
            Verdict::RetryAfter(wait) => self.failed(ticket, wait),
            Verdict::Ignored => self.released(ticket),
        }
    }

    #[inline]
    fn succeeded(&self, ticket: Ticket) {
        if self.machine.has_rates() {
            self.record_in_window(ticket, false, Duration::ZERO);
        }
        if !self.word.is_closed_without_failure(ticket.generation) {
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
        self.settle(ticket.generation, None, |current| self.machine.after_success(current))
    }

    /// Whether the call is a probe that took as long as a slow call.
    ///
    /// Reads the clock for probes only: the window has timed a call of the closed state already.
    fn is_slow_probe(&self, Ticket { generation, began }: Ticket) -> bool {
        if !self.machine.counts_slow_calls() {
            return false;
        }
        let current = self.word.load();
        // While the generation is that of the call, so is the state.
        current.generation == generation
            && matches!(current.phase, Phase::HalfOpen(_))
            && self.machine.is_slow(self.timestamp().saturating_sub(began))
    }

    #[cold]
    fn failed(&self, ticket: Ticket, retry_after: Duration) {
        if self.machine.has_rates() {
            self.record_in_window(ticket, true, retry_after);
        }
        self.settle(ticket.generation, None, |current| {
            self.machine.after_failure(current, || self.now(), self.cooldown(retry_after))
        });
    }

    #[cold]
    fn released(&self, ticket: Ticket) {
        self.settle(ticket.generation, None, StateMachine::after_no_verdict);
    }

    /// Records that the permit was dropped without a verdict.
    #[cold]
    pub(super) fn abandoned(&self, ticket: Ticket) {
        let is_probe = matches!(self.word.load().phase, Phase::HalfOpen(_));
        if self.machine.abandoned_probes_fail() && is_probe {
            self.failed(ticket, Duration::ZERO);
        } else {
            self.released(ticket);
        }
    }

    /// Records the success of a probe whose call goes on, and returns the ticket for the rest of the call.
    ///
    /// If the success closes the breaker, the rest is a call of the closed state; otherwise its outcome is discarded. A
    /// call that is no probe keeps its ticket.
    #[inline]
    pub(super) fn probe_answered(&self, ticket: Ticket) -> Ticket {
        match self.word.closed_generation() {
            Ok(_) => ticket,
            Err(_) => self.probe_answered_slow(ticket),
        }
    }

    #[cold]
    fn probe_answered_slow(&self, ticket: Ticket) -> Ticket {
        let current = self.word.load();
        // While the generation is that of the call, so is the state.
        if current.generation != ticket.generation || !matches!(current.phase, Phase::HalfOpen(_)) {
            return ticket;
        }
        match self.succeeded_slow(ticket) {
            Some(Snapshot { generation, phase: Phase::Closed { .. }, .. }) => {
                Ticket { generation, began: self.timestamp() }
            }
            _ => Ticket::VOID,
        }
    }

    /// Records the outcome of a call of the closed state in the window, and trips if a rate is reached.
    #[inline]
    fn record_in_window(&self, Ticket { generation, began }: Ticket, failed: bool, retry_after: Duration) {
        if self.word.closed_generation() != Ok(generation) && !self.is_disabled(generation) {
            return;
        }
        let is_current = || self.word.load().generation == generation;
        let call = || {
            let ended = self.timestamp();
            let slow = self.machine.is_slow(ended.saturating_sub(began));
            (Outcome { failed, slow }, CallTimes { began, ended })
        };
        let Some(counts) = self.window.record(generation, is_current, call) else {
            return;
        };
        if let Some(cause) = self.machine.trip_cause(counts, self.window.capacity()) {
            self.trip(generation, cause, retry_after);
        }
    }

    #[cold]
    fn is_disabled(&self, generation: Generation) -> bool {
        let current = self.word.load();
        current.generation == generation && matches!(current.phase, Phase::Disabled { .. })
    }

    #[cold]
    fn trip(&self, generation: Generation, cause: Cause, retry_after: Duration) {
        self.settle(generation, Some(cause), |current| match current.phase {
            Phase::Closed { .. } => self.machine.tripped(current, self.now(), self.cooldown(retry_after)),
            _ => current,
        });
    }

    /// Replaces the word of this generation by `next` of it, and returns that; the result of a call of another
    /// generation is discarded.
    #[inline]
    fn settle(
        &self,
        generation: Generation,
        cause: Option<Cause>,
        next: impl Fn(Snapshot) -> Snapshot,
    ) -> Option<Snapshot> {
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            if current.generation != generation {
                return None;
            }
            let next = next(current);
            if next == current || self.replace(current, next, cause) {
                return Some(next);
            }
            backoff.spin();
        }
    }

    /// Brings the breaker into a state, whatever the one before, and ends metrics only.
    pub(super) fn force(&self, phase: Phase) {
        self.set_metrics_only(false);
        let backoff = Backoff::new();
        loop {
            let current = self.word.load();
            if self.replace(current, current.start_over(phase), Some(Cause::Control)) {
                return;
            }
            backoff.spin();
        }
    }

    /// Swaps `old` for `new`, unless the word has changed; then notifies the listener if the generation did. The cause,
    /// where none is given, follows from the states.
    #[inline]
    fn replace(&self, old: Snapshot, new: Snapshot, cause: Option<Cause>) -> bool {
        if !self.word.replace(old, new) {
            return false;
        }
        if old.generation != new.generation {
            let (from, to) = (old.phase.state(), new.phase.state());
            self.listener.on_state_change(StateChange {
                from,
                to,
                cause: cause.unwrap_or_else(|| Cause::of(from, to)),
                generation: new.generation.to_bits() as u32,
            });
        }
        true
    }
}
