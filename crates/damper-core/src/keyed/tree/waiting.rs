//! The wait of a call in the lines of a tree: which calls it waits behind, and when it tries again.

use super::decision::{Call, Plans, Refused, longer};
use super::lines::{Bucket, Full, Look, Ticket};
use super::reservation::TakenPath;
use super::{PerWord, QuotaTree, TreeAllowed, TreeDenied, TreeRefusal, TreeReservation, per_word};
use crate::acquire::awaited;
use crate::concurrency::{CostsRequest, Denial, Expiry, Turn, Waitable};
use crate::keyed::table::{Fingerprint, PlannedCheck};
use crate::limit::Denied;
use crate::quota::Plan;
use crate::time::{Clock, Frequency, Ticks};
use core::fmt;
use core::ops::Deref;
use core::task::Waker;
use core::time::Duration;

/// The longest time that a call sleeps before it looks again whether its guarantee is refilled.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The costs for which a call waits, with the buckets of its path and their plans.
#[derive(Clone, Copy)]
pub struct PathCosts<const LEVELS: usize, const DIMENSIONS: usize> {
    buckets: PerWord<Fingerprint, LEVELS, DIMENSIONS>,
    plans: PerWord<Plan, LEVELS, DIMENSIONS>,
    costs: [u32; DIMENSIONS],
}

impl<const LEVELS: usize, const DIMENSIONS: usize> PathCosts<LEVELS, DIMENSIONS> {
    pub(super) fn new(
        buckets: PerWord<Fingerprint, LEVELS, DIMENSIONS>,
        plans: &impl Plans<LEVELS, DIMENSIONS>,
        costs: [u32; DIMENSIONS],
    ) -> Self {
        Self { buckets, plans: per_word(|level, dimension| *plans.plan(level, dimension)), costs }
    }

    fn call(&self) -> Call<'_, PerWord<Plan, LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS> {
        Call { buckets: &self.buckets, plans: &self.plans, costs: self.costs }
    }

    fn bucket(&self, level: usize, dimension: usize) -> Bucket {
        Bucket::new(level, self.buckets[level][dimension])
    }

    /// Returns the bucket that refused the call.
    fn refused_at(&self, denied: &TreeDenied) -> Bucket {
        self.bucket(denied.level(), denied.dimension())
    }

    fn dimension_of(&self, bucket: Bucket) -> Option<usize> {
        self.buckets[bucket.level()].iter().position(|&other| bucket.is_of(other))
    }
}

impl<const LEVELS: usize, const DIMENSIONS: usize> fmt::Debug for PathCosts<LEVELS, DIMENSIONS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The fingerprints are left out, because they depend on a secret seed.
        f.debug_struct("PathCosts").field("costs", &self.costs).finish_non_exhaustive()
    }
}

awaited!(
    [K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S] QuotaTree<K, LEVELS, DIMENSIONS, C, S>,
    CostsRequest
);

impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> Waitable
    for QuotaTree<K, LEVELS, DIMENSIONS, C, S>
{
    type Demand = PathCosts<LEVELS, DIMENSIONS>;
    type Place = Ticket;
    type Taken = (TreeAllowed, TakenPath<LEVELS, DIMENSIONS>);
    type Reservation<T: Deref<Target = Self>> = TreeReservation<T>;
    type Denial = TreeDenied;
    type Refusal = TreeRefusal;
    type Clock = C;

    const TIMED_OUT: TreeRefusal = TreeRefusal::TimedOut;

    const LINES: usize = LEVELS * DIMENSIONS;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn take(&self, path: &Self::Demand) -> Result<Self::Taken, TreeDenied> {
        self.take_to_settle(&path.call())
    }

    fn refusal(&self, path: &Self::Demand) -> Option<TreeDenied> {
        let refused = QuotaTree::refusal(self, &path.call())?;
        Some(self.denied(refused, &path.call(), false))
    }

    fn holds_up(&self, path: &Self::Demand) -> bool {
        self.lines.waiting() > 0 && {
            let now = self.clock.now();
            self.lines.read(|waiters| waiters.held_up_at(Ticket::NEWEST, self.buckets_of(path), now).is_some())
        }
    }

    fn arrive(
        &self,
        path: &Self::Demand,
        expiry: Option<Expiry>,
        waker: &Waker,
    ) -> Result<Option<Ticket>, TreeRefusal> {
        let arrived =
            self.lines.arrive(self.buckets_of(path), self.guarantee_of(path), expiry, self.clock.now(), waker);
        arrived.map_err(|full| self.no_place(path, full))
    }

    fn join(
        &self,
        path: &Self::Demand,
        denied: &TreeDenied,
        expiry: Option<Expiry>,
        waker: &Waker,
    ) -> Result<Ticket, TreeRefusal> {
        let (bucket, now) = (path.refused_at(denied), self.clock.now());
        let joined = self.lines.join(bucket, self.guarantee_of(path), self.due(denied), expiry, now, waker);
        joined.map_err(|full| self.no_place(path, full))
    }

    fn look(&self, path: &Self::Demand, ticket: &mut Ticket, waker: &Waker) -> Turn {
        let now = self.clock.now();
        match self.lines.look(*ticket, self.buckets_of(path), self.guarantee_of(path), now, waker) {
            Look::MayAsk => Turn::MayAsk,
            Look::HeldUp(until) => {
                let until = until.map(|expiry| expiry.remaining(&self.clock));
                Turn::HeldUp(until.into_iter().chain(self.guaranteed_in(path)).min())
            }
        }
    }

    fn refused(&self, path: &Self::Demand, ticket: &Ticket, denied: &TreeDenied) -> bool {
        // If the call joins the line only now, the bucket may have got the tokens just before. `Lines::refused` then
        // returns `false`, and the call asks again.
        let bucket = path.refused_at(denied);
        self.lines.refused(*ticket, bucket, self.guarantee_of(path)(bucket), self.due(denied), self.clock.now())
    }

    fn leave(&self, ticket: Ticket) {
        self.lines.leave(ticket, self.clock.now());
    }

    fn reservation<T: Deref<Target = Self>>(
        tree: T,
        path: &Self::Demand,
        taken: Self::Taken,
        ticket: Option<Ticket>,
    ) -> TreeReservation<T> {
        let reservation = TreeReservation::of(tree, path.costs, taken);
        if let Some(ticket) = ticket {
            reservation.tree().leave(ticket);
        }
        reservation
    }
}

impl Denial for TreeDenied {
    fn is_final(&self) -> bool {
        self.denied().exceeds_burst()
    }

    fn due_in(&self) -> Option<Duration> {
        self.retry_after()
    }
}

/// How a call waits: in which lines it stands, and when its tokens are due.
impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> QuotaTree<K, LEVELS, DIMENSIONS, C, S> {
    /// Returns the buckets in whose lines a call may have to wait.
    fn buckets_of(&self, path: &PathCosts<LEVELS, DIMENSIONS>) -> impl Iterator<Item = Bucket> {
        let words = (0..LEVELS).flat_map(|level| (0..DIMENSIONS).map(move |dimension| (level, dimension)));
        let awaited = words.filter(|&(level, dimension)| self.may_wait(&path.call(), level, dimension));
        awaited.map(|(level, dimension)| path.bucket(level, dimension))
    }

    /// Returns a function that finds the guarantee for a bucket at the level before, if there is one.
    ///
    /// A call that waits at the bucket also stands in the line of this guarantee. The function returns no guarantee
    /// whose burst is smaller than the call's cost. Otherwise a large call, which can only borrow, would keep the
    /// guarantee from small calls of the same key.
    fn guarantee_of(&self, path: &PathCosts<LEVELS, DIMENSIONS>) -> impl Fn(Bucket) -> Option<Bucket> {
        |bucket| {
            let before = bucket.level().checked_sub(1)?;
            let dimension = path.dimension_of(bucket)?;
            let (plan, cost) = (&path.plans[before][dimension], path.costs[dimension]);
            let guarantees = self.levels[before].is_guarantee && !plan.is_unlimited() && cost <= plan.burst();
            guarantees.then(|| path.bucket(before, dimension))
        }
    }

    /// Returns the tick at which a refused call has its tokens, or the present tick if no wait is known.
    fn due(&self, denied: &TreeDenied) -> u64 {
        denied.retry_after().map_or_else(|| self.clock.now(), |wait| Expiry::after(wait, &self.clock).tick())
    }

    /// Returns the waits until a guarantee that lacks the call's costs has them, each at most one second.
    ///
    /// After such a wait the call is within that guarantee, and no longer has to wait behind calls that borrow.
    fn guaranteed_in(&self, path: &PathCosts<LEVELS, DIMENSIONS>) -> impl Iterator<Item = Duration> {
        let words = (0..LEVELS).flat_map(|level| (0..DIMENSIONS).map(move |dimension| (level, dimension)));
        let guarantees =
            words.filter(|&(place, dimension)| self.levels[place].is_guarantee && path.call().takes(place, dimension));
        guarantees.flat_map(move |(place, dimension)| {
            let (level, plan) = (&self.levels[place], &path.plans[place][dimension]);
            // There are two waits: until the guarantee has the costs, and until it also has the part kept for the level
            // before. A call that borrows from this guarantee has to leave that part.
            [0, level.keep(plan, false)].into_iter().filter_map(move |keep| {
                let demand = PlannedCheck { plan, n: path.costs[dimension], keep };
                let refusal = level.table.refusal_planned(path.buckets[place][dimension], demand, &self.clock);
                Some(refusal?.retry_after()?.min(LONGEST_SLEEP))
            })
        })
    }

    /// Returns the refusal of a call for which there is no place to wait.
    fn no_place(&self, path: &PathCosts<LEVELS, DIMENSIONS>, full: Full) -> TreeRefusal {
        match full {
            Full::Queue => TreeRefusal::QueueFull,
            Full::Line(bucket) => {
                let dimension = path.dimension_of(bucket).map_or("", |dimension| self.dimensions[dimension]);
                TreeRefusal::LineFull { level: self.levels[bucket.level()].name, dimension }
            }
        }
    }
}

/// How a call that does not wait is refused while others wait.
impl<K: ?Sized, const LEVELS: usize, const DIMENSIONS: usize, C: Clock, S> QuotaTree<K, LEVELS, DIMENSIONS, C, S> {
    /// Returns the refusal of a call that does not wait, if others wait for one of its buckets.
    #[inline]
    pub(super) fn held_up(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
    ) -> Option<TreeDenied> {
        if self.lines.waiting() == 0 { None } else { self.behind_waiters(call) }
    }

    #[cold]
    fn behind_waiters(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
    ) -> Option<TreeDenied> {
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
        // A bucket for which no call waits may refuse this call for longer, or for ever.
        let longest = longer(self.refusal(call), Some(longest?))?;
        Some(self.denied(longest, call, false).behind_waiters())
    }

    /// Returns the refusal by a bucket for which other calls wait.
    ///
    /// The tokens of the first of these calls are due in `ticks`. The wait of the refusal is the longest of three:
    /// `ticks`, the time until the bucket is full, and the time in which one token is refilled.
    fn denied_until(
        &self,
        call: &Call<'_, impl Plans<LEVELS, DIMENSIONS>, LEVELS, DIMENSIONS>,
        (level, dimension): (usize, usize),
        ticks: u64,
    ) -> Denied {
        let (bucket, plan) = (call.buckets[level][dimension], call.plan(level, dimension));
        let all = PlannedCheck { plan, n: plan.burst(), keep: 0 };
        let full = self.levels[level].table.refusal_planned(bucket, all, &self.clock);
        let frequency = Frequency::from_hertz(self.clock.frequency());
        let token = plan.quota().window().checked_div(plan.quota().limit()).unwrap_or(LONGEST_SLEEP);
        let token = Ticks::within(token, frequency).count().saturating_add(1);
        // `ticks` is a wrapping difference. A value above half of the range is a time in the past.
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
