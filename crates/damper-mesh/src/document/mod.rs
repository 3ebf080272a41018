//! The Mesh documents, as plain types.

// | file | idea |
// |---|---|
// | `request`, `response` | the envelopes of a call and of its response; the version of the protocol |
// | `mesh_error` | an error in a response |
// | `meta` | the metadata of a response |
// | `rate_limit_usage` | how much of a limit is used; the scope of a limit |
// | `warnings` | the thresholds of warnings |
// | `rate_limited` | the details of a refusal |
// | `capabilities` | the limits that a service publishes |
// | `mesh_duration` | a whole number of a unit of time |
// | `object` | a reader of objects that rejects arrays, and one of variant names that rejects objects |
// | `read_error` | why a document could not be read |

mod capabilities;
mod mesh_duration;
mod mesh_error;
mod meta;
mod object;
mod rate_limit_usage;
mod rate_limited;
mod read_error;
mod request;
mod response;
mod warnings;

pub use capabilities::{Capabilities, LimitCapability};
pub use mesh_duration::{MeshDuration, TimeUnit};
pub use mesh_error::MeshError;
pub use meta::{Fragment, Meta};
pub use rate_limit_usage::{RateLimitUsage, Scope};
pub use rate_limited::RateLimited;
pub use read_error::ReadError;
use request::Protocol;
pub use request::{Call, Request};
pub use response::Response;
pub use warnings::Warnings;

pub(crate) use object::Object;
pub(crate) use rate_limited::details_of;
pub(crate) use read_error::{read, shortened};
