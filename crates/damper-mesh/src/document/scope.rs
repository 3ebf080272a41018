//! The scope of a limit.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The scope of a limit: the calls that it counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All clients together.
    Global,
    /// Each calling service.
    Service,
    /// Each function.
    Function,
    /// Each user.
    User,
}

impl Scope {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Service => "service",
            Self::Function => "function",
            Self::User => "user",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
