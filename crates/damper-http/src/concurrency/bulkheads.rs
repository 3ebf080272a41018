//! Which bulkhead or adaptive limit a request has to enter.

use super::{Acquisition, ConcurrencyLimit, ConcurrencyPermit};
use crate::Head;
use crate::limit::ByKey;
use alloc::string::String;
use alloc::sync::Arc;
use core::future::Ready;
use core::hash::{BuildHasher, Hash};
use damper_core::concurrency::{
    AcquirePermit, AdaptiveLimit, Bulkhead, BulkheadFull, BulkheadPermit, BulkheadRef, FullCause, KeyedAdaptiveLimit,
    KeyedBulkhead, LimitRule,
};
use damper_core::time::Clock;

/// The bulkheads or adaptive limits of a layer, one of which a request has to enter.
///
/// A [`Bulkhead`] or an [`AdaptiveLimit`] in a `static` or an `Arc` is one for all requests. A [`KeyedBulkhead`] or a
/// [`KeyedAdaptiveLimit`] of `String`s in an `Arc` has one per host, and behind a [`ByKey`] one per key. Implement it to choose in another way. All are
/// [limits](super::ConcurrencyLimit) whose requests can [wait](super::ConcurrencyLayer::waiting).
///
/// # Examples
///
/// One bulkhead for reads and one for writes:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::concurrency::{AcquirePermit, BulkheadPermit};
/// use damper::http::{Bulkheads, ConcurrencyLayer, Head};
/// use damper::{Bulkhead, BulkheadFull};
/// use std::sync::Arc;
///
/// struct Apart {
///     reads: Arc<Bulkhead>,
///     writes: Arc<Bulkhead>,
/// }
///
/// impl Apart {
///     fn of(&self, head: &Head<'_>) -> &Arc<Bulkhead> {
///         if head.method.is_safe() { &self.reads } else { &self.writes }
///     }
/// }
///
/// impl Bulkheads for Apart {
///     type Bulkhead = Arc<Bulkhead>;
///
///     fn try_acquire(&self, head: &Head<'_>) -> Result<BulkheadPermit<Arc<Bulkhead>>, BulkheadFull> {
///         self.of(head).try_acquire_owned()
///     }
///
///     fn acquire(&self, head: &Head<'_>) -> AcquirePermit<Arc<Bulkhead>> {
///         self.of(head).acquire_owned()
///     }
/// }
///
/// let layer = ConcurrencyLayer::new(Apart { reads: Arc::new(Bulkhead::new(64)), writes: Arc::new(Bulkhead::new(8)) });
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a bulkhead for a request",
    note = "put a `Bulkhead` or an `AdaptiveLimit` into an `Arc` or a `static`, and a `KeyedBulkhead<String>`, one per host, into an `Arc`"
)]
pub trait Bulkheads {
    /// How a permit refers to its bulkhead or adaptive limit.
    type Bulkhead: BulkheadRef;

    /// Takes a permit for this request's call, if a slot is free.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if there is none.
    fn try_acquire(&self, head: &Head<'_>) -> Result<BulkheadPermit<Self::Bulkhead>, BulkheadFull>;

    /// Waits for a permit, in the queue of the same bulkhead.
    fn acquire(&self, head: &Head<'_>) -> AcquirePermit<Self::Bulkhead>;

    /// Takes a permit if a slot is free, or else begins to wait in the queue of the same bulkhead.
    ///
    /// Default: [`try_acquire`](Self::try_acquire), and after that [`acquire`](Self::acquire). Implement it where each of these would
    /// look the bulkhead up.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if the call cannot wait.
    fn try_acquire_or_wait(&self, head: &Head<'_>) -> Result<PermitOrWait<Self::Bulkhead>, BulkheadFull> {
        match self.try_acquire(head) {
            Ok(permit) => Ok(PermitOrWait::Permit(permit)),
            Err(full) if full.cause() == FullCause::NoSlot => Ok(PermitOrWait::Wait(self.acquire(head))),
            Err(full) => Err(full),
        }
    }
}

/// A permit that is there at once, or a wait for one.
#[derive(Debug)]
pub enum PermitOrWait<B: BulkheadRef> {
    /// The permit.
    Permit(BulkheadPermit<B>),
    /// Its wait, which has not begun.
    Wait(AcquirePermit<B>),
}

/// At once: a request that finds no slot free is refused.
impl<B: Bulkheads> ConcurrencyLimit for B
where
    BulkheadPermit<B::Bulkhead>: ConcurrencyPermit,
{
    type Permit = BulkheadPermit<B::Bulkhead>;
    type Refusal = BulkheadFull;
    type Future = Ready<Result<Self::Permit, BulkheadFull>>;

    #[inline]
    fn acquire(&self, head: &Head<'_>) -> Acquisition<Self::Permit, BulkheadFull, Self::Future> {
        Acquisition::Now(self.try_acquire(head))
    }
}

/// Implements `Bulkheads` for pointers to a limit, which is one for all requests.
macro_rules! one_for_all_requests {
    ($limit:ident<$($parameter:ident: $bound:ident),*>) => {
        /// One for all requests.
        impl<$($parameter: $bound),*> Bulkheads for Arc<$limit<$($parameter),*>> {
            type Bulkhead = Self;

            #[inline]
            fn try_acquire(&self, _: &Head<'_>) -> Result<BulkheadPermit<Self>, BulkheadFull> {
                self.try_acquire_owned()
            }

            fn acquire(&self, _: &Head<'_>) -> AcquirePermit<Self> {
                self.acquire_owned()
            }
        }

        /// One for all requests.
        impl<'a, $($parameter: $bound),*> Bulkheads for &'a $limit<$($parameter),*> {
            type Bulkhead = &'a $limit<$($parameter),*>;

            #[inline]
            fn try_acquire(&self, _: &Head<'_>) -> Result<BulkheadPermit<Self>, BulkheadFull> {
                let limit: &'a $limit<$($parameter),*> = self;
                limit.try_acquire()
            }

            fn acquire(&self, _: &Head<'_>) -> AcquirePermit<Self> {
                let limit: &'a $limit<$($parameter),*> = self;
                limit.acquire()
            }
        }
    };
}

one_for_all_requests!(Bulkhead<C: Clock>);
one_for_all_requests!(AdaptiveLimit<R: LimitRule, C: Clock>);

/// Implements `Bulkheads` for limits per key, by the host of a request, and behind a [`ByKey`].
macro_rules! one_per_key {
    ($keyed:ident<$($parameter:ident),*> of $limit:ty, where $($bounds:tt)*) => {
        /// One per host, in lower case and with its port: `api.example.com:443`.
        ///
        /// A dot that ends the name is left out, and an IPv6 address is in its canonical form: `[2001:db8::1]:443`.
        impl<$($parameter,)* S: BuildHasher> Bulkheads for Arc<$keyed<String, $($parameter,)* S>>
        where
            $($bounds)*
        {
            type Bulkhead = Arc<$limit>;

            fn try_acquire(&self, head: &Head<'_>) -> Result<BulkheadPermit<Self::Bulkhead>, BulkheadFull> {
                head.with_host(|host| $keyed::try_acquire(self, host))
            }

            fn acquire(&self, head: &Head<'_>) -> AcquirePermit<Self::Bulkhead> {
                head.with_host(|host| $keyed::acquire(self, host))
            }
        }

        /// One per key.
        impl<F, K, $($parameter,)* S> Bulkheads for ByKey<F, Arc<$keyed<K, $($parameter,)* S>>>
        where
            F: Fn(&Head<'_>) -> K,
            K: Hash + Eq + Clone,
            S: BuildHasher,
            $($bounds)*
        {
            type Bulkhead = Arc<$limit>;

            fn try_acquire(&self, head: &Head<'_>) -> Result<BulkheadPermit<Self::Bulkhead>, BulkheadFull> {
                let (key, limits) = self.of(head);
                limits.try_acquire(&key)
            }

            fn acquire(&self, head: &Head<'_>) -> AcquirePermit<Self::Bulkhead> {
                let (key, limits) = self.of(head);
                limits.acquire(&key)
            }

            // The user's closure is called once for a request.
            fn try_acquire_or_wait(
                &self,
                head: &Head<'_>,
            ) -> Result<PermitOrWait<Self::Bulkhead>, BulkheadFull> {
                let (key, limits) = self.of(head);
                let limit = limits.get_or_create(&key)?;
                Ok(match limit.try_acquire_owned() {
                    Ok(permit) => PermitOrWait::Permit(permit),
                    Err(_) => PermitOrWait::Wait(limit.acquire_owned()),
                })
            }
        }
    };
}

one_per_key!(KeyedBulkhead<C> of Bulkhead<C>, where C: Clock + Clone);
one_per_key!(KeyedAdaptiveLimit<R, C> of AdaptiveLimit<R, C>, where R: LimitRule, C: Clock + Clone);
