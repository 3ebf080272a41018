//! Breakers in one word, whose settings do not change.

use crate::breaker::permit::Breaker;
use crate::breaker::state_word::{Generation, Snapshot};
use crate::breaker::transitions::Transitions;
use crate::breaker::{CircuitOpen, Verdict};
use core::fmt;
use core::time::Duration;

/// A breaker whose word is its whole state.
pub(crate) trait FixedBreaker: Transitions<Request = ()> + fmt::Debug {
    /// Returns whether a success counts beside a closed state without failures.
    fn counts_successes(&self) -> bool;

    /// Returns whether a probe that is dropped has failed.
    fn abandoned_probes_fail(&self) -> bool;

    #[cold]
    fn admit_slow(&self, current: Snapshot<Self::Word>) -> Result<Generation, CircuitOpen> {
        self.admit_or_refuse(current)
    }

    /// Out of line, to be there once.
    #[inline(never)]
    fn succeeded(&self, generation: Generation) -> Option<Snapshot<Self::Word>> {
        self.after_success(generation)
    }

    #[cold]
    fn failed(&self, generation: Generation) {
        self.after_failure(generation, Duration::ZERO);
    }
}

impl<B: FixedBreaker> Breaker for B {
    type Ticket = Generation;

    #[inline]
    fn admit(&self) -> Result<Generation, CircuitOpen> {
        match self.closed_generation() {
            Ok(generation) => Ok(generation),
            Err(current) => self.admit_slow(current),
        }
    }

    #[inline]
    fn record(&self, generation: Generation, verdict: Verdict) {
        match verdict {
            Verdict::Success => {
                if self.counts_successes() || !self.word().load().is_closed_without_failure(generation) {
                    self.succeeded(generation);
                }
            }
            Verdict::Failure | Verdict::RetryAfter(_) | Verdict::DeadlineExceeded => self.failed(generation),
            Verdict::Ignored => self.released(generation),
        }
    }

    #[cold]
    fn abandoned(&self, generation: Generation) {
        if self.abandoned_probes_fail() && self.is_probe(generation) {
            self.failed(generation);
        } else {
            self.released(generation);
        }
    }

    fn probe_answered(&self, generation: &mut Generation) {
        if self.is_probe(*generation) {
            *generation = match self.succeeded(*generation) {
                Some(next) if next.is_closed() => next.generation(),
                _ => Generation::NONE,
            };
        }
    }
}
