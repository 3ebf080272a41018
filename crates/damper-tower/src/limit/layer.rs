//! Which limiter, and whether to wait.

use super::{LimitService, OneToken, SharedLimiter, WaitingLimiter};
use crate::{NoDeadline, Refusing, Waiting, WaitingService};
use core::fmt;
use core::time::Duration;
use damper_core::time::Sleep;
#[cfg(feature = "tokio")]
use damper_core::time::TokioSleep;

/// Puts services of any request behind a limiter: what a client sends at most.
///
/// Each call takes a token, or its [cost](Self::cost). Where there is none, the call is refused with [`CallError::Refused`](damper_core::CallError),
/// or [waits](Self::waiting) for one, first come first served.
///
/// Put it inside of what tries again, so that each try takes a token. Its refusal is not retried by damper's retries: the
/// limiter has said that there is nothing to send with.
///
/// Clones, and all services that one makes, share the limiter. Tokens are taken in `call`, never in `poll_ready`: a caller
/// may poll for readiness and go away, and a token taken there would be lost.
///
/// For a candidate that decides beside the limiter and changes nothing, pass a [`Shadowed`](damper_core::shadow::Shadowed) limiter.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
/// # #[cfg(feature = "tokio")] {
/// use damper::CallError;
/// use damper::tower::LimitLayer;
/// use damper::{Quota, RateLimiter};
/// use std::time::Duration;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
///
/// static QUERIES: RateLimiter = RateLimiter::new(Quota::per_second(100).burst(1));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn run() {
/// let parse = service_fn(async |query: &'static str| query.parse::<u32>());
/// let mut refusing = ServiceBuilder::new().layer(LimitLayer::new(&QUERIES)).service(parse);
/// assert_eq!(refusing.ready().await.unwrap().call("42").await, Ok(42));
/// let refused = refusing.ready().await.unwrap().call("42").await;
/// assert!(matches!(refused, Err(CallError::Refused(_))));
///
/// let waiting = LimitLayer::new(&QUERIES).waiting(Duration::from_secs(1));
/// let mut waiting = ServiceBuilder::new().layer(waiting).service(parse);
/// assert_eq!(waiting.ready().await.unwrap().call("42").await, Ok(42));
/// # }
/// # run(); }
/// ```
#[derive(Clone)]
pub struct LimitLayer<A, W = OneToken> {
    admission: A,
    cost: W,
}

impl<L> LimitLayer<Refusing<L>> {
    /// Creates a layer that refuses calls without tokens, by any [`Limiter`](damper_core::Limiter).
    ///
    /// A reference to a `static`, or an `Arc`.
    pub fn new(limiter: L) -> Self
    where
        L: SharedLimiter,
    {
        Self { admission: Refusing(limiter), cost: OneToken }
    }
}

impl<L, W> LimitLayer<Refusing<L>, W> {
    /// Lets calls wait for tokens by tokio's timer, for at most `longest`. Default: they do not wait.
    ///
    /// A call that would wait longer is refused at once. The service has to be `Clone`, because the call is made after the
    /// wait. A call that waits allocates, a call that does not wait does not. If requests have deadlines, set
    /// [`deadline_by`](LimitLayer::deadline_by).
    #[cfg(feature = "tokio")]
    pub fn waiting(self, longest: Duration) -> LimitLayer<Waiting<L, TokioSleep>, W>
    where
        L: WaitingLimiter,
    {
        self.waiting_by(longest, TokioSleep)
    }

    /// Lets calls wait for tokens as [`waiting`](Self#method.waiting) does, by a [`Sleep`] of your own.
    pub fn waiting_by<Z: Sleep>(self, longest: Duration, sleep: Z) -> LimitLayer<Waiting<L, Z>, W>
    where
        L: WaitingLimiter,
    {
        let admission = Waiting { limit: self.admission.0, longest, sleep, find_deadline: NoDeadline };
        LimitLayer { admission, cost: self.cost }
    }
}

impl<A> LimitLayer<A> {
    /// Sets the cost of a request, in tokens, by a closure. Default: 1.
    ///
    /// A request that costs 0 always passes. One that costs more than the burst is always refused. The limiter has no way to
    /// correct the cost by the response: for that call [`reserve`](damper_core::RateLimiter::reserve) and settle in a service
    /// of your own, or use the rate limit layer of `damper::http`.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// use damper::tower::LimitLayer;
    /// use damper::{Quota, RateLimiter};
    ///
    /// struct Query {
    ///     rows: u32,
    /// }
    ///
    /// static ROWS: RateLimiter = RateLimiter::new(Quota::per_second(10_000));
    ///
    /// let layer = LimitLayer::new(&ROWS).cost(|query: &Query| query.rows);
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn cost<W>(self, cost: W) -> LimitLayer<A, W> {
        LimitLayer { admission: self.admission, cost }
    }
}

impl<L, Z, D, W> LimitLayer<Waiting<L, Z, D>, W> {
    /// Sets where the deadline of a request is found. Default: no request has one.
    ///
    /// A call that would wait beyond it is refused at once.
    ///
    /// By a closure, or for requests of HTTP by `damper::http::RequestDeadline`: see [`FindDeadline`](crate::FindDeadline).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod damper { pub use damper_core::*; pub extern crate damper_tower as tower; }
    /// # #[cfg(feature = "tokio")] {
    /// use damper::tower::LimitLayer;
    /// use damper::{Deadline, Quota, RateLimiter};
    /// use std::time::Duration;
    ///
    /// struct Query {
    ///     deadline: Deadline,
    /// }
    ///
    /// static QUERIES: RateLimiter = RateLimiter::new(Quota::per_second(100));
    ///
    /// let waiting = LimitLayer::new(&QUERIES).waiting(Duration::from_secs(1));
    /// let layer = waiting.deadline_by(|query: &Query| Some(query.deadline));
    /// # let _ = layer;
    /// # }
    /// ```
    pub fn deadline_by<F>(self, find_deadline: F) -> LimitLayer<Waiting<L, Z, F>, W> {
        LimitLayer { admission: self.admission.deadline_by(find_deadline), cost: self.cost }
    }
}

impl<L: Clone, W: Clone, S> tower_layer::Layer<S> for LimitLayer<Refusing<L>, W> {
    type Service = LimitService<S, Refusing<L>, W>;

    fn layer(&self, service: S) -> Self::Service {
        LimitService::new(service, self.admission.clone(), self.cost.clone())
    }
}

impl<L: Clone, Z: Clone, D: Clone, W: Clone, S: WaitingService> tower_layer::Layer<S>
    for LimitLayer<Waiting<L, Z, D>, W>
{
    type Service = LimitService<S, Waiting<L, Z, D>, W>;

    fn layer(&self, service: S) -> Self::Service {
        LimitService::new(service, self.admission.clone(), self.cost.clone())
    }
}

impl<A, W> fmt::Debug for LimitLayer<A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitLayer").finish_non_exhaustive()
    }
}
