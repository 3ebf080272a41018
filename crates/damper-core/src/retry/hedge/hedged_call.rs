//! The concurrent attempts of one hedged call.

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
    /// The concurrent attempts of one hedged call, by the rules of [`Hedge`].
    ///
    /// The owning future makes the attempts and classifies their outcomes.
    ///
    /// The first attempt is stored in place. Each further one is boxed, because most calls have none.
    #[must_use = "nothing happens unless it is polled"]
    pub struct HedgedCall<F, G, T, R> {
        // The start of the call, in microseconds of the hedge's clock.
        began: u64,
        delay: Option<Duration>,
        // Whether a failure is repeated at once.
        repeats_failures: bool,
        // The number of attempts begun, or the maximum once no more may start.
        attempts: u32,
        // The retryable outcome to return if no attempt succeeds, and its failure.
        failed: Option<(R, Failure)>,
        #[pin]
        first: Option<F>,
        others: Vec<Pin<Box<G>>>,
        // The delay of the newest attempt, until the next poll starts the sleep.
        unslept: Option<Duration>,
        // Sleeps until the next attempt.
        #[pin]
        sleeping: Option<T>,
    }
}

impl<F, G, T: Future, R> HedgedCall<F, G, T, R> {
    /// Begins a call and its first attempt.
    pub fn begin<C: Clock, B: Budget, V>(hedge: &Hedge<C, B, V>, first: impl FnOnce() -> F) -> Self {
        hedge.began();
        let began = hedge.now();
        let delay = hedge.delay_at(began);
        Self {
            began,
            delay,
            repeats_failures: hedge.config.counts().repeats_failures(),
            attempts: 1,
            failed: None,
            first: Some(first()),
            others: Vec::new(),
            unslept: delay,
            sleeping: None,
        }
    }

    /// Leaves failures to a retry around the call, whatever the hedge's own setting is.
    pub fn inside_of_retries(self) -> Self {
        Self { repeats_failures: false, ..self }
    }

    /// Records the age of the first attempt if it is still in flight.
    ///
    /// Call it before dropping the call.
    pub fn abandon<C: Clock, B: Budget, V>(self: Pin<&Self>, hedge: &Hedge<C, B, V>) {
        if self.first.is_some() {
            let now = hedge.now();
            let elapsed = now.saturating_sub(self.began);
            if is_slow(self.delay, elapsed) {
                hedge.record(now, elapsed);
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
    /// Another attempt is withdrawn from the hedge's budgets and from `call_budget`, which was chosen for this call.
    /// `failure` classifies an outcome, `may_start` decides whether there may be another attempt, and `start` starts
    /// the attempt with a number, or returns `None`. Nothing is withdrawn before `may_start` agrees. `release` frees
    /// what a failed response holds, before another attempt starts and while others are in flight.
    #[expect(clippy::too_many_arguments, reason = "the closures are the rules of the future that owns it")]
    pub fn poll<C, B, V, N, S>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        hedge: &Hedge<C, B, V>,
        call_budget: &N,
        sleep: &S,
        failure: impl Fn(&Result<A, E>) -> Option<Failure>,
        may_start: impl Fn() -> bool,
        mut start: impl FnMut(u32) -> Option<G>,
        release: impl Fn(&mut A),
    ) -> Poll<Result<A, E>>
    where
        C: Clock,
        B: Budget,
        N: Budget,
        S: Sleep<Sleeping = T>,
        F: Future<Output = Result<A, E>>,
        G: Future<Output = Result<A, E>>,
    {
        let (most, repeats) = (hedge.config.counts().max_attempts(), self.repeats_failures);
        let mut call = self;
        loop {
            let mut this = call.as_mut().project();
            if let Some(delay) = this.unslept.take() {
                this.sleeping.set(Some(sleep.sleep(delay)));
            }
            let mut is_due = false;
            // The outcome that ends the call, if any.
            let mut end = None;
            if let Some(Poll::Ready(outcome)) = this.first.as_mut().as_pin_mut().map(|first| first.poll(context)) {
                this.first.set(None);
                let failure = failure(&outcome);
                let now = hedge.now();
                let elapsed = now.saturating_sub(*this.began);
                // A fast failure says nothing about the latency of responses.
                if failure.is_none() || is_slow(*this.delay, elapsed) {
                    hedge.record(now, elapsed);
                }
                match failure {
                    Some(failure) if failure.may_retry() => {
                        is_due |= fail(this.failed, this.attempts, outcome, failure, most) && repeats;
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
                            // The server's own verdict on the call.
                            Some(failure) if outcome.is_ok() && !failure.may_retry() => end = Some(outcome),
                            // An error may be a refusal by a limit of this process, so the first attempt continues.
                            Some(failure) => {
                                is_due |= fail(this.failed, this.attempts, outcome, failure, most) && repeats;
                            }
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
            if is_due && *this.attempts < most && may_start() && hedge.try_hedge(call_budget) {
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
            if this.first.is_some() || !this.others.is_empty() {
                release_failed(this.failed, &release);
                return Poll::Pending;
            }
            // Nothing is in flight, and nothing more may start.
            let Some((outcome, _)) = this.failed.take() else { return Poll::Pending };
            call.end();
            return Poll::Ready(outcome);
        }
    }
}

/// Frees what a failed response holds.
fn release_failed<A, E>(failed: &mut Option<(Result<A, E>, Failure)>, release: &impl Fn(&mut A)) {
    if let Some((Ok(response), _)) = failed {
        release(response);
    }
}

/// Keeps the outcome of a failed attempt. Returns whether the next one may start at once.
///
/// An error does not replace a response, because the error may only be a refusal of the hedge in this process. An
/// unprocessed failure does not replace one that a server may have processed, because an outer retry would then treat
/// the call as unprocessed.
fn fail<A, E>(
    failed: &mut Option<(Result<A, E>, Failure)>,
    attempts: &mut u32,
    outcome: Result<A, E>,
    failure: Failure,
    most: u32,
) -> bool {
    let is_kept = failed.as_ref().is_some_and(|(kept, earlier)| {
        outcome.is_err() && (kept.is_ok() || failure.is_unprocessed() && !earlier.is_unprocessed())
    });
    if !is_kept {
        *failed = Some((outcome, failure));
    }
    let may_start = failure.may_start_at_once();
    if !may_start {
        *attempts = most;
    }
    may_start
}

/// Returns whether an attempt of this age in microseconds took as long as the delay.
fn is_slow(delay: Option<Duration>, elapsed: u64) -> bool {
    delay.is_some_and(|delay| Duration::from_micros(elapsed) >= delay)
}

impl<F, G, T, R> fmt::Debug for HedgedCall<F, G, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = usize::from(self.first.is_some()) + self.others.len();
        f.debug_struct("HedgedCall").field("in_flight", &in_flight).finish_non_exhaustive()
    }
}
