//! The waits for a key's tokens, in order.
//!
//! [`table`](super#terms) defines the terms.
//!
//! A waiter takes its tokens in advance, as the waiters of a single limiter do. The waiter keeps its *position*: the
//! word that its swap wrote, which is a position on the line of the key's tier. The table stores nothing about a
//! waiter, so a key with waiters takes no more memory than one without. The bucket of such a key is below empty, so
//! checks are refused.
//!
//! # When a waiter is ready
//!
//! A waiter is ready as soon as one of two things is true:
//!
//! 1. The line has passed its position. This alone serves waiters in order, at the whole rate.
//! 2. The key's bucket is not below empty. A single limiter has an offset, which a refund moves so that waiters come
//!    earlier. A slot has no room for an offset, so a refund, a roll-back or a reset moves the word itself back, to
//!    before the positions of waiters. When the bucket is no longer below empty, the tokens of all waiters are there.
//!
//! **The bound.** A take moves the word up, and a refund moves it down. A waiter can cancel only while it is the last,
//! and then moves the word down over exactly its own tokens. Each unit of the line is taken at most once more than it
//! was refunded. So below any position, callers took at most what the line produced up to that position, plus what was
//! refunded. Rule 1 lets those callers act whose tokens lie below the present position plus a burst. Rule 2 lets all
//! callers act when the word itself lies below that sum. Either way, from a moment at which the bucket was not below
//! empty, callers use at most the burst, what the line produces, and what is given back.
//!
//! **The order** changes only if tokens are refunded while the bucket is below empty. The word then moves back over
//! the tokens of some waiters, and the next caller may act together with these waiters.
//!
//! # The key while a caller waits
//!
//! - A slot below empty keeps its owner. It is not idle, and under `EvictLeastIndebted` its debt would leave a newcomer
//!   no tokens. Nor does a newcomer wait until another key's debt is repaid. But `clear` vacates the slot, and a slot
//!   that is no longer below empty may get a new owner before its waiters act. A waiter notices a new owner by the
//!   version. Rule 2 then no longer applies, and the waiter is ready at its position. If the line never passes the
//!   position, because the tier refills nothing, the waiter is ready at once.
//! - A move to another tier keeps the time that a debt takes to be repaid, not its number of tokens, so rule 2 would
//!   let waiters act too early or too late. Waiters are ready at their positions, on the line of the tier in which they
//!   began to wait. If that line refills nothing, the move kept the number of tokens. Then rule 2 applies, on the line
//!   of the new tier.
//! - A key without a slot waits in its shared bucket, by rule 1. When the key gets a slot, it takes the debt along,
//!   so its next waiter comes after the earlier ones.

use super::demand::{Demand, Reserve};
use super::fingerprint::Fingerprint;
use super::{Debtor, Grant, Origin, Table};
use crate::limit::{Denied, TokenBucket, TokenLine};
use crate::quota::Line;
use crate::sync::SpinWait;
use crate::time::{Clock, Frequency, Ticks};
use core::time::Duration;

/// The tokens of a key taken in advance.
pub(in crate::keyed) struct TableReservation<'a> {
    key: Fingerprint,
    n: u32,
    /// The bucket's word after the take: a position on the tier's line.
    position: u64,
    tier: usize,
    origin: Origin<'a>,
}

impl<'a> TableReservation<'a> {
    fn new(key: Fingerprint, n: u32, Grant { after, tier, origin, .. }: Grant<'a>) -> Self {
        Self { key, n, position: after, tier, origin }
    }
}

impl Table<TokenBucket> {
    /// Takes `n` tokens of a key in advance, if they are there within `longest`.
    ///
    /// If the key has no slot, `tier` is called with the key's lock held.
    pub(in crate::keyed) fn reserve(
        &self,
        key: Fingerprint,
        n: u32,
        longest: Option<Duration>,
        clock: &impl Clock,
        tier: impl Fn() -> usize,
    ) -> Result<TableReservation<'_>, Denied> {
        let demand = Reserve { n, longest };
        loop {
            let in_slot = self.reserve_in_slot(key, demand, clock);
            if let Some(taken) = in_slot.or_else(|| self.first_sight(key, demand, clock, || Some(tier()))) {
                return taken.map(|taken| TableReservation::new(key, n, taken));
            }
        }
    }

    /// Takes tokens in advance for a key that has a slot; `None` if the key has no slot.
    fn reserve_in_slot<'a>(
        &'a self,
        key: Fingerprint,
        demand: Reserve,
        clock: &impl Clock,
    ) -> Option<Result<Grant<'a>, Denied>> {
        self.visit_slot(key, clock, |slot, seen, line, word, at| {
            match demand.decide(line, word, at, Debtor::Itself, clock) {
                Ok((after, ())) => {
                    let origin = if after == word { Origin::Nothing } else { Origin::Slot(slot, seen.at_level(after)) };
                    (after, Ok(Grant { after, at, tier: seen.tier(), origin }))
                }
                Err(denied) => (word, Err(denied)),
            }
        })
    }

    /// Returns the time from now until the tokens may be used.
    ///
    /// It returns `None` if they may never be used, under the quota in force.
    pub(in crate::keyed) fn ready_in(&self, reserved: &TableReservation<'_>, clock: &impl Clock) -> Option<Duration> {
        if matches!(reserved.origin, Origin::Nothing) {
            return Some(Duration::ZERO);
        }
        let (by_position, frequency) = self.passes_in(reserved, clock);
        let wait = match by_position {
            Ticks::ZERO => Ticks::ZERO,
            wait => wait.min(self.leaves_debt_in(reserved, wait, clock)),
        };
        wait.duration(frequency)
    }

    /// Returns the time until the line has passed the waiter's position, and the clock's frequency.
    fn passes_in(&self, reserved: &TableReservation<'_>, clock: &impl Clock) -> (Ticks, Frequency) {
        let spin_wait = SpinWait::new();
        loop {
            let (quota, (epoch, mut line)) = self.tiers.read::<TokenLine>(reserved.tier, clock);
            let at = line.reading(clock.now());
            if quota.is_current(epoch) {
                return (line.ready_in(reserved.position, at), line.frequency());
            }
            spin_wait.spin();
        }
    }

    /// Returns the time until the key's bucket is no longer below empty, if nothing more is taken.
    ///
    /// The time is `Ticks::NEVER` if another key has the slot by now, or if the key was moved to another tier.
    /// `by_position` is the time until the line passes the position. If it never does, a move does not matter, and the
    /// time is zero once the bucket is forgotten.
    fn leaves_debt_in(&self, reserved: &TableReservation<'_>, by_position: Ticks, clock: &impl Clock) -> Ticks {
        if let Origin::Slot(slot, taken) = reserved.origin {
            let spin_wait = SpinWait::new();
            // The word need not be read again after the clock, because later takes lie behind this waiter's tokens.
            while let Some(word) = slot.word_of(reserved.key)
                && word.has_owner_of(taken)
                && (word.tier() == reserved.tier || by_position == Ticks::NEVER)
            {
                if let Some((line, at, full)) = self.look(word, clock) {
                    return line.ready_in(full, at);
                }
                spin_wait.spin();
            }
        }
        if by_position == Ticks::NEVER && self.is_forgotten(reserved) { Ticks::ZERO } else { Ticks::NEVER }
    }

    /// Returns whether the bucket was cleared, or its slot has another owner by now.
    fn is_forgotten(&self, &TableReservation { key, origin, .. }: &TableReservation<'_>) -> bool {
        match origin {
            Origin::Nothing => false,
            // Another key is just taking the slot. The next call of `ready_in` sees the outcome.
            Origin::Slot(slot, _) if slot.word().is_claimed() => false,
            Origin::Slot(slot, taken) => slot.word_of(key).is_none_or(|word| !word.has_owner_of(taken)),
            Origin::Shared(origin) => {
                self.shared.lock(self.shared.share_of(key)).read(|counts| counts.clears != origin.clears)
            }
        }
    }

    /// Blocks the thread until the tokens may be used.
    #[cfg(feature = "std")]
    pub(in crate::keyed) fn wait(&self, reserved: &TableReservation<'_>, clock: &impl Clock) {
        self.shared.changes(self.shared.share_of(reserved.key)).wait_out(|| self.ready_in(reserved, clock));
    }

    /// Gives the tokens back, and returns whether it did.
    ///
    /// It does so only if nothing was taken after them and their time has not come.
    pub(in crate::keyed) fn cancel(&self, reserved: &TableReservation<'_>, clock: &impl Clock) -> bool {
        self.withdraw(reserved, reserved.n, clock)
    }

    /// Corrects the tokens that were taken to those that the call `used`.
    ///
    /// An excess is charged. Unused tokens are given back to the slot that they were taken from, whether their time has
    /// come or not. This moves the word back, but no other waiter's position, so no tokens are created
    /// (`tests/core/waiting/keyed.rs`). Tokens from a shared bucket are given back only if their time has not come and
    /// nothing was taken after them.
    pub(in crate::keyed) fn settle(&self, reserved: &TableReservation<'_>, used: u32, clock: &impl Clock) {
        let &TableReservation { key, n, tier, origin, .. } = reserved;
        match (used.checked_sub(n), origin) {
            (Some(excess), _) => loop {
                let charged = self.charge_in_slot(key, excess, clock);
                if charged.or_else(|| self.charge_shared(key, excess, clock, || Some(tier))).is_some() {
                    return;
                }
            },
            (None, Origin::Slot(own, taken)) => {
                self.visit_slot(key, clock, |slot, seen, line, word, at| {
                    let is_same = core::ptr::eq(slot, own) && seen.has_owner_of(taken) && seen.tier() == tier;
                    (if is_same { line.give_back(word, at, n - used).1 } else { word }, ())
                });
                self.wake(key);
            }
            (None, Origin::Shared(_) | Origin::Nothing) => _ = self.withdraw(reserved, n - used, clock),
        }
    }

    /// Gives `unused` of the tokens back, and returns whether it did.
    ///
    /// It does so only if nothing was taken after them and their time has not come.
    fn withdraw(&self, reserved: &TableReservation<'_>, unused: u32, clock: &impl Clock) -> bool {
        let &TableReservation { key, position, origin, .. } = reserved;
        let is_withdrawn = match origin {
            Origin::Nothing => false,
            Origin::Slot(slot, taken) => {
                let spin_wait = SpinWait::new();
                loop {
                    // The same word means the same owner and tier, too.
                    if slot.word_of(key) != Some(taken) {
                        break false;
                    }
                    if let Some((line, at, full)) = self.look(taken, clock) {
                        if line.ready_in(position, at) == Ticks::ZERO {
                            break false;
                        }
                        if slot.replace(taken, taken.at_level(line.without(full, unused))) {
                            break true;
                        }
                    }
                    spin_wait.spin();
                }
            }
            Origin::Shared(origin) => {
                let share = self.shared.share_of(key);
                self.shared.lock(share).write(|counts| {
                    let withdrawn = |line: &TokenLine, word, at| {
                        // If the word has changed, a later call has taken tokens after these, or another call has taken
                        // this debt along to another word. Giving tokens back would then give back some of theirs.
                        let is_last = word == position && line.ready_in(position, at) > Ticks::ZERO;
                        is_last.then(|| line.without(position, unused))
                    };
                    self.shared.revise::<TokenBucket>(share, &self.tiers, origin, counts, clock, withdrawn).is_some()
                })
            }
        };
        if is_withdrawn {
            self.wake(key);
        }
        is_withdrawn
    }
}

impl<A> Table<A> {
    /// Wakes threads that wait for tokens of a key, after its word was moved back.
    #[cfg_attr(not(feature = "std"), expect(unused_variables, clippy::unused_self, reason = "no thread waits"))]
    #[inline]
    pub(in crate::keyed) fn wake(&self, key: Fingerprint) {
        #[cfg(feature = "std")]
        self.shared.changes(self.shared.share_of(key)).raise_for_waiters();
    }

    /// Wakes all threads that wait, after a change of a quota.
    #[cfg_attr(not(feature = "std"), expect(clippy::unused_self, reason = "no thread waits"))]
    pub(in crate::keyed) fn wake_all(&self) {
        #[cfg(feature = "std")]
        self.shared.raise_all();
    }
}
