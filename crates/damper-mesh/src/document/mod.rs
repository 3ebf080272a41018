//! The Mesh documents, as plain types.

// | file | idea |
// |---|---|
// | `protocol` | the name and the version of the protocol |
// | `request`, `response` | the envelopes of a call and of its response |
// | `mesh_error` | an error in a response |
// | `meta` | the metadata of a response |
// | `rate_limit_usage` | how much of a limit is used |
// | `warnings` | the thresholds of warnings |
// | `rate_limited` | the details of a refusal |
// | `scope` | the scope of a limit |
// | `capabilities` | the limits that a service publishes |
// | `mesh_duration` | a whole number of a unit of time |
// | `object` | a reader of objects that rejects arrays |
// | `name` | a reader of variant names that rejects objects |
// | `read_error` | why a document could not be read |

mod capabilities;
mod mesh_duration;
mod mesh_error;
mod meta;
mod name;
mod object;
mod protocol;
mod rate_limit_usage;
mod rate_limited;
mod read_error;
mod request;
mod response;
mod scope;
mod warnings;

pub use capabilities::{Capabilities, LimitCapability, LimitsCapability};
pub use mesh_duration::{MeshDuration, TimeUnit};
pub use mesh_error::MeshError;
pub use meta::{Fragment, Meta, ScopedUsages};
pub use protocol::Protocol;
pub use rate_limit_usage::RateLimitUsage;
pub use rate_limited::RateLimited;
pub use read_error::ReadError;
pub use request::{Call, Request, RequestExtension};
pub use response::{Response, ResponseExtension};
pub use scope::Scope;
pub use warnings::Warnings;

pub(crate) use object::Object;
pub(crate) use rate_limited::details_of;
pub(crate) use read_error::{read, shortened};
