//! A gate that damper does not have, in all the places where damper has gates.
//!
//! [`OpeningHours`] refuses calls by the hour of the day. The package shows that a gate of one's own needs no change to damper. The gate is
//! two impls in `opening_hours.rs`, and `closed.rs` has its refusal. `tests/uses/` puts it before services of tower, before servers and
//! clients of HTTP and gRPC over real sockets, into both stacks, and into damper's combinators.
//!
//! A place in damper's own settings and metrics is a change to damper. `in_damper.patch` makes it in four files: it adds the section
//! `server.http.opening_hours` and a counter of refusals. `check_patch` applies the patch to a copy of the commit, writes the generated
//! documents again, and runs the tests of both crates. It also runs `in_damper.rs` there, which reads the section and exports the counter.

mod closed;
mod opening_hours;

pub use closed::Closed;
pub use opening_hours::{OpeningHours, OpeningHoursError};
