//! Futures that wait for tokens.

use super::{Acquire, Place, Queue};
use crate::limit::Denied;
use crate::time::Sleep;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// The longest sleep of a waiter, so that it notices a refund or a change of the quota in time.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

pin_project! {
    /// Waits for tokens, and is ready when they are there and taken.
    ///
    /// [`Acquire::sleeping_by`](super::Acquire::sleeping_by) returns it.
    ///
    /// It takes its place in the order when it is first polled. It sleeps until its tokens are there, but for at most
    /// a second at a time. So a refund or a change of the quota reaches it within a second, even if its tokens were
    /// due later.
    ///
    /// A clock that steps back by more than it should makes the waiter wait for as much longer: checks are healed
    /// after such a step, but the moment that a waiter was given is not.
    ///
    /// # Errors
    ///
    /// [`Denied`](crate::Denied), as for `Acquire::wait`, when it is first polled and never later.
    ///
    /// # Cancel safety
    ///
    /// A future that is dropped while it waits gives its tokens back if it is the last in the queue. Otherwise they
    /// count as used, because the waiters behind it already have their moments. They also count as used once its own
    /// moment has come. So no token is handed out twice, but many futures dropped with others behind them waste the
    /// rate. To limit the time, wait [`within`](super::Acquire::within) it instead of dropping the future. In a loop
    /// of `select!`, create the future once and pin it outside.
    ///
    /// A future that is dropped before it was polled takes no tokens. One that is polled again after it was ready
    /// waits for further tokens.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct AcquireFuture<Q: Queue, S: Sleep> {
        acquire: Acquire<Q>,
        sleep: S,
        // It is `Some` while the future waits.
        progress: Option<Progress<Q::Place>>,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }

    impl<Q: Queue, S: Sleep> PinnedDrop for AcquireFuture<Q, S> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(Progress::Waiting(place)) = this.project().progress.take() {
                place.cancel();
            }
        }
    }
}

/// The progress of a wait.
#[derive(Debug)]
enum Progress<P> {
    /// The tokens are not known to be there yet.
    Waiting(P),
    /// The tokens are there, and the future only waits for the jitter.
    Lingering,
}

impl<Q: Queue, S: Sleep> AcquireFuture<Q, S> {
    pub(super) fn new(acquire: Acquire<Q>, sleep: S) -> Self {
        Self { acquire, sleep, progress: None, sleeping: None }
    }

    /// Returns a sleep by this future's timer.
    #[cfg(feature = "futures")]
    pub(super) fn sleep_for(&self, duration: Duration) -> S::Sleeping {
        self.sleep.sleep(duration)
    }
}

impl<Q: Queue, S: Sleep> Future for AcquireFuture<Q, S> {
    type Output = Result<(), Denied>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            if let Some(sleeping) = this.sleeping.as_mut().as_pin_mut() {
                ready!(sleeping.poll(context));
                this.sleeping.set(None);
            }
            let wait = match this.progress {
                None => {
                    *this.progress = Some(Progress::Waiting(this.acquire.reserve()?));
                    continue;
                }
                Some(Progress::Waiting(place)) => match place.ready_in() {
                    Some(Duration::ZERO) => {
                        *this.progress = Some(Progress::Lingering);
                        this.acquire.draw_jitter()
                    }
                    Some(wait) => wait.min(LONGEST_SLEEP),
                    None => LONGEST_SLEEP,
                },
                Some(Progress::Lingering) => Duration::ZERO,
            };
            if wait.is_zero() {
                *this.progress = None;
                return Poll::Ready(Ok(()));
            }
            this.sleeping.set(Some(this.sleep.sleep(wait)));
        }
    }
}

impl<Q: Queue + core::fmt::Debug, S: Sleep> core::fmt::Debug for AcquireFuture<Q, S>
where
    Q::Place: core::fmt::Debug,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AcquireFuture")
            .field("acquire", &self.acquire)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
