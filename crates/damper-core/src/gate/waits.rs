//! Calls that wait for their turn.

use super::{Answer, AnswerOf, Ask, Classes, Gate, GateOfKey, GateStore, KeyOf, PerKey, WaitFor};
use crate::concurrency::{
    AcquirePermit, AcquirePermitFuture, AdaptiveLimit, Admission, AdmissionRequest, AdmitFuture, Bulkhead, BulkheadRef,
    FullCause, LimitRule, RefusalCause,
};
use crate::time::{Clock, Sleep};
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

/// A gate at which calls can wait.
pub trait Patient: Gate {
    /// A call that waits for its turn.
    type Turn<S: Sleep>: Future<Output = Result<Self::Permit, Self::Refusal>>;
}

/// Decides on calls of the type `Q`, which may wait.
#[diagnostic::on_unimplemented(
    message = "no call can wait at the gate `{Self}`",
    note = "a `Bulkhead`, an `AdaptiveLimit` and an `Admission` have queues"
)]
pub trait AskPatient<Q: ?Sized>: Patient {
    /// Decides whether this call may pass, now or by `longest` from now.
    fn ask_patiently<S: Sleep + Clone>(
        &self,
        call: &Q,
        longest: Duration,
        sleep: &S,
    ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal>;
}

/// A gate at which calls wait for their turn.
///
/// The gate needs places in its queue, as [`Bulkhead::queue`] sets them. A call that waits keeps its place until it is dropped, or has waited
/// for too long.
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
    longest: Duration,
    sleep: S,
    time_left: F,
}

impl<G, S> Waits<G, S> {
    /// Creates a gate at which calls wait for at most `longest`, by timers of `sleep`.
    pub const fn new(gate: G, longest: Duration, sleep: S) -> Self {
        Self { gate, longest, sleep, time_left: () }
    }

    /// Sets how much time a call has left: it waits for no longer. `None` is a call without a deadline.
    ///
    /// A call that has none left passes all the same if it need not wait: to refuse it is the work of a deadline outside.
    pub fn time_left<F>(self, time_left: F) -> Waits<G, S, F> {
        let Self { gate, longest, sleep, time_left: () } = self;
        Waits { gate, longest, sleep, time_left }
    }
}

/// How much time a call has left.
///
/// Every closure `|call: &Call| -> Option<Duration>` says it. `()` says that calls have no deadlines.
pub trait TimeLeft<Q: ?Sized> {
    /// Returns the time until the call's deadline, which is zero after it; `None` if it has none.
    fn left(&self, call: &Q) -> Option<Duration>;
}

impl<Q: ?Sized> TimeLeft<Q> for () {
    #[inline]
    fn left(&self, _: &Q) -> Option<Duration> {
        None
    }
}

impl<Q: ?Sized, F: Fn(&Q) -> Option<Duration>> TimeLeft<Q> for F {
    #[inline]
    fn left(&self, call: &Q) -> Option<Duration> {
        self(call)
    }
}

impl<G: Patient, S: Sleep, F> Gate for Waits<G, S, F> {
    type Permit = G::Permit;
    type Refusal = G::Refusal;
    type Wait = G::Turn<S>;

    #[inline]
    fn refusal(&self) -> Option<G::Refusal> {
        self.gate.refusal()
    }
}

impl<Q: ?Sized, G: AskPatient<Q>, S: Sleep + Clone, F: TimeLeft<Q>> Ask<Q> for Waits<G, S, F> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let longest = self.time_left.left(call).map_or(self.longest, |left| left.min(self.longest));
        self.gate.ask_patiently(call, longest, &self.sleep)
    }
}

/// Makes a handle of a bulkhead or an adaptive limit a gate at which calls can wait.
macro_rules! patient_gate {
    ($(#[$attribute:meta])* [$($generics:tt)*] $handle:ty, $acquire:ident, |$gate:ident| $enter:expr) => {
        $(#[$attribute])*
        impl<$($generics)*> Patient for $handle {
            type Turn<S: Sleep> = WaitFor<AcquirePermitFuture<Self, S>, Self::Permit>;
        }

        $(#[$attribute])*
        impl<$($generics)*, Q: ?Sized> AskPatient<Q> for $handle {
            #[inline]
            fn ask_patiently<S: Sleep + Clone>(
                &self,
                _: &Q,
                longest: Duration,
                sleep: &S,
            ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal> {
                let $gate = self;
                // It cannot overtake a waiting call: no slot is free while calls are queued.
                match $enter {
                    Ok(permit) => Answer::Pass(permit.into()),
                    Err(full) if full.cause() == FullCause::NoSlot => Answer::Wait(turn($gate.$acquire(), longest, sleep)),
                    Err(full) => Answer::Refuse(full),
                }
            }
        }
    };
}

#[cold]
fn turn<B: BulkheadRef, S: Sleep + Clone, P>(
    acquire: AcquirePermit<B>,
    longest: Duration,
    sleep: &S,
) -> WaitFor<AcquirePermitFuture<B, S>, P> {
    WaitFor::new(acquire.within(longest).sleeping_by(sleep.clone()))
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
        longest: Duration,
        sleep: &T,
    ) -> Answer<Self::Permit, Self::Turn<T>, Self::Refusal> {
        match self.key.with_key(call, |key| self.store.gate_of(key)) {
            Ok(gate) => gate.ask_patiently(&(), longest, sleep),
            Err(refusal) => Answer::Refuse(refusal),
        }
    }
}

/// Makes a handle of an admission a gate at which calls can wait.
macro_rules! patient_admission {
    ($(#[$attribute:meta])* [$($generics:tt)*] $handle:ty, $admit:ident, |$gate:ident, $request:ident| $enter:expr) => {
        $(#[$attribute])*
        impl<$($generics)*> Patient for $handle {
            type Turn<S: Sleep> = WaitFor<AdmitFuture<Self, S>, Self::Permit>;
        }

        $(#[$attribute])*
        impl<$($generics)*> AskPatient<AdmissionRequest> for $handle {
            #[inline]
            fn ask_patiently<S: Sleep + Clone>(
                &self,
                request: &AdmissionRequest,
                longest: Duration,
                sleep: &S,
            ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal> {
                let ($gate, $request) = (self, request.waiting_within(longest));
                match $enter {
                    Ok(permit) => Answer::Pass(permit.into()),
                    Err(refused) if refused.cause() == RefusalCause::NoSlot => {
                        Answer::Wait(WaitFor::new($gate.$admit($request).sleeping_by(sleep.clone())))
                    }
                    Err(refused) => Answer::Refuse(refused),
                }
            }
        }
    };
}

patient_admission!(['a, R: LimitRule, C: Clock] &'a Admission<R, C>, admit, |gate, request| (*gate).try_admit(request));
patient_admission!(#[cfg(target_has_atomic = "ptr")]
    [R: LimitRule, C: Clock] Arc<Admission<R, C>>, admit_owned, |gate, request| gate.try_admit_owned(request));

impl<G: Patient, F> Patient for Classes<G, F> {
    type Turn<S: Sleep> = G::Turn<S>;
}

impl<Q, G, F> AskPatient<Q> for Classes<G, F>
where
    Q: ?Sized,
    G: AskPatient<AdmissionRequest>,
    F: Fn(&Q) -> AdmissionRequest,
{
    #[inline]
    fn ask_patiently<S: Sleep + Clone>(
        &self,
        call: &Q,
        longest: Duration,
        sleep: &S,
    ) -> Answer<Self::Permit, Self::Turn<S>, Self::Refusal> {
        self.gate.ask_patiently(&(self.request)(call), longest, sleep)
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
        Self { gate: gate.clone(), longest: *longest, sleep: sleep.clone(), time_left: time_left.clone() }
    }
}
