//! How a call enters the gate, waits for it and leaves it.

use super::classes::Classes;
use super::permit::sealed::Admits;
use super::request::{AdmittedCall, Entrant};
use super::{Admission, NotAdmitted};
use crate::acquire::awaited;
use crate::concurrency::adaptive::sampler::{Gate, STALLED};
use crate::concurrency::bulkhead::permit::sealed::{Entry, Learning, Slotted};
use crate::concurrency::queue::{Cause, Expiry, Fate, Full, Moment, Place};
use crate::concurrency::{LimitRule, Outcome};
use crate::concurrency::{PermitRequest, RefusalCause};
use crate::time::{Clock, Frequency, Ticks};
use core::hash::BuildHasher;
use core::task::Waker;
use core::time::Duration;

awaited!([R: LimitRule, C: Clock] Admission<R, C>, PermitRequest);

impl<R: LimitRule, C: Clock> Slotted for Admission<R, C> {
    type Ticket = AdmittedCall;
    type Wish = Entrant;
    type Refusal = NotAdmitted;

    #[inline]
    fn enter(&self, entrant: &Entrant) -> Result<AdmittedCall, NotAdmitted> {
        let now = self.clock.now();
        // With a slot free the gate does not check whether the call would end in time: it takes the slot from no other call. So
        // the median is always learned anew, even if it has become longer than the time of every call.
        if entrant.is_late(now, 0) {
            return Err(self.refused(RefusalCause::Late));
        }
        match self.slots.take() {
            Ok(in_flight) => {
                self.saw(in_flight);
                Ok(entrant.admitted(now))
            }
            Err(occupancy) => {
                self.saw_refusal(occupancy.limit());
                Err(self.refused(RefusalCause::NoSlot))
            }
        }
    }

    fn join(&self, entrant: &mut Entrant, waker: Waker) -> Result<Entry<AdmittedCall>, NotAdmitted> {
        let moment = self.now();
        if entrant.is_late(moment.now, moment.needed) {
            return Err(self.refused(RefusalCause::Late));
        }
        if entrant.has_waited(moment.now) {
            return Err(self.refused(RefusalCause::TimedOut));
        }
        let tenant = self.seed.hash_one(entrant.tenant);
        let newcomer = |classes: &Classes| classes.newcomer(entrant.criticality, tenant);
        match self.queue.join(&self.slots, moment, newcomer, entrant.end.map(|end| end.at), waker) {
            Ok(None) => Ok(Entry::Entered(entrant.admitted(moment.now))),
            Ok(Some(queued)) => Ok(Entry::Queued(queued)),
            Err(Full::NoQueue) => Err(self.refused(RefusalCause::NoSlot)),
            Err(Full::NoVictim) => Err(self.refused(RefusalCause::QueueFull)),
        }
    }

    fn look(&self, place: Place, entrant: &Entrant, waker: Waker) -> Option<Result<AdmittedCall, NotAdmitted>> {
        let moment @ Moment { now, needed } = self.now();
        let Some(fate) = self.queue.look(&self.slots, moment, place, entrant.has_waited(now), waker) else {
            if let Some(sampler) = &self.sampler {
                sampler.raise_if_stalled(&self.clock, self);
            }
            return None;
        };
        let cause = match fate {
            Fate::Granted if entrant.is_late(now, 0) => {
                self.release();
                RefusalCause::Late
            }
            Fate::Granted => {
                // A call that had to wait for its slot found the limit reached.
                self.saw(self.limit());
                return Some(Ok(entrant.admitted(now)));
            }
            Fate::Refused(Some(Cause::Late)) => RefusalCause::Late,
            // Without a cause, as many calls have joined since as there were places vacant. The present cause is the likely one.
            Fate::Waiting | Fate::Refused(None) if entrant.is_late(now, needed) => RefusalCause::Late,
            Fate::Waiting => RefusalCause::TimedOut,
            Fate::Refused(Some(Cause::Displaced) | None) => RefusalCause::Displaced,
        };
        Some(Err(self.refused(cause)))
    }

    fn leave(&self, place: Place) {
        self.queue.leave(&self.slots, self.now(), place);
    }

    #[inline]
    fn release(&self) {
        if let Some(sampler) = &self.sampler {
            sampler.freed();
        }
        self.queue.release(&self.slots, || self.now());
    }

    fn limit(&self) -> u32 {
        Admission::limit(self)
    }

    fn expiry_after(&self, wait: Duration) -> Expiry {
        Expiry::after(wait, &self.clock)
    }

    fn remaining(&self, entrant: &Entrant) -> Option<Duration> {
        let until_late = entrant.end.map(|end| {
            let needed = Ticks::new(self.median.ticks()).duration(Frequency::from_hertz(self.clock.frequency()));
            end.at.remaining(&self.clock).saturating_sub(needed.unwrap_or(Duration::ZERO))
        });
        let wait = entrant.wait_end.map(|end| end.remaining(&self.clock));
        let until_stalled = self.sampler.as_ref().map(|_| STALLED);
        until_late.into_iter().chain(wait).chain(until_stalled).min()
    }
}

impl<R: LimitRule, C: Clock> Learning for Admission<R, C> {
    #[inline]
    fn record(&self, AdmittedCall { began, .. }: AdmittedCall, outcome: Outcome) {
        match outcome {
            Outcome::Success => {
                self.median.learn(self.ticks_since(began));
                if let Some(sampler) = &self.sampler {
                    sampler.succeeded(began, &self.clock, self);
                }
            }
            Outcome::Overloaded => {
                self.median.learn_at_least(self.ticks_since(began));
                if let Some(sampler) = &self.sampler {
                    sampler.overloaded(&self.clock, self);
                }
            }
            Outcome::Ignored => {}
        }
    }

    fn usual_latency(&self) -> Option<Duration> {
        self.median_service_time()
    }
}

impl<R: LimitRule, C: Clock> Admits for Admission<R, C> {
    type Clock = C;

    #[inline]
    fn clock(&self) -> &C {
        &self.clock
    }
}

/// Leaves out the call that has just ended, whose permit still holds its slot.
impl<R: LimitRule, C: Clock> Gate for Admission<R, C> {
    fn in_flight(&self) -> u32 {
        Admission::in_flight(self).saturating_sub(1)
    }

    fn set_limit(&self, limit: u32) {
        self.change_limit(limit);
    }
}
