//! The name and the version of the protocol.

use super::{ReadError, shortened};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The protocol of a document: its name and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Protocol {
    /// The name.
    pub name: Cow<'static, str>,
    /// The version, as in semantic versioning.
    pub version: Cow<'static, str>,
}

const NAME: &str = "mesh";

/// The beginning of every version that is read: before 1.0 a minor version may break what the one before had.
const COMPATIBLE: &str = "0.1.";

impl Protocol {
    /// Mesh 0.1.0, which damper speaks.
    pub const MESH: Self = Self { name: Cow::Borrowed(NAME), version: Cow::Borrowed("0.1.0") };

    /// Checks that this is Mesh, in a version 0.1.
    ///
    /// # Errors
    ///
    /// [`ReadError::Protocol`], which names the other protocol.
    pub fn check(&self) -> Result<(), ReadError> {
        if self.name == NAME && self.version.starts_with(COMPATIBLE) {
            return Ok(());
        }
        Err(ReadError::Protocol { name: shortened(&self.name), version: shortened(&self.version) })
    }
}
