//! The future of a call that is made in attempts.

use super::GaveUp;
use crate::time::Sleep;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// Makes the attempts of one call, and decides after each whether there is another.
///
/// An [`AttemptsFuture`] polls the attempts and sleeps between them. Calls that are retried after a backoff implement this trait, and so do
/// calls that a pacer spaces.
pub trait MakeAttempts {
    /// The value that a call returns.
    type Value;

    /// The error of an attempt.
    type Error;

    /// An attempt.
    type Attempt: Future<Output = Result<Self::Value, Self::Error>>;

    /// The error of a call that is given up.
    type GivenUp;

    /// The timers.
    type Sleep: Sleep;

    /// Returns the timers.
    fn sleep(&self) -> &Self::Sleep;

    /// Decides after a wait, or before the first one, whether the next attempt can begin.
    ///
    /// Returns how much longer the call waits, or `None` if the attempt can begin.
    ///
    /// # Errors
    ///
    /// The reason why the call is given up.
    fn after_wait(&mut self) -> Result<Option<Duration>, GaveUp>;

    /// Polls whether an attempt can be made after a wait.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>>;

    /// Makes the next attempt. Returns `None` if it cannot be made any more.
    fn attempt(&mut self) -> Option<Self::Attempt>;

    /// Decides on the outcome of an attempt.
    fn judge(&mut self, outcome: &mut Result<Self::Value, Self::Error>) -> Next;

    /// Returns the time within which an attempt has to begin, or [`Duration::MAX`].
    fn time_to_begin(&self) -> Duration;

    /// Returns the time after which an attempt in flight is dropped. Default: none is dropped.
    #[inline]
    fn time_to_end(&self) -> Duration {
        Duration::MAX
    }

    /// Returns the error of a call that ends here, with the errors of the last attempts.
    ///
    /// `previous` is the error before `error`, if the last attempt ended with an error.
    fn give_up(&self, reason: GaveUp, error: Option<Self::Error>, previous: Option<Self::Error>) -> Self::GivenUp;
}

/// The consequence of an attempt's outcome.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// The call is over, and its outcome is returned. An error tells this reason.
    Over(GaveUp),
    /// The call is over by its deadline, so its value is discarded.
    TooLate,
    /// There is another attempt after this wait.
    Again(Duration),
}

pin_project! {
    /// Makes the attempts of one call: waits, polls for readiness, calls, and repeats that if it may help.
    ///
    /// Polled again after it was ready, it is pending.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct AttemptsFuture<M: MakeAttempts> {
        calls: M,
        // The last error of an attempt.
        error: Option<M::Error>,
        #[pin]
        stage: Stage<M::Attempt, <M::Sleep as Sleep>::Sleeping, M::GivenUp>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<F, T, E> {
        // An attempt is in flight.
        Calling { #[pin] attempt: F, #[pin] until_end: Option<T> },
        // Before the next attempt. The call has not begun if there is no wait.
        Waiting { #[pin] wait: Option<T> },
        // Until the next attempt can be made.
        Readying { #[pin] until_late: Option<T> },
        // There is no first attempt.
        NotBegun { error: Option<E> },
        Over,
    }
}

impl<M: MakeAttempts> AttemptsFuture<M> {
    /// Creates a call that begins when it is polled.
    #[inline]
    pub const fn new(calls: M) -> Self {
        Self::at(calls, Stage::Waiting { wait: None })
    }

    /// Creates a call whose first attempt is in flight.
    #[inline]
    pub const fn calling(calls: M, attempt: M::Attempt) -> Self {
        Self::at(calls, Stage::Calling { attempt, until_end: None })
    }

    /// Creates a call whose first attempt comes after a wait.
    pub fn waiting(calls: M, wait: Duration) -> Self {
        let wait = Some(calls.sleep().sleep(wait));
        Self::at(calls, Stage::Waiting { wait })
    }

    /// Creates a call that is not made, and ends with this error.
    pub const fn not_begun(calls: M, error: M::GivenUp) -> Self {
        Self::at(calls, Stage::NotBegun { error: Some(error) })
    }

    #[inline]
    const fn at(calls: M, stage: Stage<M::Attempt, <M::Sleep as Sleep>::Sleeping, M::GivenUp>) -> Self {
        Self { calls, error: None, stage }
    }
}

impl<M: MakeAttempts> Future for AttemptsFuture<M> {
    type Output = Result<M::Value, M::GivenUp>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let calls = this.calls;
        let no_time = GaveUp::Deadline { hint: None };
        let (reason, error) = loop {
            match this.stage.as_mut().project() {
                StageProjection::Calling { attempt, until_end } => {
                    let Poll::Ready(mut outcome) = attempt.poll(context) else {
                        ready!(poll_timer(until_end, || calls.time_to_end(), calls.sleep(), context));
                        break (no_time, None);
                    };
                    // The outcome stays in place until the call has ended, because a response is large to move.
                    let next = calls.judge(&mut outcome);
                    if let Next::Again(wait) = next {
                        *this.error = outcome.err().or_else(|| this.error.take());
                        let wait = Some(calls.sleep().sleep(wait));
                        this.stage.set(Stage::Waiting { wait });
                        continue;
                    }
                    this.stage.set(Stage::Over);
                    match outcome {
                        Ok(value) => match next {
                            Next::Over(_) => return Poll::Ready(Ok(value)),
                            _ => break (no_time, None),
                        },
                        Err(error) => {
                            break (if let Next::Over(reason) = next { reason } else { no_time }, Some(error));
                        }
                    }
                }
                StageProjection::Waiting { wait } => {
                    if let Some(wait) = wait.as_pin_mut() {
                        ready!(wait.poll(context));
                    }
                    match calls.after_wait() {
                        Ok(Some(longer)) => {
                            let wait = Some(calls.sleep().sleep(longer));
                            this.stage.set(Stage::Waiting { wait });
                        }
                        Ok(None) => this.stage.set(Stage::Readying { until_late: None }),
                        Err(reason) => break (reason, None),
                    }
                }
                StageProjection::Readying { until_late } => {
                    if calls.time_to_begin().is_zero() {
                        break (no_time, None);
                    }
                    let Poll::Ready(polled) = calls.poll_ready(context) else {
                        ready!(poll_timer(until_late, || calls.time_to_begin(), calls.sleep(), context));
                        break (no_time, None);
                    };
                    if let Err(error) = polled {
                        break (GaveUp::NotRetryable, Some(error));
                    }
                    let Some(attempt) = calls.attempt() else { return Poll::Pending };
                    this.stage.set(Stage::Calling { attempt, until_end: None });
                }
                StageProjection::NotBegun { error } => {
                    let Some(error) = error.take() else { return Poll::Pending };
                    return Poll::Ready(Err(error));
                }
                StageProjection::Over => return Poll::Pending,
            }
        };
        this.stage.set(Stage::Over);
        let earlier = this.error.take();
        let (error, previous) = if error.is_some() { (error, earlier) } else { (earlier, None) };
        Poll::Ready(Err(calls.give_up(reason, error, previous)))
    }
}

/// Polls until no time is left.
fn poll_timer<Z: Sleep>(
    mut timer: Pin<&mut Option<Z::Sleeping>>,
    left: impl Fn() -> Duration,
    sleep: &Z,
    context: &mut Context<'_>,
) -> Poll<()> {
    if timer.is_none() {
        match left() {
            Duration::ZERO => return Poll::Ready(()),
            Duration::MAX => return Poll::Pending,
            left => timer.set(Some(sleep.sleep(left))),
        }
    }
    if let Some(sleeping) = timer.as_mut().as_pin_mut() {
        ready!(sleeping.poll(context));
    }
    if left().is_zero() {
        return Poll::Ready(());
    }
    // The timer is ahead of the call's clock. The next poll begins another. One that is ready at once would else keep the thread
    // here until the time is over.
    timer.set(None);
    context.waker().wake_by_ref();
    Poll::Pending
}

impl<M: MakeAttempts> fmt::Debug for AttemptsFuture<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Calling { .. } => "calling",
            Stage::Waiting { .. } => "waiting",
            Stage::Readying { .. } => "readying",
            Stage::NotBegun { .. } => "not begun",
            Stage::Over => "over",
        };
        f.debug_struct("AttemptsFuture").field("stage", &stage).finish_non_exhaustive()
    }
}
