//! One call's way through the lines of a tree, in steps.

use super::decision::{Call, Refused, longer};
use super::lines::{Bucket, Full, Look, Ticket};
use super::reservation::TreeRef;
use super::reservation::sealed::Settles;
use super::{PerWord, QuotaTree, Step, TreeAcquire, TreeDenied, TreeRefusal, TreeReservation, per_word};
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
    ticket: Option<Ticket>,
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
        Self { acquire: Some(acquire), expiry: None, ticket: None, has_arrived: false }
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
            let Some(ticket) = self.ticket else { break };
            let now = tree.clock.now();
            if let Look::HeldUp(until) =
                tree.lines.look(ticket, tree.buckets_of(path, costs), tree.guarantee_of(path, costs), now, waker)
            {
                if self.is_over(now) {
                    return self.end(TreeRefusal::TimedOut);
                }
                let until = [self.expiry, until].into_iter().flatten().map(|expiry| expiry.remaining(&tree.clock));
                return Progress::Wait(until.chain(tree.guaranteed_in(path, costs)).min());
            }
            match TreeReservation::new(tree.clone(), &Call { buckets: &tree.buckets(path), path, costs }) {
                Ok(served) => return self.serve(served),
                Err(denied) if denied.is_final() || self.is_over(tree.clock.now()) => return self.end(denied.into()),
                Err(denied) => {
                    // If it joins the line only now, the tokens may have come before, so it asks again.
                    let bucket = tree.bucket_of(path, &denied);
                    let guarantee = tree.guarantee_of(path, costs)(bucket);
                    if tree.lines.refused(ticket, bucket, guarantee, tree.due(&denied), now) {
                        let due = denied.retry_after().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
                        let rest = self.expiry.map(|expiry| expiry.remaining(&tree.clock));
                        return Progress::Wait(Some(rest.map_or(due, |rest| rest.min(due))));
                    }
                }
            }
        }
        Progress::Wait(Some(Duration::ZERO))
    }

    /// Serves a call that no other holds up, or gives it a place.
    fn arrive(&mut self, tree: &T, waker: &Waker) -> Result<Option<TreeReservation<T>>, TreeRefusal> {
        let Some(&TreeAcquire { path, costs, .. }) = self.acquire.as_ref() else { return Ok(None) };
        if tree.lines.waiting() > 0 {
            let now = tree.clock.now();
            let (buckets, guarantee_of) = (tree.buckets_of(path, costs), tree.guarantee_of(path, costs));
            let arrived = tree.lines.arrive(buckets, guarantee_of, self.expiry, now, waker);
            self.ticket = arrived.map_err(|full| tree.no_place(path, full))?;
            if self.ticket.is_some() {
                // One that can never be served does not wait.
                return match tree.final_refusal(path, costs) {
                    Some(denied) => Err(denied.into()),
                    None if self.is_over(now) => Err(TreeRefusal::TimedOut),
                    None => Ok(None),
                };
            }
        }
        match TreeReservation::new(tree.clone(), &Call { buckets: &tree.buckets(path), path, costs }) {
            Ok(served) => Ok(Some(served)),
            Err(denied) => {
                let now = tree.clock.now();
                if denied.is_final() || self.is_over(now) {
                    return Err(denied.into());
                }
                let (bucket, guarantee_of) = (tree.bucket_of(path, &denied), tree.guarantee_of(path, costs));
                let joined = tree.lines.join(bucket, guarantee_of, tree.due(&denied), self.expiry, now, waker);
                self.ticket = Some(joined.map_err(|full| tree.no_place(path, full))?);
                Ok(None)
            }
        }
    }

    /// Returns whether the time that the call has to wait is over.
    fn is_over(&self, now: u64) -> bool {
        self.expiry.is_some_and(|expiry| expiry.has_passed(now))
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

impl<T: TreeRef, K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize> Stay<'_, T, K, LEVELS, DIMENSIONS> {
    /// Leaves the lines, and wakes the next calls.
    fn leave(&mut self) {
        if let (Some(acquire), Some(ticket)) = (self.acquire.take(), self.ticket.take()) {
            acquire.tree.leave(ticket);
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

    /// Returns a function that finds the guarantee that a call is beyond if it has to wait at a bucket.
    ///
    /// There is none if it could never have the call's cost. Otherwise a large call that has to borrow would keep the
    /// guarantee from the small ones of the same key.
    fn guarantee_of(
        &self,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> impl Fn(Bucket) -> Option<Bucket> {
        let buckets = self.buckets(path);
        move |bucket| {
            let before = bucket.level().checked_sub(1)?;
            let dimension = buckets[bucket.level()].iter().position(|&other| bucket.is_of(other))?;
            let (plan, cost) = (path[before].1[dimension], costs[dimension]);
            let guarantees = self.levels[before].is_guarantee && !plan.is_unlimited() && cost <= plan.burst();
            guarantees.then(|| Bucket::new(before, buckets[before][dimension]))
        }
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

    /// Returns the tick at which a refused call has its tokens, as far as is known.
    fn due(&self, denied: &TreeDenied) -> u64 {
        denied.retry_after().map_or_else(|| self.clock.now(), |wait| Expiry::after(wait, &self.clock).tick())
    }

    /// Returns the waits until guarantees that the call is beyond now are refilled.
    ///
    /// Then it no longer waits behind calls that borrow.
    fn guaranteed_in(
        &self,
        path: &[Step<'_, K, DIMENSIONS>; LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> impl Iterator<Item = Duration> {
        let buckets = self.buckets(path);
        let words = (0..LEVELS).flat_map(|level| (0..DIMENSIONS).map(move |dimension| (level, dimension)));
        let guarantees = words.filter(move |&(place, dimension)| {
            self.levels[place].is_guarantee && costs[dimension] > 0 && !path[place].1[dimension].is_unlimited()
        });
        guarantees.flat_map(move |(place, dimension)| {
            let (level, plan) = (&self.levels[place], path[place].1[dimension]);
            // A guarantee may itself be borrowed from, within a guarantee of the level before.
            [0, level.keep(plan, false)].into_iter().filter_map(move |keep| {
                let demand = PlannedCheck { plan, n: costs[dimension], keep };
                let refusal = level.table.refusal_planned(buckets[place][dimension], demand, &self.clock);
                Some(refusal?.retry_after()?.min(LONGEST_SLEEP))
            })
        })
    }

    /// Returns the refusal of a call for which there is no place.
    fn no_place(&self, path: &[Step<'_, K, DIMENSIONS>; LEVELS], full: Full) -> TreeRefusal {
        match full {
            Full::Queue => TreeRefusal::QueueFull,
            Full::Line(bucket) => {
                let hash = self.hasher.hash_one(path[bucket.level()].0);
                let dimension = (0..DIMENSIONS).find(|&dimension| bucket.is_of(Self::bucket(hash, dimension)));
                let dimension = dimension.map_or("", |dimension| self.dimensions[dimension]);
                TreeRefusal::LineFull { level: self.levels[bucket.level()].name, dimension }
            }
        }
    }

    /// Returns the refusal of a call that does not wait, if others wait for one of its buckets.
    #[inline]
    pub(super) fn held_up(&self, call: &Call<'_, '_, K, LEVELS, DIMENSIONS>) -> Option<TreeDenied> {
        if self.lines.waiting() == 0 { None } else { self.behind_waiters(call) }
    }

    #[cold]
    fn behind_waiters(&self, call: &Call<'_, '_, K, LEVELS, DIMENSIONS>) -> Option<TreeDenied> {
        let now = self.clock.now();
        let mut awaited: PerWord<Option<u64>, LEVELS, DIMENSIONS> = [[None; DIMENSIONS]; LEVELS];
        self.lines.read(|waiters| {
            awaited = per_word(|level, dimension| {
                let due = waiters.due_at(Bucket::new(level, call.buckets[level][dimension]), now)?;
                self.may_wait(call, level, dimension).then_some(due)
            });
        });
        let mut longest: Option<Refused> = None;
        for (level, awaited) in awaited.iter().enumerate() {
            for (dimension, due) in awaited.iter().enumerate() {
                if let Some(due) = *due {
                    let place = (level, dimension);
                    longest = longer(longest, Some((self.denied_until(call, place, due.wrapping_sub(now)), place)));
                }
            }
        }
        // A bucket for which no call waits may refuse for longer, or for ever.
        let longest = longer(self.refusal(call), Some(longest?))?;
        Some(self.denied(longest, call.path, false).behind_waiters())
    }

    /// Returns the refusal of a bucket whose tokens belong to the calls that wait.
    ///
    /// The tokens of the first of them are due in `ticks`.
    /// Its wait is the longest of that, of the time until the bucket is full, and of the time of one token.
    fn denied_until(
        &self,
        call: &Call<'_, '_, K, LEVELS, DIMENSIONS>,
        (level, dimension): (usize, usize),
        ticks: u64,
    ) -> Denied {
        let (bucket, plan) = (call.buckets[level][dimension], call.path[level].1[dimension]);
        let all = PlannedCheck { plan, n: plan.burst(), keep: 0 };
        let full = self.levels[level].table.refusal_planned(bucket, all, &self.clock);
        let frequency = Frequency::from_hertz(self.clock.frequency());
        let token = plan.quota().window().checked_div(plan.quota().limit()).unwrap_or(LONGEST_SLEEP);
        let token = Ticks::within(token, frequency).count().saturating_add(1);
        // A tick in the past is one beyond half of the range.
        let wait = Ticks::new(if ticks > u64::MAX / 2 { token } else { ticks.max(token) });
        let (remaining, resets_in) = match &full {
            Some(full) => {
                (full.remaining(), full.resets_in().map_or(Ticks::NEVER, |time| Ticks::within(time, frequency)))
            }
            None => (plan.burst(), Ticks::ZERO),
        };
        let waiters = Denied::counted_by(frequency, remaining, resets_in, wait);
        full.filter(|full| full.outlasts(&waiters)).unwrap_or(waiters)
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
