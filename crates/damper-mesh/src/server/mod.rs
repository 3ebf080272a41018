//! Serves Mesh over HTTP.

// | file | idea |
// |---|---|
// | `layer` | the limits of a service, and its callers |
// | `service` | reads the envelope, limits, honours the deadline, writes the answer |
// | `incoming_call` | what a function gets |
// | `http_response` | a document as a response of HTTP |

mod http_response;
mod incoming_call;
mod layer;
mod service;

pub use incoming_call::IncomingCall;
pub use layer::MeshLayer;
pub use service::MeshService;
