//! Services whose slow calls are made twice.

// | file | idea |
// |---|---|
// | `layer` | when, how often, and what a failure is |
// | `service` | a service whose slow calls are made twice |
// | `future` | a call on its way through its attempts |
// | `kept` | the request of other attempts, and what the outcomes so far say about the next one |
// | `body` | the body of a response, which a failed one gives up |
// | `attempt` | an attempt beside the first: readiness, then the call |

mod attempt;
mod body;
mod future;
mod kept;
mod layer;
mod service;

use body::HedgedBody;
use future::HedgingFuture;
pub use layer::HedgeLayer;
pub use service::Hedging;
