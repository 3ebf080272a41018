//! The concurrent attempts of one hedged call.

use super::Hedge;
use crate::retry::{Budget, Failure, MAX_HINT};
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
        // Whether a failure is repeated at once, or after the wait that the server asks for.
        repeats_failures: bool,
        // Whether the budget of the hedge counts the call.
        counts_calls: bool,
        most_attempts: u32,
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
        // Whether the server set the time of the next attempt, for which the call waits even if none is in flight.
        is_set_by_server: bool,
    }
}

impl<F, G, T: Future, R> HedgedCall<F, G, T, R> {
    /// Begins a call and its first attempt.
    ///
    /// Inside of retries it leaves failures to them, and the count of calls, whatever the hedge's own settings are.
    pub fn begin<C: Clock, B: Budget, V>(
        hedge: &Hedge<C, B, V>,
        inside_of_retries: bool,
        first: impl FnOnce() -> F,
    ) -> Self {
        let counts_calls = hedge.counts_calls && !inside_of_retries;
        hedge.began(counts_calls);
        let began = hedge.now();
        let (delay, counts) = (hedge.delay_at(began), hedge.config.counts());
        Self {
            began,
            delay,
            repeats_failures: counts.repeats_failures() && !inside_of_retries,
            counts_calls,
            most_attempts: counts.max_attempts(),
            attempts: 1,
            failed: None,
            first: Some(first()),
            others: Vec::new(),
            unslept: delay,
            sleeping: None,
            is_set_by_server: false,
        }
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
    /// `failure` classifies an outcome, `may_start` decides whether there may be another attempt after a wait, and `start`
    /// starts the attempt with a number, or returns `None`. Nothing is withdrawn before `may_start` agrees. `release` frees
    /// what a failed response holds, before another attempt starts and while others are in flight.
    #[expect(clippy::too_many_arguments, reason = "the closures are the rules of the future that owns it")]
    pub fn poll<C, B, V, N, S>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        hedge: &Hedge<C, B, V>,
        call_budget: &N,
        sleep: &S,
        failure: impl Fn(&Result<A, E>) -> Option<Failure>,
        may_start: impl Fn(Duration) -> bool,
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
        let (most, repeats) = (self.most_attempts, self.repeats_failures);
        let mut call = self;
        loop {
            let mut this = call.as_mut().project();
            if let Some(delay) = this.unslept.take() {
                this.sleeping.set(Some(sleep.sleep(delay)));
            }
            let mut is_due = false;
            // The wait for the next attempt after a failure, if there may be one.
            let mut next = None;
            // The outcome that ends the call, if any.
            let mut end = None;
            if let Some(Poll::Ready(outcome)) = this.first.as_mut().as_pin_mut().map(|first| first.poll(context)) {
                this.first.set(None);
                let failure = failure(&outcome);
                if *this.counts_calls {
                    hedge.count(failure, false);
                }
                let now = hedge.now();
                let elapsed = now.saturating_sub(*this.began);
                // A fast failure says nothing about the latency of responses.
                if failure.is_none() || is_slow(*this.delay, elapsed) {
                    hedge.record(now, elapsed);
                }
                match failure {
                    Some(failure) if failure.may_retry() => {
                        next = fail(this.failed, this.attempts, outcome, failure, most);
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
                        let failure = failure(&outcome);
                        if *this.counts_calls {
                            hedge.count(failure, true);
                        }
                        match failure {
                            // The server's own verdict on the call.
                            Some(failure) if outcome.is_ok() && !failure.may_retry() => end = Some(outcome),
                            // An error may be a refusal by a limit of this process, so the first attempt continues.
                            Some(failure) => next = fail(this.failed, this.attempts, outcome, failure, most).or(next),
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
            match next {
                Some(Duration::ZERO) => is_due = repeats,
                Some(wait) if repeats && *this.attempts < most && may_start(wait) => {
                    *this.is_set_by_server = true;
                    this.sleeping.set(Some(sleep.sleep(wait)));
                }
                // The server gets its next attempt at the time that it set, or none.
                Some(_) => *this.attempts = most,
                None => {}
            }
            if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut()
                && sleeping.poll(context).is_ready()
            {
                this.sleeping.set(None);
                *this.is_set_by_server = false;
                is_due = true;
            }
            if is_due && *this.attempts < most && may_start(Duration::ZERO) && hedge.try_hedge(call_budget) {
                *this.is_set_by_server = false;
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
            if this.first.is_some() || !this.others.is_empty() || (*this.is_set_by_server && *this.attempts < most) {
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

/// Keeps the outcome of a failed attempt, and returns the wait before the next one.
///
/// It is `None` if there may be no other.
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
) -> Option<Duration> {
    let is_kept = failed.as_ref().is_some_and(|(kept, earlier)| {
        outcome.is_err() && (kept.is_ok() || failure.is_unprocessed() && !earlier.is_unprocessed())
    });
    if !is_kept {
        *failed = Some((outcome, failure));
    }
    let wait = failure.wait_beside().filter(|wait| *wait <= MAX_HINT);
    if wait.is_none() {
        *attempts = most;
    }
    wait
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
