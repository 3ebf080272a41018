//! The attempts of one hedged call, side by side.

use super::Hedge;
use crate::retry::{Budget, Failure};
use crate::time::{Clock, Sleep};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

pin_project! {
    /// The attempts of one hedged call, side by side. It has the rules of [`Hedge`]; the future that owns it says how an
    /// attempt is made and what its outcome means.
    ///
    /// The first attempt is stored in place. Each other one takes a box: most calls have none, and so do not carry its size.
    #[must_use = "nothing happens unless it is polled"]
    pub struct HedgedCall<F, G, T, R> {
        // When it began, in microseconds of the hedge's clock.
        began: u64,
        delay: Option<Duration>,
        // The attempts that were begun; the most, once there are to be no others.
        attempts: u32,
        // The last outcome that another attempt might have mended.
        failed: Option<R>,
        #[pin]
        first: Option<F>,
        others: Vec<Pin<Box<G>>>,
        // The delay of the newest attempt, until the next poll begins to sleep for it.
        unslept: Option<Duration>,
        // Until the next attempt.
        #[pin]
        sleeping: Option<T>,
    }
}

impl<F, G, T: Future, R> HedgedCall<F, G, T, R> {
    /// Begins a call and its first attempt.
    pub fn begin<C: Clock, B: Budget, V>(hedge: &Hedge<C, B, V>, first: impl FnOnce() -> F) -> Self {
        hedge.began();
        let (delay, began) = (hedge.delay(), hedge.now());
        let first = Some(first());
        Self { began, delay, attempts: 1, failed: None, first, others: Vec::new(), unslept: delay, sleeping: None }
    }

    /// Records how long the first attempt has taken without a response, if it is still in flight. Call it before this is
    /// dropped.
    pub fn abandon<C: Clock, B: Budget, V>(self: Pin<&Self>, hedge: &Hedge<C, B, V>) {
        if self.first.is_some() {
            let elapsed = elapsed(hedge, self.began);
            if is_slow(self.delay, elapsed) {
                hedge.record(elapsed);
            }
        }
    }

    /// Drops all attempts.
    fn end(self: Pin<&mut Self>) {
        let mut this = self.project();
        this.first.set(None);
        this.others.clear();
        this.sleeping.set(None);
    }
}

impl<F, G, T: Future, A, E> HedgedCall<F, G, T, Result<A, E>> {
    /// Polls for the outcome of the call.
    ///
    /// `failure` says what an outcome means, `may_start` whether there can be another attempt, and `start` starts the attempt of
    /// a number, unless there cannot be one after all. Nothing is taken from the budgets before `may_start` has agreed. `release`
    /// makes a response that failed let go of what it holds, before another attempt starts and while others are in flight.
    #[expect(clippy::too_many_arguments, reason = "the closures are the rules of the future that owns it")]
    pub fn poll<C, B, V, S>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        hedge: &Hedge<C, B, V>,
        sleep: &S,
        failure: impl Fn(&Result<A, E>) -> Option<Failure>,
        may_start: impl Fn() -> bool,
        mut start: impl FnMut(u32) -> Option<G>,
        release: impl Fn(&mut A),
    ) -> Poll<Result<A, E>>
    where
        C: Clock,
        B: Budget,
        S: Sleep<Sleeping = T>,
        F: Future<Output = Result<A, E>>,
        G: Future<Output = Result<A, E>>,
    {
        let most = hedge.config().max_attempts();
        let mut call = self;
        loop {
            let mut this = call.as_mut().project();
            if let Some(delay) = this.unslept.take() {
                this.sleeping.set(Some(sleep.sleep(delay)));
            }
            let mut is_due = false;
            // The outcome that ends the call, if one does.
            let mut end = None;
            if let Some(Poll::Ready(outcome)) = this.first.as_mut().as_pin_mut().map(|first| first.poll(context)) {
                this.first.set(None);
                let failure = failure(&outcome);
                let elapsed = elapsed(hedge, *this.began);
                // A call that fails fast says nothing about how long answers take.
                if failure.is_none() || is_slow(*this.delay, elapsed) {
                    hedge.record(elapsed);
                }
                match failure {
                    Some(failure) if failure.may_retry() => {
                        is_due |= fail(this.failed, this.attempts, outcome, failure, most);
                    }
                    _ => end = Some(outcome),
                }
            }
            let mut index = 0;
            while end.is_none() && index < this.others.len() {
                match this.others[index].as_mut().poll(context) {
                    Poll::Pending => index += 1,
                    Poll::Ready(outcome) => {
                        drop(this.others.swap_remove(index));
                        match failure(&outcome) {
                            // The server's word on the call.
                            Some(failure) if outcome.is_ok() && !failure.may_retry() => end = Some(outcome),
                            // An error may be a refusal by a limit of this process, which leaves the first attempt alone.
                            Some(failure) => is_due |= fail(this.failed, this.attempts, outcome, failure, most),
                            None => end = Some(outcome),
                        }
                    }
                }
            }
            if let Some(outcome) = end {
                call.as_ref().abandon(hedge);
                call.end();
                return Poll::Ready(outcome);
            }
            if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut()
                && sleeping.poll(context).is_ready()
            {
                this.sleeping.set(None);
                is_due = true;
            }
            if is_due && *this.attempts < most {
                if !may_start() {
                    *this.attempts = most;
                } else if hedge.try_hedge() {
                    *this.attempts += 1;
                    release_failed(this.failed, &release);
                    match start(*this.attempts) {
                        Some(attempt) => {
                            this.others.push(Box::pin(attempt));
                            *this.unslept = *this.delay;
                            continue;
                        }
                        None => *this.attempts = most,
                    }
                }
            }
            if this.first.is_some() || !this.others.is_empty() {
                release_failed(this.failed, &release);
                return Poll::Pending;
            }
            // Nothing is in flight, and nothing else may be.
            let Some(outcome) = this.failed.take() else { return Poll::Pending };
            call.end();
            return Poll::Ready(outcome);
        }
    }
}

/// Makes a response that failed let go of what it holds.
fn release_failed<A, E>(failed: &mut Option<Result<A, E>>, release: &impl Fn(&mut A)) {
    if let Some(Ok(response)) = failed {
        release(response);
    }
}

/// Keeps the outcome of an attempt that failed. Returns whether the next one may start at once.
///
/// An error does not replace a response: the server's answer says more than that a hedge was refused in this process.
fn fail<A, E>(
    failed: &mut Option<Result<A, E>>,
    attempts: &mut u32,
    outcome: Result<A, E>,
    failure: Failure,
    most: u32,
) -> bool {
    if outcome.is_ok() || !matches!(failed, Some(Ok(_))) {
        *failed = Some(outcome);
    }
    let may_start = failure.may_start_at_once();
    if !may_start {
        *attempts = most;
    }
    may_start
}

fn elapsed<C: Clock, B: Budget, V>(hedge: &Hedge<C, B, V>, began: u64) -> Duration {
    Duration::from_micros(hedge.now().saturating_sub(began))
}

fn is_slow(delay: Option<Duration>, elapsed: Duration) -> bool {
    delay.is_some_and(|delay| elapsed >= delay)
}

impl<F, G, T, R> fmt::Debug for HedgedCall<F, G, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = usize::from(self.first.is_some()) + self.others.len();
        f.debug_struct("HedgedCall").field("in_flight", &in_flight).finish_non_exhaustive()
    }
}
