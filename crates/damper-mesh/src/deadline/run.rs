//! Work that a deadline ends.

use super::{DeadlineReport, ReceivedDeadline};
use damper_core::time::{Clock, Sleep};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, ready};

/// The deadline has passed, and the work was dropped.
pub(crate) struct Expired {
    pub(crate) report: DeadlineReport,
}

/// Runs work until the deadline passes. No result follows that.
pub(crate) async fn run_until<F: Future, C: Clock + Clone>(
    work: F,
    deadline: Option<&ReceivedDeadline<C>>,
    sleep: &impl Sleep,
) -> Result<F::Output, Expired> {
    let Some(deadline) = deadline else { return Ok(work.await) };
    let mut work = pin!(work);
    // There from the first time that something waits, so that what is ready at once needs no timer.
    let mut sleeping = pin!(None);
    poll_fn(|context| {
        loop {
            let expired = || deadline.is_expired().then(|| Expired { report: deadline.report() });
            if let Some(expired) = expired() {
                return Poll::Ready(Err(expired));
            }
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(expired().map_or(Ok(output), Err));
            }
            if sleeping.is_none() {
                sleeping.set(Some(sleep.sleep(deadline.remaining())));
            }
            if let Some(sleeping) = sleeping.as_mut().as_pin_mut() {
                ready!(sleeping.poll(context));
            }
            // A sleep may end early.
            sleeping.set(None);
        }
    })
    .await
}
