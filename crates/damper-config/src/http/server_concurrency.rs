//! The concurrency limit of a server's stack.

use super::layers::waiting;
use crate::live::{Reload, SettingChange, apply_changed};
use crate::settings::{AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings, ServerConcurrency, ServerLayers};
use damper_core::Live;
use damper_core::concurrency::{AdaptiveLimit, Admission, Bulkhead, FixedLimit};
use damper_core::gate::{AnswerOf, Ask, Either, Forecast, Gate, Waits};
use damper_core::time::TokioSleep;
use damper_http::{AdmissionGate, Head, RequestClasses, RequestDeadline};
use std::sync::Arc;
use std::time::Duration;

/// The limit of requests in flight that the settings select.
///
/// It is one of: no limit, a bulkhead, an adaptive limit, or an admission gate.
///
/// Clones share their state.
#[derive(Clone, Debug)]
#[cfg(all(feature = "tower", feature = "tokio"))]
pub struct ServerConcurrencyLimit {
    gate: Selected,
    reloaded: Reloaded,
}

/// The gate of the selected limit, if there is one.
type Selected = Option<Either<Either<WaitingBulkhead, Arc<AdaptiveLimit>>, Either<Adaptive, Fixed>>>;

type WaitingBulkhead = Waits<Arc<Bulkhead>, TokioSleep, RequestDeadline>;
type Adaptive = AdmissionGate<TokioSleep>;
type Fixed = AdmissionGate<TokioSleep, FixedLimit>;

/// The primitive that follows new settings, and the longest wait of calls.
#[derive(Clone, Debug)]
enum Reloaded {
    None,
    Bulkhead((Arc<Bulkhead>, Arc<Live<Duration>>)),
    AdaptiveLimit(Arc<AdaptiveLimit>),
    Admission((Arc<Admission>, Arc<Live<Duration>>)),
    FixedAdmission((Arc<Admission<FixedLimit>>, Arc<Live<Duration>>)),
}

impl ServerConcurrencyLimit {
    pub(super) fn of(layers: &ServerLayers) -> Self {
        let live = |longest| Arc::new(Live::new(longest));
        let (gate, reloaded) = match layers.stack.concurrency {
            ServerConcurrency::None => return Self { gate: None, reloaded: Reloaded::None },
            ServerConcurrency::Bulkhead => {
                let (pool, max_wait) = (Arc::new(layers.bulkhead.bulkhead()), live(layers.bulkhead.max_wait()));
                (
                    Either::First(Either::First(waiting(Arc::clone(&pool), Arc::clone(&max_wait)))),
                    Reloaded::Bulkhead((pool, max_wait)),
                )
            }
            ServerConcurrency::AdaptiveLimit => {
                let limit = Arc::new(layers.adaptive_limit.limit());
                (Either::First(Either::Second(Arc::clone(&limit))), Reloaded::AdaptiveLimit(limit))
            }
            ServerConcurrency::Admission => {
                let (admission, max_wait) = (Arc::new(layers.admission.adaptive()), live(layers.admission.max_wait()));
                let gate = RequestClasses::new()
                    .longest_wait(Arc::clone(&max_wait))
                    .before(Arc::clone(&admission), TokioSleep);
                (Either::Second(Either::First(gate)), Reloaded::Admission((admission, max_wait)))
            }
            ServerConcurrency::FixedAdmission => {
                let (admission, max_wait) = (Arc::new(layers.admission.fixed()), live(layers.admission.max_wait()));
                let gate = RequestClasses::new()
                    .longest_wait(Arc::clone(&max_wait))
                    .before(Arc::clone(&admission), TokioSleep);
                (Either::Second(Either::Second(gate)), Reloaded::FixedAdmission((admission, max_wait)))
            }
        };
        Self { gate: Some(gate), reloaded }
    }

    pub(super) fn takes(&self, change: &SettingChange) -> bool {
        match &self.reloaded {
            Reloaded::None => false,
            Reloaded::Bulkhead(pool) => change.is_in("bulkhead") && Reload::<BulkheadSettings>::takes(pool, change),
            Reloaded::AdaptiveLimit(limit) => {
                change.is_in("adaptive_limit") && Reload::<AdaptiveLimitSettings>::takes(limit, change)
            }
            Reloaded::Admission(admission) => {
                change.is_in("admission") && Reload::<AdmissionSettings>::takes(admission, change)
            }
            Reloaded::FixedAdmission(admission) => {
                change.is_in("admission") && Reload::<AdmissionSettings>::takes(admission, change)
            }
        }
    }

    /// Applies the section of the limit, if it has changed.
    pub(super) fn apply(&self, old: &ServerLayers, new: &ServerLayers) -> Result<(), String> {
        match &self.reloaded {
            Reloaded::None => Ok(()),
            Reloaded::Bulkhead(pool) => apply_changed(pool, &old.bulkhead, &new.bulkhead),
            Reloaded::AdaptiveLimit(limit) => apply_changed(limit, &old.adaptive_limit, &new.adaptive_limit),
            Reloaded::Admission(admission) => apply_changed(admission, &old.admission, &new.admission),
            Reloaded::FixedAdmission(admission) => apply_changed(admission, &old.admission, &new.admission),
        }
    }
}

impl Gate for ServerConcurrencyLimit {
    type Permit = <Selected as Gate>::Permit;
    type Refusal = <Selected as Gate>::Refusal;
    type Wait = <Selected as Gate>::Wait;
}

impl<'a> Ask<Head<'a>> for ServerConcurrencyLimit {
    #[inline]
    fn ask(&self, head: &Head<'a>) -> AnswerOf<Self> {
        self.gate.ask(head)
    }

    fn forecast(&self, head: &Head<'a>) -> Forecast<Self::Refusal> {
        self.gate.forecast(head)
    }
}

#[cfg(feature = "metrics")]
impl damper_metrics::Source for ServerConcurrencyLimit {
    fn read(&self, readings: &damper_metrics::Readings<'_>) {
        self.gate.read(readings);
    }
}
