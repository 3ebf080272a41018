//! A limit per key across machines.

use super::redis_limiter::unlimited;
use super::reservation::Reserved;
use super::settings::Parts;
use super::shared::{FirstLook, Shared};
use super::subject_limit::SubjectLimit;
use super::tender::retire;
use super::{RedisCounts, RedisKey, RedisLimiterError, RedisReservation, RedisStatus, Unavailable};
use crate::script::{Keys, with_kept};
use core::fmt;
use core::time::Duration;
use damper_core::internal::usage_elsewhere;
use damper_core::{Allowed, BoundedStore, Denied, Quota, Usage};
use std::sync::Arc;

/// A limit for each key, which processes on several machines share through Redis.
///
/// It is like [`RedisLimiter`](crate::RedisLimiter), but each key has a limit: a tenant, a user, a client's address. Clones share the
/// limiter.
///
/// # Memory
///
/// The server has the limits, each in some 232 bytes until it is full again: see [the server](crate#on-the-server). This process keeps
/// state for the keys that it used last, as many as the [capacity](crate::RedisLimiterBuilder::capacity). With one quota, a key of 16
/// bytes takes some 630 bytes, and the longest some 850. Of a key with more than 128 bytes, a prefix and the SHA-1 are kept. Eviction of
/// a key loses nothing, because its lease is returned and its pending charges are sent. If the server does not answer then, the
/// pending charges are lost. Keys with a lease or something pending are evicted last.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use damper::Quota;
/// use damper::redis::RedisLimiter;
///
/// let tenants = RedisLimiter::connect("redis://127.0.0.1/")
///     .name("tenants")
///     .quota(Quota::per_second(50))
///     .also(Quota::per_hour(10_000))
///     .build_keyed()
///     .await?;
/// tenants.check("tenant-42").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KeyedRedisLimiter {
    state: Arc<State>,
}

/// The state that all clones share. Dropping the last clone drops it.
enum State {
    Limited { shared: Arc<Shared>, limits: BoundedStore<Vec<u8>, SubjectLimit> },
    Unlimited { name: String, quotas: Vec<Quota> },
}

impl Drop for State {
    fn drop(&mut self) {
        if let Self::Limited { shared, limits } = self {
            let tended = limits.iter().map(|(_, limit)| limit).filter(|limit| limit.is_tended());
            retire(shared, tended.collect());
        }
    }
}

/// A handle of the limit of one key, or of a limiter's only limit.
pub(crate) struct LimitHandle {
    shared: Arc<Shared>,
    limit: Arc<SubjectLimit>,
}

impl LimitHandle {
    pub(super) fn new(shared: Arc<Shared>, limit: Arc<SubjectLimit>) -> Self {
        Self { shared, limit }
    }

    /// Decides on `n` tokens, if this process can.
    pub(crate) fn begin(&self, n: u32) -> FirstLook {
        self.shared.begin(&self.limit, n)
    }

    /// Decides on `n` tokens after the first look.
    pub(crate) async fn decide(self, n: u32, first_look: FirstLook) -> Result<Allowed, Denied> {
        match first_look {
            FirstLook::Done(answer) => answer,
            FirstLook::Open(open) => self.shared.decide(&self.limit, n, open).await,
        }
    }

    /// Corrects a cost of `taken` tokens to `used`.
    pub(crate) fn settle(&self, taken: u32, used: u32) {
        if used > taken {
            self.shared.charge(&self.limit, used - taken);
        } else {
            self.shared.refund(&self.limit, taken - used);
        }
    }
}

impl KeyedRedisLimiter {
    pub(super) fn new(parts: Parts, capacity: usize) -> Result<Self, RedisLimiterError> {
        let state = match parts {
            Parts::Limited(shared) => {
                let limits = BoundedStore::new(capacity)?;
                State::Limited { shared, limits: limits.keep_if(SubjectLimit::is_tended) }
            }
            Parts::Unlimited { name, quotas } => State::Unlimited { name, quotas },
        };
        Ok(Self { state: Arc::new(state) })
    }

    /// Returns a handle of the limit of a key; `None` if the quota is unlimited.
    pub(crate) fn of<K: RedisKey + ?Sized>(&self, key: &K) -> Option<LimitHandle> {
        let State::Limited { shared, limits } = &*self.state else { return None };
        let limit = key.with_bytes(|bytes| {
            let make = || {
                let limit = SubjectLimit::new(&shared.plan, Keys::new(&shared.fleet.tags, &shared.fleet.name, bytes));
                limit.with_shares_from(shared.fleet.shares_from(|| limits.kept_evictions()))
            };
            with_kept(bytes, |kept| limits.get_or_insert_with(kept, make))
        });
        Some(LimitHandle::new(Arc::clone(shared), limit))
    }

    /// Takes one token of this key if there is one.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry.
    ///
    /// # Cancel safety
    ///
    /// A check that is dropped before it is ready may have taken its token. The call itself takes leased tokens, before the future is
    /// polled.
    ///
    /// Poll the future soon, or drop it. It may hold the request for leased tokens that other checks of the key wait for, and the first
    /// poll sends it.
    pub fn check<K: RedisKey + ?Sized>(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<Allowed, Denied>> + Send + use<K> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens of this key if all of them are there, else none.
    ///
    /// A check of 0 tokens is always allowed.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, or that `n` exceeds the burst.
    ///
    /// # Cancel safety
    ///
    /// A check that is dropped before it is ready may have taken its tokens, as in [`check`](Self::check).
    pub fn check_n<K: RedisKey + ?Sized>(
        &self,
        key: &K,
        n: u32,
    ) -> impl Future<Output = Result<Allowed, Denied>> + Send + use<K> {
        let first_look = self.of(key).map(|handle| (handle.begin(n), handle));
        async move {
            match first_look {
                None => Ok(unlimited()),
                Some((FirstLook::Done(answer), _)) => answer,
                Some((open, handle)) => handle.decide(n, open).await,
            }
        }
    }

    /// Takes `n` tokens of this key for a call whose cost is known later.
    ///
    /// # Errors
    ///
    /// The errors of [`check_n`](Self::check_n).
    pub fn reserve<K: RedisKey + ?Sized>(
        &self,
        key: &K,
        n: u32,
    ) -> impl Future<Output = Result<RedisReservation, Denied>> + Send + use<K> {
        let handle = self.of(key);
        let check = self.check_n(key, n);
        async move { Ok(RedisReservation::new(Reserved::Key(handle), n, check.await?)) }
    }

    /// Gives back up to `n` tokens that this key took and did not need, as [`RedisLimiter::refund`](crate::RedisLimiter::refund) does.
    pub fn refund<K: RedisKey + ?Sized>(&self, key: &K, n: u32) {
        if let Some(handle) = self.of(key) {
            handle.settle(n, 0);
        }
    }

    /// Books `n` tokens of this key after the fact, as [`RedisLimiter::charge`](crate::RedisLimiter::charge) does.
    pub fn charge<K: RedisKey + ?Sized>(&self, key: &K, n: u32) {
        if let Some(handle) = self.of(key) {
            handle.settle(0, n);
        }
    }

    /// Asks the server how much of this key's limit is used, and takes nothing.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the server does not answer in time.
    pub fn usage<K: RedisKey + ?Sized>(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<Usage, Unavailable>> + Send + use<K> {
        let handle = self.of(key);
        async move {
            match handle {
                Some(LimitHandle { shared, limit }) => shared.usage(&limit).await,
                None => Ok(usage_elsewhere(Quota::UNLIMITED, u32::MAX, 0, Some(Duration::ZERO))),
            }
        }
    }

    /// Fills this key's limit again for all processes, as [`RedisLimiter::reset`](crate::RedisLimiter::reset) does.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the server does not answer in time. It may still have reset the limit.
    pub fn reset<K: RedisKey + ?Sized>(
        &self,
        key: &K,
    ) -> impl Future<Output = Result<(), Unavailable>> + Send + use<K> {
        let handle = self.of(key);
        async move {
            match handle {
                Some(LimitHandle { shared, limit }) => shared.reset(&limit).await,
                None => Ok(()),
            }
        }
    }

    /// Returns the quotas of each key, in their order.
    ///
    /// Unlimited ones are left out if there is a limited one.
    pub fn quotas(&self) -> &[Quota] {
        match &*self.state {
            State::Limited { shared, .. } => &shared.quotas,
            State::Unlimited { quotas, .. } => quotas,
        }
    }

    /// Returns the limit's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match &*self.state {
            State::Limited { shared, .. } => &shared.fleet.name,
            State::Unlimited { name, .. } => name,
        }
    }

    /// Returns how many keys this process keeps.
    #[must_use]
    pub fn len(&self) -> usize {
        match &*self.state {
            State::Limited { limits, .. } => limits.len(),
            State::Unlimited { .. } => 0,
        }
    }

    /// Returns whether this process keeps no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the status of the limiter.
    ///
    /// It reads the lease of each key.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        match &*self.state {
            State::Limited { shared, limits } => {
                let mut leased = 0;
                limits.for_each(|limit| leased += u64::from(limit.subject.holdings().tokens));
                shared.fleet.status(leased)
            }
            State::Unlimited { .. } => RedisStatus::unlimited(),
        }
    }

    /// Returns the counts of the limiter's work for all keys since it was built.
    ///
    /// It reads the lease of each key.
    #[must_use]
    pub fn counts(&self) -> RedisCounts {
        match &*self.state {
            State::Limited { shared, limits } => {
                let mut uncounted = 0;
                limits.for_each(|limit| uncounted += limit.uncounted());
                shared.fleet.counts(uncounted)
            }
            State::Unlimited { .. } => RedisCounts::default(),
        }
    }
}

impl fmt::Debug for KeyedRedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedRedisLimiter")
            .field("name", &self.name())
            .field("quotas", &self.quotas())
            .finish_non_exhaustive()
    }
}
