//! The concurrency limit of a client's stack.

use crate::live::{Reload, SettingChange, apply_changed};
use crate::settings::{AdaptiveLimitSettings, BulkheadSettings, ClientConcurrency, ClientLayers};
use damper_core::CapacityError;
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, BulkheadFull, BulkheadPermit, KeyedBulkhead, Outcome};
use damper_core::time::TokioSleep;
use damper_http::{Acquisition, ConcurrencyLimit, ConcurrencyPermit, Head, Waiting};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The limit of calls in flight that the settings select.
///
/// It is one of: no limit, a bulkhead for all calls, a bulkhead for each host, or an adaptive limit.
///
/// Clones share their state.
#[derive(Clone, Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ClientConcurrencyLimit(Chosen);

#[derive(Clone, Debug)]
enum Chosen {
    None,
    Bulkhead { pool: Arc<Bulkhead>, waiting: Waiting<Arc<Bulkhead>, TokioSleep> },
    BulkheadPerHost { pools: Arc<KeyedBulkhead<String>>, waiting: Waiting<Arc<KeyedBulkhead<String>>, TokioSleep> },
    AdaptiveLimit(Arc<AdaptiveLimit>),
}

impl ClientConcurrencyLimit {
    pub(super) fn of(layers: &ClientLayers) -> Result<Self, CapacityError> {
        let bulkhead: &BulkheadSettings = &layers.bulkhead;
        Ok(Self(match layers.stack.concurrency() {
            ClientConcurrency::None => Chosen::None,
            ClientConcurrency::Bulkhead => {
                let pool = Arc::new(bulkhead.bulkhead());
                Chosen::Bulkhead { waiting: Waiting::new(Arc::clone(&pool), bulkhead.max_wait(), TokioSleep), pool }
            }
            ClientConcurrency::BulkheadPerHost => {
                let pools = Arc::new(bulkhead.per_key::<String>()?);
                let waiting = Waiting::new(Arc::clone(&pools), bulkhead.max_wait(), TokioSleep);
                Chosen::BulkheadPerHost { waiting, pools }
            }
            ClientConcurrency::AdaptiveLimit => Chosen::AdaptiveLimit(Arc::new(layers.adaptive_limit.limit())),
        }))
    }

    pub(super) fn takes(&self, change: &SettingChange) -> bool {
        match &self.0 {
            Chosen::None => false,
            Chosen::Bulkhead { pool, .. } => {
                change.is_in("bulkhead") && Reload::<BulkheadSettings>::takes(pool, change)
            }
            Chosen::BulkheadPerHost { pools, .. } => {
                change.is_in("bulkhead") && Reload::<BulkheadSettings>::takes(pools, change)
            }
            Chosen::AdaptiveLimit(limit) => {
                change.is_in("adaptive_limit") && Reload::<AdaptiveLimitSettings>::takes(limit, change)
            }
        }
    }

    /// Applies the section of the limit, if it has changed.
    pub(super) fn apply(&self, old: &ClientLayers, new: &ClientLayers) -> Result<(), String> {
        match &self.0 {
            Chosen::None => Ok(()),
            Chosen::Bulkhead { pool, .. } => apply_changed(pool, &old.bulkhead, &new.bulkhead),
            Chosen::BulkheadPerHost { pools, .. } => apply_changed(pools, &old.bulkhead, &new.bulkhead),
            Chosen::AdaptiveLimit(limit) => apply_changed(limit, &old.adaptive_limit, &new.adaptive_limit),
        }
    }
}

/// A slot of the selected limit.
#[derive(Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ClientConcurrencyPermit(Slot);

#[derive(Debug)]
enum Slot {
    None,
    Bulkhead(BulkheadPermit<Arc<Bulkhead>>),
    AdaptiveLimit(BulkheadPermit<Arc<AdaptiveLimit>>),
}

impl ConcurrencyPermit for ClientConcurrencyPermit {
    fn learns(&self) -> bool {
        match &self.0 {
            Slot::None => false,
            Slot::Bulkhead(permit) => permit.learns(),
            Slot::AdaptiveLimit(permit) => permit.learns(),
        }
    }

    fn record(&mut self, outcome: Outcome) {
        match &mut self.0 {
            Slot::None => {}
            Slot::Bulkhead(permit) => permit.record(outcome),
            Slot::AdaptiveLimit(permit) => ConcurrencyPermit::record(permit, outcome),
        }
    }

    fn typical_latency(&self) -> Option<Duration> {
        match &self.0 {
            Slot::None => None,
            Slot::Bulkhead(permit) => permit.typical_latency(),
            Slot::AdaptiveLimit(permit) => permit.typical_latency(),
        }
    }
}

type Acquired = Result<ClientConcurrencyPermit, BulkheadFull>;

/// A call that waits for a slot.
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ClientConcurrencyFuture(Pin<Box<dyn Future<Output = Acquired> + Send>>);

impl Future for ClientConcurrencyFuture {
    type Output = Acquired;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Acquired> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for ClientConcurrencyFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConcurrencyFuture").finish_non_exhaustive()
    }
}

/// Wraps a permit of one of the limits.
fn wrapped<P: 'static, F>(
    acquisition: Acquisition<P, BulkheadFull, F>,
    slot: impl Fn(P) -> Slot + Send + 'static,
) -> Acquisition<ClientConcurrencyPermit, BulkheadFull, ClientConcurrencyFuture>
where
    F: Future<Output = Result<P, BulkheadFull>> + Send + 'static,
{
    match acquisition {
        Acquisition::Now(acquired) => Acquisition::Now(acquired.map(|permit| ClientConcurrencyPermit(slot(permit)))),
        Acquisition::Later(future) => Acquisition::Later(ClientConcurrencyFuture(Box::pin(async move {
            future.await.map(|permit| ClientConcurrencyPermit(slot(permit)))
        }))),
    }
}

impl ConcurrencyLimit for ClientConcurrencyLimit {
    type Permit = ClientConcurrencyPermit;
    type Refusal = BulkheadFull;
    type Future = ClientConcurrencyFuture;

    fn acquire(&self, head: &Head<'_>) -> Acquisition<Self::Permit, BulkheadFull, Self::Future> {
        match &self.0 {
            Chosen::None => Acquisition::Now(Ok(ClientConcurrencyPermit(Slot::None))),
            Chosen::Bulkhead { waiting, .. } => wrapped(waiting.acquire(head), Slot::Bulkhead),
            Chosen::BulkheadPerHost { waiting, .. } => wrapped(waiting.acquire(head), Slot::Bulkhead),
            Chosen::AdaptiveLimit(limit) => wrapped(ConcurrencyLimit::acquire(limit, head), Slot::AdaptiveLimit),
        }
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for ClientConcurrencyLimit {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        match &self.0 {
            Chosen::None => {}
            Chosen::Bulkhead { pool, .. } => pool.read(readings),
            Chosen::BulkheadPerHost { pools, .. } => pools.read(readings),
            Chosen::AdaptiveLimit(limit) => limit.read(readings),
        }
    }
}
