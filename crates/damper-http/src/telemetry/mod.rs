//! What is counted and logged: by the facades `metrics` and `tracing`, each behind a feature, and nothing without. The
//! names are listed in the docs of [`http`](super).

// | file | idea |
// |---|---|
// | `limit` | what a limit decides |
// | `breaker` | what breakers do |

mod breaker;
mod limit;

pub(super) use breaker::{BreakerTelemetry, StateGauge};
pub(super) use limit::LimitTelemetry;
