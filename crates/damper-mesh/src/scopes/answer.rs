//! The result of a decision of several scopes.

use crate::document::{Meta, RateLimitUsage, RateLimited, Scope, Warnings};
use damper_core::limit::{Denied, Usage};
use damper_core::quota::Quota;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The usage of the limits that a request met, narrowest first.
pub(super) type Usages = [Option<(Scope, Usage)>; 4];

fn reports(usages: &Usages) -> impl Iterator<Item = (Scope, RateLimitUsage)> {
    usages.iter().flatten().filter_map(|(scope, usage)| Some((*scope, RateLimitUsage::of(usage)?)))
}

/// The request passed all of its limits, and took tokens from each.
#[derive(Clone, Debug)]
pub struct ScopesAllowed<'a> {
    pub(super) usages: Usages,
    pub(super) warnings: &'a Warnings,
}

impl ScopesAllowed<'_> {
    /// Returns the usage of a limit that the request passed.
    #[must_use]
    pub fn usage(&self, scope: Scope) -> Option<Usage> {
        self.usages.iter().flatten().find(|(other, _)| *other == scope).map(|(_, usage)| *usage)
    }

    /// Returns the metadata for a response, including warnings.
    #[must_use]
    pub fn meta(&self) -> Meta {
        Meta::reporting(reports(&self.usages).map(|(scope, usage)| (scope, usage.warned_by(self.warnings))))
    }

    /// Returns the metadata for an error response, which has no warnings.
    #[must_use]
    pub fn meta_beside_error(&self) -> Meta {
        Meta::reporting(reports(&self.usages))
    }
}

/// The refusal of a request. Nothing was taken from any limit.
///
/// If several limits refuse, it is that of the limit with the longest wait. Displayed as `function orders.create: rate
/// limit exceeded, retry in 23 s`.
#[derive(Clone, PartialEq, Eq)]
pub struct ScopesDenied {
    pub(super) scope: Scope,
    pub(super) function: Option<String>,
    pub(super) denied: Denied,
    /// Boxed, because they are larger than the rest.
    pub(super) usages: Box<RefusalUsages>,
    pub(super) is_contended: bool,
}

/// The usage of the refusing limit, and of all that the request met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusalUsages {
    pub(super) refusing: Usage,
    pub(super) all: Usages,
}

impl ScopesDenied {
    /// Returns the scope of the refusing limit.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the refusal of the limit.
    #[must_use]
    pub fn denied(&self) -> Denied {
        self.denied
    }

    /// Returns the shortest wait after which all limits allow the same request.
    ///
    /// It is `None` if no wait helps. Other requests may take tokens first.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied.retry_after()
    }

    /// Returns whether the tokens were there when the request looked, and another request was faster.
    ///
    /// The request had then begun to take, and has given back what it took.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.is_contended
    }

    /// Returns the quota of the refusing limit.
    pub(crate) fn quota(&self) -> Quota {
        self.usages.refusing.quota()
    }

    /// Returns the details of the error.
    #[must_use]
    pub fn rate_limited(&self) -> RateLimited {
        let limited = RateLimited::by(&self.denied, &self.usages.refusing).scope(self.scope);
        match &self.function {
            Some(function) => limited.function(function),
            None => limited,
        }
    }

    /// Returns the metadata: the limits that the request had passed, and those that refuse it.
    #[must_use]
    pub fn meta(&self) -> Meta {
        // Tokens may have been refilled since the refusal.
        let exhausted = |(scope, usage): (Scope, RateLimitUsage)| {
            (scope, if scope == self.scope { usage.exhausted() } else { usage })
        };
        let mut usages: Vec<_> = reports(&self.usages.all).map(exhausted).collect();
        match usages.len() {
            // The error beside it names the scope.
            1 => usages.pop().map_or_else(Meta::default, |(_, usage)| Meta::of(usage)),
            _ => Meta::reporting(usages),
        }
    }
}

impl fmt::Display for ScopesDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, function, denied, .. } = self;
        match function {
            Some(function) => write!(f, "{scope} {function}: {denied}"),
            None => write!(f, "{scope}: {denied}"),
        }
    }
}

damper_core::internal::debug_by_display!(ScopesDenied);

impl Error for ScopesDenied {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.denied)
    }
}
