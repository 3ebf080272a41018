//! Services behind limits on the calls in flight.

// | file | idea |
// |---|---|
// | `server`, `client` | the layers |
// | `server_settings` | the limit and the settings that all services of a server's layer share |
// | `server_side` | the limit of a layer before a server: its refusals, and the responses that hold its permits |
// | `built_limits` | the limits that these build themselves |
// | `admission` | the layer of a server that decides by class, tenant and deadline |
// | `request_classes` | the class, the tenant and the deadline of a request |
// | `held` | a call of a server that has its slot, and has no response yet |

use crate::completion::EveryStatus;

mod admission;
mod built_limits;
mod client;
mod held;
mod request_classes;
mod server;
mod server_settings;
mod server_side;

pub use admission::{AdmissionGate, AdmissionLayer, ShadowedGate};
pub use built_limits::{AdaptiveLimitPerHost, BulkheadPerHost};
pub use client::{ClientConcurrencyLayer, ClientConcurrencyService};
use held::Held;
pub use request_classes::RequestClasses;
pub use server::ConcurrencyLayer;

/// A server's service whose calls in flight are limited.
///
/// Made by [`ConcurrencyLayer`].
///
/// The data of its responses have to be `Bytes`. A future or a body that is dropped frees its slot at once, and so does one that panics. A request
/// that waits gives up its place.
pub type ConcurrencyService<T, L, V = EveryStatus> = damper_tower::GateService<T, ConcurrencyLayer<L, V>>;
