//! Calls services of Mesh.

// | file | idea |
// |---|---|
// | `client` | the calls of a service, with their attempts |
// | `builder` | the settings of a client |
// | `mesh_backoff` | the wait after a refusal |
// | `pacer` | paces calls by the usage in recent responses |
// | `error` | errors of a call |

mod builder;
mod client;
mod error;
mod mesh_backoff;
pub(crate) mod pacer;

pub use builder::ClientBuilder;
pub use client::Client;
pub use error::CallError;
pub use mesh_backoff::MeshBackoff;
