//! Services behind bulkheads.

// | file | idea |
// |---|---|
// | `layer` | which bulkhead, and whether to wait |
// | `select` | the bulkhead of a request |
// | `service`, `future` | a service behind bulkheads, and its calls |

mod future;
mod layer;
mod select;
mod service;

pub use future::BulkheadFuture;
pub use layer::BulkheadLayer;
pub use select::{SelectBulkhead, SharedBulkhead};
pub use service::BulkheadService;
