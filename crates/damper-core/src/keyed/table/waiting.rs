//! The waits for a key's tokens, in order.
//!
//! [`table`](super#terms) defines the terms.
//!
//! A waiter takes its tokens in advance, as the waiters of a single limiter do. It then keeps its *position*: the word
//! that its swap wrote, which is a position on the line of the key's tier. The table stores nothing about a waiter, so
//! a key with waiters takes no more memory than a key without. The bucket of a key with waiters is below empty, so
//! checks of that key are refused.
//!
//! # When a waiter is ready
//!
//! A waiter is ready as soon as one of two rules allows it:
//!
//! 1. **The line has passed the waiter's position.** That means that the present position plus a burst has reached it.
//!    This rule alone serves waiters in order, at the whole rate.
//! 2. **The key's bucket is not below empty.** Then the tokens of all waiters are there. This rule is for refunds. A
//!    refund to a single limiter moves an offset, which brings the positions of its waiters closer. A slot has no room
//!    for an offset. So a refund, a roll-back or a reset of a key lowers the bucket's word, and may lower it below the
//!    positions of waiters.
//!
//! **The bound.** A take raises the word, and a refund lowers it. A waiter can cancel only while no tokens were taken
//! after its own, and then lowers the word by exactly its own tokens. So each unit of the line is taken at most once
//! more than it was refunded. Below any position, callers therefore took at most the units up to that position, plus
//! what was refunded. Rule 1 serves the callers whose tokens lie below the present position plus a burst. Rule 2 serves
//! all callers when the word itself lies below that sum. So from a moment at which the bucket is not below empty,
//! callers use at most the burst, what the line brings, and what is given back.
//!
//! **The order** changes only if tokens are refunded while the bucket is below empty. The refund lowers the word below
//! the positions of some waiters. The next caller then gets a position among theirs, and may be served before some of
//! them.
//!
//! # The key while a caller waits
//!
//! **Eviction.** A newcomer gets only a vacant or idle slot, or under `EvictLeastIndebted` a slot whose debt leaves it
//! enough tokens. It never waits until another key's debt is repaid. So it cannot take a slot that is below empty. But
//! `clear` vacates such a slot. And a slot that is no longer below empty may get a new owner before its waiters act. A
//! waiter notices a new owner by the version in the slot's word. From then on only rule 1 applies. If the line never
//! passes the waiter's position, because the tier refills nothing, the waiter is ready at once.
//!
//! **A move to another tier** keeps the time in which a debt is repaid, and not its number of tokens. So rule 2 would
//! serve waiters too early or too late, and only rule 1 applies, on the line of the tier in which the wait began. If
//! that line refills nothing, the move has kept the number of tokens. Then rule 2 applies, on the line of the new tier.
//!
//! **A key without a slot** waits in its shared bucket, by rule 1. When the key gets a slot, it takes the debt along.
//! So its next waiter comes after the earlier ones.

use super::demand::{Demand, Reserve};
use super::fingerprint::Fingerprint;
use super::{Debtor, Grant, Origin, Table, WhenFull};
use crate::limit::{Denied, TokenBucket, TokenLine};
use crate::quota::Line;
use crate::sync::SpinWait;
use crate::time::{Clock, Frequency, Ticks};
use core::time::Duration;

/// Tokens of a key that were taken in advance.
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

    /// Takes tokens of a key in advance; `None` if the key has no slot.
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
    /// It returns `None` if the tokens may never be used under the quota in force.
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

    /// Returns the time until rule 1 of the [module](self) serves the waiter, and the clock's frequency.
    ///
    /// That is when the present position plus a burst reaches the waiter's position.
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

    /// Returns the time until rule 2 of the [module](self) serves the waiter, if no more tokens are taken.
    ///
    /// This is the time until the key's bucket is no longer below empty. It is `Ticks::NEVER` in three cases, in which
    /// only rule 1 applies:
    ///
    /// - The key has lost the slot.
    /// - The key was moved to another tier.
    /// - The tokens came from a shared bucket.
    ///
    /// It is different if rule 1 never serves the waiter: `by_position` is `Ticks::NEVER`. Then the result after a move
    /// is the time for the bucket in the new tier. Once the bucket [is forgotten](Self::is_forgotten), the result is
    /// zero.
    fn leaves_debt_in(&self, reserved: &TableReservation<'_>, by_position: Ticks, clock: &impl Clock) -> Ticks {
        if let Origin::Slot(slot, taken) = reserved.origin {
            let spin_wait = SpinWait::new();
            // The word need not be read again after the clock. If tokens were taken in between, they lie behind those
            // of this waiter, so the answer still holds.
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

    /// Returns whether the bucket was cleared or its slot changed its owner after the tokens were taken.
    fn is_forgotten(&self, &TableReservation { key, origin, .. }: &TableReservation<'_>) -> bool {
        match origin {
            Origin::Nothing => false,
            // The slot is just changing its owner. The next call of `ready_in` sees the outcome.
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

    /// Gives all tokens back, and returns whether it did.
    ///
    /// It does so only if nothing was taken after them and their time has not come.
    pub(in crate::keyed) fn cancel(&self, reserved: &TableReservation<'_>, clock: &impl Clock) -> bool {
        self.withdraw(reserved, reserved.n, clock)
    }

    /// Corrects the number of tokens taken to the number that the call `used`.
    ///
    /// - If the call used more, the excess is charged. `tier_now` returns the key's tier, or `None` if the caller does not
    ///   know it. It is called with the key's lock held if the key has no slot.
    /// - Unused tokens from a slot are given back to that slot, even if their time has not come yet. This lowers the
    ///   bucket's word, but not the positions of other waiters, so no tokens are created
    ///   (`tests/core/waiting/keyed.rs`).
    /// - Unused tokens from a shared bucket are given back only if their time has not come and nothing was taken after
    ///   them.
    pub(in crate::keyed) fn settle(
        &self,
        reserved: &TableReservation<'_>,
        used: u32,
        clock: &impl Clock,
        tier_now: impl Fn(Fingerprint) -> Option<usize>,
    ) {
        let &TableReservation { key, n, tier, origin, .. } = reserved;
        match (used.checked_sub(n), origin) {
            (Some(excess), _) => {
                // A key keeps the tier of its slot. So it gets no slot in a tier that it may have left. A shared word
                // gives a key no tier.
                let or_former = (self.when_full == WhenFull::SharedOverflow).then_some(tier);
                let mut is_unknown = false;
                while !is_unknown {
                    let charged = self.charge_in_slot(key, excess, clock).or_else(|| {
                        self.charge_without_slot(key, excess, clock, || {
                            let tier = tier_now(key).or(or_former);
                            is_unknown = tier.is_none();
                            tier
                        })
                    });
                    if charged.is_some() {
                        return;
                    }
                }
            }
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

    /// Gives back `unused` of the taken tokens, and returns whether it did.
    ///
    /// It does so only if nothing was taken after them and their time has not come.
    fn withdraw(&self, reserved: &TableReservation<'_>, unused: u32, clock: &impl Clock) -> bool {
        let &TableReservation { key, position, origin, .. } = reserved;
        let is_withdrawn = match origin {
            Origin::Nothing => false,
            Origin::Slot(slot, taken) => {
                let spin_wait = SpinWait::new();
                loop {
                    // If the word is unchanged, the slot's owner and the tier are unchanged too.
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
                        // The tokens can be given back only if the word is unchanged. Otherwise other calls have
                        // changed what it owes since, and lowering it could give back tokens of those calls.
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
    /// Wakes threads that wait for tokens of a key.
    ///
    /// Call it after the bucket's word was lowered, because the tokens may then come earlier.
    #[cfg_attr(not(feature = "std"), expect(unused_variables, clippy::unused_self, reason = "no thread waits"))]
    #[inline]
    pub(in crate::keyed) fn wake(&self, key: Fingerprint) {
        #[cfg(feature = "std")]
        self.shared.changes(self.shared.share_of(key)).raise_for_waiters();
    }

    /// Wakes all threads that wait for tokens of any key. Call it after a change of a quota.
    #[cfg_attr(not(feature = "std"), expect(clippy::unused_self, reason = "no thread waits"))]
    pub(in crate::keyed) fn wake_all(&self) {
        #[cfg(feature = "std")]
        self.shared.raise_all();
    }
}
