//! How to wait for the costs of a call.

use super::stay::Outcome;
#[cfg(feature = "std")]
use super::stay::{Stay, Step};
use super::{CostsFuture, Waitable, WaitableRef};
use crate::Deadline;
use crate::acquire::{By, Wait, Within};
use crate::concurrency::{Expiry, Patience};
#[cfg(feature = "std")]
use crate::sync::Parker;
use crate::time::{Clock, Sleep};
use core::fmt;
use core::time::Duration;

/// A wait for the costs of a call that has not begun.
pub struct CostsRequest<T: WaitableRef> {
    pub(super) limits: T,
    /// The refusal is that of a call whose costs do not fit the limits.
    pub(super) demand: Result<<T::Target as Waitable>::Demand, <T::Target as Waitable>::Refusal>,
    pub(super) patience: Patience,
}

impl<T: WaitableRef> CostsRequest<T> {
    pub(crate) fn new(
        limits: T,
        demand: Result<<T::Target as Waitable>::Demand, <T::Target as Waitable>::Refusal>,
    ) -> Self {
        Self { limits, demand, patience: Patience::default() }
    }
}

impl<T: WaitableRef> Within for CostsRequest<T> {
    fn set_longest(&mut self, longest: Duration) {
        self.patience.longest = Some(longest);
    }
}

impl<T: WaitableRef> By for CostsRequest<T> {
    fn set_deadline<C: Clock>(&mut self, deadline: &Deadline<C>) {
        self.patience.wait_until(Expiry::after(deadline.remaining(), self.limits.clock()));
    }
}

impl<T: WaitableRef> Wait for CostsRequest<T> {
    type Output = Outcome<T>;
    type Future<S: Sleep> = CostsFuture<T, S>;

    fn sleeping_by<S: Sleep>(self, sleep: S) -> CostsFuture<T, S> {
        CostsFuture::new(self, sleep)
    }

    #[cfg(feature = "std")]
    fn wait(self) -> Outcome<T> {
        let parker = Parker::of_this_thread();
        let waker = parker.waker();
        let mut stay = Stay::new(self);
        loop {
            // The wake-ups are counted before each look, so that none is lost between a look and the wait.
            let seen = parker.wake_ups();
            match stay.step(&waker) {
                Step::Over(outcome) => return outcome,
                Step::Wait(longest) => parker.wait(seen, longest),
            }
        }
    }
}

impl<T: WaitableRef> fmt::Debug for CostsRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CostsRequest").field("patience", &self.patience).finish_non_exhaustive()
    }
}
