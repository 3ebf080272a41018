//! The name and the version of the protocol.

use super::{ReadError, shortened};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The name and the version of a document's protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Protocol {
    /// The name.
    pub name: Cow<'static, str>,
    /// The semantic version.
    pub version: Cow<'static, str>,
}

const NAME: &str = "mesh";

/// The prefix of every accepted version.
///
/// Before 1.0 a minor version may be incompatible with the previous one.
const COMPATIBLE: &str = "0.1.";

impl Protocol {
    /// Mesh 0.1.0, the version of damper.
    pub const MESH: Self = Self { name: Cow::Borrowed(NAME), version: Cow::Borrowed("0.1.0") };

    /// Checks that the protocol is Mesh in a version 0.1.
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
