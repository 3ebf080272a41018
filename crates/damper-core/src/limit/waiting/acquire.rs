//! The request of a call that waits for tokens: how many, and for how long.

#[cfg(feature = "std")]
use super::Place;
use super::{Queue, TokensFuture};
use crate::acquire::{Wait, Within};
use crate::limit::Denied;
use crate::time::Sleep;
#[cfg(feature = "std")]
use crate::time::random;
use core::time::Duration;

/// A request for tokens that has not begun to wait: the number, the longest wait and the jitter.
#[derive(Clone, Copy, Debug)]
pub struct TokensRequest<Q> {
    queue: Q,
    n: u32,
    longest: Option<Duration>,
    jitter: Duration,
}

impl<Q: Queue> TokensRequest<Q> {
    pub(crate) fn new(queue: Q, n: u32) -> Self {
        Self { queue, n, longest: None, jitter: Duration::ZERO }
    }

    #[cfg(feature = "std")]
    pub(crate) fn set_jitter(&mut self, most: Duration) {
        self.jitter = most;
    }

    pub(crate) fn reserve(&self) -> Result<Q::Place, Denied> {
        self.queue.reserve(self.n, self.longest)
    }

    /// Draws the random delay that follows the wait: from zero to the jitter, inclusive.
    pub(super) fn draw_jitter(&self) -> Duration {
        #[cfg(feature = "std")]
        if !self.jitter.is_zero() {
            // Larger jitters are cut to 2^63 - 1 ns.
            let most = u64::try_from(self.jitter.as_nanos()).unwrap_or(u64::MAX >> 1).min(u64::MAX >> 1);
            return Duration::from_nanos(random::below(most + 1, random::draw()));
        }
        self.jitter
    }
}

impl<Q: Queue> Wait for TokensRequest<Q> {
    type Output = Result<(), Denied>;
    type Future<S: Sleep> = TokensFuture<Q, S>;

    fn sleeping_by<S: Sleep>(self, sleep: S) -> TokensFuture<Q, S> {
        TokensFuture::new(self, sleep)
    }

    #[cfg(feature = "std")]
    fn wait(self) -> Result<(), Denied> {
        self.reserve()?.wait();
        std::thread::sleep(self.draw_jitter());
        Ok(())
    }
}

impl<Q: Queue> Within for TokensRequest<Q> {
    fn set_longest(&mut self, longest: Duration) {
        self.longest = Some(longest);
    }
}
