//! Limiters by plan, on which each call brings the quota of its key.

use super::KeyedLimiter;
#[cfg(feature = "std")]
use super::builder::KeyedLimiterBuilder;
use super::table::PlannedCheck;
use crate::limit::{Allowed, ByPlan, Denied, PlannedLevel, Usage};
use crate::quota::Plan;
use crate::time::Clock;
#[cfg(feature = "std")]
use crate::time::Seed;
use core::hash::{BuildHasher, Hash};

#[cfg(feature = "std")]
impl<K: ?Sized> KeyedLimiter<K> {
    /// Starts the builder of a limiter whose calls bring the quota of their key, as a [`Plan`].
    ///
    /// There can be any number of plans, and a key's plan can change from call to call. The limiter stores for each key
    /// the instant at which its bucket is full. It takes as much memory as a limiter with a single quota. A call costs
    /// some 5 ns more than a call for a key in a [tier](crate::keyed::KeyedLimiterBuilder::tiers).
    ///
    /// # Plans or tiers
    ///
    /// - With tiers the limiter knows the quotas. There are at most 15 tiers. A new quota of a tier applies to all keys
    ///   of the tier at once, and each key owes as many tokens as before.
    /// - With plans the caller knows the quotas. If a key gets another plan, the *time* until its bucket is full stays
    ///   the same. To keep the number of owed tokens instead, call [`replan`](Self::replan).
    ///
    /// # When it is full
    ///
    /// Keys without a slot share buckets, as in every keyed limiter, but only with keys of the same class. A plan's
    /// class follows from the time in which its deepest debt is repaid. There are seven classes. So a key with ten
    /// tokens a second never waits behind a key with ten tokens a day.
    ///
    /// # Waiting
    ///
    /// Callers cannot wait on a limiter by plan: it decides at once. If callers have to wait for a key's tokens in
    /// order, use a [`QuotaTree`](crate::QuotaTree) with one level and one dimension, and its
    /// [`acquire`](crate::QuotaTree::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate damper_core as damper;
    /// use damper::{KeyedLimiter, ManualClock, Plan, Quota};
    ///
    /// let (free, pro) = (Plan::new(Quota::per_minute(60))?, Plan::new(Quota::per_minute(600))?);
    /// let users = KeyedLimiter::<str>::by_plan().capacity(100_000).clock(ManualClock::new()).build()?;
    /// assert_eq!(users.check_with("alice", &free, 50)?.remaining(), 10);
    /// assert_eq!(users.check_with("bob", &pro, 50)?.remaining(), 550);
    ///
    /// users.replan("alice", &free, &pro); // she has paid
    /// assert_eq!(users.peek_with("alice", &pro).remaining(), 550);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_plan() -> KeyedLimiterBuilder<K, crate::time::Monotonic, Seed, ByPlan> {
        KeyedLimiterBuilder::by_plan(crate::time::Monotonic, Seed::random())
    }
}

impl<K: Hash + ?Sized, C: Clock, S: BuildHasher> KeyedLimiter<K, C, S, ByPlan> {
    /// Takes `n` tokens of this key's bucket under `plan` if all of them are there, else none.
    ///
    /// A refusal writes nothing if the key has a slot. Under an [unlimited](Plan::UNLIMITED) plan everything is allowed
    /// and nothing is written.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry (exact to 64 ns), or that `n` exceeds the burst.
    #[expect(clippy::inline_always, reason = "the unused part of the answer is then not computed")]
    #[inline(always)]
    pub fn check_with(&self, key: &K, plan: &Plan, n: u32) -> Result<Allowed, Denied> {
        let demand = PlannedCheck { plan, n, keep: 0 };
        self.table.take_planned(self.fingerprint(key), demand, &self.clock).map(|(fit, _)| fit.allowed(plan))
    }

    /// Returns how much of this key's limit is used under `plan`, and takes nothing.
    pub fn peek_with(&self, key: &K, plan: &Plan) -> Usage {
        let look = |level, at| ByPlan::usage(plan, level, at);
        self.table.peek(self.fingerprint(key), &self.clock, || plan.class(), |_, level, at| look(level, at))
    }

    /// Gives back up to `n` tokens that this key took under `plan` and did not need, and returns how many.
    ///
    /// It works as [`refund`](KeyedLimiter::refund) does. But it gives back nothing if all of the key's debt belongs to
    /// another plan: the debt was taken under that plan, or [`replan`](Self::replan) converted it to that plan.
    pub fn refund_with(&self, key: &K, plan: &Plan, n: u32) -> u32 {
        let given = self.table.visit(self.fingerprint(key), &self.clock, |_, level, at| {
            let (given, after) = ByPlan::refund(plan, level, at, n);
            (after, given)
        });
        given.unwrap_or(0)
    }

    /// Books `n` tokens of this key under `plan` after the fact, and returns how many it booked.
    ///
    /// Debt goes no deeper than [`Quota::max_debt`](crate::Quota::max_debt). A key without a slot is charged as
    /// [`charge`](KeyedLimiter::charge) says.
    pub fn charge_with(&self, key: &K, plan: &Plan, n: u32) -> u32 {
        self.table.charge_planned(self.fingerprint(key), plan, n, &self.clock)
    }

    /// Converts what this key owes from one plan to another, and returns whether it did.
    ///
    /// The key then owes as many *tokens* as before. Without the conversion, the *time* until its bucket is full stays
    /// the same. For example, a key that used half of its daily quota would have to wait for half a day, even if its
    /// new plan refills ten tokens a second. Call this when a key's plan changes, before the key's first call under the
    /// new plan.
    ///
    /// The bucket remembers the [tag](Plan::tagged) of the plan under which all of its debt was taken, so a debt is
    /// converted only once. The method changes nothing and returns `false` in these cases:
    ///
    /// - The debt was converted already.
    /// - The debt was taken under several plans.
    /// - The two plans have the same tag.
    /// - The key owes nothing, or has no slot.
    ///
    /// If the new plan allows no debt that deep, the debt is cut to the deepest that it allows. A conversion back does
    /// not restore what was cut, so do not convert for single calls.
    pub fn replan(&self, key: &K, old: &Plan, new: &Plan) -> bool {
        self.table.replan(self.fingerprint(key), old, new, &self.clock)
    }

    /// Forgets what this key took: its bucket is full again.
    ///
    /// For a key without a slot it does nothing.
    pub fn reset(&self, key: &K) {
        self.table.visit(self.fingerprint(key), &self.clock, |_, _, at| (ByPlan::idle_at(at), ()));
    }
}
