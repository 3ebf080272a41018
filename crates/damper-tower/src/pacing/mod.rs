//! Services that pace their calls.

// | file | idea |
// |---|---|
// | `layer` | which pacer, what it learns from, and whether rejected calls are made again |
// | `side` | calls that are only paced, at a gate |
// | `service`, `future` | a service that makes rejected calls again, and its calls |

mod future;
mod layer;
mod service;
mod side;

use future::PacingFuture;
pub use layer::PacingLayer;
pub use service::PacingService;
pub use side::PacedSide;
