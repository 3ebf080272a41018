//! The concurrency limit of a server's stack.

use crate::live::{Reload, SettingChange, apply_changed};
use crate::settings::{AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings, ServerConcurrency, ServerLayers};
use damper_core::concurrency::{
    AdaptiveLimit, Admission, AdmissionPermit, Bulkhead, BulkheadFull, BulkheadPermit, FixedLimit, NotAdmitted, Outcome,
};
use damper_core::gate::{Refusal, RefusalKind};
use damper_core::time::TokioSleep;
use damper_http::{Acquisition, AdmissionGate, ConcurrencyLimit, ConcurrencyPermit, Head, Waiting};
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The limit of requests in flight that the settings select.
///
/// It is one of: no limit, a bulkhead, an adaptive limit, or an admission gate.
///
/// Clones share their state.
#[derive(Clone, Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ServerConcurrencyLimit(Chosen);

#[derive(Clone, Debug)]
enum Chosen {
    None,
    Bulkhead { pool: Arc<Bulkhead>, waiting: Waiting<Arc<Bulkhead>, TokioSleep> },
    AdaptiveLimit(Arc<AdaptiveLimit>),
    Admission(AdmissionGate<TokioSleep>),
    FixedAdmission(AdmissionGate<TokioSleep, FixedLimit>),
}

/// Wraps a gate so that requests wait in its queue.
fn waiting<R>(gate: Admission<R>, settings: &AdmissionSettings) -> AdmissionGate<TokioSleep, R> {
    AdmissionGate::new(Arc::new(gate), TokioSleep).longest_wait(settings.max_wait())
}

impl ServerConcurrencyLimit {
    pub(super) fn of(layers: &ServerLayers) -> Self {
        Self(match layers.stack.concurrency() {
            ServerConcurrency::None => Chosen::None,
            ServerConcurrency::Bulkhead => {
                let pool = Arc::new(layers.bulkhead.bulkhead());
                let waiting = Waiting::new(Arc::clone(&pool), layers.bulkhead.max_wait(), TokioSleep);
                Chosen::Bulkhead { pool, waiting }
            }
            ServerConcurrency::AdaptiveLimit => Chosen::AdaptiveLimit(Arc::new(layers.adaptive_limit.limit())),
            ServerConcurrency::Admission => Chosen::Admission(waiting(layers.admission.adaptive(), &layers.admission)),
            ServerConcurrency::FixedAdmission => {
                Chosen::FixedAdmission(waiting(layers.admission.fixed(), &layers.admission))
            }
        })
    }

    pub(super) fn takes(&self, change: &SettingChange) -> bool {
        match &self.0 {
            Chosen::None => false,
            Chosen::Bulkhead { pool, .. } => {
                change.is_in("bulkhead") && Reload::<BulkheadSettings>::takes(pool, change)
            }
            Chosen::AdaptiveLimit(limit) => {
                change.is_in("adaptive_limit") && Reload::<AdaptiveLimitSettings>::takes(limit, change)
            }
            Chosen::Admission(gate) => {
                change.is_in("admission") && Reload::<AdmissionSettings>::takes(gate.get_ref(), change)
            }
            Chosen::FixedAdmission(gate) => {
                change.is_in("admission") && Reload::<AdmissionSettings>::takes(gate.get_ref(), change)
            }
        }
    }

    /// Applies the section of the limit, if it has changed.
    pub(super) fn apply(&self, old: &ServerLayers, new: &ServerLayers) -> Result<(), String> {
        match &self.0 {
            Chosen::None => Ok(()),
            Chosen::Bulkhead { pool, .. } => apply_changed(pool, &old.bulkhead, &new.bulkhead),
            Chosen::AdaptiveLimit(limit) => apply_changed(limit, &old.adaptive_limit, &new.adaptive_limit),
            Chosen::Admission(gate) => apply_changed(gate.get_ref(), &old.admission, &new.admission),
            Chosen::FixedAdmission(gate) => apply_changed(gate.get_ref(), &old.admission, &new.admission),
        }
    }
}

/// A slot of the selected limit.
#[derive(Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ServerConcurrencyPermit(Slot);

#[derive(Debug)]
enum Slot {
    None,
    Bulkhead(BulkheadPermit<Arc<Bulkhead>>),
    AdaptiveLimit(BulkheadPermit<Arc<AdaptiveLimit>>),
    Admission(AdmissionPermit<Arc<Admission>>),
    FixedAdmission(AdmissionPermit<Arc<Admission<FixedLimit>>>),
}

impl ConcurrencyPermit for ServerConcurrencyPermit {
    fn learns(&self) -> bool {
        match &self.0 {
            Slot::None => false,
            Slot::Bulkhead(permit) => permit.learns(),
            Slot::AdaptiveLimit(permit) => permit.learns(),
            Slot::Admission(permit) => permit.learns(),
            Slot::FixedAdmission(permit) => permit.learns(),
        }
    }

    fn record(&mut self, outcome: Outcome) {
        match &mut self.0 {
            Slot::None => {}
            Slot::Bulkhead(permit) => ConcurrencyPermit::record(permit, outcome),
            Slot::AdaptiveLimit(permit) => ConcurrencyPermit::record(permit, outcome),
            Slot::Admission(permit) => ConcurrencyPermit::record(permit, outcome),
            Slot::FixedAdmission(permit) => ConcurrencyPermit::record(permit, outcome),
        }
    }

    fn typical_latency(&self) -> Option<Duration> {
        match &self.0 {
            Slot::None => None,
            Slot::Bulkhead(permit) => permit.typical_latency(),
            Slot::AdaptiveLimit(permit) => permit.typical_latency(),
            Slot::Admission(permit) => permit.typical_latency(),
            Slot::FixedAdmission(permit) => permit.typical_latency(),
        }
    }
}

/// The reason why a request got no slot.
#[derive(Clone)]
#[non_exhaustive]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub enum ServerConcurrencyRefusal {
    /// The bulkhead or the adaptive limit is full.
    Full(BulkheadFull),
    /// The gate did not admit the request.
    NotAdmitted(NotAdmitted),
}

impl fmt::Display for ServerConcurrencyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(full) => full.fmt(f),
            Self::NotAdmitted(refused) => refused.fmt(f),
        }
    }
}

damper_core::internal::debug_by_display!(ServerConcurrencyRefusal);

/// Displays the inner refusal and has the same source.
impl Error for ServerConcurrencyRefusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Full(full) => full.source(),
            Self::NotAdmitted(refused) => refused.source(),
        }
    }
}

impl Refusal for ServerConcurrencyRefusal {
    fn kind(&self) -> RefusalKind {
        match self {
            Self::Full(full) => full.kind(),
            Self::NotAdmitted(refused) => refused.kind(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Full(full) => Refusal::retry_after(full),
            Self::NotAdmitted(refused) => Refusal::retry_after(refused),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Full(full) => full.label(),
            Self::NotAdmitted(refused) => refused.label(),
        }
    }
}

type Acquired = Result<ServerConcurrencyPermit, ServerConcurrencyRefusal>;

/// A request that waits for a slot.
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ServerConcurrencyFuture(Pin<Box<dyn Future<Output = Acquired> + Send>>);

impl Future for ServerConcurrencyFuture {
    type Output = Acquired;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Acquired> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for ServerConcurrencyFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConcurrencyFuture").finish_non_exhaustive()
    }
}

type Wrapped = Acquisition<ServerConcurrencyPermit, ServerConcurrencyRefusal, ServerConcurrencyFuture>;

/// Wraps a permit of one of the limits, and its refusal.
fn wrapped<P: 'static, R: 'static, F: Future<Output = Result<P, R>> + Send + 'static>(
    acquisition: Acquisition<P, R, F>,
    slot: impl Fn(P) -> Slot + Send + 'static,
    refusal: impl Fn(R) -> ServerConcurrencyRefusal + Send + 'static,
) -> Wrapped {
    let wrap = move |acquired: Result<P, R>| match acquired {
        Ok(permit) => Ok(ServerConcurrencyPermit(slot(permit))),
        Err(refused) => Err(refusal(refused)),
    };
    match acquisition {
        Acquisition::Now(acquired) => Acquisition::Now(wrap(acquired)),
        Acquisition::Later(future) => Acquisition::Later(ServerConcurrencyFuture(Box::pin(async move {
            let acquired = future.await;
            wrap(acquired)
        }))),
    }
}

impl ConcurrencyLimit for ServerConcurrencyLimit {
    type Permit = ServerConcurrencyPermit;
    type Refusal = ServerConcurrencyRefusal;
    type Future = ServerConcurrencyFuture;

    fn acquire(&self, head: &Head<'_>) -> Wrapped {
        match &self.0 {
            Chosen::None => Acquisition::Now(Ok(ServerConcurrencyPermit(Slot::None))),
            Chosen::Bulkhead { waiting, .. } => {
                wrapped(waiting.acquire(head), Slot::Bulkhead, ServerConcurrencyRefusal::Full)
            }
            Chosen::AdaptiveLimit(limit) => {
                wrapped(ConcurrencyLimit::acquire(limit, head), Slot::AdaptiveLimit, ServerConcurrencyRefusal::Full)
            }
            Chosen::Admission(gate) => {
                wrapped(gate.acquire(head), Slot::Admission, ServerConcurrencyRefusal::NotAdmitted)
            }
            Chosen::FixedAdmission(gate) => {
                wrapped(gate.acquire(head), Slot::FixedAdmission, ServerConcurrencyRefusal::NotAdmitted)
            }
        }
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for ServerConcurrencyLimit {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        match &self.0 {
            Chosen::None => {}
            Chosen::Bulkhead { pool, .. } => pool.read(readings),
            Chosen::AdaptiveLimit(limit) => limit.read(readings),
            Chosen::Admission(gate) => gate.read(readings),
            Chosen::FixedAdmission(gate) => gate.read(readings),
        }
    }
}
