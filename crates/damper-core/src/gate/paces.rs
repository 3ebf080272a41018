//! Calls that sleep as a pacer says.

use super::waits_with::{Keepable, release};
use super::{Answer, AnswerOf, Ask, Either, Ending, Gate, Permit, Verdict, WaitsWith};
use crate::Reads;
use crate::retry::GaveUp;
use crate::throttle::pacing::SeenPause;
use crate::throttle::{Hints, PaceTooSlow, PacedAttempts, PacedRetry, Pacer, Strategy};
use crate::time::{Clock, Sleep};
#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// Gives calls their pacers: one for all, or one for each that it [reads](Reads) from a call of the type `Q`.
pub trait PacerSource {
    /// The strategy of the pacers.
    type Strategy: Strategy;

    /// The clock of the pacers.
    type Clock: Clock;

    /// The reference by which a call holds its pacer: `&'static Pacer` or `Arc<Pacer>`.
    type Pacer: Deref<Target = Pacer<Self::Strategy, Self::Clock>> + Clone;
}

/// Makes a handle of a pacer the one for all calls.
macro_rules! one_pacer {
    ($(#[$attribute:meta])* [$($generics:tt)*] $handle:ty) => {
        $(#[$attribute])*
        impl<$($generics)* S: Strategy, C: Clock> PacerSource for $handle {
            type Strategy = S;
            type Clock = C;
            type Pacer = Self;
        }

        $(#[$attribute])*
        impl<$($generics)* S: Strategy, C: Clock, Q: ?Sized> Reads<Q, Self> for $handle {
            #[inline]
            fn read_from(&self, _: &Q) -> Self {
                Self::clone(self)
            }
        }
    };
}

one_pacer!(['a,] &'a Pacer<S, C>);
one_pacer!(#[cfg(target_has_atomic = "ptr")] [] Arc<Pacer<S, C>>);

/// Pacers that a closure chooses.
pub struct SelectedPacer<F, G> {
    select: F,
    pacer: PhantomData<fn() -> G>,
}

impl<F, G> SelectedPacer<F, G> {
    /// Chooses by this closure, which returns a `&'static Pacer` or an `Arc<Pacer>`.
    pub const fn by(select: F) -> Self {
        Self { select, pacer: PhantomData }
    }
}

impl<F, G: Deref<Target = Pacer<S, C>> + Clone, S: Strategy, C: Clock> PacerSource for SelectedPacer<F, G> {
    type Strategy = S;
    type Clock = C;
    type Pacer = G;
}

impl<Q: ?Sized, F: Fn(&Q) -> G, G> Reads<Q, G> for SelectedPacer<F, G> {
    #[inline]
    fn read_from(&self, call: &Q) -> G {
        (self.select)(call)
    }
}

/// One of two sources of pacers, chosen at run time: one pacer for all calls, or one for each host.
impl<A, B> PacerSource for Either<A, B>
where
    A: PacerSource,
    B: PacerSource<Strategy = A::Strategy, Clock = A::Clock, Pacer = A::Pacer>,
{
    type Strategy = A::Strategy;
    type Clock = A::Clock;
    type Pacer = A::Pacer;
}

impl<Q: ?Sized, G, A: Reads<Q, G>, B: Reads<Q, G>> Reads<Q, G> for Either<A, B> {
    #[inline]
    fn read_from(&self, call: &Q) -> G {
        match self {
            Self::First(source) => source.read_from(call),
            Self::Second(source) => source.read_from(call),
        }
    }
}

impl<F: Clone, G> Clone for SelectedPacer<F, G> {
    fn clone(&self) -> Self {
        Self::by(self.select.clone())
    }
}

impl<F, G> fmt::Debug for SelectedPacer<F, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectedPacer").finish_non_exhaustive()
    }
}

/// A gate at which calls sleep as a [`Pacer`] says, so that a rate-limited server rarely rejects one.
///
/// A call whose sleep would outlast its [time left](Self::time_left) is refused. The pacer learns from the verdicts: a call that ended as
/// [`Limited`](Ending::Limited) was rejected, and one that the server answered otherwise was accepted. The pacing layers read more from a
/// response: how many calls remain, and when the limit is reset.
///
/// A sleep reserves nothing of the service behind the gate. The service gives its readiness back, and is polled for it after the sleep.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::future::ready;
/// use core::time::Duration;
/// use damper::Quota;
/// use damper::gate::{Answer, Ask, Ending, Paces, Permit, Verdict};
/// use damper::throttle::Pacer;
///
/// static API: Pacer = Pacer::new(Quota::per_second(10));
///
/// let gate = Paces::new(&API, |_: Duration| ready(())); // with tokio: `TokioSleep`
/// let Answer::Pass(permit) = gate.ask("a call") else { panic!("nothing was rejected yet") };
/// permit.end(&Verdict::of(Ending::Limited).with_retry_after(Some(Duration::from_secs(2))));
/// assert!(matches!(gate.ask("another call"), Answer::Wait(_)));
/// # }
/// ```
#[derive(Clone)]
pub struct Paces<P, Z, D = ()> {
    pacers: P,
    sleep: Z,
    time_left: D,
}

impl<P, Z> Paces<P, Z> {
    /// Creates a gate with this pacer for all calls, or with one for each, and with timers of `sleep`.
    pub const fn new(pacers: P, sleep: Z) -> Self {
        Self { pacers, sleep, time_left: () }
    }
}

impl<P, Z, D> Paces<P, Z, D> {
    /// Sets how much time a call has left, which no sleep outlasts. Default: calls have no deadlines.
    ///
    /// A call that need not sleep is made without a look at it.
    pub fn time_left<N>(self, time_left: N) -> Paces<P, Z, N> {
        let Self { pacers, sleep, .. } = self;
        Paces { pacers, sleep, time_left }
    }

    /// Returns what gives calls their pacers.
    pub const fn pacers(&self) -> &P {
        &self.pacers
    }
}

impl<P: PacerSource, Z: Sleep + Clone, D> Gate for Paces<P, Z, D> {
    type Permit = PacedPermit<P::Pacer>;
    type Refusal = PaceTooSlow;
    type Wait = PacedWait<P::Pacer, Z>;
}

impl<Q, P, Z, D> Ask<Q> for Paces<P, Z, D>
where
    Q: ?Sized,
    P: PacerSource + Reads<Q, <P as PacerSource>::Pacer>,
    Z: Sleep + Clone,
    D: Reads<Q, Option<Duration>>,
{
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let pacer = self.pacers.read_from(call);
        // Read before the sleep is chosen, so that no later pause is missed.
        let pause = SeenPause::of(&pacer);
        let left = || self.time_left.read_from(call).unwrap_or(Duration::MAX);
        let sleep = pacer.before_call_within(left);
        if sleep.is_zero() {
            return Answer::Pass(PacedPermit { pacer });
        }
        PacedWait::begin(pacer, pause, sleep, left(), &self.sleep)
    }
}

impl<P: fmt::Debug, Z, D> fmt::Debug for Paces<P, Z, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paces").field("pacers", &self.pacers).finish_non_exhaustive()
    }
}

/// The permit of a call that has slept, or need not: its pacer learns from the call.
///
/// If it is dropped, the pacer learns nothing.
#[derive(Clone, Copy, Debug)]
pub struct PacedPermit<G> {
    pacer: G,
}

impl<G: Deref<Target = Pacer<S, C>>, S: Strategy, C: Clock> PacedPermit<G> {
    /// Lets the pacer learn from the response. Returns how long a rejected call would sleep.
    ///
    /// A call that is made again asks the gate again.
    pub fn learn(self, hints: &Hints) -> Option<Duration> {
        self.pacer.answered_within(hints, || Duration::ZERO)
    }
}

impl<G: Deref<Target = Pacer<S, C>>, S: Strategy, C: Clock> Permit for PacedPermit<G> {
    const HOLDS: bool = false;

    fn end(self, verdict: &Verdict) {
        let hints = match verdict.ending {
            Ending::Limited => Hints::REJECTED.retry_after(verdict.retry_after),
            Ending::Success | Ending::Declined => Hints::ACCEPTED,
            _ => Hints::UNKNOWN,
        };
        self.learn(&hints);
    }

    fn panicked(self) {}
}

pin_project! {
    /// A call that sleeps as its pacer says.
    ///
    /// Polled again while the service of the call is not ready yet, it returns the refusal when that takes too long.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct PacedWait<G, Z: Sleep> {
        #[pin]
        sleeping: Option<Z::Sleeping>,
        // `Some` while the service is not ready.
        #[pin]
        until_deadline: Option<Z::Sleeping>,
        sleep: Z,
        pacer: G,
        first_sleep: Duration,
        attempts: PacedAttempts,
        // The time of the call.
        bounds: PacedRetry,
        is_awake: bool,
    }
}

impl<G: Deref<Target = Pacer<S, C>>, S: Strategy, C: Clock, Z: Sleep + Clone> PacedWait<G, Z> {
    #[cold]
    fn begin(
        pacer: G,
        pause: SeenPause,
        first_sleep: Duration,
        left: Duration,
        sleep: &Z,
    ) -> Answer<PacedPermit<G>, Self, PaceTooSlow> {
        if first_sleep >= left {
            return Answer::Refuse(PaceTooSlow::new(first_sleep, left));
        }
        Answer::Wait(Self {
            sleeping: Some(sleep.sleep(first_sleep)),
            until_deadline: None,
            sleep: sleep.clone(),
            first_sleep,
            attempts: pacer.begin_knowing(pause),
            bounds: PacedRetry::new(1).max_time(left),
            pacer,
            is_awake: false,
        })
    }

    /// Returns for how long the call sleeps, unless another pause begins meanwhile.
    pub const fn first_sleep(&self) -> Duration {
        self.first_sleep
    }

    /// Returns the time until the deadline of the call, on the clock of its pacer.
    pub fn time_left(&self) -> Duration {
        self.attempts.time_left(&self.pacer, &self.bounds)
    }
}

impl<G, S, C, Z> Future for PacedWait<G, Z>
where
    G: Deref<Target = Pacer<S, C>> + Clone,
    S: Strategy,
    C: Clock,
    Z: Sleep,
{
    type Output = Result<PacedPermit<G>, PaceTooSlow>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let pacer = &*this.pacer;
        while let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
            ready!(sleeping.poll(context));
            match this.attempts.after_sleep(pacer, this.bounds) {
                Ok(longer) => this.sleeping.set(longer.map(|longer| this.sleep.sleep(longer))),
                Err(reason) => return Poll::Ready(Err(too_slow(reason, this.attempts.elapsed(pacer)))),
            }
        }
        let left = this.attempts.time_left(pacer, this.bounds);
        let too_late = |slept| Poll::Ready(Err(PaceTooSlow::new(slept, Duration::ZERO)));
        if left.is_zero() {
            return too_late(this.attempts.elapsed(pacer));
        }
        if !core::mem::replace(this.is_awake, true) {
            return Poll::Ready(Ok(PacedPermit { pacer: this.pacer.clone() }));
        }
        if this.until_deadline.is_none() && left < Duration::MAX {
            this.until_deadline.set(Some(this.sleep.sleep(left)));
        }
        let Some(until_deadline) = this.until_deadline.as_pin_mut() else { return Poll::Pending };
        ready!(until_deadline.poll(context));
        too_late(this.attempts.elapsed(pacer))
    }
}

/// Returns the refusal of a call that had slept for `slept`.
#[cold]
fn too_slow(reason: GaveUp, slept: Duration) -> PaceTooSlow {
    match reason {
        GaveUp::Paced(too_slow) => too_slow,
        _ => PaceTooSlow::new(slept, Duration::ZERO),
    }
}

/// A sleep keeps nothing that the readiness of a service holds from other calls.
///
/// It may hold a permit, as that of tower's `ConcurrencyLimit` does.
impl<G, Z: Sleep, T: Keepable> WaitsWith<T> for PacedWait<G, Z> {
    fn keep(&self, service: &mut T) -> T {
        release(service)
    }

    fn releases(&self) -> bool {
        true
    }

    fn give_back(service: &mut T) -> bool {
        release(service);
        true
    }
}

impl<G, Z: Sleep> fmt::Debug for PacedWait<G, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedWait").field("first_sleep", &self.first_sleep).finish_non_exhaustive()
    }
}
