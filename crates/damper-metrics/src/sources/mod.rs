//! The metrics of each primitive of damper.

// | file | sources |
// |---|---|
// | `limits` | limiters without a key |
// | `keyed_limits` | limits per key, with their tiers |
// | `breakers` | circuit breakers, alone and per key |
// | `concurrency` | bulkheads, adaptive limits and admission |
// | `throttles` | throttles and pacers |
// | `retries` | retry budgets, usual latencies |
// | `logged` | limiters whose decisions are logged |
// | `shadows` | candidates beside what is in force |
// | `stores` | stores of any value |

mod breakers;
mod concurrency;
mod gates;
mod keyed_limits;
mod limits;
mod logged;
mod retries;
mod shadows;
mod stores;
mod throttles;

pub(crate) use breakers::state_label;
