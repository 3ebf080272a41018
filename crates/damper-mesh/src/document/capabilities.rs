//! The limits that a service publishes.

use super::object::name;
use super::object::{object, objects};
use super::{MeshDuration, Scope};
use damper_core::limit::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The limits that a service publishes: the result of `mesh.capabilities`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// The name of the service.
    pub service: String,
    #[serde(deserialize_with = "object")]
    limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Limits {
    #[serde(deserialize_with = "objects")]
    rate_limits: Vec<LimitCapability>,
}

/// A limit of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LimitCapability {
    /// The scope.
    #[serde(deserialize_with = "name")]
    pub scope: Scope,
    /// The function, for a function limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The tokens allowed in the window. For a token bucket it is the burst.
    pub limit: u64,
    /// The window. For a token bucket it is the time in which the burst refills.
    pub window: MeshDuration,
}

impl Capabilities {
    /// The name of the function that returns the capabilities.
    pub const FUNCTION: &str = "mesh.capabilities";

    /// The version of that function.
    pub const VERSION: &str = "1";

    pub(crate) fn new(service: &str, rate_limits: Vec<LimitCapability>) -> Self {
        Self { service: service.to_owned(), limits: Limits { rate_limits } }
    }

    /// Returns the limits of the service.
    #[must_use]
    pub fn rate_limits(&self) -> &[LimitCapability] {
        &self.limits.rate_limits
    }

    /// Returns the capabilities as the result of the function.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // Numbers and texts are always JSON values.
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl LimitCapability {
    /// Returns the entry of a limit, or `None` for an unlimited quota.
    pub(crate) fn of(scope: Scope, function: Option<&str>, usage: &Usage) -> Option<Self> {
        if usage.quota().is_unlimited() {
            return None;
        }
        let window = usage.window().map_or(MeshDuration::NEVER, MeshDuration::rounded_up);
        Some(Self { scope, function: function.map(str::to_owned), limit: usage.limit().into(), window })
    }
}
