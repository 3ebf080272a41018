//! The deadlines of requests.

use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::gate::TimeLeft;

/// Finds the deadline of a request, which bounds its wait.
///
/// Every closure with this argument implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not find the deadline of a `{R}`",
    note = "a closure has the form `|request: &{R}| -> Option<damper::Deadline>`"
)]
pub trait FindDeadline<R> {
    /// Returns the deadline of a request, if it has one.
    fn deadline(&self, request: &R) -> Option<Deadline>;
}

impl<R, F: Fn(&R) -> Option<Deadline>> FindDeadline<R> for F {
    #[inline]
    fn deadline(&self, request: &R) -> Option<Deadline> {
        self(request)
    }
}

/// Requests have no deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoDeadline;

impl<R> FindDeadline<R> for NoDeadline {
    #[inline]
    fn deadline(&self, _: &R) -> Option<Deadline> {
        None
    }
}

/// The time until the deadline that `F` finds.
#[derive(Clone, Copy, Debug)]
pub struct UntilDeadline<F>(pub(crate) F);

impl<R, F: FindDeadline<R>> TimeLeft<R> for UntilDeadline<F> {
    #[inline]
    fn left(&self, request: &R) -> Option<Duration> {
        self.0.deadline(request).map(|deadline| deadline.remaining())
    }
}
