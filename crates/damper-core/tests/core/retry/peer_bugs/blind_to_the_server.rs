//! The policy gets the number of the retry, but not the server's hint.

use crate::retry::peer_bugs::{BASE, LONGEST, Policy};
use damper::Backoff;
use damper::retry::Delays;
use std::time::Duration;

pub(crate) struct BlindToTheServer(Delays);

impl Policy for BlindToTheServer {
    fn new(device: u64) -> Self {
        Self(Backoff::exponential(BASE).max_delay(LONGEST).delays(device))
    }

    fn next_wait(&mut self, _: Option<Duration>) -> Duration {
        self.0.next().expect("the delays never end")
    }
}
