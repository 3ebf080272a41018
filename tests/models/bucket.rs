//! A token bucket in exact rationals: level, refill, take. No words, no wrap, and nothing rounded.

use damper::Quota;

/// All amounts are in tokens times `scale`, so that a tick brings a whole number.
#[derive(Debug)]
pub(crate) struct ExactBucket {
    /// Tokens times this are whole numbers: the window in nanoseconds times the frequency.
    scale: i128,
    /// What a tick brings.
    tick: i128,
    burst: i128,
    level: i128,
}

impl ExactBucket {
    /// A full bucket of `quota` on a clock of `frequency` ticks per second.
    pub(crate) fn new(quota: Quota, frequency: u64) -> Self {
        let scale = i128::try_from(quota.window().as_nanos()).unwrap() * i128::from(frequency);
        let burst = i128::from(quota.capacity()) * scale;
        Self { scale, tick: i128::from(quota.limit()) * 1_000_000_000, burst, level: burst }
    }

    /// Lets `ticks` pass.
    pub(crate) fn pass(&mut self, ticks: u64) {
        self.level = self.burst.min(self.level + i128::from(ticks) * self.tick);
    }

    /// Whether `n` tokens are there.
    pub(crate) fn has(&self, n: u32) -> bool {
        self.level >= i128::from(n) * self.scale
    }

    /// Whether `n` tokens are there, or will be in so many ticks.
    pub(crate) fn will_have(&self, n: u32, ticks: i128) -> bool {
        self.level + ticks * self.tick >= i128::from(n) * self.scale
    }

    /// The ticks in which `bursts` whole bursts are produced, rounded down; 0 if they never are.
    pub(crate) fn ticks_for_bursts(&self, bursts: i128) -> i128 {
        self.burst.checked_mul(bursts).and_then(|amount| amount.checked_div(self.tick)).unwrap_or(0)
    }

    /// Takes `n` tokens, though a fraction of the last may be missing.
    pub(crate) fn take(&mut self, n: u32) {
        self.level -= i128::from(n) * self.scale;
    }

    /// The tokens that are there, rounded down.
    pub(crate) fn tokens(&self) -> i128 {
        self.level.div_euclid(self.scale)
    }

    /// The ticks after which `n` tokens are there, rounded up; `None` if they never are.
    pub(crate) fn wait(&self, n: u32) -> Option<i128> {
        let missing = i128::from(n) * self.scale - self.level;
        match (missing, self.tick) {
            (..=0, _) => Some(0),
            (_, 0) => None,
            (missing, tick) => Some(missing.div_euclid(tick) + i128::from(missing % tick != 0)),
        }
    }

    /// The whole tokens that a tick brings.
    pub(crate) fn tokens_in_a_tick(&self) -> u64 {
        u64::try_from(self.tick / self.scale).unwrap()
    }

    /// Whether a token takes a whole number of ticks.
    pub(crate) fn is_aligned(&self) -> bool {
        self.tick != 0 && self.scale % self.tick == 0
    }
}
