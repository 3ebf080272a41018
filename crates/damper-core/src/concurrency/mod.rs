//! Limits on how many calls are in flight at once.

// | file | type |
// |---|---|
// | `slots` | `Slots`, the word of a bulkhead: its limit, the calls in flight, the calls queued |
// | `adaptive` | limits that follow the latency of calls |

mod adaptive;
mod slots;

pub use adaptive::{
    Aimd, Gradient2, LimitBounds, LimitBoundsError, LimitRule, ProbedGradient, Vegas, WindowPlan, WindowSummary,
};
