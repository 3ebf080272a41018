//! Windows on a clock, and the tokens taken in each, in whole numbers of 10^-9 ticks.
//!
//! It has no words and no wrap, and rounds nothing.

use damper::Quota;

/// The tokens taken, by exact time.
#[derive(Debug)]
pub(crate) struct Windows {
    /// 10^-9 ticks.
    window: i128,
    limit: i128,
    taken: Vec<(i128, i128)>,
}

const TICK: i128 = 1_000_000_000;

impl Windows {
    pub(crate) fn new(quota: Quota, frequency: u64) -> Self {
        let window = i128::try_from(quota.window().as_nanos()).unwrap() * i128::from(frequency);
        Self { window, limit: quota.limit().into(), taken: Vec::new() }
    }

    /// Returns the number of the window at a tick, counted from the start of a window.
    pub(crate) fn number(&self, tick: i128) -> i128 {
        (tick * TICK).div_euclid(self.window)
    }

    /// Whether windows are whole numbers of ticks.
    pub(crate) fn is_aligned(&self) -> bool {
        self.window % TICK == 0
    }

    /// The window in ticks, rounded down.
    pub(crate) fn ticks(&self) -> i128 {
        self.window / TICK
    }

    /// The first tick of the next window.
    pub(crate) fn next(&self, tick: i128) -> i128 {
        ((self.number(tick) + 1) * self.window).div_euclid(TICK)
            + i128::from((self.number(tick) + 1) * self.window % TICK != 0)
    }

    pub(crate) fn take(&mut self, tick: i128, n: u32) {
        self.taken.push((tick, n.into()));
    }

    /// Returns the tokens taken in a window.
    pub(crate) fn count(&self, number: i128) -> i128 {
        self.taken.iter().filter(|&&(tick, _)| self.number(tick) == number).map(|&(_, n)| n).sum()
    }

    /// Whether a fixed window allows `n` tokens.
    pub(crate) fn fixed_allows(&self, tick: i128, n: u32) -> bool {
        n == 0 || self.count(self.number(tick)) + i128::from(n) <= self.limit
    }

    /// Whether a sliding window counter allows `n` tokens, by its formula.
    pub(crate) fn counter_allows(&self, tick: i128, n: u32) -> bool {
        let number = self.number(tick);
        let rest = (number + 1) * self.window - tick * TICK;
        let (previous, current) = (self.count(number - 1), self.count(number));
        n == 0 || (current + i128::from(n)) * self.window + previous * rest <= self.limit * self.window
    }
}
