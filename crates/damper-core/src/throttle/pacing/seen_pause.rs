//! The pause that a sleeping call knows of.

use super::{Pacer, Strategy};
use crate::time::Clock;
use core::time::Duration;

/// The pause of a pacer that a call knew of when it began to sleep.
///
/// Another pause may begin meanwhile. The call then sleeps for longer.
#[derive(Clone, Copy, Debug)]
pub struct SeenPause(u64);

impl SeenPause {
    /// Returns the pause in force. Read it before the sleep, so that no later pause is missed.
    #[must_use]
    pub fn of<S: Strategy, C: Clock>(pacer: &Pacer<S, C>) -> Self {
        Self(pacer.paused_until())
    }

    /// Returns how much longer a call sleeps after its sleep.
    ///
    /// `None` unless another pause has begun and is not over.
    ///
    /// Each pause lengthens a sleep once, so that the sleep ends even if the timer's clock is not the pacer's.
    pub fn extension<S: Strategy, C: Clock>(&mut self, pacer: &Pacer<S, C>) -> Option<Duration> {
        let present = pacer.paused_until();
        if present == core::mem::replace(&mut self.0, present) { None } else { pacer.rest_of_pause() }
    }
}
