//! Clients behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breakers, and what is a failure |
// | `verdict` | what a status says about its server, and where a response has it |
// | `trailers` | the verdict at the end of a stream |
// | `service` | a client behind breakers |
// | `future` | its calls |

mod future;
mod layer;
mod service;
mod trailers;
mod verdict;

pub use future::CircuitBreakFuture;
pub use layer::CircuitBreakerLayer;
pub use service::CircuitBreak;
pub use trailers::Trailers;
pub use verdict::unavailability;
