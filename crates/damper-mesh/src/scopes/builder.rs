//! Builds limits of several scopes.

use super::Scopes;
use crate::document::{Scope, Warnings};
use damper_core::OutOfRange;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{Alignment, KeyedAlgorithm, TokenBucket};
use damper_core::quota::Quota;
use damper_core::time::{Clock, DefaultClock};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

/// Builds [`Scopes`]: by default token buckets on the default clock.
#[must_use]
pub struct ScopesBuilder<C = DefaultClock, A = TokenBucket> {
    global: Option<Quota>,
    service: Option<Quota>,
    user: Option<Quota>,
    functions: Vec<(String, Quota)>,
    largest: Option<Quota>,
    capacity: Option<usize>,
    alignment: Alignment,
    warnings: Warnings,
    clock: C,
    algorithm: PhantomData<fn() -> A>,
}

/// The capacity of a limit with a single key.
const ONE: usize = 1;

impl<C> ScopesBuilder<C> {
    pub(super) fn new(clock: C) -> Self {
        Self {
            global: None,
            service: None,
            user: None,
            functions: Vec::new(),
            largest: None,
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

    /// Limits each calling service. Unnamed services share one limit. Default: no such limit.
    pub fn service(self, quota: Quota) -> Self {
        Self { service: Some(quota), ..self }
    }

    /// Limits all calls of a function together. Default: no such limit.
    ///
    /// A function has one limit. A second one for the same function is an error of [`build`](Self::build).
    pub fn function(mut self, function: impl Into<String>, quota: Quota) -> Self {
        self.functions.push((function.into(), quota));
        self
    }

    /// Limits each user. Unnamed users share one limit. Default: no such limit.
    pub fn user(self, quota: Quota) -> Self {
        Self { user: Some(quota), ..self }
    }

    /// Prepares all limits for a change to `largest`, as [`up_to`](damper_core::keyed::KeyedLimiterBuilder::up_to) does.
    pub fn up_to(self, largest: Quota) -> Self {
        Self { largest: Some(largest), ..self }
    }

    /// Sets the capacity for services, and for users. Default: that of a [`KeyedLimiter`].
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: Some(keys), ..self }
    }

    /// Sets the thresholds of warnings. Default: [`Warnings::default`].
    pub fn warnings(self, warnings: Warnings) -> Self {
        Self { warnings, ..self }
    }

    /// Sets the algorithm. Default: [`TokenBucket`].
    ///
    /// A token bucket is full at the start, so that [`Quota::per_minute(100)`](Quota::per_minute) admits up to 199 requests in the
    /// first minute: 100 at once, and 99 that are refilled. A [`FixedWindow`](damper_core::FixedWindow) admits 100 in each of its
    /// minutes.
    pub fn algorithm<B: KeyedAlgorithm>(self) -> ScopesBuilder<C, B> {
        let Self { global, service, user, functions, largest, capacity, alignment, warnings, clock, .. } = self;
        let algorithm = PhantomData;
        ScopesBuilder { global, service, user, functions, largest, capacity, alignment, warnings, clock, algorithm }
    }

    /// Sets where windows begin, for algorithms that have windows. Default: with the first request.
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
        let mut functions = BTreeMap::new();
        for (function, quota) in &self.functions {
            let limiter = self.limiter(Scope::Function, Some(function), *quota, Some(ONE))?;
            if functions.insert(function.clone(), limiter).is_some() {
                return Err(ScopesError::new(Scope::Function, Some(function), Mistake::Repeated));
            }
        }
        Ok(Scopes {
            global: self.limiters(Scope::Global, None, Some(ONE))?,
            service: each(Scope::Service)?,
            user: each(Scope::User)?,
            functions,
            warnings: self.warnings.clone(),
            clock: self.clock.clone(),
        })
    }

    /// Builds the limiter of a scope, if it has a quota.
    fn limiters(
        &self,
        scope: Scope,
        function: Option<&str>,
        capacity: Option<usize>,
    ) -> Result<Option<super::Limit<C, A>>, ScopesError> {
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
    ) -> Result<super::Limit<C, A>, ScopesError> {
        let limiter = KeyedLimiter::<str>::builder(quota).clock(self.clock.clone()).algorithm::<A>();
        let limiter = limiter.aligned_to(self.alignment);
        let limiter = match self.largest {
            Some(largest) => limiter.up_to(largest),
            None => limiter,
        };
        let limiter = match capacity {
            Some(keys) => limiter.capacity(keys),
            None => limiter,
        };
        limiter.build().map_err(|error| ScopesError::new(scope, function, Mistake::Limiter(error)))
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

/// Why [`Scopes`] could not be built: the limit, and its mistake.
#[derive(Clone, PartialEq, Eq)]
pub struct ScopesError {
    scope: Scope,
    function: Option<String>,
    mistake: Mistake,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mistake {
    Limiter(OutOfRange),
    /// The function already has a limit.
    Repeated,
}

impl ScopesError {
    fn new(scope: Scope, function: Option<&str>, mistake: Mistake) -> Self {
        Self { scope, function: function.map(str::to_owned), mistake }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limiter(error) => error.fmt(f),
            Self::Repeated => f.write_str("two limits were given, a function has one"),
        }
    }
}

impl fmt::Display for ScopesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, function, mistake } = self;
        match function {
            Some(function) => write!(f, "{scope} {function}: {mistake}"),
            None => write!(f, "{scope}: {mistake}"),
        }
    }
}

damper_core::internal::debug_by_display!(ScopesError);

/// `Display` includes the mistake, so `source` omits it. A report repeats nothing.
impl Error for ScopesError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.mistake {
            Mistake::Limiter(error) => error.source(),
            Mistake::Repeated => None,
        }
    }
}
