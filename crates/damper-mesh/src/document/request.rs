//! The envelope of a call.

use super::object::{object, objects_or_default};
use super::{ReadError, read, shortened};
use crate::deadline::{DEADLINE_URN, SpecifiedDeadline, malformed};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The envelope of a call.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use core::time::Duration;
/// use damper::mesh::{Request, SpecifiedDeadline};
/// use serde_json::json;
///
/// let request = Request::new("req_123", "reports.generate", "1", json!({ "type": "annual" }))
///     .with_deadline(&SpecifiedDeadline::after(Duration::from_secs(30)));
/// let read = Request::from_json(&request.to_json())?;
/// assert_eq!(read.deadline()?.map(|deadline| deadline.to_string()).as_deref(), Some("30 second"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Request {
    #[serde(deserialize_with = "object")]
    protocol: Protocol,
    /// The identifier that the response repeats.
    pub id: String,
    /// The function to call.
    #[serde(deserialize_with = "object")]
    pub call: Call,
    #[serde(default, deserialize_with = "objects_or_default", skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<Extension>,
}

/// The function to call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Call {
    /// The name of the function.
    pub function: String,
    /// The version of the function.
    pub version: String,
    /// The arguments of the function, or null.
    #[serde(default)]
    pub arguments: Value,
}

/// An extension that the client requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Extension {
    urn: String,
    #[serde(default)]
    options: Value,
}

impl Request {
    /// Creates a request without extensions.
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        function: impl Into<String>,
        version: impl Into<String>,
        arguments: Value,
    ) -> Self {
        let call = Call { function: function.into(), version: version.into(), arguments };
        Self { protocol: Protocol::MESH, id: id.into(), call, extensions: Vec::new() }
    }

    /// Creates the request for the [capabilities](super::Capabilities) of a service.
    #[must_use]
    pub fn capabilities(id: impl Into<String>) -> Self {
        let arguments = Value::Object(serde_json::Map::new());
        Self::new(id, super::Capabilities::FUNCTION, super::Capabilities::VERSION, arguments)
    }

    /// Returns the options of the requested extension with this URN.
    #[must_use]
    pub fn extension(&self, urn: &str) -> Option<&Value> {
        self.extensions.iter().find(|extension| extension.urn == urn).map(|extension| &extension.options)
    }

    /// Sets the deadline, replacing any other.
    #[must_use]
    pub fn with_deadline(mut self, deadline: &SpecifiedDeadline) -> Self {
        self.extensions.retain(|extension| extension.urn != DEADLINE_URN);
        self.extensions.push(Extension { urn: DEADLINE_URN.to_owned(), options: deadline.to_value() });
        self
    }

    /// Returns the deadline, if the request has one.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn deadline(&self) -> Result<Option<SpecifiedDeadline>, ReadError> {
        let mut deadlines = self.extensions.iter().filter(|extension| extension.urn == DEADLINE_URN);
        let Some(deadline) = deadlines.next() else { return Ok(None) };
        if deadlines.next().is_some() {
            return Err(malformed(format_args!("the extension is repeated")));
        }
        SpecifiedDeadline::from_value(&deadline.options).map(Some)
    }

    /// Reads a Mesh request, ignoring unknown members.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed, or the other protocol.
    pub fn from_json(document: &[u8]) -> Result<Self, ReadError> {
        let request: Self = read(document)?;
        request.protocol.check()?;
        Ok(request)
    }

    /// Writes the request.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        // Its parts are always valid JSON: keys are texts, and numbers are finite.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The name and the semantic version of a document's protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Protocol {
    name: Cow<'static, str>,
    version: Cow<'static, str>,
}

const NAME: &str = "mesh";

/// The prefix of every accepted version.
///
/// Before 1.0 a minor version may be incompatible with the previous one.
const COMPATIBLE: &str = "0.1.";

impl Protocol {
    /// Mesh 0.1.0, the version of damper.
    pub(super) const MESH: Self = Self { name: Cow::Borrowed(NAME), version: Cow::Borrowed("0.1.0") };

    /// Checks that the protocol is Mesh in a version 0.1.
    ///
    /// # Errors
    ///
    /// [`ReadError::Protocol`], which names the other protocol.
    pub(super) fn check(&self) -> Result<(), ReadError> {
        if self.name == NAME && self.version.starts_with(COMPATIBLE) {
            return Ok(());
        }
        Err(ReadError::Protocol { name: shortened(&self.name), version: shortened(&self.version) })
    }
}
