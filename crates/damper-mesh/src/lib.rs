//! The parts of the JSON protocol Mesh that concern load, by [damper](https://docs.rs/damper): usage on every answer, refusals,
//! limits per scope, discovery and deadlines.
//!
//! | you want to | use |
//! |---|---|
//! | read and write documents | [`Request`], [`Response`], [`Fragment`] |
//! | report a limiter's usage | [`RateLimitUsage::of`], [`Meta`], [`Warnings`] |
//! | answer a refusal | [`RateLimited::by`], which is a [`MeshError`] by `From` |
//! | limit all clients, services, functions and users in one decision | [`Scopes`] |
//! | publish the limits in force | [`Scopes::capabilities`] |
//! | honour a deadline, and pass on what is left | [`Receipt`], [`ReceivedDeadline`], [`DeadlineReport`] |
//! | do all of this in a server over HTTP | [`MeshLayer`] |
//! | call such a server | [`Client`], which slows down before the limit and backs off after a refusal |
//! | answer in this form from a [`RateLimitLayer`](damper_http::RateLimitLayer) | [`refusal_body`] |
//!
//! Durations are whole numbers of milliseconds, seconds, minutes or hours: [`MeshDuration`]. Documents of others may have members
//! that are unknown here; they are ignored. A member that is malformed is a [`ReadError`] that names it.
//!
//! The guide of the crate `damper` has a page on Mesh.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | servers and clients that sleep by tokio's timer |

/// For damper's own tests and fuzz targets. It is no part of the semver promise.
#[doc(hidden)]
pub mod internal {
    pub use crate::client::pacer::{Next, Pacer, Sent, Turn};
}

mod client;
mod deadline;
mod document;
mod refusal_body;
mod scopes;
mod server;

pub use client::{CallError, Client, ClientBuilder, MeshBackoff};
pub use deadline::{
    DEADLINE_URN, DeadlineError, DeadlineReport, Iso8601, Receipt, ReceivedDeadline, SpecifiedDeadline,
};
pub use document::{
    Call, Capabilities, Fragment, LimitCapability, LimitsCapability, MeshDuration, MeshError, Meta, Protocol,
    RateLimitUsage, RateLimited, ReadError, Request, RequestExtension, Response, ResponseExtension, Scope,
    ScopedUsages, TimeUnit, Warnings,
};
pub use refusal_body::refusal_body;
pub use scopes::{Caller, Scopes, ScopesAllowed, ScopesBuilder, ScopesDenied, ScopesError};
pub use server::{IncomingCall, MeshLayer, MeshService};
