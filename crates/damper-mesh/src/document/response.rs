//! The envelope of a response.

use super::object::Name;
use super::object::{Object, object, objects_or_default};
use super::read_error::read_part;
use super::{Capabilities, MeshDuration, MeshError, Meta, Protocol, RateLimited, ReadError, Scope, read};
use crate::deadline::{DEADLINE_URN, DeadlineReport};
use bytes::Bytes;
use damper_core::retry::Failure;
use damper_core::throttle::Hints;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cmp::Reverse;

/// The envelope of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Object<Received>")]
#[non_exhaustive]
pub struct Response {
    protocol: Protocol,
    /// The request's identifier, or null if the request could not be read.
    pub id: Option<String>,
    /// The function's result, or null beside errors.
    pub result: Value,
    /// The errors in place of a result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<MeshError>,
    /// The usage and the warnings of limits, or empty if it was [malformed](Self::meta_error).
    #[serde(skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<Extension>,
    #[serde(skip)]
    meta_error: Option<ReadError>,
}

/// A response as received. A malformed `meta` must not cost the caller the result.
#[derive(Deserialize)]
struct Received {
    #[serde(deserialize_with = "object")]
    protocol: Protocol,
    id: Option<String>,
    #[serde(default)]
    result: Value,
    #[serde(default, deserialize_with = "objects_or_default")]
    errors: Vec<MeshError>,
    #[serde(default)]
    meta: Value,
    #[serde(default, deserialize_with = "objects_or_default")]
    extensions: Vec<Extension>,
}

impl From<Object<Received>> for Response {
    fn from(Object(received): Object<Received>) -> Self {
        let Received { protocol, id, result, errors, meta, extensions } = received;
        let (meta, meta_error) = match meta {
            Value::Null => (Meta::default(), None),
            meta => match read_part("meta", &meta) {
                Ok(meta) => (meta, None),
                Err(error) => (Meta::default(), Some(error)),
            },
        };
        Self { protocol, id, result, errors, meta, extensions, meta_error }
    }
}

/// An extension of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Extension {
    urn: String,
    #[serde(default)]
    data: Value,
}

impl Response {
    /// Creates the response to a served request.
    #[must_use]
    pub fn ok(id: impl Into<String>, result: Value) -> Self {
        Self::new(Some(id.into()), result, Vec::new())
    }

    /// Creates the response to a failed request. The id is `None` if the request could not be read.
    #[must_use]
    pub fn error(id: Option<String>, error: impl Into<MeshError>) -> Self {
        Self::new(id, Value::Null, vec![error.into()])
    }

    fn new(id: Option<String>, result: Value, errors: Vec<MeshError>) -> Self {
        let (meta, extensions, meta_error) = (Meta::default(), Vec::new(), None);
        Self { protocol: Protocol::MESH, id, result, errors, meta, extensions, meta_error }
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_meta(self, meta: Meta) -> Self {
        Self { meta, ..self }
    }

    /// Returns the mistake in the received `meta`, which is then empty.
    #[must_use]
    pub fn meta_error(&self) -> Option<&ReadError> {
        self.meta_error.as_ref()
    }

    /// Returns the data of the extension with this URN.
    #[must_use]
    pub fn extension(&self, urn: &str) -> Option<&Value> {
        self.extensions.iter().find(|extension| extension.urn == urn).map(|extension| &extension.data)
    }

    /// Adds the deadline report.
    #[must_use]
    pub fn with_deadline(mut self, report: &DeadlineReport) -> Self {
        self.extensions.push(Extension { urn: DEADLINE_URN.to_owned(), data: report.to_value() });
        self
    }

    /// Returns the deadline report, if there is one.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn deadline(&self) -> Result<Option<DeadlineReport>, ReadError> {
        self.extension(DEADLINE_URN).map(|data| read_part("data", data)).transpose()
    }

    /// Returns the details of the refusal, if the response is one.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn rate_limited(&self) -> Result<Option<RateLimited>, ReadError> {
        self.refusing_error().map_or(Ok(None), RateLimited::of)
    }

    fn refusing_error(&self) -> Option<&MeshError> {
        self.errors.iter().find(|error| error.code == MeshError::RATE_LIMITED)
    }

    /// Returns the refusal's scope and wait, if the response is a refusal.
    ///
    /// Each is read on its own, whether or not the other details can be read.
    pub(crate) fn refusal(&self) -> Option<(Option<Scope>, Option<MeshDuration>)> {
        let scope = |error: &MeshError| error.detail("scope").map(|Name(scope)| scope);
        self.refusing_error().map(|error| (scope(error), error.detail("retry_after")))
    }

    /// Returns the limits that a service publishes: the result of `mesh.capabilities`.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn capabilities(&self) -> Result<Capabilities, ReadError> {
        read_part("result", &self.result)
    }

    /// Classifies the response for a [`Retry`](damper_core::Retry), with `None` for a result.
    ///
    /// A refusal names its wait. Other errors are transient if all of them may be retried.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
    /// use damper::mesh::{MeshError, Response};
    /// use damper::retry::Failure;
    ///
    /// let response = Response::error(None, MeshError::new("BUSY", "Come back later").retryable());
    /// assert_eq!(response.failure(), Some(Failure::TRANSIENT));
    /// ```
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        if self.errors.is_empty() {
            return None;
        }
        if !self.errors.iter().all(|error| error.retryable) {
            return Some(Failure::FATAL);
        }
        Some(match self.refusal() {
            None => Failure::TRANSIENT,
            Some((_, wait)) => Failure::THROTTLED.retry_after(wait.map(|wait| wait.duration())),
        })
    }

    /// Returns the hints about the service's limits, for a [`Pacer`](damper_core::throttle::Pacer).
    ///
    /// | response | hints |
    /// |---|---|
    /// | `RATE_LIMITED`, retryable | rejected, with the limit and the wait, but without a reset, because the usage may belong to another limit |
    /// | a result, or another error that reports usage | accepted, with the usage of the limit with the least left |
    /// | an error without usage, or a refusal that no wait ends | unknown: a pacer learns nothing and does not retry |
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
    /// use damper::mesh::{Meta, RateLimitUsage, Response};
    /// use damper::{ManualClock, Quota, RateLimiter};
    /// use serde_json::json;
    ///
    /// let limiter = RateLimiter::with_clock(Quota::per_minute(100), ManualClock::new());
    /// limiter.check_n(93)?;
    /// let usage = RateLimitUsage::of(&limiter.peek()).expect("the quota has a limit");
    /// let hints = Response::ok("req_1", json!("done")).with_meta(Meta::of(usage)).hints();
    /// assert!(hints.is_accepted());
    /// assert_eq!((hints.remaining, hints.limit), (Some(7), Some(100)));
    /// # Ok::<(), damper::Denied>(())
    /// ```
    pub fn hints(&self) -> Hints {
        let finite = |wait: &MeshDuration| *wait != MeshDuration::NEVER;
        if let Some(error) = self.refusing_error() {
            let wait: Option<MeshDuration> = error.detail("retry_after");
            if !error.retryable || !wait.as_ref().is_none_or(finite) {
                return Hints::UNKNOWN;
            }
            let hints = Hints::REJECTED.remaining(Some(0)).limit(error.detail("limit"));
            return hints.retry_after(wait.map(|wait| wait.duration()));
        }
        let usages = self.meta.usages().map(|(_, usage)| usage);
        match usages.min_by_key(|usage| (usage.remaining, Reverse(usage.resets_in.duration()))) {
            Some(usage) => {
                let resets_in = Some(usage.resets_in).filter(finite).map(|resets_in| resets_in.duration());
                Hints::ACCEPTED.remaining(Some(usage.remaining)).limit(Some(usage.limit)).resets_in(resets_in)
            }
            None if self.errors.is_empty() => Hints::ACCEPTED,
            None => Hints::UNKNOWN,
        }
    }

    /// Returns the result, or the first error.
    ///
    /// # Errors
    ///
    /// The first error of the response.
    pub fn into_result(self) -> Result<Value, MeshError> {
        self.errors.into_iter().next().map_or(Ok(self.result), Err)
    }

    /// Reads a Mesh response, ignoring unknown members.
    ///
    /// A malformed `meta` is reported [separately](Self::meta_error).
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed, or the other protocol.
    pub fn from_json(document: &[u8]) -> Result<Self, ReadError> {
        let response: Self = read(document)?;
        response.protocol.check()?;
        Ok(response)
    }

    /// Writes the response.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        // Its parts are always valid JSON: keys are texts, and numbers are finite.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}
