//! A call on its way through its sleeps and attempts.

use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::retry::{Budget, GaveUp, RetryError};
use damper_core::throttle::{PacedAttempts, PacedRetry, Pacer, ReadHints, Strategy};
use damper_core::time::{Clock, Sleep};
use pin_project_lite::pin_project;
use tower_service::Service;

pin_project! {
    /// The future of [`PacingService`](super::PacingService).
    ///
    /// # Cancel safety
    ///
    /// Dropped while it sleeps, it leaves nothing behind, except that a strategy with a
    /// [schedule](damper_core::throttle::Strategy::schedule) has lost the place. Dropped later, it drops the call, of which the pacer learns
    /// nothing.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct PacingFuture<S: Service<R>, R, G, H, B, Z: Sleep> {
        // For the attempts after a sleep; None if there cannot be one.
        service: Option<S>,
        // For the next attempt, if there can be one.
        request: Option<R>,
        pacer: G,
        hints: H,
        policy: PacedRetry<B>,
        sleep: Z,
        attempts: PacedAttempts,
        // The last error of an attempt.
        error: Option<S::Error>,
        #[pin]
        stage: Stage<S::Future, Z::Sleeping>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, T> {
        Sleeping { #[pin] sleeping: T },
        // Until the service is ready.
        Readying { #[pin] until_deadline: Option<T> },
        Calling { #[pin] attempt: F },
        // There is no time for the first attempt.
        Refused { reason: GaveUp },
        Over,
    }
}

impl<S, R, G, H, B, Z, T, C> PacingFuture<S, R, G, H, B, Z>
where
    S: Service<R> + Clone,
    R: Clone,
    G: Deref<Target = Pacer<T, C>>,
    B: Budget,
    Z: Sleep,
    T: Strategy,
    C: Clock,
{
    /// Begins a call.
    ///
    /// The service is ready, and is called now if there is no sleep. Else it gives its readiness back.
    #[inline]
    pub(super) fn begin(service: &mut S, request: R, pacer: G, hints: H, policy: PacedRetry<B>, sleep: Z) -> Self {
        let mut attempts = pacer.begin();
        let (later, stage, request) = match attempts.before_call(&pacer, &policy) {
            Ok(wait) if wait.is_zero() => {
                let kept =
                    if attempts.begin_attempt(&policy) < policy.max_attempts() { Some(request.clone()) } else { None };
                let later = kept.as_ref().map(|_| service.clone());
                (later, Stage::Calling { attempt: service.call(request) }, kept)
            }
            Ok(wait) => (Some(release(service)), Stage::Sleeping { sleeping: sleep.sleep(wait) }, Some(request)),
            Err(reason) => {
                release(service);
                (None, Stage::Refused { reason }, None)
            }
        };
        Self { service: later, request, pacer, hints, policy, sleep, attempts, error: None, stage }
    }
}

/// Gives the readiness of a service back, and returns a clone, to be polled for readiness.
///
/// The readiness may hold a permit, which a sleep must not keep from other calls.
fn release<S: Clone>(service: &mut S) -> S {
    let unready = service.clone();
    *service = unready.clone();
    unready
}

impl<S, R, G, H, B, Z, T, C> Future for PacingFuture<S, R, G, H, B, Z>
where
    S: Service<R>,
    R: Clone,
    G: Deref<Target = Pacer<T, C>>,
    H: ReadHints<Result<S::Response, S::Error>>,
    B: Budget,
    Z: Sleep,
    T: Strategy,
    C: Clock,
{
    type Output = Result<S::Response, RetryError<S::Error>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (reason, error) = loop {
            match this.stage.as_mut().project() {
                StageProjection::Sleeping { sleeping } => {
                    ready!(sleeping.poll(context));
                    match this.attempts.after_sleep(this.pacer, this.policy) {
                        Ok(Some(longer)) => this.stage.set(Stage::Sleeping { sleeping: this.sleep.sleep(longer) }),
                        Ok(None) => this.stage.set(Stage::Readying { until_deadline: None }),
                        Err(reason) => break (reason, this.error.take()),
                    }
                }
                StageProjection::Readying { mut until_deadline } => {
                    let deadline = GaveUp::Deadline { hint: None };
                    let Some(service) = this.service else { return Poll::Pending };
                    let left = this.attempts.time_left(this.pacer, this.policy);
                    if left.is_zero() {
                        break (deadline, this.error.take());
                    }
                    let Poll::Ready(polled) = service.poll_ready(context) else {
                        if until_deadline.is_none() && left < Duration::MAX {
                            until_deadline.set(Some(this.sleep.sleep(left)));
                        }
                        let Some(timer) = until_deadline.as_pin_mut() else { return Poll::Pending };
                        ready!(timer.poll(context));
                        break (deadline, this.error.take());
                    };
                    if let Err(error) = polled {
                        break (GaveUp::NotRetryable, Some(error));
                    }
                    let Some(request) = this.request.take() else { return Poll::Pending };
                    if this.attempts.begin_attempt(this.policy) < this.policy.max_attempts() {
                        *this.request = Some(request.clone());
                    }
                    let attempt = service.call(request);
                    this.stage.set(Stage::Calling { attempt });
                }
                StageProjection::Calling { attempt } => {
                    let outcome = ready!(attempt.poll(context));
                    let hints = this.hints.hints(&outcome);
                    match (this.attempts.answered(this.pacer, this.policy, &hints), outcome) {
                        (Ok(Some(wait)), outcome) if this.request.is_some() => {
                            *this.error = outcome.err().or_else(|| this.error.take());
                            this.stage.set(Stage::Sleeping { sleeping: this.sleep.sleep(wait) });
                        }
                        (_, Ok(response)) => {
                            this.stage.set(Stage::Over);
                            return Poll::Ready(Ok(response));
                        }
                        (reason, Err(error)) => break (reason.err().unwrap_or(GaveUp::NotRetryable), Some(error)),
                    }
                }
                StageProjection::Refused { reason } => break (*reason, None),
                // Polled again after it was ready.
                StageProjection::Over => return Poll::Pending,
            }
        };
        this.stage.set(Stage::Over);
        let (attempts, elapsed) = (this.attempts.number(), this.attempts.elapsed(this.pacer));
        Poll::Ready(Err(RetryError::new(reason, attempts, elapsed, error)))
    }
}

impl<S: Service<R>, R, G, H, B, Z: Sleep> fmt::Debug for PacingFuture<S, R, G, H, B, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Sleeping { .. } => "sleeping",
            Stage::Readying { .. } => "readying",
            Stage::Calling { .. } => "calling",
            Stage::Refused { .. } => "refused",
            Stage::Over => "over",
        };
        f.debug_struct("PacingFuture").field("stage", &stage).finish_non_exhaustive()
    }
}
