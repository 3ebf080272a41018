//! The seed of the jitter is a constant, so callers that fail together return together.

use crate::retry::peer_bugs::{BASE, LONGEST, Policy};
use damper::Backoff;
use damper::retry::Delays;
use std::time::Duration;

const RANDOM_SEED: u64 = 0x2BD7_5B6E;

pub(crate) struct SeedOfEveryone(Delays);

impl Policy for SeedOfEveryone {
    fn new(_: u64) -> Self {
        Self(Backoff::exponential(BASE).max_delay(LONGEST).delays(RANDOM_SEED))
    }

    fn next_wait(&mut self, _: Option<Duration>) -> Duration {
        self.0.next().expect("the delays never end")
    }
}
