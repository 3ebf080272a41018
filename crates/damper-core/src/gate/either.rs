//! One of two gates, and what it gives.

use super::refusal::source_of_refusal;
use super::{AnswerOf, Ask, Forecast, Gate, Impossible, Permit, Refusal, RefusalKind, Standing, Verdict, WaitsWith};
use core::error::Error;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

/// One of two gates, chosen at run time: by configuration, say.
///
/// Its permits and refusals are of this type too, and the refusals of a pair. Of two sources of pacers it is one that is chosen at run time.
///
/// A choice of three is an `Either<A, Either<B, C>>`. Unlike `AnyGate`, it allocates nothing.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::concurrency::LimitBounds;
/// use damper::gate::{Ask, Either};
/// use damper::{AdaptiveLimit, Bulkhead};
///
/// static FIXED: Bulkhead = Bulkhead::new(64);
/// static ADAPTIVE: AdaptiveLimit = AdaptiveLimit::new(LimitBounds::DEFAULT);
///
/// let is_adaptive = false;
/// let gate = if is_adaptive { Either::First(&ADAPTIVE) } else { Either::Second(&FIXED) };
/// assert!(gate.ask("a call").is_pass());
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Either<A, B> {
    /// The first one, in a pair the outer one.
    First(A),
    /// The second one, in a pair the inner one.
    Second(B),
}

impl<A: Gate, B: Gate> Gate for Either<A, B> {
    type Permit = Either<A::Permit, B::Permit>;
    type Refusal = Either<A::Refusal, B::Refusal>;
    type Wait = EitherWait<A::Wait, B::Wait>;

    #[inline]
    fn refusal(&self) -> Option<Self::Refusal> {
        match self {
            Self::First(gate) => gate.refusal().map(Either::First),
            Self::Second(gate) => gate.refusal().map(Either::Second),
        }
    }

    #[inline]
    fn refused_unasked(&self, refusal: &Self::Refusal) {
        match (self, refusal) {
            (Self::First(gate), Either::First(refusal)) => gate.refused_unasked(refusal),
            (Self::Second(gate), Either::Second(refusal)) => gate.refused_unasked(refusal),
            // The refusal is of another gate.
            _ => {}
        }
    }
}

impl<Q: ?Sized, A: Ask<Q>, B: Ask<Q>> Ask<Q> for Either<A, B> {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        match self {
            Self::First(gate) => gate.ask(call).map(Either::First, EitherWait::first, Either::First),
            Self::Second(gate) => gate.ask(call).map(Either::Second, EitherWait::second, Either::Second),
        }
    }

    fn forecast(&self, call: &Q) -> Forecast<Self::Refusal> {
        match self {
            Self::First(gate) => gate.forecast(call).map(Either::First),
            Self::Second(gate) => gate.forecast(call).map(Either::Second),
        }
    }
}

pin_project! {
    /// The wait at one of two gates.
    #[derive(Debug)]
    pub struct EitherWait<V, W> {
        #[pin]
        wait: OneWait<V, W>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = OneWaitProjection]
    enum OneWait<V, W> {
        First { #[pin] wait: V },
        Second { #[pin] wait: W },
    }
}

impl<V, W> EitherWait<V, W> {
    fn first(wait: V) -> Self {
        Self { wait: OneWait::First { wait } }
    }

    fn second(wait: W) -> Self {
        Self { wait: OneWait::Second { wait } }
    }
}

#[diagnostic::do_not_recommend]
impl<V: Impossible, W: Impossible> Impossible for EitherWait<V, W> {
    #[inline]
    fn never<T>(self) -> T {
        match self.wait {
            OneWait::First { wait } => wait.never(),
            OneWait::Second { wait } => wait.never(),
        }
    }
}

impl<V, W, P, R, Q, S> Future for EitherWait<V, W>
where
    V: Future<Output = Result<P, R>>,
    W: Future<Output = Result<Q, S>>,
{
    type Output = Result<Either<P, Q>, Either<R, S>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().wait.project() {
            OneWaitProjection::First { wait } => {
                wait.poll(context).map(|result| result.map(Either::First).map_err(Either::First))
            }
            OneWaitProjection::Second { wait } => {
                wait.poll(context).map(|result| result.map(Either::Second).map_err(Either::Second))
            }
        }
    }
}

impl<V: WaitsWith<S>, W: WaitsWith<S>, S> WaitsWith<S> for EitherWait<V, W> {
    fn keep(&self, service: &mut S) -> S {
        match &self.wait {
            OneWait::First { wait } => wait.keep(service),
            OneWait::Second { wait } => wait.keep(service),
        }
    }

    fn releases(&self) -> bool {
        match &self.wait {
            OneWait::First { wait } => wait.releases(),
            OneWait::Second { wait } => wait.releases(),
        }
    }

    fn give_back(service: &mut S) -> bool {
        V::give_back(service) || W::give_back(service)
    }
}

/// Calls one method of the value that an `Either` has.
macro_rules! of_either {
    ($either:expr, $value:ident => $call:expr) => {
        match $either {
            Either::First($value) => $call,
            Either::Second($value) => $call,
        }
    };
}

impl<A: Permit, B: Permit> Permit for Either<A, B> {
    const LEARNS: bool = A::LEARNS || B::LEARNS;
    const HOLDS: bool = A::HOLDS || B::HOLDS;

    #[inline]
    fn answered(&mut self, verdict: &Verdict) {
        of_either!(self, permit => permit.answered(verdict));
    }

    #[inline]
    fn first_data(&mut self) {
        of_either!(self, permit => permit.first_data());
    }

    #[inline]
    fn end(self, verdict: &Verdict) {
        of_either!(self, permit => permit.end(verdict));
    }

    #[inline]
    fn panicked(self) {
        of_either!(self, permit => permit.panicked());
    }

    #[inline]
    fn usual_latency(&self) -> Option<Duration> {
        of_either!(self, permit => permit.usual_latency())
    }

    #[inline]
    fn was_asked(&self) -> bool {
        of_either!(self, permit => permit.was_asked())
    }
}

impl<A: fmt::Display, B: fmt::Display> fmt::Display for Either<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_either!(self, refusal => refusal.fmt(f))
    }
}

/// It prints the value in it.
impl<A: fmt::Debug, B: fmt::Debug> fmt::Debug for Either<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_either!(self, value => value.fmt(f))
    }
}

impl<A: Refusal, B: Refusal> Error for Either<A, B> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(of_either!(self, refusal => source_of_refusal(refusal)))
    }
}

impl<A: Refusal, B: Refusal> Refusal for Either<A, B> {
    fn kind(&self) -> RefusalKind {
        of_either!(self, refusal => refusal.kind())
    }

    fn retry_after(&self) -> Option<Duration> {
        of_either!(self, refusal => refusal.retry_after())
    }

    fn standing(&self) -> Option<Standing> {
        of_either!(self, refusal => refusal.standing())
    }

    fn label(&self) -> &'static str {
        of_either!(self, refusal => refusal.label())
    }
}
