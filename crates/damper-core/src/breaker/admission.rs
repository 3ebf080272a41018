//! Whether a call may be made: the generation is read, and where it is not closed, the policy asked.

use super::policy::Admission;
use super::word::{Generation, Packed, Snapshot};
use super::{Cause, CircuitBreaker, CircuitOpen, OnStateChange, Permit};
use crate::sync::Backoff;
use crate::time::Clock;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::time::Duration;

/// What a permit knows of the call that passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    /// The turn of the state that it belongs to.
    pub(super) generation: Generation,
    /// In microseconds; 0 if nobody asks.
    pub(super) began: u64,
}

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Asks to make one call.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with its probes out.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock, State};
    ///
    /// let clock = ManualClock::new();
    /// let config = BreakerConfig::builder().failure_threshold(1).build()?;
    /// let breaker = CircuitBreaker::with_clock(config, &clock);
    /// breaker.try_acquire()?.failure();
    /// assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), Some(Duration::from_secs(30)));
    ///
    /// clock.advance(Duration::from_secs(30));
    /// let probe = breaker.try_acquire()?;
    /// assert_eq!(breaker.try_acquire().unwrap_err().retry_after(), None); // probe in progress
    /// probe.success();
    /// assert_eq!(breaker.state(), State::Closed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, CircuitOpen> {
        let admitted = self.admit()?;
        Ok(Permit::new(self, admitted))
    }

    /// As [`try_acquire`](Self::try_acquire), with a permit that owns a reference to the breaker: for what outlives the
    /// borrow, like the body of an answer or a spawned task.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] while the breaker is open, or half-open with its probes out.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    #[inline]
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<Permit<Arc<Self>>, CircuitOpen> {
        let admitted = self.admit()?;
        Ok(Permit::new(Arc::clone(self), admitted))
    }

    /// Returns the refusal that a call would get now, or `None` if it would pass.
    ///
    /// Takes no permit and changes nothing. A call that is made later may fare otherwise, so make it with a permit.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{BreakerConfig, CircuitBreaker, ManualClock};
    ///
    /// let breaker = CircuitBreaker::with_clock(BreakerConfig::DEFAULT, ManualClock::new());
    /// assert_eq!(breaker.refusal(), None);
    /// breaker.force_open();
    /// assert_eq!(breaker.refusal(), breaker.try_acquire().err());
    /// ```
    #[inline]
    pub fn refusal(&self) -> Option<CircuitOpen> {
        match self.word.closed_generation() {
            Ok(_) => None,
            Err(current) => self.refusal_slow(current),
        }
    }

    #[cold]
    fn refusal_slow(&self, current: Packed) -> Option<CircuitOpen> {
        let mut current = current.unpack();
        while !self.is_metrics_only() {
            match self.policy.admit(current, || self.now()) {
                Admission::Pass | Admission::Probe(_) => break,
                Admission::Open(left) => return Some(CircuitOpen::for_micros(left)),
                Admission::Probing => return Some(CircuitOpen::PROBING),
                Admission::Forced => return Some(CircuitOpen::FORCED),
                // A call would open it again.
                Admission::HalfOpenTooLong(now) => {
                    current = self.policy.reopened(current, now, self.open_for(Duration::ZERO));
                }
            }
        }
        None
    }

    /// Lets a call pass.
    #[inline]
    pub(super) fn admit(&self) -> Result<Admitted, CircuitOpen> {
        match self.word.closed_generation() {
            Ok(generation) => Ok(Admitted { generation, began: self.timed() }),
            Err(current) => self.admit_slow(current),
        }
    }

    #[cold]
    fn admit_slow(&self, current: Packed) -> Result<Admitted, CircuitOpen> {
        match self.admit_or_refuse(current.unpack()) {
            Ok(generation) => Ok(Admitted { generation, began: self.timed() }),
            Err(_) if self.is_metrics_only() => Ok(Admitted { generation: Generation::NONE, began: 0 }),
            Err(open) => Err(open),
        }
    }

    fn admit_or_refuse(&self, mut current: Snapshot) -> Result<Generation, CircuitOpen> {
        let backoff = Backoff::new();
        loop {
            match self.policy.admit(current, || self.now()) {
                Admission::Pass => return Ok(current.generation),
                Admission::Probe(next) => {
                    if self.replace(current, next, None) {
                        return Ok(next.generation);
                    }
                }
                Admission::Open(left) => return Err(CircuitOpen::for_micros(left)),
                Admission::Probing => return Err(CircuitOpen::PROBING),
                Admission::Forced => return Err(CircuitOpen::FORCED),
                Admission::HalfOpenTooLong(now) => {
                    let next = self.policy.reopened(current, now, self.open_for(Duration::ZERO));
                    // Open from here on, whoever was first.
                    _ = self.replace(current, next, Some(Cause::HalfOpenTooLong));
                }
            }
            backoff.spin();
            current = self.word.load();
        }
    }
}
