//! Services whose requests carry what is left of a deadline.

// | file | idea |
// |---|---|
// | `layer` | where the deadline comes from, and what of it is sent |
// | `service` | a service whose requests carry it |
// | `future` | its calls |

mod future;
mod layer;
mod service;

pub use future::ClientDeadlineFuture;
pub use layer::ClientDeadlineLayer;
pub use service::ClientDeadline;
