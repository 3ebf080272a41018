//! The limiters as gates.

use crate::limiter::{FirstLook, KeyedRedisLimiter, LimitHandle, RedisKey, RedisLimiter};
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use damper_core::Denied;
use damper_core::gate::{Answer, AnswerOf, Ask, AskCost, Gate, WaitsWith, keep};
use damper_core::internal::Keepable;

/// The wait for a decision that the server or the policy makes.
///
/// Poll it soon, or drop it. It may hold the request for leased tokens that other calls wait for, and the first poll sends it.
#[must_use = "futures do nothing unless polled"]
pub struct RedisWait(Pin<Box<dyn Future<Output = Result<(), Denied>> + Send>>);

impl Future for RedisWait {
    type Output = Result<(), Denied>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<S: Keepable> WaitsWith<S> for RedisWait {
    fn keep(&self, service: &mut S) -> S {
        keep(service)
    }
}

impl fmt::Debug for RedisWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisWait").finish_non_exhaustive()
    }
}

/// Returns the answer of the first look, or a wait in which `limit` decides.
fn answer(
    first_look: Option<FirstLook>,
    limit: impl FnOnce() -> Option<LimitHandle>,
    cost: u32,
) -> Answer<(), RedisWait, Denied> {
    let open = match first_look {
        None => return Answer::Pass(()),
        Some(FirstLook::Done(decided)) => return decided.map(drop).into(),
        Some(open) => open,
    };
    match limit() {
        // An open check has a limit.
        None => Answer::Pass(()),
        Some(limit) => Answer::Wait(RedisWait(Box::pin(async move { limit.decide(cost, open).await.map(drop) }))),
    }
}

/// One limit for all calls of all processes. A call that leased tokens allow does not wait.
///
/// # Examples
///
/// ```no_run
/// # mod damper { pub use damper_core::*; pub extern crate damper_redis as redis; }
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use damper::Quota;
/// use damper::gate::{Answer, Ask};
/// use damper::redis::RedisLimiter;
///
/// let fleet = RedisLimiter::connect("redis://127.0.0.1/").quota(Quota::per_second(10_000)).build().await?;
/// match fleet.ask("a call") {
///     Answer::Pass(()) => println!("allowed by a lease"),
///     Answer::Wait(wait) => println!("decided by the server: {:?}", wait.await),
///     Answer::Refuse(denied) => println!("{denied}"),
/// }
/// # Ok(())
/// # }
/// ```
impl Gate for RedisLimiter {
    type Permit = ();
    type Refusal = Denied;
    type Wait = RedisWait;
}

impl<Q: ?Sized> AskCost<Q> for RedisLimiter {
    fn ask_cost(&self, _: &Q, tokens: u32) -> AnswerOf<Self> {
        answer(self.begin(tokens), || self.handle(), tokens)
    }
}

impl<Q: ?Sized> Ask<Q> for RedisLimiter {
    fn ask(&self, call: &Q) -> AnswerOf<Self> {
        self.ask_cost(call, 1)
    }
}

/// A limit for each key, for the calls of all processes. It is the store of a [`PerKey`](damper_core::gate::PerKey).
impl Gate for KeyedRedisLimiter {
    type Permit = ();
    type Refusal = Denied;
    type Wait = RedisWait;
}

impl<K: RedisKey + ?Sized> Ask<K> for KeyedRedisLimiter {
    fn ask(&self, key: &K) -> AnswerOf<Self> {
        self.ask_cost(key, 1)
    }
}

impl<K: RedisKey + ?Sized> AskCost<K> for KeyedRedisLimiter {
    fn ask_cost(&self, key: &K, tokens: u32) -> AnswerOf<Self> {
        let limit = self.of(key);
        let first_look = limit.as_ref().map(|limit| limit.begin(tokens));
        answer(first_look, || limit, tokens)
    }
}
