//! A layer of deadlines, at a server or at a client.

use super::{DeadlineService, TimeoutHeader, TimeoutUnit, Timeouts};
use crate::telemetry::{Kind, Telemetry};
use core::fmt;
use core::time::Duration;
use damper_core::setting::Setting;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;
use http::HeaderName;

/// A layer of deadlines: a [`DeadlineLayer`](crate::DeadlineLayer) or a [`ClientDeadlineLayer`](crate::ClientDeadlineLayer).
#[derive(Clone)]
pub struct Deadlines<S, R> {
    pub(super) timeouts: Timeouts,
    pub(super) sleep: S,
    pub(super) telemetry: Telemetry,
    pub(super) role: R,
}

/// The settings that only a server's layer has, or a client's.
pub trait Role: Default + fmt::Debug {
    /// The kind of its layers.
    #[doc(hidden)]
    const KIND: Kind;
}

#[cfg(feature = "tokio")]
impl<R: Role> Deadlines<TokioSleep, R> {
    /// Creates a layer with a timeout of its own, which no request can lengthen.
    ///
    /// It sleeps by tokio's timer. To change the timeout while calls are made, pass a [`Live`](damper_core::Live).
    ///
    /// A client sends the timeout to the server only with a [header](Self::header), or in gRPC.
    #[must_use]
    pub fn new(timeout: impl Into<Setting<Duration>>) -> Self {
        Self::sleeping_by(timeout, TokioSleep)
    }

    /// Creates a layer without its own timeout.
    ///
    /// A server enforces the deadlines of requests, and a client passes them on. It sleeps by tokio's timer.
    #[must_use]
    pub fn propagating() -> Self {
        Self::propagating_by(TokioSleep)
    }
}

impl<S, R: Role> Deadlines<S, R> {
    /// Creates a layer with a timeout of its own and another [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn sleeping_by(timeout: impl Into<Setting<Duration>>, sleep: S) -> Self {
        Self::with_timeouts(Timeouts::new(Some(timeout.into())), sleep)
    }

    /// Creates a layer without its own timeout and with another [`Sleep`](damper_core::time::Sleep).
    #[must_use]
    pub fn propagating_by(sleep: S) -> Self {
        Self::with_timeouts(Timeouts::new(None), sleep)
    }

    fn with_timeouts(timeouts: Timeouts, sleep: S) -> Self {
        Self { timeouts, sleep, telemetry: Telemetry::new(R::KIND, "default"), role: R::default() }
    }

    /// Sets the header in which clients send their timeouts, as a whole number. Default: none.
    ///
    /// A client sends the time left, rounded down to the unit, but at least 1. A server ignores a malformed number. gRPC requests have their own
    /// header, `grpc-timeout`.
    #[must_use]
    pub fn header(mut self, name: HeaderName, unit: TimeoutUnit) -> Self {
        self.timeouts.header = Some(TimeoutHeader { name, unit });
        self
    }

    /// Sets the name in logs and metrics. Default: `default`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { telemetry: Telemetry::new(R::KIND, name), ..self }
    }
}

impl<S: Clone, R: Clone> Deadlines<S, R> {
    /// Gives deadlines to the calls of a service.
    pub fn layer<T>(&self, service: T) -> DeadlineService<T, Self> {
        DeadlineService::new(service, self.clone())
    }
}

impl<S: Clone, R: Clone, T> tower_layer::Layer<T> for Deadlines<S, R> {
    type Service = DeadlineService<T, Self>;

    fn layer(&self, service: T) -> DeadlineService<T, Self> {
        self.layer(service)
    }
}

impl<S, R: fmt::Debug> fmt::Debug for Deadlines<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").field("timeouts", &self.timeouts).field("role", &self.role).finish_non_exhaustive()
    }
}
