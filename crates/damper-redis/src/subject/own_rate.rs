//! The rate at which this process uses a limit.

/// The shortest period after which the counted tokens change the rate, in µs.
const WINDOW: u64 = 100_000;

/// How long after the start of the last period the rate is forgotten, in µs.
const FORGET: u64 = 1_000_000;

/// A rate per second, measured by counting tokens in periods of at least 100 ms.
///
/// At the end of a period the new rate is the mean of the old rate and the rate in that period. So the newest period
/// makes up half of the rate, the one before it a quarter, and so on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnRate {
    rate: u64,
    counted: u64,
    since: u64,
}

impl OwnRate {
    /// Counts `tokens` at the time `now`, in µs.
    pub(super) fn count(&mut self, tokens: u64, now: u64) {
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= FORGET {
            *self = Self { rate: 0, counted: 0, since: now };
        } else if elapsed >= WINDOW {
            let latest = per_second(self.counted, elapsed);
            let rate = if self.rate == 0 { latest } else { self.rate.midpoint(latest) };
            *self = Self { rate, counted: 0, since: now };
        }
        self.counted = self.counted.saturating_add(tokens);
    }

    /// Returns the rate per second at the time `now`.
    ///
    /// A rise shows at once, because the running period counts too. A fall shows step by step, as periods end.
    pub(super) fn at(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= FORGET { 0 } else { self.rate.max(per_second(self.counted, elapsed.max(WINDOW))) }
    }
}

/// Returns the rate of `tokens` in `elapsed` µs, which must not be 0.
fn per_second(tokens: u64, elapsed: u64) -> u64 {
    // A count of tokens stays far below 2^44, so the product fits.
    tokens.saturating_mul(1_000_000) / elapsed
}

#[cfg(test)]
mod tests {
    use super::OwnRate;

    #[test]
    fn rate_follows_what_is_counted() {
        let mut rate = OwnRate::default();
        for tick in 0..1_000 {
            rate.count(1, tick * 1_000);
        }
        assert!((950..=1_050).contains(&rate.at(1_000_000)), "{}", rate.at(1_000_000));
        for tick in 0..100 {
            rate.count(1, 1_000_000 + tick * 10_000);
        }
        assert!((90..=120).contains(&rate.at(2_000_000)), "{}", rate.at(2_000_000));
        assert_eq!(rate.at(3_500_000), 0, "a second later");
    }

    #[test]
    fn surge_shows_at_once() {
        let mut rate = OwnRate::default();
        for _ in 0..8 {
            rate.count(1, 5_000_000);
        }
        assert_eq!(rate.at(5_000_001), 80);
    }
}
