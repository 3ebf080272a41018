//! One call's way through the queue of a set, in steps.

use super::QueuedSetRef;
use super::sealed::QueuedSet;
use super::{SetAcquire, SetQueueRefusal};
use crate::concurrency::LimitSetRefusal;
use crate::concurrency::queue::{Expiry, Place};
use crate::limit::SetReservation;
use core::task::Waker;
use core::time::Duration;

/// The longest time after which the first call asks again.
///
/// A change outside of the set wakes no call.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A call that is to be served, until it is or has left.
pub(super) struct Stay<S: QueuedSetRef> {
    /// `None` once the call was served or refused.
    acquire: Option<SetAcquire<S>>,
    expiry: Option<Expiry>,
    stage: Stage,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It has not been looked at yet.
    Arriving,
    /// It waits behind others.
    Behind(Place),
    /// It is the first, and asks the limits.
    First,
}

/// The next thing for a call to do.
pub(super) enum Step<S: QueuedSetRef> {
    /// It has its reservation, or is refused.
    Over(Result<SetReservation<S>, LimitSetRefusal>),
    /// It has to look again when it is woken, or after this time; `None` is for ever.
    Wait(Option<Duration>),
}

impl<S: QueuedSetRef> Stay<S> {
    pub(super) fn new(acquire: SetAcquire<S>) -> Self {
        Self { acquire: Some(acquire), expiry: None, stage: Stage::Arriving }
    }

    /// Looks whether the call can be served; if not, `waker` wakes it when that may have changed.
    pub(super) fn step(&mut self, waker: &Waker) -> Step<S> {
        let Some(acquire) = &self.acquire else { return Step::Wait(None) };
        let (set, queue) = (&*acquire.set, acquire.set.set_queue());
        let costs = match &acquire.costs {
            Ok(costs) => *costs,
            Err(refusal) => {
                let refusal = *refusal;
                return self.end(refusal);
            }
        };
        if let Stage::Arriving = self.stage {
            self.expiry = set.expiry(acquire.patience);
            // A call that meets no others asks at once, without a turn. One that can never be served does not wait.
            let refusal = if queue.has_waiters() {
                set.final_refusal(&costs)
            } else {
                match set.take(&costs) {
                    Ok(taken) => return self.serve(taken),
                    Err(refusal) => Some(refusal).filter(|refusal| refusal.is_final() || self.is_over()),
                }
            };
            if let Some(refusal) = refusal {
                return self.end(refusal);
            }
            if self.is_over() {
                return self.end(LimitSetRefusal::Queue(SetQueueRefusal::TimedOut));
            }
            self.stage = match queue.join(waker) {
                Ok(None) => Stage::First,
                Ok(Some(place)) => Stage::Behind(place),
                Err(refusal) => return self.end(LimitSetRefusal::Queue(refusal)),
            };
        }
        if let Stage::Behind(place) = self.stage {
            if queue.is_first(place, waker) {
                self.stage = Stage::First;
            } else if self.is_over() {
                return self.end(LimitSetRefusal::Queue(SetQueueRefusal::TimedOut));
            } else {
                return Step::Wait(self.expiry.map(|expiry| set.remaining(expiry)));
            }
        }
        // The waker is left before the limits are asked, so that a later settlement wakes this call.
        queue.wake_first_by(waker);
        match set.take(&costs) {
            Ok(taken) => self.serve(taken),
            Err(refusal) if refusal.is_final() || self.is_over() => self.end(refusal),
            Err(refusal) => {
                let due = refusal.retry_after().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
                Step::Wait(Some(self.expiry.map_or(due, |expiry| set.remaining(expiry).min(due))))
            }
        }
    }

    /// Whether the time that it has to wait is over.
    fn is_over(&self) -> bool {
        self.acquire.as_ref().zip(self.expiry).is_some_and(|(acquire, expiry)| acquire.set.has_passed(expiry))
    }

    fn serve(&mut self, taken: <S::Target as QueuedSet>::Taken) -> Step<S> {
        let is_first = matches!(self.stage, Stage::First);
        match self.acquire.take() {
            Some(acquire) => Step::Over(Ok(QueuedSet::reservation(acquire.set, taken, is_first))),
            None => Step::Wait(None),
        }
    }

    fn end(&mut self, refusal: LimitSetRefusal) -> Step<S> {
        self.leave();
        Step::Over(Err(refusal))
    }

    /// Leaves the queue.
    fn leave(&mut self) {
        let Some(acquire) = self.acquire.take() else { return };
        let queue = acquire.set.set_queue();
        match self.stage {
            Stage::Arriving => {}
            Stage::Behind(place) => queue.leave_place(place),
            Stage::First => queue.pass_on(),
        }
    }
}

impl<S: QueuedSetRef> Drop for Stay<S> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<S: QueuedSetRef> core::fmt::Debug for Stay<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stay").field("stage", &self.stage).finish_non_exhaustive()
    }
}
