//! Limits of several levels and dimensions across machines.

use super::planned::{Begun, Planned, Purpose};
use super::redis_tree_reservation::RedisTreeReservation;
use crate::limiter::{RedisCounts, RedisKey, RedisStatus, Unavailable};
use core::fmt;
use core::time::Duration;
use damper_core::internal::usage_elsewhere;
use damper_core::keyed::TreeAllowed;
use damper_core::{Plan, Quota, TreeDenied, Usage};
use std::sync::Arc;

/// Limits of several levels and dimensions, shared through Redis, of which a call takes all or none.
///
/// It is like a [`QuotaTree`](damper_core::QuotaTree), whose page explains levels, dimensions and plans. One script on the server
/// decides about all buckets of a call, so no refusal is contended. Every call is a round trip: nothing is leased. Clones share the
/// tree.
///
/// # The root
///
/// The last level is the root, such as the organisation. All buckets of a call are in one slot of a cluster, that of the root's key, so
/// **a key belongs to its root**: the user `alice` of `acme` and the user `alice` of `globex` have different buckets. All calls of one
/// root go to one server.
///
/// # Accuracy
///
/// The server stores the instant at which a bucket is full, in whole microseconds and an exact fraction of one. A plan reads what it
/// wrote without rounding, so nothing drifts. It rounds up the instant of another plan, by less than a microsecond. Times are those of
/// the server's clock, in microseconds. Only a plan whose window exceeds 78 hours and is no whole number of microseconds is slower
/// than it says, by less than 4 parts in 10^12.
///
/// # Estimates
///
/// [`reserve`](Self::reserve) takes an estimate, and [`settle`](RedisTreeReservation::settle) corrects it. The refunds in any stretch of
/// time come on top of a bucket's envelope. They are at most the costs that were unsettled when it began and those reserved in it, and
/// at most [`unsettled`](crate::RedisLimiterBuilder::unsettled) bursts are so at a time. A reservation beyond that is allowed, but gives
/// nothing back. The server counts them in two numbers for each bucket, and no refund exceeds the count. So processes that die,
/// commands that are lost or arrive twice, and a loss of the server's memory never give back more.
///
/// # When the server is gone
///
/// The [policy](crate::WhenDown) decides: `LocalShare` by each plan divided by the number of processes, in every bucket. A call that
/// the policy allowed gives nothing back when it is settled. Its tokens are charged to each bucket, up to the share of the burst, with
/// this process's next command for that bucket. If that command is lost, they wait for two more calls on the bucket by this process:
/// one that gets a reply, and one that carries them. A bucket that no process uses in the meantime has filled by a burst at most.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use damper::redis::RedisLimiter;
/// use damper::{Plan, Quota};
///
/// let tree = RedisLimiter::connect("redis://127.0.0.1/")
///     .name("completions")
///     .build_tree(["user", "team", "organisation"], ["requests", "tokens"])
///     .await?;
///
/// let (requests, tokens) = (Plan::new(Quota::per_minute(60))?, Plan::new(Quota::per_minute(90_000))?);
/// let shared = Plan::new(Quota::per_minute(100_000))?;
/// let none = Plan::UNLIMITED;
/// let path = [("alice", [&requests, &tokens]), ("core", [&none, &none]), ("acme", [&none, &shared])];
///
/// let call = tree.reserve(&path, [1, 60_000]).await?;
/// call.settle([1, 2_500]); // what the answer's usage says
///
/// if let Err(denied) = tree.check(&path, [1, 90_000]).await {
///     println!("{denied}"); // tokens of this user (90000/min burst 90000): rate limit exceeded, retry in 1.7 s
/// }
/// # Ok(())
/// # }
/// ```
pub struct RedisTree<const LEVELS: usize, const DIMENSIONS: usize> {
    planned: Arc<Planned>,
}

impl<const LEVELS: usize, const DIMENSIONS: usize> RedisTree<LEVELS, DIMENSIONS> {
    pub(crate) fn new(planned: Planned) -> Self {
        Self { planned: Arc::new(planned) }
    }

    /// Takes the costs, one for each dimension, from every level of the path, or takes nothing.
    ///
    /// # Errors
    ///
    /// [`TreeDenied`], which names the level and the dimension with the longest wait. After a refusal this process refuses the same
    /// without asking for up to 100 ms. A refusal by the policy `Closed` names the first limit of the path.
    ///
    /// # Cancel safety
    ///
    /// A check that is dropped before it is ready may have taken its tokens.
    pub fn check<K: RedisKey + ?Sized>(
        &self,
        path: &[(&K, [&Plan; DIMENSIONS]); LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> impl Future<Output = Result<TreeAllowed, TreeDenied>> + Send + use<K, LEVELS, DIMENSIONS> {
        let planned = Arc::clone(&self.planned);
        let begun = planned.begin(planned.path(path, costs));
        async move {
            match begun {
                Begun::Done(done) => done,
                Begun::Open(path) => planned.decide(path, Purpose::Check).await,
            }
            .map(|admitted| admitted.allowed)
        }
    }

    /// Takes the costs, one for each dimension, from every level of the path, or takes nothing.
    ///
    /// They are settled when the true costs are known.
    ///
    /// # Errors
    ///
    /// It fails as [`check`](Self::check) does.
    ///
    /// # Cancel safety
    ///
    /// A call that is dropped before it is ready may have taken its tokens, which then count as used. The server also counts them as
    /// [unsettled](crate::RedisLimiterBuilder::unsettled), and forgets that after two
    /// [times-to-live](crate::RedisLimiterBuilder::time_to_live) at the latest. The same holds for a call that the
    /// [policy](crate::WhenDown) decides because the server's reply is late.
    pub fn reserve<K: RedisKey + ?Sized>(
        &self,
        path: &[(&K, [&Plan; DIMENSIONS]); LEVELS],
        costs: [u32; DIMENSIONS],
    ) -> impl Future<Output = Result<RedisTreeReservation<DIMENSIONS>, TreeDenied>> + Send + use<K, LEVELS, DIMENSIONS>
    {
        let planned = Arc::clone(&self.planned);
        let path = planned.path(path, costs);
        // An estimate of 0 may be settled to more.
        let mut idle = path.clone();
        idle.retain(|step| step.cost == 0);
        let begun = planned.begin(path);
        async move {
            let admitted = match begun {
                Begun::Done(done) => done,
                Begun::Open(path) => planned.decide(path, Purpose::Reserve).await,
            };
            admitted.map(|admitted| RedisTreeReservation::new(planned, costs, admitted, idle))
        }
    }

    /// Asks the server how much of each level and dimension is used, and takes nothing.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the server does not answer in time.
    pub fn usage<K: RedisKey + ?Sized>(
        &self,
        path: &[(&K, [&Plan; DIMENSIONS]); LEVELS],
    ) -> impl Future<Output = Result<[[Usage; DIMENSIONS]; LEVELS], Unavailable>> + Send + use<K, LEVELS, DIMENSIONS>
    {
        let planned = Arc::clone(&self.planned);
        let path = planned.path(path, [0; DIMENSIONS]);
        async move {
            let usages = planned.look(&path).await?;
            let unlimited = usage_elsewhere(Quota::UNLIMITED, u32::MAX, 0, Some(Duration::ZERO));
            let mut found = [[unlimited; DIMENSIONS]; LEVELS];
            for (step, usage) in path.steps.iter().zip(usages) {
                found[step.place.0][step.place.1] = usage;
            }
            Ok(found)
        }
    }

    /// Returns the names of the levels. The last one is the root.
    #[must_use]
    pub fn levels(&self) -> [&'static str; LEVELS] {
        core::array::from_fn(|level| self.planned.settings().levels[level])
    }

    /// Returns the names of the dimensions.
    #[must_use]
    pub fn dimensions(&self) -> [&'static str; DIMENSIONS] {
        core::array::from_fn(|dimension| self.planned.settings().dimensions[dimension])
    }

    /// Returns the tree's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.planned.fleet().name
    }

    /// Returns how many buckets this process remembers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.planned.len()
    }

    /// Returns whether this process remembers no bucket.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the status of the tree.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        self.planned.status()
    }

    /// Returns the counts of the tree's work since it was built.
    #[must_use]
    pub fn counts(&self) -> RedisCounts {
        self.planned.counts()
    }
}

impl<const LEVELS: usize, const DIMENSIONS: usize> Clone for RedisTree<LEVELS, DIMENSIONS> {
    fn clone(&self) -> Self {
        Self { planned: Arc::clone(&self.planned) }
    }
}

impl<const LEVELS: usize, const DIMENSIONS: usize> fmt::Debug for RedisTree<LEVELS, DIMENSIONS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTree")
            .field("name", &self.name())
            .field("levels", &self.levels())
            .field("dimensions", &self.dimensions())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::RedisTree;
    use crate::RedisLimiter;
    use crate::by_plan::planned::Begun;
    use crate::script::Level;
    use damper_core::{Plan, Quota};

    #[test]
    fn call_that_another_bucket_refuses_uses_up_no_probe() {
        let builder = RedisLimiter::connect("redis://127.0.0.1/");
        let tree: RedisTree<2, 1> = builder.build_tree_lazy(["user", "organisation"], ["requests"]).unwrap();
        let plan = Plan::new(Quota::per_hour(10)).unwrap();
        let path = || tree.planned.path(&[("alice", [&plan]), ("acme", [&plan])], [1]);
        let is_refused = || matches!(tree.planned.begin(path()), Begun::Done(Err(_)));
        let steps = path().steps;
        let level = |version, owed| Level { version, at: 0, owed, frac: 0, held: 0, full_at: u64::MAX };
        let later = tree.planned.fleet().server.now() + 10_000_000;
        // Alice has no tokens by the last reply, and one call may ask again. The organisation refuses for ten seconds.
        steps[0].bucket.see(&level(1, 10), &steps[0].terms, 0, later, false);
        steps[1].bucket.see(&level(1, 10), &steps[1].terms, 0, later, true);
        assert!(is_refused());
        // Tokens of the organisation come back.
        steps[1].bucket.see(&level(2, 0), &steps[1].terms, 0, 0, false);
        assert!(!is_refused(), "the call asks, because no call has asked for alice yet");
        assert!(is_refused(), "the next one does not");
    }
}
