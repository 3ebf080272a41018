//! When the attempts of a call are made: after a backoff, or as a pacer says.

use crate::{ClassifyResponse, ResponseHead};
use core::time::Duration;
use damper_core::retry::{Failure, GaveUp};
use http::Extensions;

/// Judges the outcomes of one call's attempts, and lengthens its waits.
pub trait Pace {
    /// Returns the kind of failure of an outcome, or `None` for a response that the caller gets.
    ///
    /// `left` returns the time within which another attempt has to begin.
    ///
    /// # Errors
    ///
    /// The reason why there is no time for another attempt.
    fn failure<P: ClassifyResponse<E, Option<Failure>>, E>(
        &mut self,
        protocol: &P,
        response: Result<&ResponseHead<'_>, &E>,
        left: impl Fn() -> Duration,
    ) -> Result<Option<Failure>, GaveUp>;

    /// Returns how much longer an attempt waits after its wait. Default: no longer.
    #[inline]
    fn after_wait(&mut self) -> Option<Duration> {
        None
    }

    /// Marks the last response with the reason for giving up. Default: does nothing.
    #[inline]
    fn mark_last(_extensions: &mut Extensions, _reason: GaveUp) {}
}

/// Retries by the backoff of the policy, which the failures of the protocol choose.
#[derive(Clone, Copy, Debug)]
pub struct ByBackoff;

impl Pace for ByBackoff {
    #[inline]
    fn failure<P: ClassifyResponse<E, Option<Failure>>, E>(
        &mut self,
        protocol: &P,
        response: Result<&ResponseHead<'_>, &E>,
        _: impl Fn() -> Duration,
    ) -> Result<Option<Failure>, GaveUp> {
        Ok(protocol.classify(response))
    }
}
