//! A second attempt beside a slow first one.

// | file | type |
// |---|---|
// | `hedge` | `Hedge`: when, how often, and at what cost |
// | `config` | `HedgeConfig`, its builder and its error |
// | `status` | `HedgeStatus`: what a hedge did, and what it did not do |
// | `latencies` | `Latencies`: the latencies of recent calls, and a percentile of them |
// | `hedged_call` | `HedgedCall`: the concurrent attempts of one call; the rules |
// | `future` | `HedgeFuture`: makes the attempts of one call |

// First, so that the documentation starts with `run`.
mod hedge;

mod config;
mod future;
mod hedged_call;
mod latencies;
mod status;

pub use config::{HedgeConfig, HedgeConfigBuilder};
pub use future::HedgeFuture;
pub use hedge::{Hedge, HedgeRun};
pub use hedged_call::HedgedCall;
pub use status::HedgeStatus;
