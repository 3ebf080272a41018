//! The choice of a pacer for a request.

use crate::Head;
use alloc::sync::Arc;
use core::ops::Deref;
use damper_core::throttle::{Pacer, Strategy};
use damper_core::time::Clock;

/// Chooses the pacer of a request for a [`PacingLayer`](super::PacingLayer).
///
/// A pacer in a `static` or an `Arc` serves all requests. [`HostPacers`](super::HostPacers) have one per host. Implement this trait to
/// choose the pacer in another way.
///
/// # Examples
///
/// A server that limits reads and writes apart:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::Quota;
/// use damper::http::{Head, PacingLayer, Pacers};
/// use damper::throttle::{Level, Pacer};
/// use damper::time::DefaultClock;
///
/// static READS: Pacer = Pacer::new(Quota::per_hour(4_500));
/// static WRITES: Pacer = Pacer::new(Quota::per_hour(500));
///
/// #[derive(Clone, Copy)]
/// struct Apart;
///
/// impl Pacers for Apart {
///     type Strategy = Level;
///     type Clock = DefaultClock;
///     type Pacer = &'static Pacer;
///
///     fn pacer(&self, head: &Head<'_>) -> &'static Pacer {
///         if head.method.is_safe() { &READS } else { &WRITES }
///     }
/// }
///
/// # async fn sleep(_: std::time::Duration) {}
/// let layer = PacingLayer::sleeping_by(Apart, sleep);
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a pacer for a request",
    note = "put a `Pacer` into an `Arc` or a `static`, or pass `HostPacers`",
    note = "`PacingLayer::single(quota)` and `PacingLayer::per_host(quota)` create them"
)]
pub trait Pacers {
    /// The strategy of the pacers.
    type Strategy: Strategy;

    /// The clock of the pacers.
    type Clock: Clock;

    /// The reference by which a call holds its pacer.
    type Pacer: Deref<Target = Pacer<Self::Strategy, Self::Clock>> + Clone;

    /// Returns the pacer of a request, once per call.
    fn pacer(&self, head: &Head<'_>) -> Self::Pacer;
}

/// Returns the one pacer for all requests.
impl<S: Strategy, C: Clock> Pacers for Arc<Pacer<S, C>> {
    type Strategy = S;
    type Clock = C;
    type Pacer = Self;

    #[inline]
    fn pacer(&self, _: &Head<'_>) -> Self {
        Self::clone(self)
    }
}

/// Returns the one pacer for all requests.
impl<'a, S: Strategy, C: Clock> Pacers for &'a Pacer<S, C> {
    type Strategy = S;
    type Clock = C;
    type Pacer = &'a Pacer<S, C>;

    #[inline]
    fn pacer(&self, _: &Head<'_>) -> &'a Pacer<S, C> {
        self
    }
}
