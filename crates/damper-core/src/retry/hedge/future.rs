//! Makes the attempts of one hedged call.

use super::Hedge;
use crate::retry::{Budget, Failure, Retryable};
use crate::time::{Clock, Sleep};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

pin_project! {
    /// Makes the attempts of one hedged call, side by side. Made by [`Hedge::run`].
    ///
    /// The call begins when this is first polled. It allocates nothing for the first attempt, and a box for each other one.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it drops all attempts that are under way. An extra request that the budgets have given out is spent. Polled
    /// again after it was ready, it makes the call anew.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct HedgeFuture<'a, C: Clock, B: Budget, V, O, F, S: Sleep, R> {
        hedge: &'a Hedge<C, B, V>,
        operation: O,
        sleep: S,
        // Some while the call is under way.
        call: Option<HedgedCall<R>>,
        #[pin]
        first: Option<F>,
        others: Vec<Pin<Box<F>>>,
        // Until the next attempt.
        #[pin]
        sleeping: Option<S::Sleeping>,
    }

    impl<C: Clock, B: Budget, V, O, F, S: Sleep, R> PinnedDrop for HedgeFuture<'_, C, B, V, O, F, S, R> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let (Some(call), true) = (&*this.call, this.first.is_some()) {
                call.record_if_slow(this.hedge);
            }
        }
    }
}

/// A call that is under way.
struct HedgedCall<R> {
    /// When it began, in microseconds of the hedge's clock.
    began: u64,
    delay: Option<Duration>,
    /// The attempts that were begun; the most, once there are to be no others.
    attempts: u32,
    /// The last outcome that another attempt might have mended.
    failed: Option<R>,
}

impl<R> HedgedCall<R> {
    fn elapsed<C: Clock, B: Budget, V>(&self, hedge: &Hedge<C, B, V>) -> Duration {
        Duration::from_micros(hedge.now().saturating_sub(self.began))
    }

    /// Keeps the outcome of an attempt that failed. Returns whether the next one may start at once.
    fn fail<C: Clock, B: Budget, V>(&mut self, outcome: R, failure: Failure, hedge: &Hedge<C, B, V>) -> bool {
        self.failed = Some(outcome);
        let may_start = failure.may_start_at_once();
        if !may_start {
            self.attempts = hedge.config().max_attempts();
        }
        may_start
    }

    /// Records how long the first attempt has taken without an answer: a call that fails fast says nothing about how long
    /// answers take.
    fn record_if_slow<C: Clock, B: Budget, V>(&self, hedge: &Hedge<C, B, V>) {
        let elapsed = self.elapsed(hedge);
        if self.delay.is_some_and(|delay| elapsed >= delay) {
            hedge.record(elapsed);
        }
    }
}

impl<'a, C: Clock, B: Budget, V, O, F, S: Sleep, R> HedgeFuture<'a, C, B, V, O, F, S, R> {
    pub(super) const fn new(hedge: &'a Hedge<C, B, V>, operation: O, sleep: S) -> Self {
        Self { hedge, operation, sleep, call: None, first: None, others: Vec::new(), sleeping: None }
    }
}

impl<C, B, V, O, F, S, T, E> Future for HedgeFuture<'_, C, B, V, O, F, S, Result<T, E>>
where
    C: Clock,
    B: Budget,
    V: Retryable<T, E>,
    O: FnMut(u32) -> F,
    F: Future<Output = Result<T, E>>,
    S: Sleep,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let hedge = *this.hedge;
        if this.call.is_none() {
            hedge.began();
            let delay = hedge.delay();
            *this.call = Some(HedgedCall { began: hedge.now(), delay, attempts: 1, failed: None });
            this.first.set(Some((this.operation)(1)));
            this.sleeping.set(delay.map(|delay| this.sleep.sleep(delay)));
        }
        let Some(call) = this.call else { return Poll::Pending };
        let outcome = loop {
            let mut is_due = false;
            // The outcome that ends the call, if one does.
            let mut end = None;
            if let Some(Poll::Ready(outcome)) = this.first.as_mut().as_pin_mut().map(|first| first.poll(context)) {
                this.first.set(None);
                let failure = hedge.retryable().failure(&outcome);
                match failure {
                    None => hedge.record(call.elapsed(hedge)),
                    Some(_) => call.record_if_slow(hedge),
                }
                match failure {
                    Some(failure) if failure.may_retry() => is_due |= call.fail(outcome, failure, hedge),
                    _ => end = Some(outcome),
                }
            }
            let mut index = 0;
            while end.is_none() && index < this.others.len() {
                match this.others[index].as_mut().poll(context) {
                    Poll::Pending => index += 1,
                    Poll::Ready(outcome) => {
                        drop(this.others.swap_remove(index));
                        match hedge.retryable().failure(&outcome) {
                            // A hedge that is refused does not end the call while the first attempt is in flight.
                            Some(failure) => is_due |= call.fail(outcome, failure, hedge),
                            None => end = Some(outcome),
                        }
                    }
                }
            }
            let in_flight = usize::from(this.first.is_some()) + this.others.len();
            if let Some(outcome) = end {
                if this.first.is_some() {
                    call.record_if_slow(hedge);
                }
                break outcome;
            }
            if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut()
                && sleeping.poll(context).is_ready()
            {
                this.sleeping.set(None);
                is_due = true;
            }
            if is_due && call.attempts < hedge.config().max_attempts() && hedge.try_hedge() {
                call.attempts += 1;
                this.others.push(Box::pin((this.operation)(call.attempts)));
                this.sleeping.set(call.delay.map(|delay| this.sleep.sleep(delay)));
                continue;
            }
            if in_flight > 0 {
                return Poll::Pending;
            }
            // Nothing is under way, and nothing else may be.
            match call.failed.take() {
                Some(outcome) => break outcome,
                None => return Poll::Pending,
            }
        };
        *this.call = None;
        this.first.set(None);
        this.others.clear();
        this.sleeping.set(None);
        Poll::Ready(outcome)
    }
}

impl<C: Clock, B: Budget, V, O, F, S: Sleep, R> fmt::Debug for HedgeFuture<'_, C, B, V, O, F, S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_flight = usize::from(self.first.is_some()) + self.others.len();
        f.debug_struct("HedgeFuture").field("in_flight", &in_flight).finish_non_exhaustive()
    }
}
