//! The bulkhead of a request.

use crate::{Key, One, PerKey};
use alloc::sync::Arc;
use core::hash::BuildHasher;
use damper_core::concurrency::{
    AcquirePermit, AdaptiveLimit, Bulkhead, BulkheadFull, BulkheadPermit, BulkheadRef, KeyedBulkhead, LimitRule,
    Outcome,
};
use damper_core::time::Clock;

/// Chooses the bulkhead that a request of type `R` has to pass: [`One`] or [`PerKey`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a bulkhead for a request of type `{R}`",
    note = "the closure of `BulkheadLayer::by` has the form `|request: &{R}| key`"
)]
pub trait SelectBulkhead<R> {
    /// How a permit refers to its bulkhead.
    type Bulkhead: SharedBulkhead;

    /// Returns the bulkhead of this request.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if it has none, because all bulkheads that could make room for it are in use.
    fn bulkhead(&self, request: &R) -> Result<Self::Bulkhead, BulkheadFull>;
}

/// A pointer to a bulkhead or an adaptive limit that services share.
///
/// `&'static Bulkhead`, `Arc<Bulkhead>`, `Arc<AdaptiveLimit>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not shared: put the bulkhead into a `static` and pass `&BULKHEAD`, or pass `Arc::new(bulkhead)`",
    note = "for a bulkhead per key, write `BulkheadLayer::by(|request: &Request| key, bulkheads)`"
)]
pub trait SharedBulkhead: BulkheadRef + Clone {
    /// Takes a permit, if a slot is free.
    ///
    /// # Errors
    ///
    /// [`BulkheadFull`] if none is.
    fn try_acquire(self) -> Result<BulkheadPermit<Self>, BulkheadFull>;

    /// Waits for a permit.
    fn acquire(self) -> AcquirePermit<Self>;

    /// Gives the permit of a call back that has ended with this result.
    fn ended<T, E>(permit: BulkheadPermit<Self>, result: &Result<T, E>);
}

/// Implements `SharedBulkhead` for pointers to a limit.
macro_rules! shared_limit {
    ($limit:ident<$($parameter:ident: $bound:ident),*>, $ended:expr) => {
        impl<$($parameter: $bound),*> SharedBulkhead for Arc<$limit<$($parameter),*>> {
            #[inline]
            fn try_acquire(self) -> Result<BulkheadPermit<Self>, BulkheadFull> {
                self.try_acquire_owned()
            }

            fn acquire(self) -> AcquirePermit<Self> {
                self.acquire_owned()
            }

            #[inline]
            fn ended<T, E>(permit: BulkheadPermit<Self>, result: &Result<T, E>) {
                $ended(permit, Outcome::of(result));
            }
        }

        impl<$($parameter: $bound),*> SharedBulkhead for &$limit<$($parameter),*> {
            #[inline]
            fn try_acquire(self) -> Result<BulkheadPermit<Self>, BulkheadFull> {
                self.try_acquire()
            }

            fn acquire(self) -> AcquirePermit<Self> {
                self.acquire()
            }

            #[inline]
            fn ended<T, E>(permit: BulkheadPermit<Self>, result: &Result<T, E>) {
                $ended(permit, Outcome::of(result));
            }
        }
    };
}

shared_limit!(Bulkhead<C: Clock>, |permit, _| drop(permit));
shared_limit!(AdaptiveLimit<R: LimitRule, C: Clock>, BulkheadPermit::record);

impl<B: SharedBulkhead, R> SelectBulkhead<R> for One<B> {
    type Bulkhead = B;

    #[inline]
    fn bulkhead(&self, _: &R) -> Result<B, BulkheadFull> {
        Ok(self.0.clone())
    }
}

impl<R, F, K, C, S> SelectBulkhead<R> for PerKey<F, Arc<KeyedBulkhead<K, C, S>>>
where
    F: Fn(&R) -> K,
    K: Key,
    C: Clock + Clone,
    S: BuildHasher,
{
    type Bulkhead = Arc<Bulkhead<C>>;

    #[inline]
    fn bulkhead(&self, request: &R) -> Result<Self::Bulkhead, BulkheadFull> {
        self.keyed.get_or_create(&(self.key)(request))
    }
}
