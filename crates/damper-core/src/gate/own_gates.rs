//! Damper's own types as gates, where calls share them: in an `Arc`, or in a `static`.

use super::{AnswerOf, Ask, Ending, Forecast, Gate, Measured, Never, Permit, Verdict};
use crate::breaker::{self, BreakerRef, CircuitBreaker, CircuitOpen, OnStateChange};
use crate::concurrency::{AdaptiveLimit, Bulkhead, BulkheadFull, BulkheadPermit, LimitRule};
use crate::limit::{Denied, Limiter};
use crate::shadow::Shadowed;
use crate::throttle::{AdaptiveThrottle, ThrottlePermit, ThrottleRef, Throttled};
use crate::time::Clock;
#[cfg(target_has_atomic = "64")]
use crate::words::{WordBulkhead, WordPermit};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::ops::Deref;

/// Makes a handle of a type a gate that calls do not wait at.
macro_rules! shared_gate {
    (
        $(#[$attribute:meta])*
        [$($generics:tt)*] $handle:ty, $permit:ty, $refusal:ty, |$gate:ident| $ask:expr
        $(, refusal: |$closed:ident| $refusal_of_all:expr)?
        $(, forecast: |$forecast_gate:ident| $forecast:expr)?
    ) => {
        $(#[$attribute])*
        impl<$($generics)*> Gate for $handle {
            type Permit = $permit;
            type Refusal = $refusal;
            type Wait = Never<$permit, $refusal>;

            $(
                #[inline]
                fn refusal(&self) -> Option<$refusal> {
                    let $closed = self;
                    $refusal_of_all
                }
            )?
        }

        $(#[$attribute])*
        impl<$($generics)*, Q: ?Sized> Ask<Q> for $handle {
            #[inline]
            fn ask(&self, _: &Q) -> AnswerOf<Self> {
                let $gate = self;
                $ask.into()
            }

            $(
                fn forecast(&self, _: &Q) -> Forecast<$refusal> {
                    let $forecast_gate = self;
                    $forecast.into()
                }
            )?
        }
    };
}

shared_gate!(['a, C: Clock, L: OnStateChange] &'a CircuitBreaker<C, L>, breaker::Permit<Self>, CircuitOpen,
    |gate| (*gate).try_acquire(), refusal: |gate| CircuitBreaker::refusal_of_every_call(gate), forecast: |gate| CircuitBreaker::refusal(gate));
shared_gate!(#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    [C: Clock, L: OnStateChange] Arc<CircuitBreaker<C, L>>, breaker::Permit<Self>, CircuitOpen,
    |gate| gate.try_acquire_owned(), refusal: |gate| CircuitBreaker::refusal_of_every_call(gate), forecast: |gate| CircuitBreaker::refusal(gate));

shared_gate!(['a, C: Clock, L: OnStateChange, D: Clock, M: OnStateChange]
    &'a Shadowed<CircuitBreaker<C, L>, CircuitBreaker<D, M>>, breaker::Permit<Self>, CircuitOpen,
    |gate| (*gate).try_acquire(), refusal: |gate| gate.in_force().refusal_of_every_call(), forecast: |gate| gate.in_force().refusal());
shared_gate!(#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    [C: Clock, L: OnStateChange, D: Clock, M: OnStateChange]
    Arc<Shadowed<CircuitBreaker<C, L>, CircuitBreaker<D, M>>>, breaker::Permit<Self>, CircuitOpen,
    |gate| gate.try_acquire_owned(), refusal: |gate| gate.in_force().refusal_of_every_call(), forecast: |gate| gate.in_force().refusal());

shared_gate!(['a, C: Clock] &'a AdaptiveThrottle<C>, ThrottlePermit<Self>, Throttled, |gate| (*gate).try_acquire(),
    forecast: |gate| AdaptiveThrottle::forecast(gate));
shared_gate!(#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    [C: Clock] Arc<AdaptiveThrottle<C>>, ThrottlePermit<Self>, Throttled, |gate| gate.try_acquire_owned(),
    forecast: |gate| AdaptiveThrottle::forecast(gate));

shared_gate!(['a, C: Clock] &'a Bulkhead<C>, BulkheadPermit<Self>, BulkheadFull, |gate| (*gate).try_acquire(),
    forecast: |gate| Bulkhead::refusal(gate));
shared_gate!(#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    [C: Clock] Arc<Bulkhead<C>>, BulkheadPermit<Self>, BulkheadFull, |gate| gate.try_acquire_owned(),
    forecast: |gate| Bulkhead::refusal(gate));

shared_gate!(#[cfg(target_has_atomic = "64")]
    ['a, 'w] &'a WordBulkhead<'w>, WordPermit<'w>, BulkheadFull, |gate| gate.enter());

shared_gate!(['a, R: LimitRule, C: Clock] &'a AdaptiveLimit<R, C>, Measured<BulkheadPermit<Self>>, BulkheadFull,
    |gate| (*gate).try_acquire().map(Measured::from), forecast: |gate| AdaptiveLimit::refusal(gate));
shared_gate!(#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    [R: LimitRule, C: Clock] Arc<AdaptiveLimit<R, C>>, Measured<BulkheadPermit<Self>>, BulkheadFull,
    |gate| gate.try_acquire_owned().map(Measured::from), forecast: |gate| AdaptiveLimit::refusal(gate));

// Every limiter, so also one of a user's own.
shared_gate!(#[diagnostic::do_not_recommend]
    ['a, L: Limiter + ?Sized] &'a L, (), Denied, |gate| gate.try_acquire(1), forecast: |gate| Limiter::forecast(*gate, 1));
shared_gate!(#[diagnostic::do_not_recommend]
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    [L: Limiter + ?Sized] Arc<L>, (), Denied, |gate| gate.try_acquire(1), forecast: |gate| Limiter::forecast(&**gate, 1));

impl<B: BreakerRef> Permit for breaker::Permit<B> {
    #[inline]
    fn first_data(&mut self) {
        self.probe_answered();
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        self.record(verdict.into());
    }

    #[inline]
    fn panicked(self) {
        self.failure();
    }
}

/// The first data of a response show that the service accepted the call.
///
/// Its end counts for nothing then.
impl<T: ThrottleRef> Permit for ThrottlePermit<T> {
    const HOLDS: bool = false;

    #[inline]
    fn first_data(&mut self) {
        self.data_arrived();
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        match verdict.ending.is_accepted() {
            Some(true) => self.accepted(),
            Some(false) => self.rejected(),
            None => self.ignore(),
        }
    }

    /// A panic is no verdict.
    #[inline]
    fn panicked(self) {
        self.end(&Verdict::of(Ending::NotSent));
    }
}

/// It learns nothing.
impl<C: Clock, B: Deref<Target = Bulkhead<C>>> Permit for BulkheadPermit<B> {
    const LEARNS: bool = false;
}

/// It learns nothing.
#[cfg(target_has_atomic = "64")]
impl Permit for WordPermit<'_> {
    const LEARNS: bool = false;
}
