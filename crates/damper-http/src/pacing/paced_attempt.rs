//! An attempt from whose response a pacer learns.

use crate::ResponseHead;
use crate::telemetry::Telemetry;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use damper_core::deadline::Deadline;
use damper_core::retry::GaveUp;
use damper_core::throttle::{Pacer, ReadHints, Strategy};
use damper_core::time::Clock;
use http::Response;
use pin_project_lite::pin_project;

/// The reader of one call's responses: its pacer, and the reader of hints.
#[derive(Clone, Debug)]
pub(super) struct Reader<G, H> {
    pub(super) pacer: G,
    pub(super) hints: H,
    pub(super) telemetry: Telemetry,
}

impl<G, H, S, C> Reader<G, H>
where
    G: Deref<Target = Pacer<S, C>>,
    H: for<'a> ReadHints<ResponseHead<'a>>,
    S: Strategy,
    C: Clock,
{
    /// Lets the pacer learn from a response, and returns the verdict of the server's limit.
    ///
    /// A rejected call is not retried if it had to sleep for `longest` or more.
    #[inline]
    pub(super) fn answered<R>(&self, response: &Response<R>, longest: impl FnOnce() -> Duration) -> Verdict {
        let hints = self.hints.hints(&ResponseHead::of(response));
        match self.pacer.answered_within(&hints, longest) {
            Some(sleep) => {
                self.telemetry.record_rejected(Some(sleep));
                Verdict::Rejected(Rejection { sleep, asked_for: hints.retry_after })
            }
            None if hints.is_accepted() => Verdict::Accepted,
            None => Verdict::Unknown,
        }
    }
}

/// The verdict of the server's limit on a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Accepted,
    Rejected(Rejection),
    /// The limit may not have seen the call.
    Unknown,
}

/// The consequence of a rejection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejection {
    /// The sleep before the retry.
    sleep: Duration,
    /// The time that the server asked for.
    asked_for: Option<Duration>,
}

impl Rejection {
    /// Returns the sleep, if it fits into the time left for the call.
    fn within(self, left: Duration) -> Result<Duration, GaveUp> {
        let Self { sleep, asked_for } = self;
        if sleep < left { Ok(sleep) } else { Err(GaveUp::Deadline { hint: asked_for.filter(|wait| *wait >= left) }) }
    }
}

/// The mark of a response to a call that the limit did not accept, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(super) enum NotAccepted {
    /// The sleep before the retry, or the reason why there is no time for it.
    Rejected(Result<Duration, GaveUp>),
    /// The limit may not have seen the call.
    Unknown,
}

pin_project! {
    /// An attempt from whose response a pacer learns. No retry of it sleeps beyond `until`.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct PacedAttempt<F, G, H> {
        #[pin]
        attempt: F,
        reader: Reader<G, H>,
        until: Deadline,
    }
}

impl<F, G, H> PacedAttempt<F, G, H> {
    #[inline]
    pub(super) fn new(attempt: F, reader: Reader<G, H>, until: Deadline) -> Self {
        Self { attempt, reader, until }
    }
}

impl<F, G, H, S, C, R, E> Future for PacedAttempt<F, G, H>
where
    F: Future<Output = Result<Response<R>, E>>,
    G: Deref<Target = Pacer<S, C>>,
    H: for<'a> ReadHints<ResponseHead<'a>>,
    S: Strategy,
    C: Clock,
{
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut outcome = ready!(this.attempt.poll(context));
        if let Ok(response) = &mut outcome {
            let mark = match this.reader.answered(response, || this.until.remaining()) {
                Verdict::Rejected(rejection) => Some(NotAccepted::Rejected(rejection.within(this.until.remaining()))),
                Verdict::Unknown => Some(NotAccepted::Unknown),
                Verdict::Accepted => None,
            };
            // This also replaces a mark that a cached response has kept.
            let extensions = response.extensions_mut();
            match mark {
                Some(mark) => _ = extensions.insert(mark),
                None => _ = extensions.remove::<NotAccepted>(),
            }
        }
        Poll::Ready(outcome)
    }
}
