//! What learns how a call ended.

use damper_core::breaker::Verdict;

/// Learns how a call ended: a breaker's [`Permit`](damper_core::Permit), the permit of a concurrency limit, a measurement.
///
/// It learns at most one end. If it is dropped without one, the call was not made, or the caller dropped a body that it
/// did not wait for.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot learn how a call ended",
    note = "a `damper::Permit` can; implement `damper::http::CallObserver` for what your own layer holds"
)]
pub trait CallObserver: Sized {
    /// Records the end of the call.
    fn ended(self, verdict: Verdict);

    /// Records that the first data of the response's body arrived. The call goes on. Default: does nothing.
    ///
    /// It is not called where the head ends the call, nor where the first data are the last.
    fn first_data(&mut self) {}

    /// Records that the caller went away while it waited for the server: it dropped the call before its response, or a body
    /// that was pending. Default: drops the observer.
    fn abandoned(self) {}

    /// Records that the call panicked. Default: a failure.
    fn panicked(self) {
        self.ended(Verdict::Failure);
    }
}
