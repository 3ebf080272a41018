//! Calls that wait for their turn.

use super::{Answer, AnswerOf, Ask, Classes, Costs, Forecast, Gate, GateOfKey, GateStore, KeyOf, PerKey, WaitFor};
use crate::Reads;
use crate::acquire::{Wait, Within};
use crate::concurrency::{
    AdaptiveLimit, Admission, AdmissionRequest, Bulkhead, BulkheadRef, LimitRule, PermitFuture, PermitRequest,
    RefusalCause,
};
use crate::limit::{Denied, Limiter, RateLimiter, TokenBucket, TokensFuture};
use crate::setting::Setting;
use crate::time::{Clock, Sleep};
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

/// A gate at which calls can wait.
#[diagnostic::on_unimplemented(
    message = "no call can wait at the gate `{Self}`",
    note = "a `Bulkhead`, an `AdaptiveLimit` and an `Admission` have queues, and a `RateLimiter` with the token bucket gives tokens in advance"
)]
pub trait Patient: Gate {
    /// A call that waits for its turn.
    type Turn<S: Sleep>: Future<Output = Result<Self::Permit, Self::Refusal>>;
}

/// Decides on calls of the type `Q`, which may wait.
#[diagnostic::on_unimplemented(
    message = "no call of the type `{Q}` can wait at the gate `{Self}`",
    note = "an `Admission` asks for the class of a call, by `Classes`"
)]
pub trait AskPatient<Q: ?Sized>: Patient {
    /// Decides whether this call may pass, now or later.
    fn ask_patiently<S: Sleep + Clone>(
        &self,
        call: &Q,
        patience: Patience,
        sleep: &S,
    ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal>;

    /// Returns the answer that this call would get now, and changes nothing. Default: [`Forecast::Unknown`].
    fn forecast_patiently(&self, call: &Q, patience: Patience) -> Forecast<Self::Refusal> {
        _ = (call, patience);
        Forecast::Unknown
    }
}

/// A gate at which calls can wait, and may cost more than one token.
pub trait AskCostPatient<Q: ?Sized>: Patient {
    /// Decides whether this call of `tokens` tokens may pass, now or later.
    fn ask_cost_patiently<S: Sleep + Clone>(
        &self,
        call: &Q,
        tokens: u32,
        patience: Patience,
        sleep: &S,
    ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal>;

    /// Returns the answer that this call would get now, and changes nothing.
    fn forecast_cost_patiently(&self, call: &Q, tokens: u32, patience: Patience) -> Forecast<Self::Refusal>;
}

/// For how long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Patience {
    longest: Duration,
    is_late: bool,
}

impl Patience {
    /// Returns the patience of a call that has so much time left, if all wait for at most `longest`.
    #[inline]
    fn of(longest: Duration, left: Option<Duration>) -> Self {
        match left {
            Some(left) => Self { longest: longest.min(left), is_late: left.is_zero() },
            None => Self { longest, is_late: false },
        }
    }

    /// Returns for how long the call may wait at most.
    #[inline]
    #[must_use]
    pub const fn longest(self) -> Duration {
        self.longest
    }

    /// Returns whether the deadline of the call has passed.
    ///
    /// Bulkheads and adaptive limits refuse such a call even if a slot is free. An admission does so by the deadline in its request.
    #[inline]
    #[must_use]
    pub const fn is_late(self) -> bool {
        self.is_late
    }
}

/// A gate at which calls wait for their turn.
///
/// A limit of calls in flight needs places in its queue, as [`Bulkhead::queue`] sets them. A call that waits keeps its place until it is
/// dropped, or has waited for too long. A [`RateLimiter`] gives tokens in advance, to calls that get them in time.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "tokio")] {
/// use core::time::Duration;
/// use damper::Bulkhead;
/// use damper::gate::{Answer, Ask, Waits};
/// use damper::time::TokioSleep;
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() {
/// let database = Arc::new(Bulkhead::new(1).queue(10));
/// let gate = Waits::new(database, Duration::from_millis(500), TokioSleep);
/// let Answer::Pass(first) = gate.ask("a query") else { panic!("a slot is free") };
/// let Answer::Wait(second) = gate.ask("another one") else { panic!("it has to wait") };
/// drop(first);
/// assert!(second.await.is_ok());
/// # }
/// # run() }
/// ```
pub struct Waits<G, S, F = ()> {
    gate: G,
    longest: Setting<Duration>,
    sleep: S,
    time_left: F,
}

impl<G, S> Waits<G, S> {
    /// Creates a gate at which calls wait for at most `longest`, by timers of `sleep`.
    ///
    /// To change the longest wait while calls are made, pass a [`Live`](crate::Live). A call that waits keeps its own.
    pub fn new(gate: G, longest: impl Into<Setting<Duration>>, sleep: S) -> Self {
        Self { gate, longest: longest.into(), sleep, time_left: () }
    }

    /// Sets how much time a call has left: it waits for no longer. `None` is a call without a deadline.
    ///
    /// A bulkhead and an adaptive limit refuse a call that has none left. It passes a rate limiter that has tokens.
    pub fn time_left<F>(self, time_left: F) -> Waits<G, S, F> {
        let Self { gate, longest, sleep, time_left: () } = self;
        Waits { gate, longest, sleep, time_left }
    }
}

impl<G, S, F> Waits<G, S, F> {
    /// Returns the gate at which calls wait.
    pub const fn get_ref(&self) -> &G {
        &self.gate
    }

    /// Returns the gate at which calls wait.
    pub const fn get_mut(&mut self) -> &mut G {
        &mut self.gate
    }
}

/// Calls without deadlines.
impl<Q: ?Sized> Reads<Q, Option<Duration>> for () {
    #[inline]
    fn read_from(&self, _: &Q) -> Option<Duration> {
        None
    }
}

impl<G: Patient, S: Sleep, F> Gate for Waits<G, S, F> {
    type Permit = G::Permit;
    type Refusal = G::Refusal;
    type Wait = G::Turn<S>;

    super::refuses_as! { gate }
}

impl<Q: ?Sized, G: AskPatient<Q>, S: Sleep + Clone, F: Reads<Q, Option<Duration>>> Ask<Q> for Waits<G, S, F> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let patience = Patience::of(self.longest.get(), self.time_left.read_from(call));
        self.gate.ask_patiently(call, patience, &self.sleep)
    }

    fn forecast(&self, call: &Q) -> Forecast<G::Refusal> {
        let patience = Patience::of(self.longest.get(), self.time_left.read_from(call));
        self.gate.forecast_patiently(call, patience)
    }
}

/// Makes a handle of a bulkhead or an adaptive limit a gate at which calls can wait.
macro_rules! patient_gate {
    ($(#[$attribute:meta])* [$($generics:tt)*] $handle:ty, $acquire:ident, |$gate:ident| $enter:expr) => {
        $(#[$attribute])*
        impl<$($generics)*> Patient for $handle {
            type Turn<S: Sleep> = WaitFor<PermitFuture<Self, S>, Self::Permit>;
        }

        $(#[$attribute])*
        impl<$($generics)*, Q: ?Sized> AskPatient<Q> for $handle {
            #[inline]
            fn ask_patiently<S: Sleep + Clone>(
                &self,
                _: &Q,
                patience: Patience,
                sleep: &S,
            ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal> {
                let $gate = self;
                if patience.is_late() {
                    return Answer::Refuse($gate.$acquire().into_request().timed_out());
                }
                // It cannot overtake a waiting call: no slot is free while calls are queued.
                match $enter {
                    Ok(permit) => Answer::Pass(permit.into()),
                    Err(full) if full.cause() == RefusalCause::NoSlot => Answer::Wait(turn($gate.$acquire().into_request(), patience, sleep)),
                    Err(full) => Answer::Refuse(full),
                }
            }

            fn forecast_patiently(&self, call: &Q, patience: Patience) -> Forecast<Self::Refusal> {
                if patience.is_late() {
                    return Forecast::Refuse(self.$acquire().into_request().timed_out());
                }
                match self.forecast(call) {
                    Forecast::Refuse(full) if full.cause() == RefusalCause::NoSlot => Forecast::Wait,
                    other => other,
                }
            }
        }
    };
}

#[cold]
fn turn<B: BulkheadRef, S: Sleep + Clone, P>(
    mut request: PermitRequest<B>,
    patience: Patience,
    sleep: &S,
) -> WaitFor<PermitFuture<B, S>, P> {
    request.set_longest(patience.longest());
    WaitFor::new(request.sleeping_by(sleep.clone()))
}

patient_gate!(['a, C: Clock] &'a Bulkhead<C>, acquire, |gate| (*gate).try_acquire());
patient_gate!(#[cfg(target_has_atomic = "ptr")]
    [C: Clock] Arc<Bulkhead<C>>, acquire_owned, |gate| gate.try_acquire_owned());
patient_gate!(['a, R: LimitRule, C: Clock] &'a AdaptiveLimit<R, C>, acquire, |gate| (*gate).try_acquire());
patient_gate!(#[cfg(target_has_atomic = "ptr")]
    [R: LimitRule, C: Clock] Arc<AdaptiveLimit<R, C>>, acquire_owned, |gate| gate.try_acquire_owned());

impl<F, S: GateStore<One: Patient>> Patient for PerKey<F, S> {
    type Turn<T: Sleep> = <S::One as Patient>::Turn<T>;
}

impl<Q: ?Sized, F: KeyOf<Q>, S: GateOfKey<F::Key, One: AskPatient<()>>> AskPatient<Q> for PerKey<F, S> {
    fn ask_patiently<T: Sleep + Clone>(
        &self,
        call: &Q,
        patience: Patience,
        sleep: &T,
    ) -> Answer<Self::Permit, Self::Turn<T>, Self::Refusal> {
        match self.key.with_key(call, |key| self.store.gate_of(key)) {
            Ok(gate) => gate.ask_patiently(&(), patience, sleep),
            Err(refusal) => Answer::Refuse(refusal),
        }
    }

    fn forecast_patiently(&self, call: &Q, patience: Patience) -> Forecast<Self::Refusal> {
        let gate = self.key.with_key(call, |key| self.store.peek_gate(key));
        gate.map_or(Forecast::Unknown, |gate| gate.forecast_patiently(&(), patience))
    }
}

/// Makes a handle of an admission a gate at which calls can wait.
macro_rules! patient_admission {
    ($(#[$attribute:meta])* [$($generics:tt)*] $handle:ty, $admit:ident, |$gate:ident, $request:ident| $enter:expr) => {
        $(#[$attribute])*
        impl<$($generics)*> Patient for $handle {
            type Turn<S: Sleep> = WaitFor<PermitFuture<Self, S>, Self::Permit>;
        }

        $(#[$attribute])*
        impl<$($generics)*> AskPatient<AdmissionRequest> for $handle {
            #[inline]
            fn ask_patiently<S: Sleep + Clone>(
                &self,
                request: &AdmissionRequest,
                patience: Patience,
                sleep: &S,
            ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal> {
                let ($gate, $request) = (self, *request);
                match $enter {
                    Ok(permit) => Answer::Pass(permit.into()),
                    // It cannot overtake a waiting call: no slot is free while calls are queued.
                    Err(refused) if refused.cause() == RefusalCause::NoSlot => {
                        let request = $request.waiting_within(patience.longest());
                        Answer::Wait(WaitFor::new($gate.$admit(request).into_request().sleeping_by(sleep.clone())))
                    }
                    Err(refused) => Answer::Refuse(refused),
                }
            }

            fn forecast_patiently(&self, request: &AdmissionRequest, _: Patience) -> Forecast<Self::Refusal> {
                match self.forecast(request) {
                    Forecast::Refuse(refused) if refused.cause() == RefusalCause::NoSlot => Forecast::Wait,
                    other => other,
                }
            }
        }
    };
}

patient_admission!(['a, R: LimitRule, C: Clock] &'a Admission<R, C>, acquire, |gate, request| (*gate).try_acquire(request));
patient_admission!(#[cfg(target_has_atomic = "ptr")]
    [R: LimitRule, C: Clock] Arc<Admission<R, C>>, acquire_owned, |gate, request| gate.try_acquire_owned(request));

impl<G: Patient, F> Patient for Classes<G, F> {
    type Turn<S: Sleep> = G::Turn<S>;
}

impl<Q: ?Sized, G: AskPatient<AdmissionRequest>, F: Reads<Q, AdmissionRequest>> AskPatient<Q> for Classes<G, F> {
    #[inline]
    fn ask_patiently<S: Sleep + Clone>(
        &self,
        call: &Q,
        patience: Patience,
        sleep: &S,
    ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal> {
        self.gate.ask_patiently(&self.class.read_from(call), patience, sleep)
    }

    fn forecast_patiently(&self, call: &Q, patience: Patience) -> Forecast<Self::Refusal> {
        self.gate.forecast_patiently(&self.class.read_from(call), patience)
    }
}

/// Makes a handle of a rate limiter a gate at which calls can wait.
macro_rules! patient_limiter {
    ($(#[$attribute:meta])* [$($generics:tt)*] $handle:ty, |$gate:ident, $tokens:ident| $acquire:expr) => {
        $(#[$attribute])*
        impl<$($generics)*> Patient for $handle {
            type Turn<S: Sleep> = TokensFuture<Self, S>;
        }

        $(#[$attribute])*
        impl<$($generics)*, Q: ?Sized> AskPatient<Q> for $handle {
            #[inline]
            fn ask_patiently<S: Sleep + Clone>(
                &self,
                call: &Q,
                patience: Patience,
                sleep: &S,
            ) -> Answer<(), Self::Turn<S>, Denied> {
                self.ask_cost_patiently(call, 1, patience, sleep)
            }

            fn forecast_patiently(&self, call: &Q, patience: Patience) -> Forecast<Denied> {
                self.forecast_cost_patiently(call, 1, patience)
            }
        }

        $(#[$attribute])*
        impl<$($generics)*, Q: ?Sized> AskCostPatient<Q> for $handle {
            #[inline]
            fn ask_cost_patiently<S: Sleep + Clone>(
                &self,
                _: &Q,
                $tokens: u32,
                patience: Patience,
                sleep: &S,
            ) -> Answer<(), Self::Turn<S>, Denied> {
                let $gate = self;
                match $gate.try_acquire($tokens) {
                    Ok(()) => Answer::Pass(()),
                    Err(_) => {
                        let request = $acquire.within(patience.longest()).into_request();
                        Answer::Wait(request.sleeping_by(sleep.clone()))
                    },
                }
            }

            fn forecast_cost_patiently(&self, _: &Q, tokens: u32, _: Patience) -> Forecast<Denied> {
                match Limiter::forecast(self, tokens) {
                    Forecast::Refuse(_) => Forecast::Wait,
                    other => other,
                }
            }
        }
    };
}

patient_limiter!(['a, C: Clock] &'a RateLimiter<TokenBucket, C>, |gate, tokens| (*gate).acquire(tokens));
patient_limiter!(#[cfg(target_has_atomic = "ptr")]
    [C: Clock] Arc<RateLimiter<TokenBucket, C>>, |gate, tokens| gate.acquire_owned(tokens));

impl<G: Patient, F> Patient for Costs<G, F> {
    type Turn<S: Sleep> = G::Turn<S>;
}

impl<Q: ?Sized, G: AskCostPatient<Q>, F: Reads<Q, u32>> AskPatient<Q> for Costs<G, F> {
    #[inline]
    fn ask_patiently<S: Sleep + Clone>(
        &self,
        call: &Q,
        patience: Patience,
        sleep: &S,
    ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal> {
        self.gate.ask_cost_patiently(call, self.cost.read_from(call), patience, sleep)
    }

    fn forecast_patiently(&self, call: &Q, patience: Patience) -> Forecast<Self::Refusal> {
        self.gate.forecast_cost_patiently(call, self.cost.read_from(call), patience)
    }
}

impl<G: fmt::Debug, S, F> fmt::Debug for Waits<G, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waits").field("gate", &self.gate).field("longest", &self.longest).finish_non_exhaustive()
    }
}

impl<G: Clone, S: Clone, F: Clone> Clone for Waits<G, S, F> {
    fn clone(&self) -> Self {
        let Self { gate, longest, sleep, time_left } = self;
        Self { gate: gate.clone(), longest: longest.clone(), sleep: sleep.clone(), time_left: time_left.clone() }
    }
}
