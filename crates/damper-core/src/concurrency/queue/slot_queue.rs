//! A queue behind its lock, outside of which user code runs.
//!
//! Bulkheads, admissions and the queue of a set share this queue, each with a [`Discipline`] of its own. Wakers run after the lock
//! was released, and may panic. The calls behind are then woken while the panic unwinds, because each of them may have been granted
//! a slot.

use super::{Discipline, Expiry, Fate, Full, Moment, Place, Queue, Queued};
use crate::concurrency::slots::{Occupancy, Slots};
use crate::sync::{AtomicU32, Guarded, Ordering, const_unless_loom};
use core::task::Waker;

/// The calls that wait for a slot of a word, which every method but the first three is given.
///
/// While calls wait, the word changes only under the lock in here.
#[derive(Debug)]
pub(in crate::concurrency) struct SlotQueue<D: Discipline> {
    queue: Guarded<Queue<D>>,
    /// How many calls may wait.
    ///
    /// Stored under the lock, and read without it: where none may wait, no call takes the lock.
    places: AtomicU32,
}

impl<D: Discipline> SlotQueue<D> {
    const_unless_loom! {
        /// A queue without places, which allocates nothing.
        pub(in crate::concurrency) const fn empty(waiting: D) -> Self {
            Self { queue: Guarded::new(Queue::empty(waiting)), places: AtomicU32::new(0) }
        }
    }

    /// Reads the queue under its lock.
    pub(in crate::concurrency) fn read<T>(&self, read: impl FnOnce(&Queue<D>) -> T) -> T {
        self.queue.read(read)
    }

    /// Changes the settings of the queue. Call it before the first use.
    pub(in crate::concurrency) fn set(&self, set: impl FnOnce(&mut Queue<D>)) {
        self.queue.write(set);
    }

    /// Changes the word, and wakes the calls whose fate that decides.
    #[cold]
    pub(in crate::concurrency) fn settle(
        &self,
        slots: &Slots,
        moment: impl FnOnce() -> Moment,
        change: impl Fn(Occupancy) -> Occupancy,
    ) {
        let moment = moment();
        self.and_wake(|queue| queue.settle(slots, moment, change));
    }

    /// Returns how many calls may wait, whatever the limit.
    #[inline]
    pub(in crate::concurrency) fn places(&self) -> u16 {
        // ORDERING: Relaxed, here and in `store_places`: it only decides whether to take the lock, under which the queue's own number
        // decides.
        self.places.load(Ordering::Relaxed) as u16
    }

    /// Gives a queue that no call has used so many places.
    pub(in crate::concurrency) fn with_places(self, places: u16) -> Self {
        self.queue.write(|queue| {
            queue.clear();
            self.store_places(queue, places);
        });
        self
    }

    /// Lets so many calls wait from now on, and refuses the calls beyond them that the discipline chooses.
    #[cold]
    pub(in crate::concurrency) fn set_places(&self, slots: &Slots, moment: Moment, places: u16) {
        self.and_wake(|queue| {
            self.store_places(queue, places);
            queue.settle(slots, moment, |occupancy| occupancy);
        });
    }

    fn store_places(&self, queue: &mut Queue<D>, places: u16) {
        queue.set_places(places);
        self.places.store(queue.places().into(), Ordering::Relaxed);
    }

    /// Frees a slot: for a waiting call, if one waits.
    #[inline]
    pub(in crate::concurrency) fn release(&self, slots: &Slots, moment: impl FnOnce() -> Moment) {
        if slots.give_back().is_err() {
            self.settle(slots, moment, Occupancy::left);
        }
    }

    /// Takes a slot, or a place in the queue where `waker` wakes the call; `None` is a slot.
    ///
    /// The caller wakes the call that gave way.
    pub(in crate::concurrency) fn join(
        &self,
        slots: &Slots,
        moment: Moment,
        newcomer: impl FnOnce(&D) -> D::Newcomer,
        end: Option<Expiry>,
        waker: Waker,
    ) -> Result<Option<Queued>, Full> {
        let mut waker = Some(waker);
        let joined = self.queue.write(|queue| {
            let newcomer = newcomer(&queue.waiting);
            queue.enter_or_join(slots, newcomer, end, &mut waker)
        });
        // The waker of a call that was not queued is dropped here, outside the lock.
        self.with_slot(slots, moment, matches!(joined, Ok(None)), || drop(waker));
        joined
    }

    /// Returns the fate of a waiting call; `None` if it still waits, and is woken by `waker`.
    ///
    /// One that gives up waits no longer. If a waker panics, the call's slot is freed.
    pub(in crate::concurrency) fn look(
        &self,
        slots: &Slots,
        moment: Moment,
        place: Place,
        gives_up: bool,
        waker: Waker,
    ) -> Option<Fate> {
        let mut waker = Some(waker);
        let withdrawn = self.queue.write(|queue| {
            let withdrawn = if gives_up { queue.withdraw(place) } else { queue.look(place, moment, &mut waker)? };
            if withdrawn.fate == Fate::Waiting {
                // It frees no slot, so no other call's fate is decided.
                queue.settle(slots, moment, Occupancy::dequeued);
            }
            Some(withdrawn)
        });
        let fate = withdrawn.as_ref().map(|withdrawn| withdrawn.fate);
        // Wakers are dropped outside the lock.
        self.with_slot(slots, moment, fate == Some(Fate::Granted), || drop((withdrawn, waker)));
        fate
    }

    /// Removes a call from the queue. If it has got a slot, that is freed.
    pub(in crate::concurrency) fn leave(&self, slots: &Slots, moment: Moment, place: Place) {
        let _dropped_outside_the_lock = self.and_wake(|queue| {
            let withdrawn = queue.withdraw(place);
            match withdrawn.fate {
                Fate::Waiting => queue.settle(slots, moment, Occupancy::dequeued),
                Fate::Granted => queue.settle(slots, moment, Occupancy::left),
                Fate::Refused(_) => {}
            }
            withdrawn
        });
    }

    /// Uses the queue under its lock, and then wakes the calls whose fate was decided.
    fn and_wake<T>(&self, act: impl FnOnce(&mut Queue<D>) -> T) -> T {
        let (result, (mut waker, mut has_more)) = self.queue.write(|queue| (act(queue), queue.take_waker()));
        while let Some(woken) = waker {
            if !has_more {
                woken.wake();
                break;
            }
            let rest = WakeTheRest(self);
            woken.wake();
            core::mem::forget(rest);
            (waker, has_more) = self.queue.write(Queue::take_waker);
        }
        result
    }

    /// Runs `act`, which may run user code, for a call that has got a slot: a panic frees the slot.
    fn with_slot(&self, slots: &Slots, moment: Moment, has_slot: bool, act: impl FnOnce()) {
        let slot = has_slot.then(|| Slot { queue: self, slots, moment });
        act();
        core::mem::forget(slot);
    }
}

/// A slot that no permit holds yet.
struct Slot<'a, D: Discipline> {
    queue: &'a SlotQueue<D>,
    slots: &'a Slots,
    moment: Moment,
}

impl<D: Discipline> Drop for Slot<'_, D> {
    fn drop(&mut self) {
        self.queue.release(self.slots, || self.moment);
    }
}

/// Wakes the calls whose fate was decided, if a waker has panicked.
///
/// Each may have a slot, which would be lost. If another waker panics then, the process aborts.
struct WakeTheRest<'a, D: Discipline>(&'a SlotQueue<D>);

impl<D: Discipline> Drop for WakeTheRest<'_, D> {
    fn drop(&mut self) {
        self.0.and_wake(|_| {});
    }
}
