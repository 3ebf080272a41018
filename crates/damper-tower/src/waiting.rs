//! Calls that wait, and calls that are refused at once.

use core::time::Duration;
use damper_core::deadline::Deadline;

/// Refuses calls that cannot be made at once.
#[derive(Clone, Copy, Debug)]
pub struct Refusing<L>(pub(crate) L);

/// Lets calls wait, for tokens or for permits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<L, Z, D = NoDeadline> {
    /// The limiter, or the bulkheads.
    pub(crate) limit: L,
    pub(crate) longest: Duration,
    pub(crate) sleep: Z,
    pub(crate) find_deadline: D,
}

impl<L, Z, D> Waiting<L, Z, D> {
    /// Finds deadlines in another way.
    pub(crate) fn deadline_by<F>(self, find_deadline: F) -> Waiting<L, Z, F> {
        let Self { limit, longest, sleep, .. } = self;
        Waiting { limit, longest, sleep, find_deadline }
    }
}

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

/// A service that can be called after a wait: every one that is `Clone`.
#[diagnostic::on_unimplemented(
    message = "the service `{Self}` is not `Clone`, so it cannot be called after a wait",
    note = "put tower's `BufferLayer` between this layer and the service, or call `boxed_clone` before the type is lost",
    note = "a `LimitLayer` or a `BulkheadLayer` without `waiting` takes every service"
)]
pub trait WaitingService: Clone {}

#[diagnostic::do_not_recommend]
impl<S: Clone> WaitingService for S {}
