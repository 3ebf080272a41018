//! A list of the tokens taken and their times, in whole numbers of 10^-9 ticks.

use damper::Quota;

#[derive(Debug)]
pub(crate) struct Log {
    /// The window in units of 10^-9 ticks.
    window: i128,
    limit: usize,
    taken: Vec<i128>,
}

const TICK: i128 = 1_000_000_000;

impl Log {
    pub(crate) fn new(quota: Quota, frequency: u64) -> Self {
        let window = i128::try_from(quota.window().as_nanos()).unwrap() * i128::from(frequency);
        Self { window, limit: quota.limit() as usize, taken: Vec::new() }
    }

    /// The window in ticks, rounded down.
    pub(crate) fn ticks(&self) -> i128 {
        self.window / TICK
    }

    /// Whether windows are whole numbers of ticks.
    pub(crate) fn is_aligned(&self) -> bool {
        self.window % TICK == 0
    }

    pub(crate) fn take(&mut self, tick: i128, n: u32) {
        self.taken.extend((0..n).map(|_| tick));
    }

    /// Returns the tokens that have not returned at a tick.
    pub(crate) fn used(&self, tick: i128) -> usize {
        self.taken.iter().filter(|&&taken| (tick - taken) * TICK < self.window).count()
    }

    pub(crate) fn allows(&self, tick: i128, n: u32) -> bool {
        self.used(tick) + n as usize <= self.limit
    }
}
