//! Services behind limits on the calls in flight.

// | file | idea |
// |---|---|
// | `limit` | `ConcurrencyLimit`: what gives a request its permit, at once or later |
// | `permit` | `ConcurrencyPermit`: holds the slot of a call, and learns what the call says about the load |
// | `bulkheads` | `Bulkheads`: which bulkhead or adaptive limit a request has to enter |
// | `waiting` | `Waiting`: requests that wait in the queues of these |
// | `shadowed` | `ShadowedLimit`: a limit in force, and a candidate beside it |
// | `classify` | what a response says about the load of its server |
// | `server`, `client` | the layers |
// | `built_limits` | the limits that these build themselves |
// | `admission` | the layer of a server that decides by class, tenant and deadline |
// | `side` | what differs between the two layers |
// | `service`, `future` | a service behind a limit, and its calls |
// | `held` | the permit of a call, until the response begins, and then until it ends |
// | `time_given` | `TimeGiven`: whether a call that its deadline ended was given enough time |

mod admission;
mod built_limits;
mod bulkheads;
mod classify;
mod client;
mod future;
mod held;
mod limit;
mod permit;
mod server;
mod service;
mod shadowed;
mod side;
mod time_given;
mod waiting;

pub use admission::{AdmissionGate, AdmissionLayer, ShadowedGate};
pub use bulkheads::{Bulkheads, PermitOrWait};
pub use classify::{ClassifyLoad, LoadSigns};
pub use client::ClientConcurrencyLayer;
pub use future::ConcurrencyFuture;
pub use held::PermitObserver;
use held::{Held, OverloadInTrailers};
pub use limit::{Acquisition, ConcurrencyLimit};
pub use permit::ConcurrencyPermit;
pub use server::ConcurrencyLayer;
pub use service::ConcurrencyService;
pub use shadowed::{ShadowedAcquireFuture, ShadowedLimit, ShadowedPermit};
use side::{Answer, PermitOf, Side};
use time_given::TimeGiven;
pub use waiting::Waiting;
