//! The envelope of an answer.

use super::read_error::read_part;
use super::{Capabilities, MeshError, Meta, Protocol, RateLimited, ReadError, read};
use crate::deadline::{DEADLINE_URN, DeadlineReport};
use bytes::Bytes;
use damper_core::retry::Failure;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The envelope of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Response {
    /// The protocol.
    pub protocol: Protocol,
    /// That of the request; null if it could not be read.
    pub id: Option<String>,
    /// The function's result; null beside errors.
    #[serde(default)]
    pub result: Value,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<MeshError>,
    /// The rest of the answer: usage and warnings of limits.
    #[serde(default, skip_serializing_if = "Meta::is_empty")]
    pub meta: Meta,
    /// The answers of the extensions that the request named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ResponseExtension>,
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
        Self { protocol: Protocol::MESH, id, result, errors, meta: Meta::default(), extensions: Vec::new() }
    }

    /// Sets what the answer says beside its result.
    #[must_use]
    pub fn with_meta(self, meta: Meta) -> Self {
        Self { meta, ..self }
    }

    /// Adds what came of the deadline.
    #[must_use]
    pub fn with_deadline(mut self, report: &DeadlineReport) -> Self {
        self.extensions.push(ResponseExtension { urn: DEADLINE_URN.to_owned(), data: report.to_value() });
        self
    }

    /// Returns what came of the deadline, if the answer says so.
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
        match self.errors.iter().find(|error| error.code == MeshError::RATE_LIMITED) {
            Some(error) => RateLimited::of(error),
            None => Ok(None),
        }
    }

    /// Returns what a service tells of its limits: the result of `mesh.capabilities`.
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
        if !self.errors.iter().any(|error| error.code == MeshError::RATE_LIMITED) {
            return Some(Failure::TRANSIENT);
        }
        // Without a wait that can be read it is a refusal all the same.
        let wait = self.rate_limited().ok().flatten().and_then(|limited| limited.retry_after);
        Some(Failure::THROTTLED.retry_after(wait.map(|wait| wait.duration())))
    }

    /// Returns the result, or the first of the errors.
    ///
    /// # Errors
    ///
    /// The first of the errors.
    pub fn into_result(self) -> Result<Value, MeshError> {
        self.errors.into_iter().next().map_or(Ok(self.result), Err)
    }

    /// Returns the status of the answer over HTTP.
    ///
    /// 429 for `RATE_LIMITED`, 504 for `DEADLINE_EXCEEDED`, 400 for `INVALID_REQUEST`, else 200.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.errors.first().map(|error| &*error.code) {
            Some(MeshError::RATE_LIMITED) => StatusCode::TOO_MANY_REQUESTS,
            Some(MeshError::DEADLINE_EXCEEDED) => StatusCode::GATEWAY_TIMEOUT,
            Some(MeshError::INVALID_REQUEST) => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        }
    }

    /// Reads an answer of Mesh. Members that are unknown are ignored.
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
