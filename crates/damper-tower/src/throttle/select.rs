//! The throttle of a request.

use crate::{Key, One, PerKey};
use alloc::sync::Arc;
use core::hash::BuildHasher;
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle, ThrottlePermit, ThrottleRef, Throttled};
use damper_core::time::Clock;

/// Chooses the throttle that a request of type `R` has to pass: [`One`] or [`PerKey`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a throttle for a request of type `{R}`",
    note = "the closure of `ThrottleLayer::by` has the form `|request: &{R}| key`"
)]
pub trait SelectThrottle<R> {
    /// How a permit refers to its throttle.
    type Throttle: ThrottleRef;

    /// Acquires a permit for the call of this request.
    ///
    /// # Errors
    ///
    /// [`Throttled`] if the call is not to be sent.
    fn try_acquire(&self, request: &R) -> Result<ThrottlePermit<Self::Throttle>, Throttled>;
}

/// A pointer to a throttle that services share: `&'static AdaptiveThrottle` or `Arc<AdaptiveThrottle>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not shared: put the throttle into a `static` and pass `&THROTTLE`, or pass `Arc::new(throttle)`",
    note = "for a throttle per key, write `ThrottleLayer::by(|request: &Request| key, throttles)`"
)]
pub trait SharedThrottle: ThrottleRef + Clone {
    /// Acquires a permit.
    ///
    /// # Errors
    ///
    /// [`Throttled`] if the call is not to be sent.
    fn try_acquire(&self) -> Result<ThrottlePermit<Self>, Throttled>;
}

impl<C: Clock> SharedThrottle for Arc<AdaptiveThrottle<C>> {
    #[inline]
    fn try_acquire(&self) -> Result<ThrottlePermit<Self>, Throttled> {
        self.try_acquire_owned()
    }
}

impl<'a, C: Clock> SharedThrottle for &'a AdaptiveThrottle<C> {
    #[inline]
    fn try_acquire(&self) -> Result<ThrottlePermit<Self>, Throttled> {
        let throttle: &'a AdaptiveThrottle<C> = self;
        throttle.try_acquire()
    }
}

impl<T: SharedThrottle, R> SelectThrottle<R> for One<T> {
    type Throttle = T;

    #[inline]
    fn try_acquire(&self, _: &R) -> Result<ThrottlePermit<T>, Throttled> {
        self.0.try_acquire()
    }
}

impl<R, F, K, C, S> SelectThrottle<R> for PerKey<F, Arc<KeyedThrottle<K, C, S>>>
where
    F: Fn(&R) -> K,
    K: Key,
    C: Clock + Clone,
    S: BuildHasher,
{
    type Throttle = Arc<AdaptiveThrottle<C>>;

    #[inline]
    fn try_acquire(&self, request: &R) -> Result<ThrottlePermit<Self::Throttle>, Throttled> {
        self.keyed.get_or_create(&(self.key)(request)).try_acquire_owned()
    }
}
