//! Which breaker a request has to pass.

use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use damper_core::breaker::{BreakerRef, CircuitBreaker, CircuitOpen, KeyedCircuitBreaker, OnStateChange, Permit};
use damper_core::time::Clock;

/// The breakers of a [`CircuitBreakerLayer`](super::CircuitBreakerLayer), one of which a request has to pass.
///
/// A breaker in a `static` or an `Arc` is one for all requests. A [`KeyedCircuitBreaker`] in an `Arc` has one per host.
/// Write your own to choose the breaker in another way.
///
/// # Examples
///
/// One breaker for reads and one for writes:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a breaker for a request",
    note = "put a `CircuitBreaker` into an `Arc` or a `static`, and a `KeyedCircuitBreaker<String>` into an `Arc`",
    note = "breakers with a name in metrics are made by `Single::builder` and `PerHost::builder`"
)]
pub trait Breakers {
    /// How a permit refers to its breaker.
    type Breaker: BreakerRef;

    /// Acquires a permit for this request's call.
    ///
    /// # Errors
    ///
    /// [`CircuitOpen`] if its breaker does not let it pass.
    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen>;

    /// Returns the refusal that every request would get now, or `None` if some request might pass.
    ///
    /// A tower service calls it in `poll_ready`, before the request is known. If it returns a refusal, the service
    /// behind the breakers is not polled. Default: `None`, for breakers that are chosen by the request.
    fn refusal(&self) -> Option<CircuitOpen> {
        None
    }

    /// Records that a request was refused without [`try_acquire`](Self::try_acquire). Default: does nothing.
    ///
    /// That is so where the [`refusal`](Self::refusal) in `poll_ready` left no readiness for the call. It is there for
    /// metrics and logs.
    fn record_refusal(&self, open: &CircuitOpen) {
        _ = open;
    }
}

/// One for all requests.
impl<C: Clock, L: OnStateChange> Breakers for Arc<CircuitBreaker<C, L>> {
    type Breaker = Self;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<Permit<Self>, CircuitOpen> {
        self.try_acquire_owned()
    }

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        CircuitBreaker::refusal(self)
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

    #[inline]
    fn refusal(&self) -> Option<CircuitOpen> {
        CircuitBreaker::refusal(self)
    }
}

/// One per host, in lower case and with its port: `api.example.com:443`.
///
/// A dot that ends the name is left out, and an IPv6 address is in its canonical form: `[2001:db8::1]:443`.
impl<C: Clock + Clone> Breakers for Arc<KeyedCircuitBreaker<String, C>> {
    type Breaker = Arc<CircuitBreaker<C>>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<Permit<Self::Breaker>, CircuitOpen> {
        head.with_host(|host| self.get_or_create(host)).try_acquire_owned()
    }
}
