//! A limit per key across machines, whose quota comes with the call.

use super::planned::{Begun, Planned, Purpose};
use crate::limiter::{RedisCounts, RedisKey, RedisStatus, Unavailable, unlimited};
use core::fmt;
use core::time::Duration;
use damper_core::internal::usage_elsewhere;
use damper_core::{Allowed, Denied, Plan, Quota, Usage};
use std::sync::Arc;

/// A limit for each key whose quota comes with each call, shared through Redis.
///
/// There can be any number of plans, and they can change from call to call. The server keeps for each key the instant at which its
/// bucket is full, as [`KeyedLimiter::by_plan`](damper_core::KeyedLimiter::by_plan) does in a process, so a key that is given another
/// plan keeps the *time* until its bucket is full. A [`RedisTree`](crate::RedisTree) says how accurate that is.
///
/// Every call is a round trip: nothing is leased. A [`KeyedRedisLimiter`](crate::KeyedRedisLimiter), whose quotas are fixed, leases to
/// busy keys. Clones share the limiter.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use damper::redis::RedisLimiter;
/// use damper::{Plan, Quota};
///
/// let users = RedisLimiter::connect("redis://127.0.0.1/").name("users").build_by_plan().await?;
/// let (free, pro) = (Plan::new(Quota::per_minute(60))?, Plan::new(Quota::per_minute(600))?);
/// users.check_with("alice", &free, 1).await?;
/// users.check_with("bob", &pro, 1).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PlannedRedisLimiter {
    planned: Arc<Planned>,
}

impl PlannedRedisLimiter {
    pub(crate) fn new(planned: Planned) -> Self {
        Self { planned: Arc::new(planned) }
    }

    /// Takes `n` tokens of this key's bucket under `plan` if all of them are there, else none.
    ///
    /// A check of 0 tokens is always allowed, and so is one under an [unlimited](Plan::UNLIMITED) plan, without asking the server.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, or that `n` exceeds the burst. After a refusal this process refuses the same without
    /// asking for up to 100 ms.
    ///
    /// # Cancel safety
    ///
    /// A check that is dropped before it is ready may have taken its tokens.
    pub fn check_with<K: RedisKey + ?Sized>(
        &self,
        key: &K,
        plan: &Plan,
        n: u32,
    ) -> impl Future<Output = Result<Allowed, Denied>> + Send + use<K> {
        let planned = Arc::clone(&self.planned);
        let begun = planned.begin(planned.path(&[(key, [plan])], [n]));
        async move {
            let decided = match begun {
                Begun::Done(done) => done,
                Begun::Open(path) => planned.decide(path, Purpose::Check).await,
            };
            match decided {
                Ok(admitted) => Ok(admitted.allowed.allowed().unwrap_or_else(unlimited)),
                Err(denied) => Err(denied.denied()),
            }
        }
    }

    /// Asks the server how much of this key's limit is used under `plan`, and takes nothing.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the server does not answer in time.
    pub fn usage_with<K: RedisKey + ?Sized>(
        &self,
        key: &K,
        plan: &Plan,
    ) -> impl Future<Output = Result<Usage, Unavailable>> + Send + use<K> {
        let planned = Arc::clone(&self.planned);
        let path = planned.path(&[(key, [plan])], [0]);
        async move {
            let usages = planned.look(&path).await?;
            let unlimited = || usage_elsewhere(Quota::UNLIMITED, u32::MAX, 0, Some(Duration::ZERO));
            Ok(usages.first().copied().unwrap_or_else(unlimited))
        }
    }

    /// Returns the limit's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.planned.fleet().name
    }

    /// Returns how many keys this process remembers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.planned.len()
    }

    /// Returns whether this process remembers no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the status of the limiter.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        self.planned.status()
    }

    /// Returns the counts of the limiter's work for all keys since it was built.
    #[must_use]
    pub fn counts(&self) -> RedisCounts {
        self.planned.counts()
    }
}

impl fmt::Debug for PlannedRedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedRedisLimiter").field("name", &self.name()).finish_non_exhaustive()
    }
}
