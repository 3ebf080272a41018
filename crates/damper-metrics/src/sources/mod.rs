//! The metrics of each primitive of damper.

// | file | sources |
// |---|---|
// | `limits` | limiters, alone and per key with their tiers; stores of any value |
// | `breakers` | circuit breakers, alone and per key |
// | `concurrency` | bulkheads, adaptive limits and admission |
// | `throttles` | throttles and pacers |
// | `retries` | retry budgets, usual latencies |
// | `gates` | gates around others; logs and candidates beside a primitive |

mod breakers;
mod concurrency;
mod gates;
mod limits;
mod retries;
mod throttles;

pub(crate) use breakers::state_label;
