//! Calls Mesh services.

// | file | idea |
// |---|---|
// | `client` | the calls of a service, with their attempts |
// | `builder` | the settings of a client |
// | `mesh_backoff` | the wait after a refusal |
// | `mesh_hints` | reads hints for a core pacer from responses |
// | `scope_pacer` | paces calls by the usage in recent responses |
// | `error` | errors of a call |

mod builder;
mod client;
mod error;
mod mesh_backoff;
mod mesh_hints;
pub(crate) mod scope_pacer;

pub use builder::ClientBuilder;
pub use client::Client;
pub use error::CallError;
pub use mesh_backoff::MeshBackoff;
pub use mesh_hints::MeshHints;
