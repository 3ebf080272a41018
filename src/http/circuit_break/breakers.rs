//! Which breaker a request belongs to.

use super::host::with_host;
use crate::breaker::{BreakerRef, CircuitBreaker, CircuitOpen, OnStateChange, Permit};
use crate::clock::Clock;
use crate::http::Head;
use crate::keyed::CircuitBreakers;
use alloc::string::String;
use alloc::sync::Arc;

/// The breakers of a [`CircuitBreakerLayer`](super::CircuitBreakerLayer): tell which one a request has to pass.
///
/// A breaker (in a `static`, or an `Arc`) is one for all requests, and [`CircuitBreakers`] in an `Arc` are one per
/// host. Write your own for what is told apart otherwise.
///
/// # Examples
///
/// Reads and writes fail apart:
///
/// ```
/// use damper::http::{Breakers, CircuitBreakerLayer, Head};
/// use damper::breaker::Permit;
/// use damper::{CircuitBreaker, CircuitOpen};
/// use std::sync::Arc;
///
/// #[derive(Clone, Default)]
/// struct Apart {
///     reads: Arc<CircuitBreaker>,
///     writes: Arc<CircuitBreaker>,
/// }
///
/// impl Breakers for Apart {
///     type Breaker = Arc<CircuitBreaker>;
///
///     fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
///         if head.method.is_safe() { self.reads.try_acquire_owned() } else { self.writes.try_acquire_owned() }
///     }
/// }
///
/// let layer = CircuitBreakerLayer::new(Apart::default());
/// # let _ = layer;
/// ```
pub trait Breakers {
    /// How a permit refers to its breaker.
    type Breaker: BreakerRef;

    /// Asks to make the call of this request.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] if its breaker does not let it pass.
    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen>;
}

/// One for all requests.
impl<C: Clock, L: OnStateChange> Breakers for Arc<CircuitBreaker<C, L>> {
    type Breaker = Self;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<Permit<Self>, CircuitOpen> {
        self.try_acquire_owned()
    }
}

/// One for all requests.
impl<'a, C: Clock, L: OnStateChange> Breakers for &'a CircuitBreaker<C, L> {
    type Breaker = &'a CircuitBreaker<C, L>;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<Permit<Self>, CircuitOpen> {
        let breaker: &'a CircuitBreaker<C, L> = self;
        breaker.try_acquire()
    }
}

/// One per host, in lower case and with its port: `api.example.com:443`.
impl<C: Clock + Clone> Breakers for Arc<CircuitBreakers<String, C>> {
    type Breaker = Arc<CircuitBreaker<C>>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        with_host(head, |host| self.get(host)).try_acquire_owned()
    }
}
