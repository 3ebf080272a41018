//! A call behind a breaker.

use super::admission::Admitted;
use super::{CallError, CircuitBreaker, OnStateChange, Verdict};
use crate::time::Clock;
use core::time::Duration;

impl<C: Clock, L: OnStateChange> CircuitBreaker<C, L> {
    /// Makes one call if the breaker lets it pass; `Err` is a failure, and so is unwinding out of it.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was.
    #[inline]
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_with(call, Verdict::of)
    }

    /// As [`call`](Self::call), with a verdict of your own on what the call returned.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was not made, [`CallError::Failed`] with its error if it was, whatever the
    /// verdict.
    ///
    /// # Examples
    ///
    /// What is not found is not the callee's failure:
    ///
    #[cfg_attr(feature = "std", doc = "```")]
    #[cfg_attr(not(feature = "std"), doc = "```text")]
    /// # extern crate damper_core as damper;
    /// use damper::{CircuitBreaker, Verdict};
    /// use std::io::ErrorKind;
    ///
    /// let breaker = CircuitBreaker::default();
    /// for _ in 0..10 {
    ///     let missing = breaker.call_with(
    ///         || std::fs::read_to_string("/no/such/file"),
    ///         |result| match result {
    ///             Err(error) if error.kind() == ErrorKind::NotFound => Verdict::Ignored,
    ///             result => Verdict::of(result),
    ///         },
    ///     );
    ///     assert!(missing.is_err());
    /// }
    /// assert_eq!(breaker.state(), damper::State::Closed);
    /// ```
    #[inline]
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Verdict,
    ) -> Result<T, CallError<E>> {
        let admitted = self.admit()?;
        let guard = FailureOnUnwind { breaker: self, admitted };
        let result = call();
        let verdict = classify(&result);
        core::mem::forget(guard);
        self.record_verdict(admitted, verdict);
        result.map_err(CallError::Failed)
    }
}

/// Tells a failure when a call unwinds; else it is forgotten.
struct FailureOnUnwind<'a, C: Clock, L: OnStateChange> {
    breaker: &'a CircuitBreaker<C, L>,
    admitted: Admitted,
}

impl<C: Clock, L: OnStateChange> Drop for FailureOnUnwind<'_, C, L> {
    fn drop(&mut self) {
        self.breaker.failed(self.admitted, Duration::ZERO);
    }
}
