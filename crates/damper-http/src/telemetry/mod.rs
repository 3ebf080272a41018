//! What is counted and logged: by the facades `metrics` and `tracing`, each behind a feature, and nothing without. The
//! names are listed in the docs of [`http`](super).

// | file | idea |
// |---|---|
// | `limit` | what a limit decides |
// | `breaker` | what breakers do |
// | `throttle` | what throttles do |
// | `deadline` | what deadlines cut off |
// | `completion` | what is judged by the wrong protocol |

mod breaker;
mod completion;
mod deadline;
mod limit;
mod throttle;

pub(super) use breaker::{BreakerTelemetry, StateGauge};
pub(super) use completion::log_grpc_judged_by_http;
pub(super) use deadline::{DeadlineStage, DeadlineTelemetry};
pub(super) use limit::LimitTelemetry;
pub(super) use throttle::ThrottleTelemetry;
