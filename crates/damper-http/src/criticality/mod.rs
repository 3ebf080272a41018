//! The class and the tenant of a request, which are read from trusted callers and passed on.
//!
//! They travel as a deadline does. A server's layer turns the headers of a trusted caller into a [`CallClass`] in the extensions of the
//! request, a handler passes it on by value, and a client's layer writes the headers of the next call.

// | file | idea |
// |---|---|
// | `call_class` | the class and the tenant of a call, as a value |
// | `headers` | the headers that carry them |
// | `server` | the layer of a server, which decides whom to believe |
// | `client` | the layer of a client, which passes them on |

mod call_class;
mod client;
mod headers;
mod server;

pub use call_class::CallClass;
pub use client::ClientCriticalityLayer;
pub use headers::ClassHeaders;
pub use server::CriticalityLayer;
