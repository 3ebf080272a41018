//! damper-config through its public API, and its program.

#[cfg(all(feature = "tower", feature = "tokio"))]
mod classes;
mod formats;
mod generated;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod live_calls;
#[cfg(feature = "tracing")]
mod logs;
#[cfg(feature = "mesh")]
mod mesh;
mod mistakes;
mod program;
mod ranges;
mod reload;
mod schema;
mod server_keys;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod stacks;
#[path = "../../../../tests/support/subscribers.rs"]
#[cfg(feature = "tracing")]
mod subscribers;
mod tree;
#[cfg(all(feature = "tower", feature = "tokio"))]
mod under_load;
