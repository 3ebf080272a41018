//! One call's way through the lines, in steps.

use super::{CostsRequest, Denial, Turn, Waitable, WaitableRef};
use crate::concurrency::Expiry;
use crate::time::Clock;
use core::fmt;
use core::ops::Deref;
use core::task::Waker;
use core::time::Duration;

/// The longest time after which a call that may ask does so again.
///
/// Tokens and slots that come from elsewhere wake no call.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A call that is to be served, until it is or has left.
pub(super) struct Stay<T: WaitableRef> {
    /// `None` once the call was served or refused.
    acquire: Option<CostsRequest<T>>,
    wait: Wait<T::Target>,
}

/// The wait of a call.
struct Wait<L: Waitable> {
    expiry: Option<Expiry>,
    /// `None` before the call has arrived.
    place: Option<L::Place>,
}

/// The next thing for a call to do.
pub(super) enum Step<R> {
    /// It is over.
    Over(R),
    /// It has to look again when it is woken, or after this time; `None` is for ever.
    Wait(Option<Duration>),
}

/// The reservation of a call, or its refusal.
pub(super) type Outcome<T> =
    Result<<<T as Deref>::Target as Waitable>::Reservation<T>, <<T as Deref>::Target as Waitable>::Refusal>;

impl<T: WaitableRef> Stay<T> {
    pub(super) fn new(acquire: CostsRequest<T>) -> Self {
        Self { acquire: Some(acquire), wait: Wait { expiry: None, place: None } }
    }

    /// Looks whether the call can be served; if not, `waker` wakes it when that may have changed.
    pub(super) fn step(&mut self, waker: &Waker) -> Step<Outcome<T>> {
        let Some(acquire) = &self.acquire else { return Step::Wait(None) };
        match self.wait.step(acquire, waker) {
            Ok(Step::Wait(longest)) => Step::Wait(longest),
            Ok(Step::Over(taken)) => self.serve(taken),
            Err(refusal) => {
                self.leave();
                Step::Over(Err(refusal))
            }
        }
    }

    fn serve(&mut self, taken: <T::Target as Waitable>::Taken) -> Step<Outcome<T>> {
        match self.acquire.take() {
            Some(CostsRequest { limits, demand: Ok(demand), .. }) => {
                let place = self.wait.place.take();
                Step::Over(Ok(Waitable::reservation(limits, &demand, taken, place)))
            }
            _ => Step::Wait(None),
        }
    }

    /// Leaves the lines.
    fn leave(&mut self) {
        if let (Some(acquire), Some(place)) = (self.acquire.take(), self.wait.place.take()) {
            acquire.limits.leave(place);
        }
    }
}

impl<L: Waitable> Wait<L> {
    fn step<T: Deref<Target = L>>(
        &mut self,
        acquire: &CostsRequest<T>,
        waker: &Waker,
    ) -> Result<Step<L::Taken>, L::Refusal> {
        let (limits, demand) = (&*acquire.limits, acquire.demand.as_ref().map_err(|refusal| *refusal)?);
        if self.place.is_none() {
            let mut patience = acquire.patience;
            self.expiry = patience.begin(limits.clock());
            if let Some(taken) = self.arrive(limits, demand, waker)? {
                return Ok(Step::Over(taken));
            }
        }
        // Each round but the last is one in which another limit refused, because other calls were faster.
        for _ in 0..=L::LINES {
            let Some(place) = &mut self.place else { break };
            if let Turn::HeldUp(longest) = limits.look(demand, place, waker) {
                if self.is_over(limits) {
                    return Err(L::TIMED_OUT);
                }
                return Ok(Step::Wait(self.rest(limits).into_iter().chain(longest).min()));
            }
            let denial = match limits.take(demand) {
                Ok(taken) => return Ok(Step::Over(taken)),
                Err(denial) => denial,
            };
            if denial.is_final() || self.is_over(limits) {
                return Err(denial.into());
            }
            if self.place.as_ref().is_some_and(|place| limits.refused(demand, place, &denial)) {
                let due = denial.due_in().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
                return Ok(Step::Wait(self.rest(limits).into_iter().chain([due]).min()));
            }
        }
        Ok(Step::Wait(Some(Duration::ZERO)))
    }

    /// Takes the costs if no other call waits for them, or else gives the call a place.
    fn arrive(&mut self, limits: &L, demand: &L::Demand, waker: &Waker) -> Result<Option<L::Taken>, L::Refusal> {
        if limits.holds_up(demand) {
            // A call that can never be served does not wait.
            if let Some(denial) = limits.refusal(demand).filter(Denial::is_final) {
                return Err(denial.into());
            }
            if self.is_over(limits) {
                return Err(L::TIMED_OUT);
            }
            self.place = limits.arrive(demand, self.expiry, waker)?;
            if self.place.is_some() {
                return Ok(None);
            }
        }
        match limits.take(demand) {
            Ok(taken) => Ok(Some(taken)),
            Err(denial) if denial.is_final() || self.is_over(limits) => Err(denial.into()),
            Err(denial) => {
                self.place = Some(limits.join(demand, &denial, self.expiry, waker)?);
                Ok(None)
            }
        }
    }

    /// Returns whether the time that the call has to wait is over.
    fn is_over(&self, limits: &L) -> bool {
        self.expiry.is_some_and(|expiry| expiry.has_passed(limits.clock().now()))
    }

    /// Returns the time that the call still has to wait, if that has an end.
    fn rest(&self, limits: &L) -> Option<Duration> {
        self.expiry.map(|expiry| expiry.remaining(limits.clock()))
    }
}

impl<T: WaitableRef> Drop for Stay<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T: WaitableRef> fmt::Debug for Stay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stay").field("acquire", &self.acquire).finish_non_exhaustive()
    }
}
