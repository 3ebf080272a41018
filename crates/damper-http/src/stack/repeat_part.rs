//! The parts of a client's stack that make attempts: retries, a hedge and pacing.

use super::part::ClientPart;
use super::stack_part::Place;
use super::{HttpProtocol, OfPart, StackErrorService, StackProtocol};
use crate::hedge::HedgeLayer;
use crate::pacing::{PaceOnly, PacingLayer};
use crate::retry::{GiveUp, HttpRetries, RetryLayer, RetryProtocol};
use crate::{ClassifyResponse, Head, ResponseHead};
use core::time::Duration;
use damper_core::Reads;
use damper_core::internal::{has_budget, split_budget};
use damper_core::retry::{Budget, Failure, Retry, RetryBudget, RetryError};
use damper_core::throttle::Hints;
use http::HeaderMap;
use tower_layer::Layer;

/// A service that is cloned for each attempt.
#[diagnostic::on_unimplemented(
    message = "the client `{Self}` is not `Clone`, so it cannot make another attempt",
    note = "`retry` and `hedge` need a client that is `Clone`, because each attempt takes its own",
    note = "derive `Clone` for the client that `service` or `boxed` gets, or put tower's `BufferLayer` around it"
)]
pub trait RepeatableService: Clone {}

#[diagnostic::do_not_recommend]
impl<S: Clone> RepeatableService for S {}

/// Pacing, which reads the hints of the stack's protocol.
#[derive(Clone, Debug)]
pub struct PacingPart<L>(pub(super) L);

impl<S, T, Z, P, K> ClientPart<S, P, K> for PacingPart<PacingLayer<T, HttpProtocol, PaceOnly<Z>>>
where
    T: Clone,
    Z: Clone,
    P: StackProtocol<Hints: for<'a> Reads<ResponseHead<'a>, Hints>>,
    PacingLayer<T, P::Hints, PaceOnly<Z>>: Layer<S>,
    K: Place,
{
    type Service = StackErrorService<<PacingLayer<T, P::Hints, PaceOnly<Z>> as Layer<S>>::Service, OfPart<K, P>>;

    fn put_around(&self, service: S, protocol: &P) -> Self::Service {
        let layer = self.0.clone().hints(protocol.hints());
        StackErrorService::new(Layer::layer(&layer, service), OfPart::new())
    }
}

/// Retries or a hedge, by the rules of the stack's protocol.
#[derive(Clone, Debug)]
pub struct RepeatPart<L>(pub(super) L);

impl<S, P, K, L> ClientPart<S, P, K> for RepeatPart<L>
where
    S: RepeatableService,
    P: StackProtocol,
    K: Place,
    L: Repeats<P::Retries, Layer: Layer<S>>,
{
    type Service = StackErrorService<<L::Layer as Layer<S>>::Service, OfPart<K, P>>;

    fn put_around(&self, service: S, protocol: &P) -> Self::Service {
        StackErrorService::new(self.0.by(protocol.retries()).layer(service), OfPart::new())
    }

    fn put_inside_of_retries(&self, service: S, protocol: &P) -> Self::Service {
        StackErrorService::new(self.0.inside_of_retries_by(protocol.retries()).layer(service), OfPart::new())
    }
}

/// The budget of a stack's retries.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a stack has one")]
pub enum StackBudget<N> {
    /// The policy has this budget.
    Set(N),
    /// No budget is set for the policy, so the stack has one for it.
    OfStack(RetryBudget),
}

impl<N> StackBudget<N> {
    /// Returns the policy with a budget.
    pub(super) fn complete<K>(retry: Retry<K, N>) -> Retry<K, Self>
    where
        N: Budget,
    {
        let has_budget = has_budget(&retry);
        let (retry, budget) = split_budget(retry);
        retry.budget(if has_budget { Self::Set(budget) } else { Self::OfStack(RetryBudget::DEFAULT) })
    }
}

impl<N: Budget> Budget for StackBudget<N> {
    #[inline]
    fn began(&self) {
        match self {
            Self::Set(budget) => budget.began(),
            Self::OfStack(budget) => budget.began(),
        }
    }

    #[inline]
    fn succeeded(&self) {
        match self {
            Self::Set(budget) => budget.succeeded(),
            Self::OfStack(budget) => budget.succeeded(),
        }
    }

    #[inline]
    fn retry_succeeded(&self, failure: Failure) {
        match self {
            Self::Set(budget) => budget.retry_succeeded(failure),
            Self::OfStack(budget) => budget.retry_succeeded(failure),
        }
    }

    #[inline]
    fn failed(&self) {
        match self {
            Self::Set(budget) => budget.failed(),
            Self::OfStack(budget) => budget.failed(),
        }
    }

    #[inline]
    fn try_withdraw(&self) -> bool {
        match self {
            Self::Set(budget) => budget.try_withdraw(),
            Self::OfStack(budget) => budget.try_withdraw(),
        }
    }

    #[inline]
    fn try_withdraw_after(&self, failure: Failure) -> bool {
        match self {
            Self::Set(budget) => budget.try_withdraw_after(failure),
            Self::OfStack(budget) => budget.try_withdraw_after(failure),
        }
    }
}

/// A layer that makes further attempts, by the rules `K` of a protocol.
pub trait Repeats<K> {
    /// The layer with these rules.
    type Layer;

    /// Returns the layer with these rules.
    fn by(&self, rules: K) -> Self::Layer;

    /// Returns the layer with these rules, inside of retries.
    fn inside_of_retries_by(&self, rules: K) -> Self::Layer {
        self.by(rules)
    }
}

impl<C: Clone, B, Z: Clone, K> Repeats<K> for RetryLayer<C, B, HttpRetries, Z> {
    type Layer = RetryLayer<C, B, StackRetries<K>, Z>;

    fn by(&self, rules: K) -> Self::Layer {
        self.clone().protocol(StackRetries(rules))
    }
}

impl<C, B, Z: Clone, K> Repeats<K> for HedgeLayer<C, B, HttpRetries, Z> {
    type Layer = HedgeLayer<C, B, StackRetries<K>, Z>;

    fn by(&self, rules: K) -> Self::Layer {
        self.clone().protocol(StackRetries(rules))
    }

    fn inside_of_retries_by(&self, rules: K) -> Self::Layer {
        self.clone().inside_of_retries().by(rules)
    }
}

/// The retries of a protocol, which give a call up with a [`RetryError`] for any protocol.
#[derive(Clone, Copy, Debug)]
pub struct StackRetries<K>(pub(super) K);

impl<Q, K: RetryProtocol<Q>> RetryProtocol<Q> for StackRetries<K> {
    type Kept = K::Kept;
    type Body = K::Body;

    #[inline]
    fn may_repeat(&self, head: &Head<'_>) -> bool {
        self.0.may_repeat(head)
    }

    #[inline]
    fn keep(&self, body: Q) -> K::Kept {
        self.0.keep(body)
    }

    #[inline]
    fn send(&self, body: K::Kept) -> K::Body {
        self.0.send(body)
    }

    #[inline]
    fn timeout(&self, head: &Head<'_>) -> Option<Duration> {
        self.0.timeout(head)
    }

    #[inline]
    fn has_transparent_retries(&self) -> bool {
        self.0.has_transparent_retries()
    }

    #[inline]
    fn prepare(&self, headers: &mut HeaderMap, previous_attempts: u32, time_left: Option<Duration>) {
        self.0.prepare(headers, previous_attempts, time_left);
    }
}

impl<E, K: ClassifyResponse<E, Option<Failure>>> ClassifyResponse<E, Option<Failure>> for StackRetries<K> {
    #[inline]
    fn classify(&self, response: Result<&ResponseHead<'_>, &E>) -> Option<Failure> {
        self.0.classify(response)
    }
}

impl<E, K: ClassifyResponse<E, Option<Failure>>> GiveUp<E> for StackRetries<K> {
    type Error = RetryError<E>;

    #[inline]
    fn give_up(&self, error: RetryError<E>) -> RetryError<E> {
        error
    }
}
