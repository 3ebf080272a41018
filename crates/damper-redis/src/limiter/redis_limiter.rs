//! One limit across machines.

use super::builder::{RedisLimiterBuilder, Topology};
use super::reservation::Reserved;
use super::settings::{LimiterKind, Parts};
use super::shared::{FirstLook, Shared};
use super::subject_limit::SubjectLimit;
use super::tender::retire;
use super::{RedisCounts, RedisReservation, RedisStatus, Unavailable};
use crate::micros::MicrosClock;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::internal::{allowed_on, usage_elsewhere};
use damper_core::{Allowed, Denied, Quota, Usage};
use std::sync::Arc;

/// One limit that processes on several machines share through Redis.
///
/// Clones share the limiter. When the last one is dropped on a runtime, its leased tokens are returned.
///
/// A check is decided in one of three ways, always within the [deadline](RedisLimiterBuilder::deadline):
///
/// - **By leased tokens.** Where this process spends much of the limit, it holds tokens that the server has set aside for it. Such a
///   check takes 1.4 to 1.9 times as long as a local one: it takes no lock, allocates nothing and does not wait.
/// - **By the server**, in one round trip.
/// - **By the [policy](crate::WhenDown)**, if the server does not answer in time.
///
/// A denial says how long to wait, and until then this process denies without asking. Every five seconds one check still asks the
/// server, because another process may have reset the limit or given tokens back.
///
/// # Runtime
///
/// Checks that the server decides, and the tasks behind them, run on tokio, of any flavor, with its timers and I/O enabled. Without
/// a runtime the policy decides. A limiter may be used on several runtimes; a connection ends with the runtime that it was made on,
/// and is replaced.
///
/// # Cancel safety
///
/// A check that is dropped before it is ready may have taken its tokens, but never more.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use damper::Quota;
/// use damper::redis::{RedisLimiter, WhenDown};
///
/// let fleet = RedisLimiter::connect("redis://127.0.0.1/")
///     .name("orders")
///     .quota(Quota::per_second(10_000))
///     .when_down(WhenDown::LocalShare)
///     .build()
///     .await?;
///
/// match fleet.check().await {
///     Ok(allowed) => println!("{} left", allowed.remaining()),
///     Err(denied) => println!("{denied}"), // rate limit exceeded, retry in 1.2 s
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisLimiter {
    state: Arc<State>,
}

/// The state that all clones share. Dropping the last clone drops it.
enum State {
    Limited { shared: Arc<Shared>, limit: Arc<SubjectLimit> },
    Unlimited { name: String, quotas: Vec<Quota> },
}

impl Drop for State {
    fn drop(&mut self) {
        if let Self::Limited { shared, limit } = self {
            retire(shared, vec![Arc::clone(limit)]);
        }
    }
}

impl RedisLimiter {
    /// Creates a builder of limiters on the server with this URL.
    ///
    /// The URL has the form `redis://[user:password@]host[:port][/database]`, or `unix:` and the path of a socket.
    pub fn connect(url: impl Into<String>) -> RedisLimiterBuilder {
        RedisLimiterBuilder::new(vec![url.into()], Topology::Server)
    }

    /// Creates a builder of limiters on a cluster of which some servers have these URLs.
    pub fn cluster<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> RedisLimiterBuilder {
        RedisLimiterBuilder::new(urls.into_iter().map(Into::into).collect(), Topology::Cluster)
    }

    pub(super) fn new(parts: Parts) -> Self {
        let state = match parts {
            Parts::Limited(shared) => {
                let keys = LimiterKind::OneLimit.keys(&shared.fleet.tags, &shared.fleet.name);
                let limit = Arc::new(SubjectLimit::new(&shared.plan, keys));
                State::Limited { shared, limit }
            }
            Parts::Unlimited { name, quotas } => State::Unlimited { name, quotas },
        };
        Self { state: Arc::new(state) }
    }

    /// Decides on `n` tokens, if this process can. Returns `None` if the quota is unlimited.
    pub(crate) fn begin(&self, n: u32) -> Option<FirstLook> {
        match &*self.state {
            State::Limited { shared, limit } => Some(shared.begin(limit, n)),
            State::Unlimited { .. } => None,
        }
    }

    /// Returns a handle of the limit; `None` if the quota is unlimited.
    pub(crate) fn handle(&self) -> Option<super::LimitHandle> {
        match &*self.state {
            State::Limited { shared, limit } => Some(super::LimitHandle::new(Arc::clone(shared), Arc::clone(limit))),
            State::Unlimited { .. } => None,
        }
    }

    /// Takes one token if there is one.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry.
    ///
    /// # Cancel safety
    ///
    /// A check that is dropped before it is ready may have taken its token.
    #[inline]
    pub fn check(&self) -> impl Future<Output = Result<Allowed, Denied>> + Send + '_ {
        self.check_n(1)
    }

    /// Takes `n` tokens if all of them are there, else none. A check of 0 tokens is always allowed.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, or that `n` exceeds the burst.
    ///
    /// # Cancel safety
    ///
    /// A check that is dropped before it is ready may have taken its tokens.
    #[inline]
    pub fn check_n(&self, n: u32) -> impl Future<Output = Result<Allowed, Denied>> + Send + '_ {
        Check { state: &self.state, n, later: None }
    }

    /// Takes `n` tokens for a call whose cost is known later.
    ///
    /// # Errors
    ///
    /// The errors of [`check_n`](Self::check_n).
    ///
    /// # Cancel safety
    ///
    /// A reservation that is dropped before it is ready may have taken its tokens.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
    /// # async fn complete(prompt: &str) -> u32 { 420 }
    /// # async fn run(tokens: damper::redis::RedisLimiter) -> Result<(), damper::Denied> {
    /// let reservation = tokens.reserve(500).await?; // an estimate
    /// let bill = complete("a prompt").await;
    /// reservation.settle(bill);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve(&self, n: u32) -> Result<RedisReservation, Denied> {
        let allowed = self.check_n(n).await?;
        Ok(RedisReservation::new(Reserved::Limiter(self.clone()), n, allowed))
    }

    /// Gives back up to `n` tokens that were taken and not needed.
    ///
    /// The tokens go into the lease of this process, or to the server with the next command, within some 100 ms. A full limit accepts
    /// none. If the command is lost, the refund is lost too.
    pub fn refund(&self, n: u32) {
        if let State::Limited { shared, limit } = &*self.state {
            shared.refund(limit, n);
        }
    }

    /// Books `n` tokens after the fact, whether they are there or not.
    ///
    /// The tokens come from the lease of this process, or the next command charges them, within some 100 ms. If the command is lost, the
    /// charge is sent again after the server has replied to another command, so it may count twice. The debt is at most [`Quota::max_debt`].
    pub fn charge(&self, n: u32) {
        if let State::Limited { shared, limit } = &*self.state {
            shared.charge(limit, n);
        }
    }

    /// Asks the server how much of the limit is used, and takes nothing.
    ///
    /// Tokens that other processes have leased count as used. If there are several quotas, the result describes the one with the fewest
    /// tokens left.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the server does not answer in time.
    pub async fn usage(&self) -> Result<Usage, Unavailable> {
        match &*self.state {
            State::Limited { shared, limit } => shared.usage(limit).await,
            State::Unlimited { .. } => {
                Ok(usage_elsewhere(Quota::UNLIMITED, u32::MAX, 0, Some(core::time::Duration::ZERO)))
            }
        }
    }

    /// Makes the limit full again for all processes, but for the tokens that are leased.
    ///
    /// A reset allows at most one more burst. A process that denied a check before may continue to deny for five seconds.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the server does not answer in time. It may still have reset the limit.
    pub async fn reset(&self) -> Result<(), Unavailable> {
        match &*self.state {
            State::Limited { shared, limit } => shared.reset(limit).await,
            State::Unlimited { .. } => Ok(()),
        }
    }

    /// Returns the quotas, in their order. Unlimited ones are left out if there is a limited one.
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

    /// Returns the status of the limiter.
    #[must_use]
    pub fn status(&self) -> RedisStatus {
        match &*self.state {
            State::Limited { shared, limit } => shared.fleet.status(limit.subject.holdings().tokens.into()),
            State::Unlimited { .. } => RedisStatus::unlimited(),
        }
    }

    /// Returns the counts of the limiter's work since it was built.
    #[must_use]
    pub fn counts(&self) -> RedisCounts {
        match &*self.state {
            State::Limited { shared, limit } => shared.fleet.counts(limit.uncounted()),
            State::Unlimited { .. } => RedisCounts::default(),
        }
    }
}

/// The future of a check that this process cannot decide.
type SlowCheck<'a> = Pin<Box<dyn Future<Output = Result<Allowed, Denied>> + Send + 'a>>;

/// The future of a check, written by hand.
///
/// The state of an `async fn` would double the cost of a check that is decided at once.
struct Check<'a> {
    state: &'a State,
    n: u32,
    /// The rest of the check, if this process cannot decide it.
    later: Option<SlowCheck<'a>>,
}

impl Future for Check<'_> {
    type Output = Result<Allowed, Denied>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.later.is_some() {
            return self.poll_later(context);
        }
        match self.state {
            State::Limited { shared, limit } => match shared.begin(limit, self.n) {
                FirstLook::Done(answer) => Poll::Ready(answer),
                FirstLook::Open(open) => {
                    self.later = Some(Box::pin(shared.decide(limit, self.n, open)));
                    self.poll_later(context)
                }
            },
            State::Unlimited { .. } => Poll::Ready(Ok(unlimited())),
        }
    }
}

impl Check<'_> {
    /// Polls the rest of the check.
    #[cold]
    fn poll_later(&mut self, context: &mut Context<'_>) -> Poll<Result<Allowed, Denied>> {
        match &mut self.later {
            Some(later) => later.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

/// Returns the answer of an unlimited quota.
pub(crate) fn unlimited() -> Allowed {
    allowed_on(&MicrosClock, u32::MAX, 0)
}

impl fmt::Debug for RedisLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisLimiter")
            .field("name", &self.name())
            .field("quotas", &self.quotas())
            .finish_non_exhaustive()
    }
}
