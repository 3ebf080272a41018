//! Mesh: its documents, limits of several scopes, deadlines, the server and the client.

mod client;
mod deadlines;
mod documents;
mod durations;
mod example;
mod guide;
mod hops;
mod hostile;
mod pacing;
mod scope_pacer;
mod scope_pacer_model;
mod scopes;
mod server;
#[path = "../../../../tests/support/subscribers.rs"]
mod subscribers;
mod support;
mod telemetry;
