//! Calls services of Mesh.

// | file | idea |
// |---|---|
// | `client` | one call on its way through its attempts |
// | `builder` | how a client is set up |
// | `mesh_backoff` | how long to wait after a refusal |
// | `pacer` | slows calls down before the limit is reached |
// | `error` | why there is no answer |

mod builder;
mod client;
mod error;
mod mesh_backoff;
mod pacer;

pub use builder::ClientBuilder;
pub use client::Client;
pub use error::CallError;
pub use mesh_backoff::MeshBackoff;
