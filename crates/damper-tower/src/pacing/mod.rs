//! Services that pace their calls.

// | file | idea |
// |---|---|
// | `layer` | which pacer, what it learns from, and whether rejected calls are made again |
// | `select` | the pacer of a request |
// | `mode` | rejected calls are made again, or returned |
// | `service`, `future` | a service that paces its calls, and its calls |

mod future;
mod layer;
mod mode;
mod select;
mod service;

use future::PacingFuture;
pub use layer::PacingLayer;
use mode::{PaceOnly, PacingMode, Repeating};
use select::{One, SelectPacer, SelectedBy};
pub use service::PacingService;
