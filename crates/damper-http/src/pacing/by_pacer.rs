//! Attempts from whose responses a pacer learns, and after whose rejections it says how long to sleep.

use crate::retry::Pace;
use crate::telemetry::Telemetry;
use crate::{ClassifyResponse, ResponseHead};
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use damper_core::Reads;
use damper_core::internal::SeenPause;
use damper_core::retry::{Failure, GaveUp};
use damper_core::throttle::{Hints, Pacer, Strategy};
use damper_core::time::Clock;
use http::Extensions;

/// The pacer of one call, and the reader of its responses.
pub struct ByPacer<G, H> {
    pub(super) pacer: G,
    pub(super) hints: H,
    pub(super) telemetry: Telemetry,
    /// The pause for which the current sleep accounts.
    pub(super) pause: SeenPause,
}

/// Retries a rejected call after the pacer's sleep, and no other. The pacer learns from each response.
impl<G, H, S, C> Pace for ByPacer<G, H>
where
    G: Deref<Target = Pacer<S, C>>,
    H: for<'a> Reads<ResponseHead<'a>, Hints>,
    S: Strategy,
    C: Clock,
{
    #[inline]
    fn failure<P: ClassifyResponse<E, Option<Failure>>, E>(
        &mut self,
        protocol: &P,
        response: Result<&ResponseHead<'_>, &E>,
        left: impl Fn() -> Duration,
    ) -> Result<Option<Failure>, GaveUp> {
        let Ok(head) = response else { return Ok(Some(Failure::FATAL)) };
        let hints = self.hints.read_from(head);
        let Some(sleep) = self.pacer.answered_within(&hints, &left) else {
            // The limit may not have seen a call that it did not accept.
            return Ok(if hints.is_accepted() { None } else { Some(Failure::FATAL) });
        };
        self.telemetry.record_rejected(Some(sleep));
        let left = left();
        if sleep >= left {
            return Err(GaveUp::Deadline { hint: hints.retry_after.filter(|wait| *wait >= left) });
        }
        // The protocol knows whether the server forbids retries, as gRPC's pushback does.
        let is_declined = protocol.classify(response).is_some_and(|failure| failure == failure.declined());
        Ok(Some(if is_declined { Failure::THROTTLED.declined() } else { Failure::THROTTLED.pushback(sleep) }))
    }

    fn after_wait(&mut self) -> Option<Duration> {
        self.pause.extension(&self.pacer)
    }

    fn mark_last(extensions: &mut Extensions, reason: GaveUp) {
        extensions.insert(reason);
    }
}

impl<G, H> fmt::Debug for ByPacer<G, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByPacer").finish_non_exhaustive()
    }
}
