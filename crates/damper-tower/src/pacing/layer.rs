//! Which pacer, what it learns from, and whether rejected calls are made again.

use super::{PacedSide, PacingService};
use crate::GateLayer;
use crate::side::Stand;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use damper_core::gate::{PacerSource, Paces, SelectedPacer};
use damper_core::retry::RetryBudget;
use damper_core::throttle::PacedRetry;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;

/// Paces calls of any request to a rate-limited server.
///
/// It sleeps before a call, so that the server rarely rejects one.
///
/// A [`Pacer`](damper_core::throttle::Pacer) learns how long from the [hints](damper_core::throttle::Hints) in each result, which a function of
/// yours reads.
///
/// **Alone**, as it is created, it makes a rejected call again after the sleep that the pacer returns, if the request is `Clone`:
/// [`PacedRetry::DEFAULT`] says how often, within a [`RetryBudget`]. When it gives a call up after an attempt, the caller gets the last
/// response as it is, or a [`RetryError`](damper_core::RetryError) with the last error.
///
/// **Inside of retries** it only paces, by [`without_retries`](Self::without_retries). Put it inside of what tries again, and outside
/// of throttle, limit, bulkhead and timeout, so that a sleep holds no slot and is no time of an attempt.
///
/// A sleep never outlasts the [time left](Self::time_left) of its call. A call whose sleep would is not made, and
/// [`PaceTooSlow::find_in`](damper_core::throttle::PaceTooSlow::find_in) finds the refusal in its error.
///
/// Clones, and all services that one makes, share the pacer.
///
/// For `http::Request`, `damper::http::PacingLayer` reads the hints of HTTP and gRPC, and knows hosts, bodies and deadlines.
///
/// # Examples
///
/// Before a client of a database that has a limit of its own:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// # #[cfg(feature = "tokio")] {
/// use damper::Quota;
/// use damper::throttle::{Hints, Pacer};
/// use damper::tower::PacingLayer;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// static DATABASE: Pacer = Pacer::new(Quota::per_second(100));
///
/// # #[derive(Debug)]
/// enum DatabaseError {
///     OverLimit,
///     Failed,
/// }
///
/// fn hints(result: &Result<u32, DatabaseError>) -> Hints {
///     match result {
///         Ok(_) => Hints::ACCEPTED,
///         Err(DatabaseError::OverLimit) => Hints::REJECTED,
///         Err(DatabaseError::Failed) => Hints::UNKNOWN,
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() {
/// let mut database = ServiceBuilder::new()
///     .layer(PacingLayer::new(&DATABASE, hints))
///     .service(service_fn(async |query: &'static str| query.parse::<u32>().map_err(|_| DatabaseError::Failed)));
///
/// let number = database.ready().await.unwrap().call("42").await.unwrap();
/// assert_eq!(number, 42);
/// # let _ = DatabaseError::OverLimit;
/// # }
/// # run(); }
/// ```
#[derive(Clone)]
pub struct PacingLayer<P, H, B, Z, D = ()> {
    pub(super) pacers: P,
    pub(super) hints: H,
    pub(super) retry: PacedRetry<B>,
    pub(super) sleep: Z,
    pub(super) time_left: D,
}

#[cfg(feature = "tokio")]
impl<P: PacerSource, H> PacingLayer<P, H, Arc<RetryBudget>, TokioSleep> {
    /// Creates a layer with one pacer for all requests: a reference to a `static`, or an `Arc`.
    ///
    /// It sleeps by tokio's timer.
    ///
    /// `hints` reads the hints in a result of the service: `|result: &Result<Response, Error>| -> Hints`.
    pub fn new(pacer: P, hints: H) -> Self {
        Self::sleeping_by(pacer, hints, TokioSleep)
    }
}

impl<P: PacerSource, H, Z: Sleep> PacingLayer<P, H, Arc<RetryBudget>, Z> {
    /// Creates a layer with one pacer for all requests, which sleeps by the timer of any runtime.
    pub fn sleeping_by(pacer: P, hints: H, sleep: Z) -> Self {
        let retry = PacedRetry::DEFAULT.budget(Arc::new(RetryBudget::default()));
        Self { pacers: pacer, hints, retry, sleep, time_left: () }
    }
}

impl<P, H, B, Z, D> PacingLayer<P, H, B, Z, D> {
    /// Chooses the pacer of each request by a closure, which returns a `&'static Pacer` or an `Arc<Pacer>`.
    ///
    /// Default: the one that the layer was created with, for all requests.
    #[must_use]
    pub fn by<R, F: Fn(&R) -> G, G>(self, select: F) -> PacingLayer<SelectedPacer<F, G>, H, B, Z, D> {
        let Self { hints, retry, sleep, time_left, .. } = self;
        PacingLayer { pacers: SelectedPacer::by(select), hints, retry, sleep, time_left }
    }

    /// Sets how much time a request has left, which no sleep outlasts. Default: it has no deadline.
    ///
    /// The closure has the form `|request: &Request| -> Option<Duration>`.
    #[must_use]
    pub fn time_left<R, F: Fn(&R) -> Option<Duration>>(self, time_left: F) -> PacingLayer<P, H, B, Z, F> {
        let Self { pacers, hints, retry, sleep, .. } = self;
        PacingLayer { pacers, hints, retry, sleep, time_left }
    }

    /// Sets how often a rejected call is made again, for how long and within which budget.
    ///
    /// Default: [`PacedRetry::DEFAULT`], with a [`RetryBudget`] of its own.
    #[must_use]
    pub fn retry<N>(self, retry: PacedRetry<N>) -> PacingLayer<P, H, N, Z, D> {
        let Self { pacers, hints, sleep, time_left, .. } = self;
        PacingLayer { pacers, hints, retry, sleep, time_left }
    }

    /// Only paces: a rejected call is returned, for the retries outside. Requests need not be `Clone`.
    ///
    /// It is the layer of a [gate at which calls sleep](Paces). The caller gets [`CallError::Refused`](damper_core::CallError::Refused) with a
    /// [`PaceTooSlow`](damper_core::throttle::PaceTooSlow) if the call was not made.
    ///
    /// The retries decide when a rejected call is made again: the sleep that the pacer would have taken for it is left out. Each attempt
    /// still sleeps as the pacer says before a call, which is never with
    /// [`ExponentialBackoff`](damper_core::throttle::compared::ExponentialBackoff) unless the service asked for a time. A call whose deadline has passed
    /// is made if it need not sleep.
    #[must_use]
    pub fn without_retries(self) -> GateLayer<PacedSide<P, H, Z, D>>
    where
        PacedSide<P, H, Z, D>: Stand,
    {
        let Self { pacers, hints, sleep, time_left, .. } = self;
        GateLayer::at(PacedSide { gate: Paces::new(pacers, sleep).time_left(time_left), hints })
    }
}

impl<P, H, B, Z, D, S> tower_layer::Layer<S> for PacingLayer<P, H, B, Z, D>
where
    Self: Clone,
{
    type Service = PacingService<S, P, H, B, Z, D>;

    fn layer(&self, service: S) -> Self::Service {
        PacingService::new(service, self.clone())
    }
}

impl<P, H, B: fmt::Debug, Z, D> fmt::Debug for PacingLayer<P, H, B, Z, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacingLayer").field("retry", &self.retry).finish_non_exhaustive()
    }
}
