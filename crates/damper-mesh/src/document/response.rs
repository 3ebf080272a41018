//! The envelope of an answer.

use super::object::{Object, object, objects_or_default};
use super::read_error::read_part;
use super::{Capabilities, MeshDuration, MeshError, Meta, Protocol, RateLimited, ReadError, Scope, read};
use crate::deadline::{DEADLINE_URN, DeadlineReport};
use bytes::Bytes;
use damper_core::retry::Failure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The envelope of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Object<Received>")]
#[non_exhaustive]
pub struct Response {
    /// The protocol.
    pub protocol: Protocol,
    /// That of the request; null if it could not be read.
    pub id: Option<String>,
    /// The function's result; null beside errors.
    pub result: Value,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<MeshError>,
    /// The usage and the warnings of limits; empty if it was [malformed](Self::meta_error).
    #[serde(skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// Extension data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ResponseExtension>,
    #[serde(skip)]
    meta_error: Option<ReadError>,
}

/// An answer as it came: a malformed `meta` must not cost the caller a result.
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
    extensions: Vec<ResponseExtension>,
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

/// An extension of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResponseExtension {
    /// Which one.
    pub urn: String,
    /// Its data.
    #[serde(default)]
    pub data: Value,
}

impl Response {
    /// Creates the answer to a request that was served.
    #[must_use]
    pub fn ok(id: impl Into<String>, result: Value) -> Self {
        Self::new(Some(id.into()), result, Vec::new())
    }

    /// Creates the answer to a request that failed; the id is `None` if the request could not be read.
    #[must_use]
    pub fn error(id: Option<String>, error: impl Into<MeshError>) -> Self {
        Self::new(id, Value::Null, vec![error.into()])
    }

    fn new(id: Option<String>, result: Value, errors: Vec<MeshError>) -> Self {
        let (meta, extensions, meta_error) = (Meta::default(), Vec::new(), None);
        Self { protocol: Protocol::MESH, id, result, errors, meta, extensions, meta_error }
    }

    /// Sets what the answer says beside its result.
    #[must_use]
    pub fn with_meta(self, meta: Meta) -> Self {
        Self { meta, ..self }
    }

    /// Returns what was wrong with the `meta` that was read, which then is empty.
    #[must_use]
    pub fn meta_error(&self) -> Option<&ReadError> {
        self.meta_error.as_ref()
    }

    /// Adds the deadline report.
    #[must_use]
    pub fn with_deadline(mut self, report: &DeadlineReport) -> Self {
        self.extensions.push(ResponseExtension { urn: DEADLINE_URN.to_owned(), data: report.to_value() });
        self
    }

    /// Returns the deadline report, if there is one.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn deadline(&self) -> Result<Option<DeadlineReport>, ReadError> {
        let extension = self.extensions.iter().find(|extension| extension.urn == DEADLINE_URN);
        extension.map(|extension| read_part("data", &extension.data)).transpose()
    }

    /// Returns the details of the refusal, if the answer is one.
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

    /// The scope and the wait of the refusal, if the answer is one: each as far as it can be read, whatever the other details are.
    pub(crate) fn refusal(&self) -> Option<(Option<Scope>, Option<MeshDuration>)> {
        self.refusing_error().map(|error| (error.detail("scope"), error.detail("retry_after")))
    }

    /// Returns the limits that a service publishes: the result of `mesh.capabilities`.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn capabilities(&self) -> Result<Capabilities, ReadError> {
        read_part("result", &self.result)
    }

    /// Returns what the answer says about another attempt, for a [`Retry`](damper_core::Retry): `None` of a result.
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

    /// Returns the result, or the first of the errors.
    ///
    /// # Errors
    ///
    /// The first of the errors.
    pub fn into_result(self) -> Result<Value, MeshError> {
        self.errors.into_iter().next().map_or(Ok(self.result), Err)
    }

    /// Reads an answer of Mesh. Members that are unknown are ignored, and a malformed `meta` is an
    /// [error of its own](Self::meta_error).
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed, or the other protocol.
    pub fn from_json(document: &[u8]) -> Result<Self, ReadError> {
        let response: Self = read(document)?;
        response.protocol.check()?;
        Ok(response)
    }

    /// Writes the answer.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        // Its parts always are JSON: its keys are texts, and its numbers are finite.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}
