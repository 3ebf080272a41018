//! Futures that wait for tokens.

use super::{Place, Queue, TokensRequest};
use crate::limit::Denied;
use crate::time::Sleep;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use pin_project_lite::pin_project;

/// The longest sleep of a waiting future.
///
/// After each sleep the future looks at the limiter again. So it notices a refund or a new quota within this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

pin_project! {
    /// A future that takes tokens in advance, and is ready when they may be used.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct TokensFuture<Q: Queue, S: Sleep> {
        request: TokensRequest<Q>,
        sleep: S,
        // `None` before the first poll, and again once the future is ready.
        progress: Option<Progress<Q::Place>>,
        #[pin]
        sleeping: Option<S::Sleeping>,
    }

    impl<Q: Queue, S: Sleep> PinnedDrop for TokensFuture<Q, S> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(Progress::Waiting(place)) = this.project().progress.take() {
                place.cancel();
            }
        }
    }
}

/// The progress of a wait after the tokens were taken.
#[derive(Debug)]
enum Progress<P> {
    /// The tokens were not available yet at the last look.
    Waiting(P),
    /// The tokens are available, and the future only waits for the jitter.
    Lingering,
}

impl<Q: Queue, S: Sleep> TokensFuture<Q, S> {
    pub(super) fn new(request: TokensRequest<Q>, sleep: S) -> Self {
        Self { request, sleep, progress: None, sleeping: None }
    }

    /// Returns a sleep of `duration` that uses this future's timer.
    #[cfg(feature = "futures")]
    pub(super) fn sleep_for(&self, duration: Duration) -> S::Sleeping {
        self.sleep.sleep(duration)
    }
}

impl<Q: Queue, S: Sleep> Future for TokensFuture<Q, S> {
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
                    *this.progress = Some(Progress::Waiting(this.request.reserve()?));
                    continue;
                }
                Some(Progress::Waiting(place)) => match place.ready_in() {
                    Some(Duration::ZERO) => {
                        *this.progress = Some(Progress::Lingering);
                        this.request.draw_jitter()
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

impl<Q: Queue + core::fmt::Debug, S: Sleep> core::fmt::Debug for TokensFuture<Q, S>
where
    Q::Place: core::fmt::Debug,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TokensFuture")
            .field("request", &self.request)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
