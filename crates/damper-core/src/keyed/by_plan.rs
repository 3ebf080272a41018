//! Keys that each have a quota of their own, which comes with the call.

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
    /// There can be any number of plans, and a key's plan can change from call to call. The limiter keeps for each key
    /// the instant at which its bucket is full, in the same memory as a limiter with a single quota. A call costs some
    /// 5 ns more than a call for a key in a [tier](crate::keyed::KeyedLimiterBuilder::tiers).
    ///
    /// # Plans or tiers
    ///
    /// With tiers the limiter knows the quotas. There are at most 15. A change of one is in force for all of its keys
    /// at once, and each keeps its tokens. With plans the caller knows the quotas. A key that is given another
    /// plan keeps the *time* until its bucket is full, unless [`replan`](Self::replan) converts what the key owes.
    ///
    /// # When it is full
    ///
    /// Keys for which the table has no slot share buckets, as in every keyed limiter, but only with keys of their
    /// class. There are seven classes of plans, by the time that a plan takes to repay its deepest debt. So a key with
    /// ten tokens a second never waits behind one with ten tokens a day.
    ///
    /// # Waiting
    ///
    /// A limiter by plan decides at once. Callers that wait for the tokens of a key, in order, use
    /// [`acquire`](crate::QuotaTree::acquire) of a [`QuotaTree`](crate::QuotaTree) of one level and one dimension.
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
    /// [`Denied`], which says when to retry, exact to 64 ns, or that `n` exceeds the burst.
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
    /// It does what [`refund`](KeyedLimiter::refund) does. It gives back nothing if the key's debt was
    /// [converted](Self::replan) after the take.
    pub fn refund_with(&self, key: &K, plan: &Plan, n: u32) -> u32 {
        let given = self.table.visit(self.fingerprint(key), &self.clock, |_, level, at| {
            let (given, after) = ByPlan::refund(plan, level, at, n);
            (after, given)
        });
        given.unwrap_or(0)
    }

    /// Books `n` tokens of this key under `plan` after the fact, and returns how many it booked.
    ///
    /// Debt goes no deeper than [`Quota::max_debt`](crate::Quota::max_debt).
    pub fn charge_with(&self, key: &K, plan: &Plan, n: u32) -> u32 {
        self.table.charge_planned(self.fingerprint(key), plan, n, &self.clock)
    }

    /// Converts what this key owes from one plan to another, and returns whether it did.
    ///
    /// The key then owes as many *tokens* as before. Without the conversion it owes as much *time*: a key that used
    /// half of a plan of one a day could use a plan of ten a second only after half a day. Call this when a key's plan
    /// changes, before the key's first call under the new plan.
    ///
    /// A debt is converted only once: the bucket remembers the [tag](Plan::tagged) of the plan under which all of its
    /// debt was taken. A second call, or a call for a bucket that was used under both plans, changes nothing and
    /// returns `false`. So does a call for a key that owes nothing or has no slot. A debt deeper than the new plan
    /// allows is cut to the deepest that it allows, and a conversion back does not restore it. So do not convert for
    /// single calls.
    pub fn replan(&self, key: &K, old: &Plan, new: &Plan) -> bool {
        self.table.replan(self.fingerprint(key), old, new, &self.clock)
    }

    /// Forgets what this key took: its bucket is full again.
    pub fn reset(&self, key: &K) {
        self.table.visit(self.fingerprint(key), &self.clock, |_, _, at| (ByPlan::idle_at(at), ()));
    }
}
