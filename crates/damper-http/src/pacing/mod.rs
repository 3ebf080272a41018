//! Services that pace their calls.

// | file | idea |
// |---|---|
// | `layer` | the pacers, their hints, and whether rejected calls are retried |
// | `host_pacers` | a pacer per host |
// | `http_hints` | the hints of an HTTP response about the server's limit |
// | `mode` | whether rejected calls are retried or returned |
// | `paced_requests` | requests that are only paced, at a gate: their deadlines, and what is recorded of them |
// | `service` | a service that paces its calls, and retries them |
// | `paced_service`, `paced_attempt` | one of its attempts, from whose response a pacer learns |
// | `paced_retries` | the retries of rejected attempts |

mod host_pacers;
mod http_hints;
mod layer;
mod mode;
mod paced_attempt;
mod paced_requests;
mod paced_retries;
mod paced_service;
mod service;

pub use host_pacers::HostPacers;
pub use http_hints::HttpHints;
pub use layer::PacingLayer;
pub use mode::{PaceOnly, Repeating};
use paced_retries::PacedRetries;
pub use paced_retries::Unjudged;
pub use service::PacingService;
