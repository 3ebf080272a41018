//! What goes over the wire.

mod retry_after;

pub use retry_after::retry_after;
