//! The concurrency limit of a client's stack.

use super::layers::waiting;
use crate::live::{Reload, SettingChange, apply_changed};
use crate::settings::{AdaptiveLimitSettings, BulkheadSettings, ClientConcurrency, ClientLayers};
use damper_core::concurrency::{AdaptiveLimit, Bulkhead, KeyedBulkhead};
use damper_core::gate::{AnswerOf, Ask, Either, Forecast, Gate, PerKey, Waits};
use damper_core::time::TokioSleep;
use damper_core::{Live, OutOfRange};
use damper_http::{BulkheadPerHost, Head, RequestDeadline, TargetHost};
use std::sync::Arc;
use std::time::Duration;

/// The limit of calls in flight that the settings select.
///
/// It is one of: no limit, a bulkhead for all calls, a bulkhead for each host, or an adaptive limit.
///
/// Clones share their state.
#[derive(Clone, Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ClientConcurrencyLimit {
    gate: Selected,
    reloaded: Reloaded,
}

/// The gate of the selected limit, if there is one.
type Selected = Option<Either<Either<Waiting<Arc<Bulkhead>>, Waiting<BulkheadPerHost>>, Arc<AdaptiveLimit>>>;

type Waiting<G> = Waits<G, TokioSleep, RequestDeadline>;

/// The primitive that follows new settings, and the longest wait of calls.
#[derive(Clone, Debug)]
enum Reloaded {
    None,
    Bulkhead((Arc<Bulkhead>, Arc<Live<Duration>>)),
    BulkheadPerHost((Arc<KeyedBulkhead<String>>, Arc<Live<Duration>>)),
    AdaptiveLimit(Arc<AdaptiveLimit>),
}

impl ClientConcurrencyLimit {
    pub(super) fn of(layers: &ClientLayers) -> Result<Self, OutOfRange> {
        let bulkhead: &BulkheadSettings = &layers.bulkhead;
        let max_wait = Arc::new(Live::new(bulkhead.max_wait()));
        let (gate, reloaded) = match layers.stack.concurrency {
            ClientConcurrency::None => return Ok(Self { gate: None, reloaded: Reloaded::None }),
            ClientConcurrency::Bulkhead => {
                let pool = Arc::new(bulkhead.bulkhead());
                (
                    Either::First(Either::First(waiting(Arc::clone(&pool), Arc::clone(&max_wait)))),
                    Reloaded::Bulkhead((pool, max_wait)),
                )
            }
            ClientConcurrency::BulkheadPerHost => {
                let pools = Arc::new(bulkhead.per_key::<String>()?);
                let per_host = PerKey::new(TargetHost, Arc::clone(&pools));
                (
                    Either::First(Either::Second(waiting(per_host, Arc::clone(&max_wait)))),
                    Reloaded::BulkheadPerHost((pools, max_wait)),
                )
            }
            ClientConcurrency::AdaptiveLimit => {
                let limit = Arc::new(layers.adaptive_limit.limit());
                (Either::Second(Arc::clone(&limit)), Reloaded::AdaptiveLimit(limit))
            }
        };
        Ok(Self { gate: Some(gate), reloaded })
    }

    pub(super) fn takes(&self, change: &SettingChange) -> bool {
        match &self.reloaded {
            Reloaded::None => false,
            Reloaded::Bulkhead(pool) => change.is_in("bulkhead") && Reload::<BulkheadSettings>::takes(pool, change),
            Reloaded::BulkheadPerHost(pools) => {
                change.is_in("bulkhead") && Reload::<BulkheadSettings>::takes(pools, change)
            }
            Reloaded::AdaptiveLimit(limit) => {
                change.is_in("adaptive_limit") && Reload::<AdaptiveLimitSettings>::takes(limit, change)
            }
        }
    }

    /// Applies the section of the limit, if it has changed.
    pub(super) fn apply(&self, old: &ClientLayers, new: &ClientLayers) -> Result<(), String> {
        match &self.reloaded {
            Reloaded::None => Ok(()),
            Reloaded::Bulkhead(pool) => apply_changed(pool, &old.bulkhead, &new.bulkhead),
            Reloaded::BulkheadPerHost(pools) => apply_changed(pools, &old.bulkhead, &new.bulkhead),
            Reloaded::AdaptiveLimit(limit) => apply_changed(limit, &old.adaptive_limit, &new.adaptive_limit),
        }
    }
}

impl Gate for ClientConcurrencyLimit {
    type Permit = <Selected as Gate>::Permit;
    type Refusal = <Selected as Gate>::Refusal;
    type Wait = <Selected as Gate>::Wait;
}

impl<'a> Ask<Head<'a>> for ClientConcurrencyLimit {
    #[inline]
    fn ask(&self, head: &Head<'a>) -> AnswerOf<Self> {
        self.gate.ask(head)
    }

    fn forecast(&self, head: &Head<'a>) -> Forecast<Self::Refusal> {
        self.gate.forecast(head)
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for ClientConcurrencyLimit {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.gate.read(readings);
    }
}
