//! Two gates, one behind the other.

use super::refusal::source_of_refusal;
use super::{Answer, AnswerOf, Ask, AtOnce, Ending, Gate, Permit, Refusal, RefusalKind, Standing, Verdict, WaitsWith};
use core::error::Error;
use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// Two gates: the first is asked first, and the second only if the first lets the call pass.
///
/// Only the second may let calls wait. If it refuses, the call ends for the first as [`NotSent`](Ending::NotSent). Tokens that the first
/// has taken are not given back.
impl<A: AtOnce, B: Gate> Gate for (A, B) {
    type Permit = (A::Permit, B::Permit);
    type Refusal = Either<A::Refusal, B::Refusal>;
    type Wait = WaitBehind<A::Permit, A::Refusal, B::Wait>;

    #[inline]
    fn refusal(&self) -> Option<Self::Refusal> {
        self.0.refusal().map(Either::First).or_else(|| self.1.refusal().map(Either::Second))
    }
}

impl<Q: ?Sized, A: Ask<Q> + AtOnce, B: Ask<Q>> Ask<Q> for (A, B) {
    #[inline]
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        let first = match self.0.ask(call).into_result() {
            Ok(permit) => permit,
            Err(refusal) => return Answer::Refuse(Either::First(refusal)),
        };
        match self.1.ask(call) {
            Answer::Pass(second) => Answer::Pass((first, second)),
            Answer::Wait(wait) => Answer::Wait(WaitBehind { first: Some(first), wait, refusal: PhantomData }),
            Answer::Refuse(refusal) => {
                first.end(&Verdict::of(Ending::NotSent));
                Answer::Refuse(Either::Second(refusal))
            }
        }
    }
}

/// The refusal of one of two gates.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Either<A, B> {
    /// The first, outer gate refused.
    First(A),
    /// The second, inner gate refused.
    Second(B),
}

impl<A: fmt::Display, B: fmt::Display> fmt::Display for Either<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(refusal) => refusal.fmt(f),
            Self::Second(refusal) => refusal.fmt(f),
        }
    }
}

impl<A: fmt::Display, B: fmt::Display> fmt::Debug for Either<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<A: Refusal, B: Refusal> Error for Either<A, B> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::First(refusal) => source_of_refusal(refusal),
            Self::Second(refusal) => source_of_refusal(refusal),
        })
    }
}

impl<A: Refusal, B: Refusal> Refusal for Either<A, B> {
    fn kind(&self) -> RefusalKind {
        match self {
            Self::First(refusal) => refusal.kind(),
            Self::Second(refusal) => refusal.kind(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::First(refusal) => refusal.retry_after(),
            Self::Second(refusal) => refusal.retry_after(),
        }
    }

    fn standing(&self) -> Option<Standing> {
        match self {
            Self::First(refusal) => refusal.standing(),
            Self::Second(refusal) => refusal.standing(),
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::First(refusal) => refusal.label(),
            Self::Second(refusal) => refusal.label(),
        }
    }
}

pin_project! {
    /// The wait at the second of two gates, with the permit of the first.
    #[derive(Debug)]
    pub struct WaitBehind<P, R, W> {
        first: Option<P>,
        #[pin]
        wait: W,
        refusal: PhantomData<fn() -> R>,
    }
}

impl<P, R, W: WaitsWith<S>, S> WaitsWith<S> for WaitBehind<P, R, W> {
    fn keep(&self, service: &mut S) -> S {
        self.wait.keep(service)
    }
}

impl<P: Permit, R, W: Future<Output = Result<P2, R2>>, P2, R2> Future for WaitBehind<P, R, W> {
    type Output = Result<(P, P2), Either<R, R2>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let second = ready!(this.wait.poll(context));
        // Polled again after it was ready.
        let Some(first) = this.first.take() else { return Poll::Pending };
        Poll::Ready(match second {
            Ok(second) => Ok((first, second)),
            Err(refusal) => {
                first.end(&Verdict::of(Ending::NotSent));
                Err(Either::Second(refusal))
            }
        })
    }
}
