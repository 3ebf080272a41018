//! Counts and logs, by the facades `metrics` and `tracing`, each behind a feature.
//!
//! Without these nothing is recorded. Names of metrics are those of damper-metrics; the docs of [`http`](super) list the events of logs.

// | file | idea |
// |---|---|
// | `limit` | what a limit decides |
// | `breaker` | what breakers do |
// | `throttle` | what throttles do |
// | `pacing` | what pacing layers do |
// | `deadline` | what deadlines cut off |
// | `concurrency` | what limits on the calls in flight decide |
// | this one | `Observe`: the seam between these and the layers |
// | `completion` | what is judged by the wrong protocol |
// | `log_sampler` | which of many similar events are logged |

mod breaker;
mod completion;
mod concurrency;
mod deadline;
mod limit;
#[cfg(feature = "tracing")]
mod log_sampler;
mod pacing;
mod throttle;

pub use deadline::{DeadlineStage, DeadlineTelemetry};
#[cfg(feature = "tracing")]
pub use log_sampler::{LogSampler, Sample, millis};
pub use pacing::PacingTelemetry;

pub(super) use breaker::BreakerTelemetry;
pub(super) use completion::log_grpc_judged_by_http;
pub(super) use concurrency::ConcurrencyTelemetry;
pub(super) use limit::{InForce, LimitTelemetry};
pub(super) use throttle::ThrottleTelemetry;

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
