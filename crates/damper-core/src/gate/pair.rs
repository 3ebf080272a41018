//! Two gates, one behind the other.

use super::{Answer, AnswerOf, Ask, AtOnce, Either, Ending, Forecast, Gate, Impossible, Permit, Verdict, WaitsWith};
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
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

    #[inline]
    fn refused_unasked(&self, refusal: &Self::Refusal) {
        match refusal {
            Either::First(refusal) => self.0.refused_unasked(refusal),
            Either::Second(refusal) => self.1.refused_unasked(refusal),
        }
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

    fn forecast(&self, call: &Q) -> Forecast<Self::Refusal> {
        match self.0.forecast(call) {
            Forecast::Pass(standing) => match self.1.forecast(call) {
                Forecast::Pass(second) => Forecast::Pass(standing.or(second)),
                other => other.map(Either::Second),
            },
            other => other.map(Either::First),
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

#[diagnostic::do_not_recommend]
impl<P, R, W: Impossible> Impossible for WaitBehind<P, R, W> {
    #[inline]
    fn never<T>(self) -> T {
        self.wait.never()
    }
}

impl<P, R, W: WaitsWith<S>, S> WaitsWith<S> for WaitBehind<P, R, W> {
    fn keep(&self, service: &mut S) -> S {
        self.wait.keep(service)
    }

    fn releases(&self) -> bool {
        self.wait.releases()
    }

    fn give_back(service: &mut S) -> bool {
        W::give_back(service)
    }
}

impl<P: Permit, R, W: Future<Output = Result<P2, R2>>, P2, R2> Future for WaitBehind<P, R, W> {
    type Output = Result<(P, P2), Either<R, R2>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let second = ready!(this.wait.poll(context));
        let first = this.first.take();
        Poll::Ready(match second {
            Ok(second) => match first {
                Some(first) => Ok((first, second)),
                // Polled again after it was ready.
                None => return Poll::Pending,
            },
            Err(refusal) => {
                first.end(&Verdict::of(Ending::NotSent));
                Err(Either::Second(refusal))
            }
        })
    }
}
