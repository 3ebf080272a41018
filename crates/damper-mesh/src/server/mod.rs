//! Serves Mesh over HTTP.

// | file | idea |
// |---|---|
// | `layer` | the limits of a service, and its callers |
// | `service` | reads the envelope, limits, honours the deadline, writes the response |
// | `incoming_call` | the argument of a function |
// | `http_response` | a document as an HTTP response; the body of a refusal |

mod http_response;
mod incoming_call;
mod layer;
mod service;

pub(crate) use http_response::JSON;
pub use http_response::refusal_body;
pub use incoming_call::IncomingCall;
pub use layer::MeshLayer;
use service::MeshService;
