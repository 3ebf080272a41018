//! Work that a deadline ends.

use super::{DeadlineReport, ReceivedDeadline};
use damper_core::deadline::DeadlineExceeded;
use damper_core::time::{Clock, Sleep};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;

/// The deadline has passed, and the work was dropped.
pub(crate) struct Expired {
    pub(crate) report: DeadlineReport,
    /// The time that the work was given, and the time since the receipt.
    pub(crate) exceeded: DeadlineExceeded,
    /// Whether the work was begun.
    pub(crate) is_begun: bool,
}

/// Runs work until the deadline passes, after which there is no result.
///
/// The result comes with the elapsed time by which it was in time.
pub(crate) async fn run_until<F: Future, C: Clock + Clone>(
    work: F,
    deadline: Option<&ReceivedDeadline<C>>,
    sleep: &impl Sleep,
) -> Result<(F::Output, Option<Duration>), Expired> {
    let Some(deadline) = deadline else { return Ok((work.await, None)) };
    let mut work = pin!(work);
    // Created on the first pending poll, so that work that is ready at once needs no timer.
    let mut sleeping = pin!(None);
    let mut is_begun = false;
    poll_fn(|context| {
        loop {
            deadline.check().map_err(|over| Expired { is_begun, ..over })?;
            is_begun = true;
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                let checked = deadline.check().map_err(|over| Expired { is_begun, ..over });
                return Poll::Ready(checked.map(|elapsed| (output, Some(elapsed))));
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
