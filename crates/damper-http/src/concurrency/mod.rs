//! Services behind limits on the calls in flight.

// | file | idea |
// |---|---|
// | `server`, `client` | the layers |
// | `built_limits` | the limits that these build themselves |
// | `admission` | the layer of a server that decides by class, tenant and deadline |
// | `request_classes` | the class, the tenant and the deadline of a request |
// | `exempting` | a gate that not every request of a server is asked at |
// | `held` | the permit of a call, until the response begins, and then until it ends |
// | `time_given` | `TimeGiven`: whether a call that its deadline ended was given enough time |

mod admission;
mod built_limits;
mod client;
mod exempting;
mod held;
mod request_classes;
mod server;
mod time_given;

pub use admission::{AdmissionGate, AdmissionLayer, ShadowedGate};
pub use built_limits::{AdaptiveLimitPerHost, BulkheadPerHost};
pub use client::ClientConcurrencyLayer;
pub use exempting::Exempting;
pub use held::PermitObserver;
use held::{Held, OverloadInTrailers, body_limits};
pub use request_classes::RequestClasses;
pub use server::ConcurrencyLayer;
use time_given::TimeGiven;

/// A service whose calls in flight are limited.
///
/// Made by [`ConcurrencyLayer`] at a server, and by [`ClientConcurrencyLayer`] at a client. At a server, the data of its responses have to be
/// `Bytes`.
///
/// A future or a body that is dropped frees its slot at once, and so does one that panics. A request that waits gives up its place.
pub type ConcurrencyService<T, L> = damper_tower::GateService<T, L>;
