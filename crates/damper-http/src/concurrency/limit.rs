//! The source of a request's permit.

use super::ConcurrencyPermit;
use crate::Head;
use damper_core::gate::Refusal;

/// Limits the calls in flight: what a [`ConcurrencyLayer`](super::ConcurrencyLayer) and a
/// [`ClientConcurrencyLayer`](super::ClientConcurrencyLayer) are made of.
///
/// A [`Bulkhead`](damper_core::Bulkhead), an [`AdaptiveLimit`](damper_core::AdaptiveLimit) and the other
/// [`Bulkheads`](super::Bulkheads) are limits. Implement it for what decides in another way. The `Deadline` of a request, if it has
/// one, is among the extensions of its head.
///
/// # Cancel safety
///
/// The future is dropped when the caller goes away, and then has to give back what it has taken.
///
/// # Examples
///
/// Lets health checks pass, whatever is in flight:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::concurrency::BulkheadPermit;
/// use damper::http::{Acquisition, ConcurrencyLayer, ConcurrencyLimit, ConcurrencyPermit, Head};
/// use damper::{Bulkhead, BulkheadFull};
/// use std::future::Ready;
/// use std::sync::Arc;
///
/// struct AllButHealth(Arc<Bulkhead>);
///
/// struct Pass(Option<BulkheadPermit<Arc<Bulkhead>>>);
///
/// impl ConcurrencyPermit for Pass {}
///
/// impl ConcurrencyLimit for AllButHealth {
///     type Permit = Pass;
///     type Refusal = BulkheadFull;
///     type Future = Ready<Result<Pass, BulkheadFull>>; // unused: it decides at once
///
///     fn acquire(&self, head: &Head<'_>) -> Acquisition<Pass, BulkheadFull, Self::Future> {
///         Acquisition::Now(match head.uri.path() {
///             "/healthz" => Ok(Pass(None)),
///             _ => self.0.try_acquire_owned().map(|permit| Pass(Some(permit))),
///         })
///     }
/// }
///
/// let layer = ConcurrencyLayer::new(AllButHealth(Arc::new(Bulkhead::new(64))));
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not limit the calls in flight",
    note = "put a `Bulkhead` or an `AdaptiveLimit` into an `Arc` or a `static`, and a `KeyedBulkhead<String>`, one per host, into an `Arc`"
)]
pub trait ConcurrencyLimit {
    /// The part of a call that holds its slot until it is dropped.
    type Permit: ConcurrencyPermit;

    /// Why a request gets no permit.
    type Refusal: Refusal;

    /// The future of a permit that is not there at once; `std::future::Ready<…>` if all are.
    type Future: Future<Output = Result<Self::Permit, Self::Refusal>>;

    /// Acquires a permit for the call of this request.
    fn acquire(&self, head: &Head<'_>) -> Acquisition<Self::Permit, Self::Refusal, Self::Future>;
}

/// A permit or a refusal that is there at once, or a wait for one of them.
///
/// While it waits, the service holds the request and a clone of the service to call.
#[derive(Debug)]
pub enum Acquisition<P, R, F> {
    /// The permit, or the refusal.
    Now(Result<P, R>),
    /// This future waits for it.
    Later(F),
}
