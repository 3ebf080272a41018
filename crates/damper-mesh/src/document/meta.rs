//! The part of an answer beside its result.

use super::object::{object, object_or_default, object_or_null};
use super::{MeshDuration, RateLimitUsage, ReadError, Scope, read};
use serde::{Deserialize, Serialize};

/// The part of an answer beside its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Meta {
    /// The time that the call took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<MeshDuration>,
    /// The usage of the only limit in force.
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitUsage>,
    /// The usage of each of several limits.
    #[serde(default, deserialize_with = "object_or_default", skip_serializing_if = "ScopedUsages::is_empty")]
    pub rate_limits: ScopedUsages,
}

/// The usage of limits by their scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScopedUsages {
    /// Of all clients together.
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    pub global: Option<RateLimitUsage>,
    /// Of the calling service.
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    pub service: Option<RateLimitUsage>,
    /// Of the function.
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    pub function: Option<RateLimitUsage>,
    /// Of the user.
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    pub user: Option<RateLimitUsage>,
}

impl ScopedUsages {
    fn is_empty(&self) -> bool {
        Self::default() == *self
    }

    fn of(&mut self, scope: Scope) -> &mut Option<RateLimitUsage> {
        match scope {
            Scope::Global => &mut self.global,
            Scope::Service => &mut self.service,
            Scope::Function => &mut self.function,
            Scope::User => &mut self.user,
        }
    }
}

impl Meta {
    /// Reports the usage of limits.
    ///
    /// A single one as `rate_limit`, several by their scopes as `rate_limits`.
    #[must_use]
    pub fn reporting(usages: impl IntoIterator<Item = (Scope, RateLimitUsage)>) -> Self {
        let mut usages: Vec<_> = usages.into_iter().collect();
        let mut meta = Self::default();
        if usages.len() == 1 {
            meta.rate_limit = usages.pop().map(|(_, usage)| usage);
        }
        for (scope, usage) in usages {
            *meta.rate_limits.of(scope) = Some(usage);
        }
        meta
    }

    /// Reports the usage of a limit that has no scope.
    #[must_use]
    pub fn of(usage: RateLimitUsage) -> Self {
        Self { rate_limit: Some(usage), ..Self::default() }
    }

    /// Adds the time that the call took, in milliseconds.
    #[must_use]
    pub fn took(self, duration: std::time::Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { duration: Some(MeshDuration::millis(millis)), ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        Self::default() == *self
    }
}

/// A document with `meta` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fragment {
    /// What it says.
    #[serde(deserialize_with = "object")]
    pub meta: Meta,
}

impl Fragment {
    /// Creates a document with this alone.
    #[must_use]
    pub fn new(meta: Meta) -> Self {
        Self { meta }
    }

    /// Reads a document.
    ///
    /// # Errors
    ///
    /// [`ReadError`], which names the member that is malformed.
    pub fn from_json(document: &[u8]) -> Result<Self, ReadError> {
        read(document)
    }
}
