//! How limits of several scopes are built.

use super::Scopes;
use crate::document::{Scope, Warnings};
use damper_core::keyed::{KeyedLimiter, KeyedLimiterError};
use damper_core::limit::{Alignment, KeyedAlgorithm, TokenBucket};
use damper_core::quota::Quota;
use damper_core::time::{Clock, DefaultClock};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

/// Builds [`Scopes`]: token buckets on the default clock, unless said otherwise.
#[must_use]
pub struct ScopesBuilder<C = DefaultClock, A = TokenBucket> {
    global: Option<Quota>,
    service: Option<Quota>,
    user: Option<Quota>,
    functions: BTreeMap<String, Quota>,
    capacity: Option<usize>,
    alignment: Alignment,
    warnings: Warnings,
    clock: C,
    algorithm: PhantomData<fn() -> A>,
}

/// The keys of a limit that has one.
const ONE: usize = 1;

impl<C> ScopesBuilder<C> {
    pub(super) fn new(clock: C) -> Self {
        Self {
            global: None,
            service: None,
            user: None,
            functions: BTreeMap::new(),
            capacity: None,
            alignment: Alignment::default(),
            warnings: Warnings::default(),
            clock,
            algorithm: PhantomData,
        }
    }
}

impl<C: Clock + Clone, A: KeyedAlgorithm> ScopesBuilder<C, A> {
    /// Limits all clients together. Default: no such limit.
    pub fn global(self, quota: Quota) -> Self {
        Self { global: Some(quota), ..self }
    }

    /// Limits each calling service. Unnamed ones share one limit. Default: no such limit.
    pub fn service(self, quota: Quota) -> Self {
        Self { service: Some(quota), ..self }
    }

    /// Limits all calls of a function together. Default: no such limit.
    pub fn function(mut self, function: impl Into<String>, quota: Quota) -> Self {
        self.functions.insert(function.into(), quota);
        self
    }

    /// Limits each user. Unnamed ones share one limit. Default: no such limit.
    pub fn user(self, quota: Quota) -> Self {
        Self { user: Some(quota), ..self }
    }

    /// Sets for how many services, and for how many users, there is room. Default: that of a [`KeyedLimiter`].
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: Some(keys), ..self }
    }

    /// Sets when an answer warns that little is left. Default: [`Warnings::default`].
    pub fn warnings(self, warnings: Warnings) -> Self {
        Self { warnings, ..self }
    }

    /// Sets the algorithm. Default: [`TokenBucket`].
    pub fn algorithm<B: KeyedAlgorithm>(self) -> ScopesBuilder<C, B> {
        let Self { global, service, user, functions, capacity, alignment, warnings, clock, .. } = self;
        let algorithm = PhantomData;
        ScopesBuilder { global, service, user, functions, capacity, alignment, warnings, clock, algorithm }
    }

    /// Sets where the windows of algorithms begin that have windows. Default: with the first request.
    pub fn aligned_to(self, alignment: Alignment) -> Self {
        Self { alignment, ..self }
    }

    /// Builds the limits.
    ///
    /// # Errors
    ///
    /// [`ScopesError`], which names the limit that cannot be built.
    pub fn build(self) -> Result<Scopes<C, A>, ScopesError> {
        let each = |scope| self.limiters(scope, None, self.capacity);
        let functions = self.functions.iter().map(|(function, quota)| {
            Ok((function.clone(), self.limiter(Scope::Function, Some(function), *quota, Some(ONE))?))
        });
        Ok(Scopes {
            global: self.limiters(Scope::Global, None, Some(ONE))?,
            service: each(Scope::Service)?,
            user: each(Scope::User)?,
            functions: functions.collect::<Result<_, _>>()?,
            warnings: self.warnings.clone(),
            clock: self.clock.clone(),
        })
    }

    /// The limiter of a scope, if that has a quota.
    fn limiters(
        &self,
        scope: Scope,
        function: Option<&str>,
        capacity: Option<usize>,
    ) -> Result<Option<super::scopes::Limit<C, A>>, ScopesError> {
        let quota = match scope {
            Scope::Global => self.global,
            Scope::Service => self.service,
            Scope::User => self.user,
            Scope::Function => None,
        };
        quota.map(|quota| self.limiter(scope, function, quota, capacity)).transpose()
    }

    fn limiter(
        &self,
        scope: Scope,
        function: Option<&str>,
        quota: Quota,
        capacity: Option<usize>,
    ) -> Result<super::scopes::Limit<C, A>, ScopesError> {
        let limiter = KeyedLimiter::<str>::builder(quota).clock(self.clock.clone()).algorithm::<A>();
        let limiter = limiter.aligned_to(self.alignment);
        let limiter = match capacity {
            Some(keys) => limiter.capacity(keys),
            None => limiter,
        };
        limiter.build().map_err(|error| ScopesError { scope, function: function.map(str::to_owned), error })
    }
}

impl<C: fmt::Debug, A> fmt::Debug for ScopesBuilder<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopesBuilder")
            .field("global", &self.global)
            .field("service", &self.service)
            .field("user", &self.user)
            .field("functions", &self.functions)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Why [`Scopes`] could not be built: which limit, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopesError {
    scope: Scope,
    function: Option<String>,
    error: KeyedLimiterError,
}

impl fmt::Display for ScopesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, function, error } = self;
        match function {
            Some(function) => write!(f, "{scope} {function}: {error}"),
            None => write!(f, "{scope}: {error}"),
        }
    }
}

/// `Display` includes the mistake, so it is no source: a chain says everything once.
impl Error for ScopesError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
