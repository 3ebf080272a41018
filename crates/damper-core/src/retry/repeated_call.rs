//! An asynchronous call that a policy may make again.

use core::fmt;

/// An asynchronous call that a policy may make again.
///
/// [`Retry::run`](super::Retry::run), `Hedge::run` and [`Pacer::run`](crate::throttle::Pacer::run) return it.
///
/// It does nothing until it is awaited. With the feature `tokio` it can be awaited as it is; `sleeping_by` makes a future for any other
/// runtime.
///
/// | of | the future |
/// |---|---|
/// | a [`Retry`](super::Retry) | drops an attempt that is in flight at the deadline |
/// | a `Hedge` | makes attempts beside each other. The first one needs no allocation, and each further one a box |
/// | a [`Pacer`](crate::throttle::Pacer) | interrupts no attempt: put a timeout into it |
///
/// # Errors
///
/// [`RetryError`](crate::RetryError), as for `call` of the policy. A `Hedge` returns the error of an attempt.
///
/// # Cancel safety
///
/// Dropping the future drops the attempts in flight, and no other one is made. A retry that was withdrawn from a budget is spent. A pacer
/// does not learn from a dropped attempt. A call that is dropped while it sleeps loses its place in the
/// [schedule](crate::throttle::Strategy::schedule). Polled again after it was ready, the future of a `Hedge` makes the call again. Those of a
/// `Retry` and of a `Pacer` stay pending.
#[must_use = "nothing is called before it is awaited"]
pub struct RepeatedCall<P, O> {
    pub(crate) policy: P,
    pub(crate) operation: O,
}

impl<P, O> fmt::Debug for RepeatedCall<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepeatedCall").finish_non_exhaustive()
    }
}
