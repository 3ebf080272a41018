//! Counts and logs, by the facades `metrics` and `tracing`, each behind a feature.
//!
//! Without these nothing is recorded. Names of metrics are those of damper-metrics; the docs of [`http`](super) list the events of logs.

// | file | idea |
// |---|---|
// | `telemetry` | `Telemetry`: counts and logs the events of a layer |
// | `kind` | the kinds of layers, and the counters of each |
// | `refusal_details` | `RefusalDetails`: the details of a refusal |
// | this one | `Observe`: the seam between gates and their layers |
// | `completion` | what is judged by the wrong protocol |
// | `log_sampler` | which of many similar events are logged |

mod completion;
mod kind;
#[cfg(feature = "tracing")]
mod log_sampler;
mod refusal_details;
#[expect(clippy::module_inception, reason = "the type of this name is in it")]
mod telemetry;

pub(super) use completion::log_grpc_judged_by_http;
pub use kind::{Event, Kind};
pub use refusal_details::{DeadlineStage, RefusalDetails};
pub use telemetry::Telemetry;

use crate::Head;

/// Counts and logs the decisions of a layer, whose gate refuses by an `N`.
pub trait Observe<N> {
    /// Records that a request has its permit.
    fn allowed(&self);

    /// Records that a request was refused.
    fn refused(&self, head: &Head<'_>, refusal: &N);
}

/// It records nothing. A gate may count its own decisions.
impl<N> Observe<N> for () {
    #[inline]
    fn allowed(&self) {}

    fn refused(&self, _: &Head<'_>, _: &N) {}
}
