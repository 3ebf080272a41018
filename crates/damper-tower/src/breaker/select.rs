//! The breaker of a request.

use crate::{Key, One, PerKey};
use alloc::sync::Arc;
use core::hash::BuildHasher;
use damper_core::breaker::{BreakerRef, CircuitBreaker, CircuitOpen, KeyedCircuitBreaker, OnStateChange, Permit};
use damper_core::shadow::Shadowed;
use damper_core::time::Clock;

/// Chooses the breaker that a request of type `R` has to pass: [`One`] or [`PerKey`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a breaker for a request of type `{R}`",
    note = "the closure of `BreakerLayer::by` has the form `|request: &{R}| key`"
)]
pub trait SelectBreaker<R> {
    /// How a permit refers to its breaker.
    type Breaker: BreakerRef;

    /// Acquires a permit for the call of this request.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] if its breaker does not let it pass.
    fn try_acquire(&self, request: &R) -> Result<Permit<Self::Breaker>, CircuitOpen>;

    /// Returns the refusal that every request would get now, or `None` if some request might pass.
    fn refusal(&self) -> Option<CircuitOpen>;
}

/// A pointer to a breaker that services share: `&'static CircuitBreaker` or `Arc<CircuitBreaker>`.
///
/// A [`Shadowed`] breaker can be in its place.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not shared: put the breaker into a `static` and pass `&BREAKER`, or pass `Arc::new(breaker)`",
    note = "for a breaker per key, write `BreakerLayer::by(|request: &Request| key, breakers)`"
)]
pub trait SharedBreaker: BreakerRef + Clone {
    /// Acquires a permit.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] if the breaker does not let the call pass.
    fn try_acquire(&self) -> Result<Permit<Self>, CircuitOpen>;

    /// Returns the refusal that a call would get now.
    fn refusal(&self) -> Option<CircuitOpen>;
}

impl<C: Clock, L: OnStateChange> SharedBreaker for Arc<CircuitBreaker<C, L>> {
    #[inline]
    fn try_acquire(&self) -> Result<Permit<Self>, CircuitOpen> {
        self.try_acquire_owned()
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        CircuitBreaker::refusal(self)
    }
}

impl<'a, C: Clock, L: OnStateChange> SharedBreaker for &'a CircuitBreaker<C, L> {
    #[inline]
    fn try_acquire(&self) -> Result<Permit<Self>, CircuitOpen> {
        let breaker: &'a CircuitBreaker<C, L> = self;
        breaker.try_acquire()
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        CircuitBreaker::refusal(self)
    }
}

impl<C, L, D, M> SharedBreaker for Arc<Shadowed<CircuitBreaker<C, L>, CircuitBreaker<D, M>>>
where
    C: Clock,
    L: OnStateChange,
    D: Clock,
    M: OnStateChange,
{
    #[inline]
    fn try_acquire(&self) -> Result<Permit<Self>, CircuitOpen> {
        self.try_acquire_owned()
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.in_force().refusal()
    }
}

impl<'a, C, L, D, M> SharedBreaker for &'a Shadowed<CircuitBreaker<C, L>, CircuitBreaker<D, M>>
where
    C: Clock,
    L: OnStateChange,
    D: Clock,
    M: OnStateChange,
{
    #[inline]
    fn try_acquire(&self) -> Result<Permit<Self>, CircuitOpen> {
        let breakers: &'a Shadowed<CircuitBreaker<C, L>, CircuitBreaker<D, M>> = self;
        breakers.try_acquire()
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.in_force().refusal()
    }
}

impl<B: SharedBreaker, R> SelectBreaker<R> for One<B> {
    type Breaker = B;

    #[inline]
    fn try_acquire(&self, _: &R) -> Result<Permit<B>, CircuitOpen> {
        self.0.try_acquire()
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        self.0.refusal()
    }
}

impl<R, F, K, C, S, L> SelectBreaker<R> for PerKey<F, Arc<KeyedCircuitBreaker<K, C, S, L>>>
where
    F: Fn(&R) -> K,
    K: Key,
    C: Clock + Clone,
    S: BuildHasher,
    L: OnStateChange,
{
    type Breaker = Arc<CircuitBreaker<C, L>>;

    #[inline]
    fn try_acquire(&self, request: &R) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        self.keyed.get_or_create(&(self.key)(request)).try_acquire_owned()
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        None
    }
}
