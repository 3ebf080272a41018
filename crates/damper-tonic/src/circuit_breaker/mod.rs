//! Clients behind breakers.

// | file | idea |
// |---|---|
// | `layer` | which breakers, and what is a failure |
// | `code` | what a status says about its server |
// | `head`, `trailers` | the two places where gRPC puts a status |
// | `service` | a client behind breakers |
// | `future` | its calls |

mod code;
mod future;
mod head;
mod layer;
mod service;
mod trailers;

pub use code::unavailability;
pub use future::CircuitBreakFuture;
pub use layer::CircuitBreakerLayer;
pub use service::CircuitBreak;
pub use trailers::Trailers;
