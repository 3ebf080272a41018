//! A token bucket of which a token is a whole number of ticks of a millisecond.

use damper::Quota;
use proptest::prelude::*;
use std::time::Duration;

/// A bucket of which a token is a whole number of ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// The ticks in which a token is refilled.
    pub(crate) token: i64,
    pub(crate) burst: i64,
    pub(crate) max_debt: i64,
    /// In ticks.
    pub(crate) level: i64,
}

impl Bucket {
    pub(crate) fn new(token: i64, burst: i64, max_debt: i64) -> Self {
        Self { token, burst, max_debt, level: token * burst }
    }

    pub(crate) fn quota(&self) -> Quota {
        let token = Duration::from_millis(self.token.unsigned_abs());
        Quota::every(token).unwrap().burst(self.burst as u32).max_debt(self.max_debt as u32)
    }

    pub(crate) fn pass(&mut self, ticks: i64) {
        self.level = (self.level + ticks).min(self.token * self.burst);
    }

    /// The ticks until `n` tokens are there; `None` if they never are.
    pub(crate) fn wait(&self, n: u32) -> Option<i64> {
        (i64::from(n) <= self.burst || n == 0).then_some((i64::from(n) * self.token - self.level).max(0))
    }

    pub(crate) fn allows(&self, n: u32) -> bool {
        n == 0 || self.wait(n) == Some(0)
    }

    pub(crate) fn take(&mut self, n: u32) {
        self.level -= i64::from(n) * self.token;
    }

    pub(crate) fn settle(&mut self, taken: u32, used: u32) {
        let excess = i64::from(used) - i64::from(taken);
        let booked = excess.min(((self.level + self.max_debt * self.token) / self.token).max(0));
        self.level = (self.level - booked * self.token).min(self.token * self.burst);
    }
}

pub(crate) fn bucket() -> impl Strategy<Value = Bucket> {
    (prop_oneof![Just(1i64), Just(10), Just(100)], 1..9i64, 0..9i64)
        .prop_map(|(token, burst, debt)| Bucket::new(token, burst, debt))
}
