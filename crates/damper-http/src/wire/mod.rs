//! Values of headers: a server's limits, the client that a request is from, and its urgency.
//!
//! | header | written or read by | source |
//! |---|---|---|
//! | `Retry-After` | [`retry_after`], [`retry_after_in`] | RFC 9110, section 10.2.3 |
//! | `RateLimit-Policy`, `RateLimit` | [`RateLimitHeaders`], [`RateLimitStatus`] | draft-ietf-httpapi-ratelimit-headers, RFC 9651 |
//! | `X-RateLimit-Limit`, `-Remaining`, `-Reset` | [`x_rate_limit`], [`RateLimitStatus`] | custom, without a document |
//! | `grpc-timeout` | [`grpc_timeout`], [`grpc_timeout_in`] | gRPC over HTTP/2 |
//! | `Priority` | [`urgency_in`] | RFC 9218 |
//! | `X-Forwarded-For` | [`TrustedProxies`] | custom, without a document |
//! | `Forwarded` | [`TrustedProxies::forwarded`] | RFC 7239 |
//!
//! A wait that is written is whole seconds from now, rounded up: a client that waits for them has waited long
//! enough, whatever its clock says.

// | file | idea |
// |---|---|
// | `retry_after` | `Retry-After`, written and read |
// | `rate_limit` | `RateLimit-Policy` and `RateLimit`, written |
// | `rate_limit_status` | what a server says of its limit, read from any of these headers |
// | `string_items` | lists of structured fields, read |
// | `policies` | values of `RateLimit-Policy` that were formatted before |
// | `x_rate_limit` | `X-RateLimit-Limit`, `-Remaining`, `-Reset` |
// | `grpc_timeout` | `grpc-timeout`, written and read |
// | `priority` | the urgency in `Priority`, read |
// | `grpc_status` | a status of gRPC, written |
// | `trusted_proxies` | the client's address, from what trusted proxies wrote |
// | `x_forwarded_for`, `forwarded` | the hops of these headers, from the right |
// | `node` | the address of a hop |

mod forwarded;
mod grpc_status;
mod grpc_timeout;
mod node;
mod policies;
mod priority;
mod rate_limit;
mod rate_limit_status;
mod reset;
mod retry_after;
mod string_items;
mod trusted_proxies;
mod x_forwarded_for;
mod x_rate_limit;

pub use grpc_status::{ERROR_DOMAIN, QUOTA_SUBJECT, error_reason};
pub(crate) use grpc_status::{GRPC_STATUS, StatusDetails, write_grpc_pushback, write_grpc_status};
pub use grpc_timeout::{GRPC_TIMEOUT, grpc_timeout, grpc_timeout_in};
pub use priority::{PRIORITY, urgency_in};
pub use rate_limit::{RATE_LIMIT, RATE_LIMIT_POLICY, RateLimitHeaders};
pub use rate_limit_status::RateLimitStatus;
pub use retry_after::{retry_after, retry_after_in};
pub use trusted_proxies::TrustedProxies;
pub use x_forwarded_for::{X_FORWARDED_FOR, leftmost_forgeable};
pub use x_rate_limit::{X_RATE_LIMIT_LIMIT, X_RATE_LIMIT_REMAINING, X_RATE_LIMIT_RESET, x_rate_limit};
