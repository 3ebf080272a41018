//! Limits, layers and stacks of HTTP and gRPC from settings.

// | file | idea |
// |---|---|
// | `limit` | the rate limit of a server's layer, for all requests or per key |
// | `layers` | the layer of each section |
// | `server_stack` | the stack of a server, with the parts that settings enable |
// | `client_stack` | the stack of a client, with the parts that settings enable |
// | `server_rate_limit` | the rate limit of a server's stack, which refuses or marks |
// | `classes` | the headers of a stack's classes and tenants |
// | `server_concurrency` | the concurrency limit of a server's stack |
// | `client_concurrency` | the concurrency limit of a client's stack |
// | `pacers` | the pacers of a client: one, or one for each host |
// | `optional` | a layer that is on or off |
// | `optional_retries` | the rules of retries and hedges, which are on or off |

#[cfg(all(feature = "tower", feature = "tokio"))]
mod classes;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod client_concurrency;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod client_stack;
mod layers;
mod limit;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod optional;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod optional_retries;
mod pacers;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod server_concurrency;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod server_rate_limit;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod server_stack;

#[cfg(all(feature = "tower", feature = "tokio"))]
use client_concurrency::ClientConcurrencyLimit;
#[cfg(all(feature = "tower", feature = "tokio"))]
pub use client_stack::{ConfiguredClientParts, ConfiguredClientStack};
pub use limit::{ConfiguredLimit, ConfiguredLimitError};
#[cfg(all(feature = "tower", feature = "tokio"))]
use optional::OptionalLayer;
#[cfg(all(feature = "tower", feature = "tokio"))]
pub(crate) use optional_retries::OptionalRetries;
pub use pacers::ConfiguredPacers;
#[cfg(all(feature = "tower", feature = "tokio"))]
use server_concurrency::ServerConcurrencyLimit;
#[cfg(all(feature = "tower", feature = "tokio"))]
use server_rate_limit::ServerRateLimit;
#[cfg(all(feature = "tower", feature = "tokio"))]
pub use server_stack::{ConfiguredServerParts, ConfiguredServerStack};
