//! Which bulkhead, and whether to wait.

use super::{BulkheadService, SharedBulkhead};
use crate::{Key, NoDeadline, One, PerKey, Refusing, Waiting, WaitingService};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::concurrency::KeyedBulkhead;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use damper_core::time::{Clock, Sleep};

/// Puts services of any request behind bulkheads: how many calls a client has in flight at most.
///
/// Each call takes a permit. Where there is none, the call is refused with [`CallError::Refused`](damper_core::CallError), or
/// [waits](Self::waiting) for one.
///
/// The permit is held until the future of the call has ended, or is dropped. A response whose body is still to come is not in
/// flight any more: for `http::Request`, take a layer of `damper::http`, which holds its permit until the body has ended.
///
/// Put it inside of what tries again, so that each try takes a permit and a backoff takes none. Its refusal is not retried by
/// damper's retries.
///
/// Clones, and all services that one makes, share the bulkheads. Permits are taken in `call`, never in `poll_ready`: a caller
/// may poll for readiness and go away, and would keep a permit. (That is where tower's `ConcurrencyLimit` takes its own, so a
/// service that is ready and not called keeps others waiting.)
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// # #[cfg(feature = "tokio")] {
/// use damper::tower::BulkheadLayer;
/// use damper::{Bulkhead, CallError};
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() {
/// let queries = Arc::new(Bulkhead::new(1).queue(16)); // one in flight, and 16 that wait
/// let parse = service_fn(async |query: &'static str| query.parse::<u32>());
/// let mut refusing = ServiceBuilder::new().layer(BulkheadLayer::new(Arc::clone(&queries))).service(parse);
/// let first = refusing.ready().await.unwrap().call("42");
/// let second = refusing.ready().await.unwrap().call("43");
/// assert!(matches!(second.await, Err(CallError::Refused(_))));
///
/// let waiting = BulkheadLayer::new(queries).waiting(Duration::from_secs(1));
/// let mut waiting = ServiceBuilder::new().layer(waiting).service(parse);
/// let third = waiting.ready().await.unwrap().call("44");
/// assert_eq!(tokio::join!(first, third), (Ok(42), Ok(44)));
/// # }
/// # run(); }
/// ```
#[derive(Clone)]
pub struct BulkheadLayer<A> {
    admission: A,
}

impl<B: SharedBulkhead> BulkheadLayer<Refusing<One<B>>> {
    /// Creates a layer with one bulkhead for all requests, which refuses calls without a permit.
    ///
    /// `bulkhead` is a reference to a `static` or an `Arc`. It may be an [`AdaptiveLimit`](damper_core::AdaptiveLimit) too. The latency of a call whose result is `Ok` counts; an `Err` is
    /// ignored.
    pub fn new(bulkhead: B) -> Self {
        Self { admission: Refusing(One(bulkhead)) }
    }
}

impl<F, K, C: Clock + Clone, S> BulkheadLayer<Refusing<PerKey<F, Arc<KeyedBulkhead<K, C, S>>>>> {
    /// Creates a layer with a bulkhead for each key that `key` takes from requests.
    ///
    /// Pass an `Arc` to keep the bulkheads, for looking at them.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// use damper::KeyedBulkhead;
    /// use damper::tower::BulkheadLayer;
    ///
    /// struct Query {
    ///     shard: u32,
    /// }
    ///
    /// let shards = KeyedBulkhead::new(8, 64)?; // 8 calls in flight for each of 64 shards
    /// let layer = BulkheadLayer::by(|query: &Query| query.shard, shards);
    /// # let _ = layer;
    /// # Ok::<(), damper::CapacityError>(())
    /// ```
    pub fn by<R>(key: F, bulkheads: impl Into<Arc<KeyedBulkhead<K, C, S>>>) -> Self
    where
        F: Fn(&R) -> K,
        K: Key,
    {
        Self { admission: Refusing(PerKey { key, keyed: bulkheads.into() }) }
    }
}

impl<P> BulkheadLayer<Refusing<P>> {
    /// Lets calls wait for a permit in the bulkhead's queue, for at most `longest`. Default: no wait.
    ///
    /// They wait by tokio's timer.
    ///
    /// A bulkhead has a queue if it was built with one, by [`Bulkhead::queue`](damper_core::Bulkhead::queue). Without a queue, and
    /// where it is full, a call is refused at once.
    ///
    /// The service has to be `Clone`, because the call is made after the wait. If requests have deadlines, set
    /// [`deadline_by`](BulkheadLayer::deadline_by).
    #[cfg(feature = "tokio")]
    pub fn waiting(self, longest: Duration) -> BulkheadLayer<Waiting<P, TokioSleep>> {
        self.waiting_by(longest, TokioSleep)
    }

    /// Lets calls wait for permits as [`waiting`](Self#method.waiting) does, by a [`Sleep`] of your own.
    pub fn waiting_by<Z: Sleep>(self, longest: Duration, sleep: Z) -> BulkheadLayer<Waiting<P, Z>> {
        BulkheadLayer { admission: Waiting { limit: self.admission.0, longest, sleep, find_deadline: NoDeadline } }
    }
}

impl<P, Z, D> BulkheadLayer<Waiting<P, Z, D>> {
    /// Sets how to find a request's deadline, the longest that it waits. Default: it has none.
    ///
    /// By a closure, or for requests of HTTP by `damper::http::RequestDeadline`: see [`FindDeadline`](crate::FindDeadline).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::tower::BulkheadLayer;
    /// use damper::{Bulkhead, Deadline};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// struct Query {
    ///     deadline: Deadline,
    /// }
    ///
    /// let waiting = BulkheadLayer::new(Arc::new(Bulkhead::new(8).queue(64))).waiting(Duration::from_secs(1));
    /// let layer = waiting.deadline_by(|query: &Query| Some(query.deadline));
    /// # let _ = layer;
    /// # }
    /// ```
    pub fn deadline_by<F>(self, find_deadline: F) -> BulkheadLayer<Waiting<P, Z, F>> {
        BulkheadLayer { admission: self.admission.deadline_by(find_deadline) }
    }
}

impl<P: Clone, S> tower_layer::Layer<S> for BulkheadLayer<Refusing<P>> {
    type Service = BulkheadService<S, Refusing<P>>;

    fn layer(&self, service: S) -> Self::Service {
        BulkheadService::new(service, self.admission.clone())
    }
}

impl<P: Clone, Z: Clone, D: Clone, S: WaitingService> tower_layer::Layer<S> for BulkheadLayer<Waiting<P, Z, D>> {
    type Service = BulkheadService<S, Waiting<P, Z, D>>;

    fn layer(&self, service: S) -> Self::Service {
        BulkheadService::new(service, self.admission.clone())
    }
}

impl<A> fmt::Debug for BulkheadLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadLayer").finish_non_exhaustive()
    }
}
