//! The longest delay caps the delay before jitter, and the jitter is added to it.

use crate::retry::peer_bugs::{BASE, LONGEST, Policy};
use std::time::Duration;

pub(crate) struct JitterBeyondTheLongest {
    delay: Duration,
    random: u64,
}

impl Policy for JitterBeyondTheLongest {
    fn new(device: u64) -> Self {
        Self { delay: BASE, random: device }
    }

    fn next_wait(&mut self, _: Option<Duration>) -> Duration {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let wait = self.delay + self.delay.mul_f64(f64::from((self.random >> 33) as u32) / f64::from(1u32 << 31));
        self.delay = (self.delay * 2).min(LONGEST);
        wait
    }
}
