//! A second attempt beside a slow first one.

// | file | type |
// |---|---|
// | `hedge` | `Hedge`: when, how often, and what it may cost |
// | `config` | `HedgeConfig`, its builder and its error |
// | `latencies` | `Latencies`: how long recent calls took, and a percentile of it |
// | `hedged_call` | `HedgedCall`: the attempts of one call, side by side; the rules |
// | `future` | `HedgeFuture`: makes the attempts of one call |

// First, so that the documentation begins with how to hedge.
mod hedge;

mod config;
mod future;
mod hedged_call;
mod latencies;

pub use config::{HedgeConfig, HedgeConfigBuilder, HedgeConfigError};
pub use future::HedgeFuture;
pub use hedge::{Hedge, HedgeRun};
pub use hedged_call::HedgedCall;
