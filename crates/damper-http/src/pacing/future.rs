//! A call that is only paced.

use super::call_deadline::CallDeadline;
use super::paced_attempt::Reader;
use crate::ResponseHead;
use crate::retry::Callee;
use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::CallError;
use damper_core::internal::SeenPause;
use damper_core::throttle::{PaceTooSlow, Pacer, ReadHints, Strategy};
use damper_core::time::{Clock, Sleep};
use http::{Request, Response};
use pin_project_lite::pin_project;

pin_project! {
    /// The future of a [`PacingService`](super::PacingService) without retries.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct PacingFuture<S: Callee<Request<Q>>, Q, G, H, Z: Sleep> {
        #[pin]
        stage: Stage<S, Q, S::Future, Z>,
        reader: Reader<G, H>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, Q, F, Z: Sleep> {
        // Boxed, because it is larger than most futures and its allocation is small beside a sleep.
        Sleeping { sleeping: Pin<Box<SleepingCall<S, Q, Z>>> },
        Calling { #[pin] call: F },
        Refused { too_slow: PaceTooSlow },
        Over,
    }
}

pin_project! {
    /// A call that sleeps, and then waits for its service to be ready.
    pub(super) struct SleepingCall<S, Q, Z: Sleep> {
        #[pin]
        sleeping: Option<Z::Sleeping>,
        // `Some` while the service is not ready.
        #[pin]
        until_deadline: Option<Z::Sleeping>,
        timer: Z,
        service: S,
        // `Some` until the service is called.
        request: Option<Request<Q>>,
        deadline: CallDeadline,
        // The length of the sleep.
        sleep: Duration,
        pause: SeenPause,
    }
}

impl<S: Callee<Request<Q>>, Q, G, H, Z: Sleep> PacingFuture<S, Q, G, H, Z> {
    #[inline]
    pub(super) fn calling(call: S::Future, reader: Reader<G, H>) -> Self {
        Self { stage: Stage::Calling { call }, reader }
    }

    #[cold]
    pub(super) fn sleeping(call: SleepingCall<S, Q, Z>, reader: Reader<G, H>) -> Self {
        Self { stage: Stage::Sleeping { sleeping: Box::pin(call) }, reader }
    }

    #[cold]
    pub(super) fn refused(too_slow: PaceTooSlow, reader: Reader<G, H>) -> Self {
        Self { stage: Stage::Refused { too_slow }, reader }
    }
}

impl<S, Q, G, H, Z, T, C, R> Future for PacingFuture<S, Q, G, H, Z>
where
    S: Callee<Request<Q>, Response = Response<R>>,
    G: Deref<Target = Pacer<T, C>>,
    H: for<'a> ReadHints<ResponseHead<'a>>,
    Z: Sleep,
    T: Strategy,
    C: Clock,
{
    type Output = Result<Response<R>, CallError<S::Error, PaceTooSlow>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = loop {
            match this.stage.as_mut().project() {
                StageProjection::Calling { call } => {
                    let outcome = ready!(call.poll(context));
                    if let Ok(response) = &outcome {
                        // A layer outside decides on a retry.
                        _ = this.reader.answered(response, || Duration::ZERO);
                    }
                    break outcome.map_err(CallError::Failed);
                }
                StageProjection::Sleeping { sleeping } => {
                    match ready!(sleeping.as_mut().poll_call(&this.reader.pacer, context)) {
                        Ok(call) => this.stage.set(Stage::Calling { call }),
                        Err(error) => break Err(error),
                    }
                }
                StageProjection::Refused { too_slow } => break Err(CallError::Refused(*too_slow)),
                // It was polled again after it was ready.
                StageProjection::Over => return Poll::Pending,
            }
        };
        this.stage.set(Stage::Over);
        Poll::Ready(result)
    }
}

/// A call that was made, unless its deadline has passed or its service failed to become ready.
type Called<F, E> = Result<F, CallError<E, PaceTooSlow>>;

impl<S, Q, Z: Sleep> SleepingCall<S, Q, Z> {
    /// Creates a call that sleeps for this long. The sleep already accounts for this pause.
    pub(super) fn new(
        sleep: Duration,
        timer: Z,
        service: S,
        request: Request<Q>,
        deadline: CallDeadline,
        pause: SeenPause,
    ) -> Self {
        let sleeping = Some(timer.sleep(sleep));
        Self { sleeping, until_deadline: None, timer, service, request: Some(request), deadline, sleep, pause }
    }

    /// Returns the call once it has slept and the service is ready for it.
    fn poll_call<T: Strategy, C: Clock>(
        self: Pin<&mut Self>,
        pacer: &Pacer<T, C>,
        context: &mut Context<'_>,
    ) -> Poll<Called<S::Future, S::Error>>
    where
        S: Callee<Request<Q>>,
    {
        let mut this = self.project();
        let too_late = |sleep| Poll::Ready(Err(CallError::Refused(PaceTooSlow::new(sleep, Duration::ZERO))));
        while let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
            ready!(sleeping.poll(context));
            this.sleeping.set(None);
            if let Some(longer) = this.pause.extension(pacer) {
                if let Err(too_slow) = this.deadline.check(longer) {
                    return Poll::Ready(Err(CallError::Refused(too_slow)));
                }
                *this.sleep += longer;
                this.sleeping.set(Some(this.timer.sleep(longer)));
            }
        }
        // The timer may have been late.
        let left = this.deadline.left();
        if left.is_zero() {
            return too_late(*this.sleep);
        }
        let Poll::Ready(polled) = this.service.poll_ready(context) else {
            if this.until_deadline.is_none() && left < Duration::MAX {
                this.until_deadline.set(Some(this.timer.sleep(left)));
            }
            let Some(until_deadline) = this.until_deadline.as_pin_mut() else { return Poll::Pending };
            ready!(until_deadline.poll(context));
            return too_late(*this.sleep);
        };
        if let Err(error) = polled {
            return Poll::Ready(Err(CallError::Failed(error)));
        }
        let Some(mut request) = this.request.take() else { return Poll::Pending };
        this.deadline.write(request.headers_mut());
        Poll::Ready(Ok(this.service.call(request)))
    }
}

impl<S: Callee<Request<Q>>, Q, G, H, Z: Sleep> fmt::Debug for PacingFuture<S, Q, G, H, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Sleeping { .. } => "sleeping",
            Stage::Calling { .. } => "calling",
            Stage::Refused { .. } => "refused",
            Stage::Over => "over",
        };
        f.debug_struct("PacingFuture").field("stage", &stage).finish_non_exhaustive()
    }
}
