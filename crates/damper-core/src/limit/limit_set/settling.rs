//! The tokens that reservations of a set may still give back.

use super::{LimitSet, Limits};
use crate::OutOfRange;
use crate::limit::algorithm::{TakePosition, Verdict};
use crate::limit::{Algorithm, Counted, Unsettled, UnsettledBounds};
use crate::time::Clock;
use core::fmt;
use core::time::Duration;

/// The tokens that reservations may still give back to each limit.
///
/// The `bounds` say how many tokens that may be, and for how long a reservation may give tokens back.
pub(super) struct Settling<L: Limits> {
    words: L::Each<Unsettled>,
    bounds: UnsettledBounds,
}

/// The cost that a reservation took from one limit.
#[derive(Clone, Copy, Debug)]
pub struct TakenCost {
    pub(super) cost: u32,
    /// The part of the cost that the settlement may give back.
    pub(super) returnable: u32,
    counted: Counted,
}

impl TakenCost {
    /// Creates the record of a cost that can never be given back.
    pub(super) const fn for_good(cost: u32) -> Self {
        Self { cost, returnable: 0, counted: Counted::NOTHING }
    }
}

impl<L: Limits> Settling<L> {
    pub(super) fn new(limits: &L, clock: &impl Clock) -> Self {
        Self { words: limits.each(Unsettled::new), bounds: UnsettledBounds::on(clock) }
    }

    /// Counts costs that were taken at the tick `since` as unsettled, up to the bounds.
    pub(super) fn count(
        &self,
        limits: &L,
        costs: &L::PerLimit<u32>,
        verdicts: &L::PerLimit<Verdict>,
        since: u64,
    ) -> L::PerLimit<TakenCost> {
        let mut taken = L::filled(TakenCost::for_good(0));
        let limits = limits.as_slice().iter().zip(self.words.as_ref());
        let costs = costs.as_ref().iter().zip(verdicts.as_ref());
        for ((limit, word), (taken, (&cost, verdict))) in limits.zip(taken.as_mut().iter_mut().zip(costs)) {
            // The quota may have changed since the take. So its position says whether the limit counted the tokens.
            let is_counted = matches!(verdict, Verdict::Allowed(take, _) if take.position != TakePosition::UNCOUNTED);
            *taken = if L::Algorithm::GIVES_BACK && is_counted {
                self.counted(limit, word, cost, since)
            } else {
                TakenCost::for_good(cost)
            };
        }
        taken
    }

    fn counted(&self, limit: &L::Algorithm, word: &Unsettled, cost: u32, since: u64) -> TakenCost {
        let burst = limit.quota().burst_size();
        let counted = self.bounds.count(word, cost, burst, since);
        TakenCost { cost, returnable: counted.tokens(burst).min(cost), counted }
    }

    /// Stops counting costs as unsettled, after their unused parts were given back.
    pub(super) fn release(&self, taken: &L::PerLimit<TakenCost>) {
        for (word, taken) in self.words.as_ref().iter().zip(taken.as_ref()) {
            word.release(taken.counted);
        }
    }

    /// Returns whether the time-to-live of a reservation made at the tick `since` still lasts.
    pub(super) fn is_alive(&self, since: u64, now: u64) -> bool {
        self.bounds.is_alive(since, now)
    }
}

impl<L: Limits, C: Clock, P> LimitSet<L, C, P> {
    /// Sets how many bursts of each limit may be reserved and unsettled, 2 unless set.
    ///
    /// A reservation is unsettled until it is [settled](super::SetReservation::settle) or dropped. In any stretch of
    /// time a limit allows what its quota allows, plus what older reservations give back. These can give back at most
    /// what was unsettled when that time began, so this setting bounds the excess. A reservation beyond the bound is
    /// allowed, but gives nothing back. The size of a burst comes from the quota in force when the reservation is made.
    /// The guide's page on trees compares the choices.
    ///
    /// Call it before the first use, like [`queue`](Self::queue).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] unless `bursts` is from 0 to 255.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let tokens = LimitSet::with_clock([Quota::per_minute(6_000)], ManualClock::new()).unsettled(0.5)?;
    /// tokens.reserve([6_000])?.settle([0]);
    /// assert_eq!(tokens.peek()[0].used(), 3_000); // half a burst was given back
    ///
    /// let error = tokens.unsettled(-1.0).unwrap_err();
    /// assert_eq!(error.to_string(), "unsettled is -1.0, it must be 0.0 to 255.0 (bursts)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unsettled(mut self, bursts: f64) -> Result<Self, OutOfRange> {
        self.settling.bounds = self.settling.bounds.with_bursts(bursts)?;
        Ok(self)
    }

    /// Sets the time after which a reservation counts as used in full, two minutes unless set.
    ///
    /// Set the longest time that a call can last. A reservation that is never settled takes up a part of the
    /// [bound](Self::unsettled) for at most two of these times.
    ///
    /// Call it before the first use, like [`queue`](Self::queue).
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] unless `time` is from a millisecond to 30 days.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use core::time::Duration;
    /// use damper::{LimitSet, ManualClock, Quota};
    ///
    /// let clock = ManualClock::new();
    /// let tokens = LimitSet::with_clock([Quota::per_hour(3_600)], &clock).time_to_live(Duration::from_secs(60))?;
    /// let call = tokens.reserve([100])?;
    /// clock.advance(Duration::from_secs(61));
    /// call.settle([10]); // too late
    /// assert_eq!(tokens.peek()[0].used(), 39); // 61 of the 100 were refilled
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn time_to_live(mut self, time: Duration) -> Result<Self, OutOfRange> {
        self.settling.bounds = self.settling.bounds.with_time_to_live(time, &self.clock)?;
        Ok(self)
    }
}

impl<L: Limits> fmt::Debug for Settling<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settling").field("words", &self.words).field("bounds", &self.bounds).finish()
    }
}
