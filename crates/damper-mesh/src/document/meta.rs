//! The metadata of a response.

use super::object::{object, object_or_default, object_or_null};
use super::{MeshDuration, RateLimitUsage, ReadError, Scope, read};
use serde::{Deserialize, Serialize};

/// The metadata of a response: durations and the usage of limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Meta {
    /// The duration of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<MeshDuration>,
    /// The usage of the only limit in force, unless that is a function's.
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimitUsage>,
    #[serde(default, deserialize_with = "object_or_default", skip_serializing_if = "ScopedUsages::is_empty")]
    rate_limits: ScopedUsages,
}

/// The usage of each of several limits, by their scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ScopedUsages {
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    global: Option<RateLimitUsage>,
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    service: Option<RateLimitUsage>,
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    function: Option<RateLimitUsage>,
    #[serde(default, deserialize_with = "object_or_null", skip_serializing_if = "Option::is_none")]
    user: Option<RateLimitUsage>,
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
    /// A single usage becomes `rate_limit`, and several become `rate_limits` by scope.
    ///
    /// That of a function keeps its scope even if it is the only one. A client takes a limit without a scope for one of all
    /// functions, and would slow down those that have no limit.
    #[must_use]
    pub fn reporting(usages: impl IntoIterator<Item = (Scope, RateLimitUsage)>) -> Self {
        let mut usages: Vec<_> = usages.into_iter().collect();
        let mut meta = Self::default();
        if let [(Scope::Global | Scope::Service | Scope::User, _)] = usages[..] {
            meta.rate_limit = usages.pop().map(|(_, usage)| usage);
        }
        for (scope, usage) in usages {
            *meta.rate_limits.of(scope) = Some(usage);
        }
        meta
    }

    /// Reports the usage of a limit without a scope.
    #[must_use]
    pub fn of(usage: RateLimitUsage) -> Self {
        Self { rate_limit: Some(usage), ..Self::default() }
    }

    /// Adds the duration of the call, in milliseconds.
    #[must_use]
    pub fn took(self, duration: std::time::Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { duration: Some(MeshDuration::millis(millis)), ..self }
    }

    /// Returns the reported usage of the limit with this scope.
    ///
    /// A response that reports a single limit has it in [`rate_limit`](Self::rate_limit), without a scope.
    #[must_use]
    pub fn usage(&self, scope: Scope) -> Option<&RateLimitUsage> {
        self.usages().find_map(|(of, usage)| (of == Some(scope)).then_some(usage))
    }

    /// Iterates over the reported usages, with the scope if there is one.
    pub(crate) fn usages(&self) -> impl Iterator<Item = (Option<Scope>, &RateLimitUsage)> {
        let ScopedUsages { global, service, function, user } = &self.rate_limits;
        let usages = [
            (None, &self.rate_limit),
            (Some(Scope::Global), global),
            (Some(Scope::Service), service),
            (Some(Scope::User), user),
            (Some(Scope::Function), function),
        ];
        usages.into_iter().filter_map(|(scope, usage)| Some((scope, usage.as_ref()?)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        Self::default() == *self
    }
}

/// A document with `meta` only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fragment {
    /// The metadata.
    #[serde(deserialize_with = "object")]
    pub meta: Meta,
}

impl Fragment {
    /// Creates a document with this metadata only.
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
