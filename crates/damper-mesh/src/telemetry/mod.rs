//! Counts and logs, by the facades `metrics` and `tracing`, each behind a feature.
//!
//! Without these nothing is recorded. Events are recorded by the `Telemetry` of damper-http, so both crates record the same events in
//! the same way.

// | file | idea |
// |---|---|
// | `server` | the decisions of a service's limits |
// | `client` | the pacing, the retries and the deadlines of a client's calls |

mod client;
mod server;

pub(crate) use client::ClientTelemetry;
pub(crate) use damper_http::internal::DeadlineStage;
pub(crate) use server::ServerTelemetry;
