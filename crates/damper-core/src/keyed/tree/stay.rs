//! One call's way through the lines of a tree, in steps.

use super::decision::Call;
use super::lines::{Bucket, Full, Place};
use super::reservation::TreeRef;
use super::reservation::sealed::Settles;
use super::{QuotaTree, Step, TreeAcquire, TreeDenied, TreeRefusal, TreeReservation};
use crate::concurrency::Expiry;
use crate::keyed::table::PlannedCheck;
use crate::limit::Denied;
use crate::time::{Clock, Frequency, Ticks};
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::ops::Deref;
use core::task::Waker;
use core::time::Duration;

/// The longest time after which the first call of a line asks again.
///
/// Tokens that no settlement gave back wake no call.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A call that is to be served, until it is or has left.
pub struct Stay<'a, T: TreeRef, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> {
    /// `None` once the call was served or refused.
    acquire: Option<TreeAcquire<'a, T, K, LEVELS, DIMENSIONS>>,
    expiry: Option<Expiry>,
    /// `None` before it has to wait.
    place: Option<Place>,
    has_arrived: bool,
}

/// The next thing for a call to do.
#[derive(Debug)]
pub enum Progress<R> {
    /// It has its reservation, or is refused.
    Over(Result<R, TreeRefusal>),
    /// It has to look again when it is woken, or after this time; `None` is for ever.
    Wait(Option<Duration>),
}

/// A wait for a tree, as [`TreeAcquire`] describes it.
///
/// The trait is damper's own. It is public because [`TreeAcquireFuture`](super::TreeAcquireFuture) names it.
pub trait Waits {
    /// The reservation of a call that was served.
    type Reservation;

    /// The way of a call through the lines.
    #[doc(hidden)]
    type Stay: fmt::Debug;

    /// Looks whether the call can be served; if not, `waker` wakes it when that may have changed.
    #[doc(hidden)]
    fn step(stay: &mut Self::Stay, waker: &Waker) -> Progress<Self::Reservation>;
}

impl<'a, T, K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher> Waits
    for TreeAcquire<'a, T, K, LEVELS, DIMENSIONS>
where
    T: Deref<Target = QuotaTree<K, LEVELS, DIMENSIONS, C, S>> + Clone,
{
    type Reservation = TreeReservation<T>;
    type Stay = Stay<'a, T, K, LEVELS, DIMENSIONS>;

    fn step(stay: &mut Self::Stay, waker: &Waker) -> Progress<TreeReservation<T>> {
        stay.step(waker)
    }
}

impl<'a, T, K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    Stay<'a, T, K, LEVELS, DIMENSIONS>
where
    T: Deref<Target = QuotaTree<K, LEVELS, DIMENSIONS, C, S>> + Clone,
{
    pub(super) fn new(acquire: TreeAcquire<'a, T, K, LEVELS, DIMENSIONS>) -> Self {
        Self { acquire: Some(acquire), expiry: None, place: None, has_arrived: false }
    }

    /// Looks whether the call can be served; if not, `waker` wakes it when that may have changed.
    pub(super) fn step(&mut self, waker: &Waker) -> Progress<TreeReservation<T>> {
        let Some(acquire) = &mut self.acquire else { return Progress::Wait(None) };
        let (tree, path, costs) = (acquire.tree.clone(), acquire.path, acquire.costs);
        if !self.has_arrived {
            self.has_arrived = true;
            self.expiry = acquire.patience.begin(&tree.clock);
            match self.arrive(&tree, waker) {
                Ok(None) => {}
                Ok(Some(served)) => return self.serve(served),
                Err(refusal) => return self.end(refusal),
            }
        }
        // Each round but the last is one in which another bucket refused, because other calls were faster.
        for _ in 0..=LEVELS * DIMENSIONS {
            let Some(place) = &mut self.place else { break };
            if !tree.lines.look(place, tree.buckets_of(path, costs), waker) {
                if is_over(self.expiry, &tree) {
                    return self.end(TreeRefusal::TimedOut);
                }
                return Progress::Wait(self.expiry.map(|expiry| expiry.remaining(&tree.clock)));
            }
            match TreeReservation::new(tree.clone(), path, costs) {
                Ok(served) => return self.serve(served),
                Err(denied) if denied.is_final() || is_over(self.expiry, &tree) => return self.end(denied.into()),
                Err(denied) => {
                    let bucket = tree.bucket_of(path, &denied);
                    if place.bucket() == bucket {
                        let due = denied.retry_after().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
                        let rest = self.expiry.map(|expiry| expiry.remaining(&tree.clock));
                        return Progress::Wait(Some(rest.map_or(due, |rest| rest.min(due))));
                    }
                    // The tokens may have come between the question and the move, so it asks again.
                    tree.lines.move_to(place, bucket);
                }
            }
        }
        Progress::Wait(Some(Duration::ZERO))
    }

    /// Serves a call that no other holds up, or gives it a place.
    fn arrive(&mut self, tree: &T, waker: &Waker) -> Result<Option<TreeReservation<T>>, TreeRefusal> {
        let Some(&TreeAcquire { path, costs, .. }) = self.acquire.as_ref() else { return Ok(None) };
        self.place = tree.lines.arrive(tree.buckets_of(path, costs), waker).map_err(|Full| TreeRefusal::QueueFull)?;
        if self.place.is_some() {
            // One that can never be served does not wait.
            return match tree.final_refusal(path, costs) {
                Some(denied) => Err(denied.into()),
                None if is_over(self.expiry, tree) => Err(TreeRefusal::TimedOut),
                None => Ok(None),
            };
        }
        match TreeReservation::new(tree.clone(), path, costs) {
            Ok(served) => Ok(Some(served)),
            Err(denied) if denied.is_final() || is_over(self.expiry, tree) => Err(denied.into()),
            Err(denied) => {
                let joined = tree.lines.join(tree.bucket_of(path, &denied), waker);
                self.place = Some(joined.map_err(|Full| TreeRefusal::QueueFull)?);
                Ok(None)
            }
        }
    }

    fn serve(&mut self, served: TreeReservation<T>) -> Progress<TreeReservation<T>> {
        self.leave();
        Progress::Over(Ok(served))
    }

    fn end(&mut self, refusal: TreeRefusal) -> Progress<TreeReservation<T>> {
        self.leave();
        Progress::Over(Err(refusal))
    }
}

/// Returns whether the time that a call has to wait is over.
fn is_over<T, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S>(
    expiry: Option<Expiry>,
    tree: &T,
) -> bool
where
    T: Deref<Target = QuotaTree<K, LEVELS, DIMENSIONS, C, S>>,
{
    expiry.is_some_and(|expiry| expiry.has_passed(tree.clock.now()))
}

impl<T: TreeRef, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> Stay<'_, T, K, LEVELS, DIMENSIONS> {
    /// Leaves the line, and wakes the next call.
    fn leave(&mut self) {
        if let (Some(acquire), Some(place)) = (self.acquire.take(), self.place.take()) {
            acquire.tree.lines().leave(place);
        }
    }
}

impl<K: Hash + ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S: BuildHasher>
    QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    /// Returns the buckets in whose lines a call may have to wait.
    fn buckets_of(
        &self,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> impl Iterator<Item = Bucket> {
        let buckets = self.buckets(path);
        (0..LEVELS).flat_map(move |level| {
            (0..DIMENSIONS)
                .filter(move |&dimension| self.may_wait(&Call { buckets: &buckets, path, costs }, level, dimension))
                .map(move |dimension| Bucket::new(level, buckets[level][dimension]))
        })
    }

    /// Returns the bucket that refused a call.
    fn bucket_of(&self, path: &[Step<'_, K, DIMENSIONS>; LEVELS], denied: &TreeDenied) -> Bucket {
        let hash = self.hasher.hash_one(path[denied.level()].0);
        Bucket::new(denied.level(), Self::bucket(hash, denied.dimension()))
    }

    /// Returns the refusal of a call that no wait helps.
    fn final_refusal(&self, path: &[Step<'_, K, DIMENSIONS>; LEVELS], costs: [u32; DIMENSIONS]) -> Option<TreeDenied> {
        let refused = self.refusal(&Call { buckets: &self.buckets(path), path, costs })?;
        Some(self.denied(refused, path, false)).filter(TreeDenied::is_final)
    }

    /// Returns the refusal of a call that does not wait, if others wait for one of its buckets.
    #[inline]
    pub(super) fn held_up(&self, call: &Call<'_, '_, K, LEVELS, DIMENSIONS>) -> Option<TreeDenied> {
        if self.lines.waiting() == 0 { None } else { self.behind_waiters(call) }
    }

    #[cold]
    fn behind_waiters(&self, call: &Call<'_, '_, K, LEVELS, DIMENSIONS>) -> Option<TreeDenied> {
        let awaited = self.lines.with_waiters(self.buckets_of(call.path, call.costs))?;
        for (level, (buckets, (_, plans))) in call.buckets.iter().zip(call.path).enumerate() {
            for (dimension, (&bucket, plan)) in buckets.iter().zip(plans).enumerate() {
                if Bucket::new(level, bucket) == awaited {
                    // The tokens that are there belong to the calls that wait.
                    let all = PlannedCheck { plan, n: plan.burst(), keep: 0 };
                    let full = self.levels[level].table.refusal_planned(bucket, all, &self.clock);
                    let denied = full.unwrap_or_else(|| {
                        let frequency = Frequency::from_hertz(self.clock.frequency());
                        Denied::counted_by(frequency, plan.burst(), Ticks::ZERO, Ticks::new(1))
                    });
                    return Some(self.denied((denied, (level, dimension)), call.path, false).behind_waiters());
                }
            }
        }
        None
    }
}

impl<T: TreeRef, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> Drop for Stay<'_, T, K, LEVELS, DIMENSIONS> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T: TreeRef, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> fmt::Debug
    for Stay<'_, T, K, LEVELS, DIMENSIONS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stay").field("acquire", &self.acquire).finish_non_exhaustive()
    }
}
