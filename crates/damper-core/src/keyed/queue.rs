//! Waits for a key's tokens, first come, first served.

use super::KeyedLimiter;
use super::table::{Fingerprint, Table, TableReservation};
use super::tiers::OwnTier;
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
    /// wait for: ten bursts unless set. A caller beyond that is refused at once. Prefer [`within`](Acquire::within) to
    /// a timeout around the future, as for [`RateLimiter::acquire`](crate::RateLimiter::acquire).
    ///
    /// Waiters keep their places when other keys come and go. A caller for a new key that finds no slot waits in a
    /// shared bucket. Under [`WhenFull::DenyNew`](crate::WhenFull::DenyNew) such a caller is refused, and under
    /// [`EvictLeastIndebted`](crate::WhenFull::EvictLeastIndebted) it is refused unless its tokens are there at once.
    ///
    /// # Refunds and changes
    ///
    /// When a [`refund`](Self::refund), a [`reset`](Self::reset) or a larger burst brings the key's bucket out of debt,
    /// all its waiters are ready. A smaller refund keeps them in place and makes room for the next caller. If each call
    /// takes one token, that caller may be served together with as many earlier waiters as tokens were refunded. Over
    /// any interval that starts without waiters, a key uses at most what its quota allows plus what was refunded.
    /// Threads are woken at once, and futures look again within a second.
    ///
    /// [`set_tier`](Self::set_tier) and [`clear`](Self::clear) leave waiters in place: their tokens come at the rate of
    /// the tier in which they began to wait. If that tier refills nothing, they wait for the key's bucket in its new
    /// tier, and `clear` makes them ready.
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
    /// Callers are served in the order in which they reserve.
    ///
    /// [`acquire`](Self::acquire) says what refunds and other changes do to waiters.
    ///
    /// # Errors
    ///
    /// [`Denied`] if `n` exceeds the burst, the debt would be deeper than [`Quota::max_debt`](crate::Quota::max_debt),
    /// or there is no slot for the key.
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
    /// Otherwise it takes none.
    ///
    /// # Errors
    ///
    /// [`Denied`] as for `reserve`, or if the tokens would be there later.
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
        Ok(KeyedReservation { table, clock, reserved })
    }
}

/// The tokens of a key taken in advance, to be used when [`ready_in`](KeyedReservation::ready_in) says.
///
/// [`settle`](KeyedReservation::settle) corrects their number to what the call used, and
/// [`cancel`](KeyedReservation::cancel) gives them back if that is possible. A reservation that is dropped keeps them
/// taken: all of them count as used.
#[must_use = "the tokens are taken, and are not there before `ready_in` says"]
pub struct KeyedReservation<'a, C> {
    table: &'a Table<TokenBucket>,
    clock: &'a C,
    reserved: TableReservation<'a>,
}

impl<C: Clock> KeyedReservation<'_, C> {
    /// Returns the time from now until the tokens may be used.
    ///
    /// The time is rounded up to the clock's tick. It is zero if the tokens may be used now. The method returns `None`
    /// if they may never be used, because the quota was changed to one that refills nothing.
    ///
    /// If other callers reserve after a refund, the time may be longer than an earlier call said, but never longer than
    /// without the refund.
    #[must_use]
    pub fn ready_in(&self) -> Option<Duration> {
        self.table.ready_in(&self.reserved, self.clock)
    }

    /// Blocks the thread until the tokens are there.
    ///
    /// A refund, a reset or a change of the quota wakes it, and it then waits as long as the new state requires.
    #[cfg(feature = "std")]
    pub fn wait(&self) {
        self.table.wait(&self.reserved, self.clock);
    }

    /// Corrects the number of tokens taken to those that the call `used`.
    ///
    /// It is for costs that are known only afterwards: reserve an estimate, and settle when the true cost is known.
    ///
    /// - A call that used fewer tokens gives the rest back, whether their time has come or not. Waiters then profit as
    ///   [`acquire`](crate::KeyedLimiter::acquire) says of refunds. The rest counts as used if the bucket that it was
    ///   taken from is no longer the key's: after a [`set_tier`](crate::KeyedLimiter::set_tier), a
    ///   [`clear`](crate::KeyedLimiter::clear) or an eviction.
    /// - A key that had no slot gives tokens back only if [`cancel`](Self::cancel) would.
    /// - A call that used more is charged the excess, as by [`charge`](crate::KeyedLimiter::charge), into debt if
    ///   necessary.
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
        self.table.settle(&self.reserved, used, self.clock);
    }

    /// Gives all tokens back if none were taken after them and their time has not come; otherwise none.
    ///
    /// Returns whether it did, as [`Reservation::cancel`](crate::Reservation::cancel) does. Tokens that are not given
    /// back count as used.
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
