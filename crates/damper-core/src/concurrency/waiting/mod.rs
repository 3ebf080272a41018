//! Waiting for the costs of a call, which it takes from all limits at once.
//!
//! A call asks, joins a line if it is refused, sleeps until a waker wakes it or its tokens are due, and asks again. A
//! [`LimitSet`](crate::LimitSet) with a queue and a [`QuotaTree`](crate::QuotaTree) differ in their lines: a set has one, a tree
//! has one for each bucket. All the rest is here.
//!
//! Other waits are of another kind. A call that waits for a permit is *given* its slot by the call that leaves, and a call that
//! waits for a single limiter has *reserved* its tokens. Neither asks again.

// | file | idea |
// |---|---|
// | here | `Waitable`: the limits and their lines |
// | `stay` | `Stay`: one call's way through the lines, in steps |
// | `acquire` | `CostsRequest`: how to wait; and blocking |
// | `future` | `CostsFuture`: waiting in a future |

mod acquire;
mod future;
mod stay;

pub(crate) use acquire::CostsRequest;
pub(crate) use future::CostsFuture;

use crate::concurrency::Expiry;
use crate::time::Clock;
use core::ops::Deref;
use core::task::Waker;
use core::time::Duration;

/// Limits from which a call takes all of its costs or none, and the lines of calls that wait.
///
/// It is a [`LimitSet`](crate::LimitSet) with a queue, or a [`QuotaTree`](crate::QuotaTree). The trait is damper's own. It is
/// public because [`Acquire`](crate::Acquire) names its types.
pub trait Waitable: Sized {
    /// The costs of a call, and where it takes them.
    #[doc(hidden)]
    type Demand: Copy;

    /// The place of a call that waits.
    #[doc(hidden)]
    type Place;

    /// The costs that a call took.
    #[doc(hidden)]
    type Taken;

    /// The reservation of a call that was served.
    type Reservation<T: Deref<Target = Self>>;

    /// The refusal of a call that asked.
    #[doc(hidden)]
    type Denial: Denial + Into<Self::Refusal>;

    /// The refusal of a call that waited, or would have.
    type Refusal: Copy;

    #[doc(hidden)]
    type Clock: Clock;

    /// The refusal of a call whose time is over while others hold it up.
    #[doc(hidden)]
    const TIMED_OUT: Self::Refusal;

    /// The most lines in which one call stands.
    #[doc(hidden)]
    const LINES: usize;

    /// Returns the clock that times the waits.
    #[doc(hidden)]
    fn clock(&self) -> &Self::Clock;

    /// Takes the costs, or nothing. It overtakes the calls that wait.
    #[doc(hidden)]
    fn take(&self, demand: &Self::Demand) -> Result<Self::Taken, Self::Denial>;

    /// Returns the refusal that a call would get if it asked now. Takes nothing.
    #[doc(hidden)]
    fn refusal(&self, demand: &Self::Demand) -> Option<Self::Denial>;

    /// Returns whether a newcomer would overtake calls that wait.
    #[doc(hidden)]
    fn holds_up(&self, demand: &Self::Demand) -> bool;

    /// Gives a newcomer a place behind the calls that hold it up; `None` if they have just left.
    #[doc(hidden)]
    fn arrive(
        &self,
        demand: &Self::Demand,
        expiry: Option<Expiry>,
        waker: &Waker,
    ) -> Result<Option<Self::Place>, Self::Refusal>;

    /// Gives a call a place that was refused when it asked. It has to look and ask again then.
    #[doc(hidden)]
    fn join(
        &self,
        demand: &Self::Demand,
        denial: &Self::Denial,
        expiry: Option<Expiry>,
        waker: &Waker,
    ) -> Result<Self::Place, Self::Refusal>;

    /// Returns whether the call may ask now.
    ///
    /// `waker` wakes it from now on when that, or the answer, may have changed. So a call that may ask has left its waker
    /// before it asks, and a later settlement wakes it.
    #[doc(hidden)]
    fn look(&self, demand: &Self::Demand, place: &mut Self::Place, waker: &Waker) -> Turn;

    /// Notes that a call was refused when it asked.
    ///
    /// It returns whether a settlement since the last look wakes the call. If not, the call has to look and ask again.
    #[doc(hidden)]
    fn refused(&self, demand: &Self::Demand, place: &Self::Place, denial: &Self::Denial) -> bool;

    /// Removes a call from the lines, and wakes the next ones.
    #[doc(hidden)]
    fn leave(&self, place: Self::Place);

    /// Makes the reservation of costs that were taken, and removes the call from the lines.
    #[doc(hidden)]
    fn reservation<T: Deref<Target = Self>>(
        limits: T,
        demand: &Self::Demand,
        taken: Self::Taken,
        place: Option<Self::Place>,
    ) -> Self::Reservation<T>;
}

/// A pointer to limits that calls wait for: a reference, or an `Arc`.
pub trait WaitableRef: Deref<Target: Waitable> {}

impl<T: Deref<Target: Waitable>> WaitableRef for T {}

/// The refusal of a call that asked.
///
/// The trait is damper's own.
pub trait Denial {
    /// Returns whether no wait, settlement or change of the level helps.
    #[doc(hidden)]
    fn is_final(&self) -> bool;

    /// Returns the time after which the tokens are there, if it is known.
    #[doc(hidden)]
    fn due_in(&self) -> Option<Duration>;
}

/// The result of a look at the lines.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Turn {
    /// No other call holds this one up.
    MayAsk,
    /// Another call does. The call has to look again when it is woken, or after this time.
    HeldUp(Option<Duration>),
}
