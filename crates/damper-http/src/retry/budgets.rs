//! The choice of a budget for a request's retries.

use crate::Head;
use damper_core::retry::Budget;

/// Chooses the budget for a request's retries.
///
/// A plain [`Budget`] serves all requests. [`Hosts`](crate::Hosts) have one each. Implement this trait to choose the budget
/// in another way.
///
/// # Examples
///
/// A budget for reads and one for writes:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::{Budgets, Head, RetryLayer};
/// use damper::{Retry, RetryBudget};
///
/// #[derive(Default)]
/// struct Apart {
///     reads: RetryBudget,
///     writes: RetryBudget,
/// }
///
/// impl Budgets for Apart {
///     type Budget = RetryBudget;
///     type Choice = bool; // whether it is a read
///
///     fn choose(&self, head: &Head<'_>) -> bool {
///         head.method.is_safe()
///     }
///
///     fn budget<'a>(&'a self, is_read: &'a bool) -> &'a RetryBudget {
///         if *is_read { &self.reads } else { &self.writes }
///     }
/// }
///
/// # async fn sleep(_: std::time::Duration) {}
/// let layer = RetryLayer::sleeping_by(Retry::new(3), sleep).budgets(Apart::default());
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Budgets`",
    note = "one for all requests is a `RetryBudget`, also in a `static` or an `Arc`; one per host is made by `Hosts::budgets`"
)]
pub trait Budgets {
    /// A budget.
    type Budget: Budget;

    /// The value by which a call finds its budget: a key, or the budget itself in an `Arc`.
    type Choice;

    /// Chooses the budget of a request, once per call.
    fn choose(&self, head: &Head<'_>) -> Self::Choice;

    /// Returns the budget that was chosen.
    fn budget<'a>(&'a self, choice: &'a Self::Choice) -> &'a Self::Budget;
}

/// Returns the one budget for all requests.
impl<B: Budget> Budgets for B {
    type Budget = B;
    type Choice = ();

    #[inline]
    fn choose(&self, _: &Head<'_>) {}

    #[inline]
    fn budget<'a>(&'a self, (): &'a ()) -> &'a B {
        self
    }
}
