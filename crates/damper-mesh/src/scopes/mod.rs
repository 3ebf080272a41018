//! Limits of several scopes in one decision.

// | file | idea |
// |---|---|
// | this one | the limits, and their decision |
// | `builder` | builds the limits |
// | `caller` | the caller of a request |
// | `answer` | the result of a decision |

mod answer;
mod builder;
mod caller;

pub use answer::{ScopesAllowed, ScopesDenied};
pub use builder::{ScopesBuilder, ScopesError};
pub use caller::Caller;

use self::answer::RefusalUsages;
use crate::document::{Capabilities, LimitCapability, Scope, Warnings};
use damper_core::internal::{Receipt, judge, look, outlasts, revoke, take_judged};
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{Denied, KeyedAlgorithm, TokenBucket, Usage};
use damper_core::time::{Clock, DefaultClock, Seed};
use std::collections::BTreeMap;
use std::fmt;

/// The limiter of a scope, per service or user, or with a single key.
pub(super) type Limit<C, A> = KeyedLimiter<str, C, Seed, A>;

/// The key of a limit without keys.
const ALL: &str = "";

/// Limits of several scopes: a request takes a token from each that counts it, or from none.
///
/// A check looks at all limits that count the request, reads the clock once, and then takes from the narrowest first: user,
/// function, service, global. A refusal that the looks find takes nothing, and names the limit with the longest wait.
///
/// If another request takes the tokens of a limit after the look, that limit refuses. The limits before it then get back
/// what they gave, less what has been refilled since.
///
/// No limit ever allows more than it would alone. A request may be refused because of another one that is being rolled
/// back. That happens only if the other request was refused by a later limit.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use damper::Quota;
/// use damper::mesh::{Caller, Scope, Scopes};
///
/// let scopes = Scopes::builder()
///     .service(Quota::per_minute(1_000))
///     .function("orders.create", Quota::per_minute(100).burst(1))
///     .build()?;
/// let caller = Caller::of("orders.create").service("web");
/// assert!(scopes.check(caller).is_ok());
/// let denied = scopes.check(caller).unwrap_err();
/// assert_eq!(denied.scope(), Scope::Function);
/// assert_eq!(denied.rate_limited().function.as_deref(), Some("orders.create"));
/// # Ok::<(), damper::mesh::ScopesError>(())
/// ```
pub struct Scopes<C = DefaultClock, A = TokenBucket> {
    pub(super) global: Option<Limit<C, A>>,
    pub(super) service: Option<Limit<C, A>>,
    pub(super) user: Option<Limit<C, A>>,
    pub(super) functions: BTreeMap<String, Limit<C, A>>,
    pub(super) warnings: Warnings,
    pub(super) clock: C,
}

/// A limit that counts a request, and its key for it.
type Counting<'a, C, A> = (Scope, &'a Limit<C, A>, &'a str);

impl Scopes {
    /// Builds limits on the default clock.
    pub fn builder() -> ScopesBuilder {
        Self::with_clock(damper_core::Monotonic)
    }

    /// Returns scopes without limits.
    #[must_use]
    pub fn none() -> Self {
        Self::none_with_clock(damper_core::Monotonic)
    }
}

impl<C: Clock + Clone> Scopes<C> {
    /// Builds limits on a clock of your own. A reference to a clock is a clock too.
    pub fn with_clock(clock: C) -> ScopesBuilder<C> {
        ScopesBuilder::new(clock)
    }

    /// Returns scopes without limits, whose clock measures deadlines.
    #[must_use]
    pub fn none_with_clock(clock: C) -> Self {
        let (global, service, user) = (None, None, None);
        Self { global, service, user, functions: BTreeMap::new(), warnings: Warnings::none(), clock }
    }
}

impl<C: Clock, A: KeyedAlgorithm> Scopes<C, A> {
    /// Takes a token from each limit that counts this request, if all of them have one.
    ///
    /// # Errors
    ///
    /// [`ScopesDenied`], which names the refusing limit with the longest wait.
    pub fn check(&self, caller: Caller<'_>) -> Result<ScopesAllowed<'_>, ScopesDenied> {
        self.check_n(caller, 1)
    }

    /// Takes `n` tokens from each limit that counts this request, or from none.
    ///
    /// # Errors
    ///
    /// [`ScopesDenied`], which names the refusing limit with the longest wait.
    pub fn check_n(&self, caller: Caller<'_>, n: u32) -> Result<ScopesAllowed<'_>, ScopesDenied> {
        Ok(self.allowed(&self.take(caller, n)?))
    }

    /// Decides like [`check`](Self::check), without reading the usage.
    pub(crate) fn admit(&self, caller: Caller<'_>) -> Result<(), ScopesDenied> {
        self.take(caller, 1).map(|_| ())
    }

    /// Takes from each limit, and returns the limits.
    fn take<'a>(&'a self, caller: Caller<'a>, n: u32) -> Result<CountingAll<'a, C, A>, ScopesDenied> {
        let counting = self.counting(caller);
        let looks = counting.each_ref().map(|limit| limit.as_ref().map(|(_, limit, key)| look(limit, key)));
        // The clock is read once, after all words.
        let now = self.clock.now();
        let mut takes = [const { None }; 4];
        let mut refusals = [None; 4];
        let mut first = None;
        for (index, (limit, look)) in counting.iter().zip(looks).enumerate() {
            let (Some(limit), Some(look)) = (limit, look) else { continue };
            match judge(limit.1, limit.2, n, look, now) {
                Ok(take) => takes[index] = Some(take),
                Err(denied) => {
                    first = first.or(Some((index, limit, denied)));
                    refusals[index] = Some(denied);
                }
            }
        }
        if let Some(first) = first {
            return Err(refused(&counting, first, &refusals, caller));
        }
        let mut receipts: [Option<Receipt>; 4] = [const { None }; 4];
        for (index, (limit, take)) in counting.iter().zip(takes).enumerate() {
            let (Some(limit), Some(take)) = (limit, take) else { continue };
            // There may be no slot for a newcomer.
            let is_contended = take.is_from_slot();
            match take_judged(limit.1, limit.2, n, take) {
                Ok((_, receipt)) => receipts[index] = Some(receipt),
                Err(denied) => {
                    for (limit, receipt) in counting.iter().zip(receipts).rev() {
                        if let (Some((_, limit, key)), Some(receipt)) = (limit, receipt) {
                            revoke(limit, key, n, receipt);
                        }
                    }
                    let refused = refused(&counting, (index, limit, denied), &refusals, caller);
                    return Err(ScopesDenied { is_contended, ..refused });
                }
            }
        }
        Ok(counting)
    }

    /// Returns the usage of each limit that counts such a request, without taking tokens.
    #[must_use]
    pub fn peek(&self, caller: Caller<'_>) -> ScopesAllowed<'_> {
        self.allowed(&self.counting(caller))
    }

    fn allowed(&self, counting: &CountingAll<'_, C, A>) -> ScopesAllowed<'_> {
        let usages = counting.each_ref().map(|limit| limit.as_ref().map(usage_of));
        ScopesAllowed { usages, warnings: &self.warnings }
    }

    /// Returns the limit of a scope other than [`Function`](Scope::Function), to inspect it or change its quota.
    ///
    /// Its keys are the names of services or users. The global limit's only key is empty.
    #[must_use]
    pub fn limiter(&self, scope: Scope) -> Option<&KeyedLimiter<str, C, Seed, A>> {
        match scope {
            Scope::Global => self.global.as_ref(),
            Scope::Service => self.service.as_ref(),
            Scope::User => self.user.as_ref(),
            Scope::Function => None,
        }
    }

    /// Returns the limit of a function, to inspect it or change its quota. Its only key is empty.
    #[must_use]
    pub fn function_limiter(&self, function: &str) -> Option<&KeyedLimiter<str, C, Seed, A>> {
        self.functions.get(function)
    }

    /// Returns the limits in force now, as published by a service of this name.
    #[must_use]
    pub fn capabilities(&self, service: &str) -> Capabilities {
        let of = |scope, function, limit: &Limit<C, A>| LimitCapability::of(scope, function, &limit.peek(ALL));
        let of_scope = |scope| self.limiter(scope).and_then(|limit| of(scope, None, limit));
        let functions = self.functions.iter().filter_map(|(name, limit)| of(Scope::Function, Some(&**name), limit));
        let wide = [Scope::Global, Scope::Service].into_iter().filter_map(of_scope);
        Capabilities::new(service, wide.chain(functions).chain(of_scope(Scope::User)).collect())
    }

    /// Returns the limits that count a request, narrowest first.
    fn counting<'a>(&'a self, caller: Caller<'a>) -> CountingAll<'a, C, A> {
        let (function, service, user) = caller.names();
        let limit = |scope, limit: Option<&'a Limit<C, A>>, key| limit.map(|limit| (scope, limit, key));
        [
            limit(Scope::User, self.user.as_ref(), user),
            limit(Scope::Function, self.functions.get(function), ALL),
            limit(Scope::Service, self.service.as_ref(), service),
            limit(Scope::Global, self.global.as_ref(), ALL),
        ]
    }

    pub(crate) fn clock(&self) -> &C {
        &self.clock
    }
}

/// The limits that count a request, narrowest first.
type CountingAll<'a, C, A> = [Option<Counting<'a, C, A>>; 4];

fn numbered<T>((index, limit): (usize, &Option<T>)) -> Option<(usize, &T)> {
    limit.as_ref().map(|limit| (index, limit))
}

fn usage_of<C: Clock, A: KeyedAlgorithm>((scope, limit, key): &Counting<'_, C, A>) -> (Scope, Usage) {
    (*scope, limit.peek(key))
}

/// Returns the refusal with the longest wait.
///
/// The candidates are `denied` of the limit `first` and the refusals of the limits after it. The limits before it allowed
/// the request.
#[cold]
fn refused<C: Clock, A: KeyedAlgorithm>(
    counting: &CountingAll<'_, C, A>,
    (first, limit, denied): (usize, &Counting<'_, C, A>, Denied),
    refusals: &[Option<Denied>; 4],
    caller: Caller<'_>,
) -> ScopesDenied {
    let mut usages = [None; 4];
    for (index, limit) in counting.iter().enumerate().take(first).filter_map(numbered) {
        usages[index] = Some(usage_of(limit));
    }
    let (mut scope, mut usage) = usage_of(limit);
    let mut longest = denied;
    usages[first] = Some((scope, usage));
    for (index, limit) in counting.iter().enumerate().skip(first + 1).filter_map(numbered) {
        let Some(later) = refusals[index] else { continue };
        let later_usage = usage_of(limit);
        usages[index] = Some(later_usage);
        if outlasts(&later, &longest) {
            ((scope, usage), longest) = (later_usage, later);
        }
    }
    let function = (scope == Scope::Function).then(|| caller.names().0.to_owned());
    let usages = Box::new(RefusalUsages { refusing: usage, all: usages });
    ScopesDenied { scope, function, denied: longest, usages, is_contended: false }
}

/// Each limit, with its scope in the label `scope`, and a function's name in the label `function`.
///
/// The limits of services and of users are counted by their keys, which no label names.
#[cfg(feature = "metrics")]
impl<C: Clock, A: KeyedAlgorithm> damper_metrics::Source for Scopes<C, A> {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        let of_scope = |scope: Scope| readings.with("scope", scope.name());
        if let Some(limit) = &self.global {
            of_scope(Scope::Global).record_usage(limit.peek(ALL));
        }
        for (function, limit) in &self.functions {
            of_scope(Scope::Function).with("function", function.clone()).record_usage(limit.peek(ALL));
        }
        for (scope, limit) in [(Scope::Service, &self.service), (Scope::User, &self.user)] {
            if let Some(limit) = limit {
                limit.read(&of_scope(scope));
            }
        }
    }
}

impl<C: fmt::Debug, A> fmt::Debug for Scopes<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scopes")
            .field("global", &self.global)
            .field("service", &self.service)
            .field("user", &self.user)
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}
