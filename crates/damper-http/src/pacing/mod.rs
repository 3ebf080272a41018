//! Services that pace their calls.

// | file | idea |
// |---|---|
// | `layer` | the pacers, their hints, and whether rejected calls are retried |
// | `http_hints` | the hints of an HTTP response about the server's limit |
// | `mode` | whether rejected calls are retried or returned |
// | `paced_requests` | requests that are only paced, at a gate: their deadlines, and what is recorded of them |
// | `service` | a service that paces its calls, and retries them |
// | `by_pacer` | the attempts of its calls: their pacer learns from each, and says when a rejected one is made again |

mod by_pacer;
mod http_hints;
mod layer;
mod mode;
mod paced_requests;
mod service;

pub use layer::PacingLayer;
pub use mode::{PaceOnly, Repeating, Unjudged};
pub use service::PacingService;
