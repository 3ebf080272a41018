//! Waiting for a key's tokens, first come, first served.

use super::KeyedLimiter;
use super::table::{Fingerprint, Table, TableReservation};
use super::tiers::{OwnTier, RememberedTier};
use crate::Acquire;
use crate::acquire::Awaited;
use crate::limit::{Denied, Place, Queue, Sealed, TokenBucket, TokensRequest};
use crate::time::Clock;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

/// Methods that wait for a key's tokens. Only limiters by the token bucket have them.
impl<K: Hash + ?Sized, C: Clock, S: BuildHasher> KeyedLimiter<K, C, S> {
    /// Prepares to wait for `n` tokens of this key, first come, first served.
    ///
    /// [`wait`](Acquire::wait) blocks the thread. A future waits by `.await` (feature `tokio`) or by
    /// [`sleeping_by`](Acquire::sleeping_by).
    ///
    /// The limiter stores nothing about a waiter, however many there are. While a caller waits for a key, checks of
    /// that key are refused. [`Quota::max_debt`](crate::Quota::max_debt) bounds how many tokens of a key callers may
    /// wait for: by default ten bursts. A caller beyond that is refused at once. Prefer [`within`](Acquire::within) to
    /// a timeout around the future, as for [`RateLimiter::acquire`](crate::RateLimiter::acquire).
    ///
    /// Waiters keep their places when other keys come and go. A caller may find no slot for a new key. It then waits in
    /// a shared bucket. Under [`WhenFull::DenyNew`](crate::WhenFull::DenyNew) such a caller is refused instead. Under
    /// [`EvictLeastIndebted`](crate::WhenFull::EvictLeastIndebted) it is refused unless its tokens are there at once.
    ///
    /// # Refunds and changes
    ///
    /// When a [`refund`](Self::refund), a [`reset`](Self::reset) or a larger burst brings the key's bucket out of debt,
    /// all its waiters are ready. Threads are woken at once, and futures look again within a second.
    ///
    /// A smaller refund does not change the times of waiters. But the next caller waits for less time, and may be
    /// served before the last of the waiters. If each call takes one token, it passes fewer waiters than tokens were
    /// refunded. Over any interval that starts without waiters, a key uses at most what its quota allows plus what was
    /// refunded.
    ///
    /// [`set_tier`](Self::set_tier) and [`clear`](Self::clear) do not change the times of waiters either: their tokens
    /// come at the rate of the tier in which they began to wait. A tier that refills nothing is different: `clear`
    /// makes its waiters ready, and after `set_tier` they wait until the bucket in the new tier is out of debt.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::{KeyedLimiter, Quota};
    ///
    /// let hosts = KeyedLimiter::<str>::builder(Quota::per_second(10).burst(5)).build()?;
    /// hosts.acquire("api.example.com", 5).wait()?;
    /// let late = hosts.acquire("api.example.com", 5).within(Duration::from_millis(100)).wait();
    /// assert!(late.is_err(), "refused at once: they would come in 500 ms");
    /// hosts.acquire("www.example.com", 5).wait()?; // has tokens of its own
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(&self, key: &K, n: u32) -> Acquire<KeyQueue<'_, K, C, S>> {
        let fingerprint = self.fingerprint(key);
        let queue = KeyQueue { limiter: self, key: fingerprint, own_tier: self.own_tier(fingerprint, key) };
        Acquire::new(TokensRequest::new(queue, n))
    }

    /// Takes `n` tokens of this key now, to be used when they are there.
    ///
    /// Callers are served in the order in which they reserve. [`acquire`](Self::acquire) explains how refunds and other
    /// changes affect them.
    ///
    /// # Errors
    ///
    /// [`Denied`] in one of these cases:
    ///
    /// - `n` exceeds the burst.
    /// - The debt would be deeper than [`Quota::max_debt`](crate::Quota::max_debt).
    /// - There is no slot for the key, and [`WhenFull`](crate::WhenFull) does not let it use a shared bucket.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use core::time::Duration;
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let hosts = KeyedLimiter::<str>::builder(Quota::per_second(10).burst(2)).clock(&clock).build()?;
    /// assert_eq!(hosts.reserve("a", 2)?.ready_in(), Some(Duration::ZERO));
    /// let slot = hosts.reserve("a", 2)?;
    /// assert_eq!(slot.ready_in(), Some(Duration::from_millis(200)));
    /// assert_eq!(hosts.reserve("b", 2)?.ready_in(), Some(Duration::ZERO));
    /// assert!(slot.cancel());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, key: &K, n: u32) -> Result<KeyedReservation<'_, C>, Denied> {
        self.acquire(key, n).reserve()
    }

    /// Reserves `n` tokens as [`reserve`](Self::reserve) does, if they are there within `longest`.
    ///
    /// If they come later than that, it takes none.
    ///
    /// # Errors
    ///
    /// [`Denied`] as for `reserve`, or if the tokens come later than `longest`.
    pub fn reserve_within(&self, key: &K, n: u32, longest: Duration) -> Result<KeyedReservation<'_, C>, Denied> {
        self.acquire(key, n).within(longest).reserve()
    }
}

/// The queue of one key's waiters. [`KeyedLimiter::acquire`] returns it.
pub struct KeyQueue<'a, K: ?Sized, C, S> {
    limiter: &'a KeyedLimiter<K, C, S>,
    key: Fingerprint,
    own_tier: OwnTier,
}

impl<K: ?Sized, C, S> Clone for KeyQueue<'_, K, C, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, C, S> Copy for KeyQueue<'_, K, C, S> {}

impl<K: ?Sized, C: fmt::Debug, S> fmt::Debug for KeyQueue<'_, K, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The fingerprint is not shown: it depends on a secret seed.
        f.debug_struct("KeyQueue").field("limiter", self.limiter).finish_non_exhaustive()
    }
}

impl<K: ?Sized, C, S> Sealed for KeyQueue<'_, K, C, S> {}

impl<K: ?Sized, C: Clock, S> Awaited for KeyQueue<'_, K, C, S> {
    type Request = TokensRequest<Self>;
}

impl<'a, K: ?Sized, C: Clock, S> Queue for KeyQueue<'a, K, C, S> {
    type Place = KeyedReservation<'a, C>;

    fn reserve(&self, n: u32, longest: Option<Duration>) -> Result<Self::Place, Denied> {
        let &Self { limiter: KeyedLimiter { table, tiers, clock, .. }, key, own_tier } = self;
        let reserved = table.reserve(key, n, longest, clock, || tiers.given_or(key, own_tier))?;
        Ok(KeyedReservation { table, clock, reserved, tier: tiers.remembered(own_tier) })
    }
}

/// Tokens of a key that were taken in advance. [`ready_in`](KeyedReservation::ready_in) says when to use them.
///
/// [`settle`](KeyedReservation::settle) corrects their number to what the call used, and
/// [`cancel`](KeyedReservation::cancel) gives them back if that is possible. If the reservation is dropped, all of them
/// count as used.
#[must_use = "the tokens are taken, and are not there before `ready_in` says"]
pub struct KeyedReservation<'a, C> {
    table: &'a Table<TokenBucket>,
    clock: &'a C,
    reserved: TableReservation<'a>,
    tier: RememberedTier<'a>,
}

impl<C: Clock> KeyedReservation<'_, C> {
    /// Returns the time from now until the tokens may be used.
    ///
    /// The time is rounded up to the clock's tick. It is zero if the tokens may be used now. The method returns `None`
    /// if they may never be used, because the quota was changed to one that refills nothing.
    ///
    /// A refund may shorten this time. If other callers then reserve tokens, the time may grow again, but never beyond
    /// what it was without the refund.
    #[must_use]
    pub fn ready_in(&self) -> Option<Duration> {
        self.table.ready_in(&self.reserved, self.clock)
    }

    /// Blocks the thread until the tokens are there.
    ///
    /// A refund, a reset or a change of the quota wakes the thread. It then waits as long as the new state requires.
    #[cfg(feature = "std")]
    pub fn wait(&self) {
        self.table.wait(&self.reserved, self.clock);
    }

    /// Corrects the number of tokens taken to the number that the call `used`.
    ///
    /// It is for costs that are known only afterwards: reserve an estimate, and settle when the true cost is known.
    ///
    /// - If the call used fewer tokens, the rest is given back, even if the time of these tokens has not come yet. This
    ///   affects waiters as a refund does, see [`acquire`](crate::KeyedLimiter::acquire).
    /// - The rest counts as used if it was taken from a bucket that is no longer the key's: after a
    ///   [`set_tier`](crate::KeyedLimiter::set_tier), a [`clear`](crate::KeyedLimiter::clear) or an eviction.
    /// - If the key had no slot when the tokens were taken, the rest is given back only in the cases in which
    ///   [`cancel`](Self::cancel) gives tokens back.
    /// - If the call used more tokens, the excess is booked as by [`charge`](crate::KeyedLimiter::charge), into debt if
    ///   necessary.
    /// - The excess may be lost if the key has no slot now and its tier is not known, because
    ///   [`retier`](crate::KeyedLimiter::retier) or [`clear_tier`](crate::KeyedLimiter::clear_tier) was called since, for
    ///   this key or another one that shares its lock: one of 64 does. Under
    ///   [`WhenFull::SharedOverflow`](crate::WhenFull::SharedOverflow) it is booked in the tier of the reservation instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// # #[cfg(feature = "std")] {
    /// use damper::{KeyedLimiter, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let tenants = KeyedLimiter::<str>::builder(Quota::per_minute(60_000)).clock(&clock).build()?;
    /// let call = tenants.reserve("acme", 8_000)?; // an estimate
    /// call.settle(3_000); // the bill
    /// assert_eq!(tenants.peek("acme").used(), 3_000);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(self, used: u32) {
        self.table.settle(&self.reserved, used, self.clock, |key| self.tier.of(key, self.table));
    }

    /// Gives all tokens back, or none, and returns whether it did.
    ///
    /// It gives them back only if no tokens of the key were taken after them and their time has not come yet. Tokens
    /// that are not given back count as used.
    #[expect(clippy::must_use_candidate, reason = "the caller may not care")]
    pub fn cancel(self) -> bool {
        self.table.cancel(&self.reserved, self.clock)
    }
}

impl<C: fmt::Debug> fmt::Debug for KeyedReservation<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedReservation").field("clock", self.clock).finish_non_exhaustive()
    }
}

impl<C: Clock> Place for KeyedReservation<'_, C> {
    fn ready_in(&self) -> Option<Duration> {
        Self::ready_in(self)
    }

    #[cfg(feature = "std")]
    fn wait(self) {
        Self::wait(&self);
    }

    fn cancel(self) -> bool {
        Self::cancel(self)
    }
}
