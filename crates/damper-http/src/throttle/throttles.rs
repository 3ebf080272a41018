//! Which throttle a request has to pass.

use crate::Head;
use alloc::string::String;
use alloc::sync::Arc;
use core::hash::BuildHasher;
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle, ThrottlePermit, ThrottleRef, Throttled};
use damper_core::time::Clock;

/// The throttles of a [`ThrottleLayer`](super::ThrottleLayer), one of which a request has to pass.
///
/// A throttle in a `static` or an `Arc` is one for all requests. A [`KeyedThrottle`] in an `Arc` has one per host. Write your own
/// to choose the throttle in another way.
///
/// # Examples
///
/// One throttle for reads and one for writes:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::{Head, ThrottleLayer, Throttles};
/// use damper::throttle::{AdaptiveThrottle, ThrottlePermit, Throttled};
/// use std::sync::Arc;
///
/// #[derive(Clone, Default)]
/// struct Apart {
///     reads: Arc<AdaptiveThrottle>,
///     writes: Arc<AdaptiveThrottle>,
/// }
///
/// impl Throttles for Apart {
///     type Throttle = Arc<AdaptiveThrottle>;
///
///     fn try_acquire(&self, head: &Head<'_>) -> Result<ThrottlePermit<Self::Throttle>, Throttled> {
///         if head.method.is_safe() { self.reads.try_acquire_owned() } else { self.writes.try_acquire_owned() }
///     }
/// }
///
/// let layer = ThrottleLayer::new(Apart::default());
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a throttle for a request",
    note = "put an `AdaptiveThrottle` into an `Arc` or a `static`, and a `KeyedThrottle<String>` into an `Arc`",
    note = "`ThrottleLayer::single()` and `ThrottleLayer::per_host()` create them"
)]
pub trait Throttles {
    /// How a permit refers to its throttle.
    type Throttle: ThrottleRef;

    /// Acquires a permit for this request's call.
    ///
    /// # Errors
    ///
    /// [`Throttled`] if the call is not to be sent.
    fn try_acquire(&self, head: &Head<'_>) -> Result<ThrottlePermit<Self::Throttle>, Throttled>;
}

/// One for all requests.
impl<C: Clock> Throttles for Arc<AdaptiveThrottle<C>> {
    type Throttle = Self;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<ThrottlePermit<Self>, Throttled> {
        self.try_acquire_owned()
    }
}

/// One for all requests.
impl<'a, C: Clock> Throttles for &'a AdaptiveThrottle<C> {
    type Throttle = &'a AdaptiveThrottle<C>;

    #[inline]
    fn try_acquire(&self, _: &Head<'_>) -> Result<ThrottlePermit<Self>, Throttled> {
        let throttle: &'a AdaptiveThrottle<C> = self;
        throttle.try_acquire()
    }
}

/// One per host, in lower case and with its port: `api.example.com:443`.
///
/// A dot that ends the name is left out, and an IPv6 address is in its canonical form: `[2001:db8::1]:443`.
impl<C: Clock + Clone, S: BuildHasher> Throttles for Arc<KeyedThrottle<String, C, S>> {
    type Throttle = Arc<AdaptiveThrottle<C>>;

    fn try_acquire(&self, head: &Head<'_>) -> Result<ThrottlePermit<Self::Throttle>, Throttled> {
        head.with_host(|host| self.get_or_create(host)).try_acquire_owned()
    }
}
