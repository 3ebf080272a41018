//! A gate that damper does not have, in all the places where damper has gates.
//!
//! [`OpeningHours`] refuses calls by the hour of the day. The package shows that a gate of one's own needs no change to damper. The gate is
//! two impls in `opening_hours.rs`, and `closed.rs` has its refusal. `tests/uses.rs` puts it before services of tower, before servers and
//! clients of HTTP and gRPC over real sockets, into both stacks, and into damper's combinators.

mod closed;
mod opening_hours;

pub use closed::Closed;
pub use opening_hours::{OpeningHours, OpeningHoursError};
