//! Observers of the end of a call.

use damper_core::breaker::Verdict;

/// Observes how a call ends.
///
/// Examples are a breaker's [`Permit`](damper_core::breaker::Permit), the permit of a concurrency limit and a measurement.
///
/// It is notified of at most one end. If it is dropped without one, the call was not made, or the caller dropped a body that it was not
/// waiting for.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot learn how a call ended",
    note = "a `damper::breaker::Permit` can; implement `damper::http::CallObserver` for what your own layer holds"
)]
pub trait CallObserver: Sized {
    /// Records the end of the call.
    fn ended(self, verdict: Verdict);

    /// Records that the first data of the response body has arrived. Default: does nothing.
    ///
    /// The call goes on. This is not called if the head ends the call, or if the first data is the last.
    fn first_data(&mut self) {}

    /// Records that the caller went away while it waited for the server. Default: drops the observer.
    ///
    /// The caller dropped the call before its response, or a body that was pending.
    fn abandoned(self) {}

    /// Records that the call panicked. Default: records a failure.
    fn panicked(self) {
        self.ended(Verdict::Failure);
    }
}
