//! The permit of a call.

use alloc::sync::Arc;
use core::time::Duration;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, BulkheadPermit, LimitRule, Outcome};
use damper_core::time::Clock;

/// Holds the slot of a call until it is dropped, and learns of the service's load from the call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the permit of a call",
    note = "implement `damper::http::ConcurrencyPermit` for it; all methods have defaults"
)]
pub trait ConcurrencyPermit {
    /// Whether permits of this type may learn from responses. Default: `true`.
    ///
    /// With `false` nothing is recorded, and no response is judged, which saves the time.
    const LEARNS: bool = true;

    /// Returns whether this permit learns from the response.
    ///
    /// For a type that holds permits of several kinds.
    ///
    /// Default: [`LEARNS`](Self::LEARNS).
    #[inline]
    fn learns(&self) -> bool {
        Self::LEARNS
    }

    /// Records what the call says about the load of the service.
    ///
    /// The call goes on, and keeps its slot. Default: does nothing.
    ///
    /// It is called when the response begins, or the error in its place is there: a latency that is measured from the permit to
    /// now is the server's, and leaves out the time in which the caller reads the body. If trailers say later that the service is
    /// overloaded, it is called a second time.
    fn record(&mut self, outcome: Outcome) {
        _ = outcome;
    }

    /// Returns how long a call takes while the service is not overloaded, if the limit knows it.
    ///
    /// Default: `None`. 0.9 s count as that time then.
    ///
    /// A call that was given less time and ends by its deadline is no sign of overload, unless the layer has a `min_budget`.
    fn typical_latency(&self) -> Option<Duration> {
        None
    }
}

impl<C: Clock> ConcurrencyPermit for BulkheadPermit<Arc<Bulkhead<C>>> {
    const LEARNS: bool = false;
}

impl<C: Clock> ConcurrencyPermit for BulkheadPermit<&Bulkhead<C>> {
    const LEARNS: bool = false;
}

impl<R: LimitRule, C: Clock> ConcurrencyPermit for BulkheadPermit<Arc<AdaptiveLimit<R, C>>> {
    #[inline]
    fn record(&mut self, outcome: Outcome) {
        self.record_early(outcome);
    }

    fn typical_latency(&self) -> Option<Duration> {
        self.baseline()
    }
}

impl<R: LimitRule, C: Clock> ConcurrencyPermit for BulkheadPermit<&AdaptiveLimit<R, C>> {
    #[inline]
    fn record(&mut self, outcome: Outcome) {
        self.record_early(outcome);
    }

    fn typical_latency(&self) -> Option<Duration> {
        self.baseline()
    }
}
