//! Services that pace their calls.

// | file | idea |
// |---|---|
// | `layer` | which pacer, what it learns from, and whether rejected calls are made again |
// | `side` | calls that are only paced, at a gate |
// | `service` | a service that makes rejected calls again |

mod layer;
mod service;
mod side;

pub use layer::PacingLayer;
use service::PacingService;
use side::PacedSide;
