//! Services whose responses end by the deadline of their requests.

// | file | idea |
// |---|---|
// | `layer` | where the deadline comes from |
// | `service` | a service whose requests have deadlines |
// | `future` | its calls |

mod future;
mod layer;
mod service;

pub use future::ServerDeadlineFuture;
pub use layer::DeadlineLayer;
pub use service::ServerDeadline;
