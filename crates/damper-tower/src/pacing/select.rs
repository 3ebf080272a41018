//! The pacer of a request.

use core::ops::Deref;
use damper_core::throttle::{Pacer, Strategy};
use damper_core::time::Clock;

/// Chooses the pacer of a request of type `R`: [`One`] or [`SelectedBy`] a closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose a pacer for a request of type `{R}`",
    note = "the closure of `PacingLayer::by` has the form `|request: &{R}| pacer`, and returns a `&'static Pacer` or an `Arc<Pacer>`"
)]
pub trait SelectPacer<R> {
    /// The strategy of the pacers.
    type Strategy: Strategy;

    /// The clock of the pacers.
    type Clock: Clock;

    /// A pointer to a pacer: `&'static Pacer` or `Arc<Pacer>`.
    type Pacer: Deref<Target = Pacer<Self::Strategy, Self::Clock>>;

    /// Returns the pacer of a request.
    fn pacer(&self, request: &R) -> Self::Pacer;
}

/// One pacer for all requests.
#[derive(Clone, Copy, Debug)]
pub struct One<G>(pub(super) G);

impl<G, S, C, R> SelectPacer<R> for One<G>
where
    G: Deref<Target = Pacer<S, C>> + Clone,
    S: Strategy,
    C: Clock,
{
    type Strategy = S;
    type Clock = C;
    type Pacer = G;

    #[inline]
    fn pacer(&self, _: &R) -> G {
        self.0.clone()
    }
}

/// A closure chooses.
#[derive(Clone, Copy, Debug)]
pub struct SelectedBy<F>(pub(super) F);

impl<F, G, S, C, R> SelectPacer<R> for SelectedBy<F>
where
    F: Fn(&R) -> G,
    G: Deref<Target = Pacer<S, C>>,
    S: Strategy,
    C: Clock,
{
    type Strategy = S;
    type Clock = C;
    type Pacer = G;

    #[inline]
    fn pacer(&self, request: &R) -> G {
        (self.0)(request)
    }
}
