//! A process's share of a quota while the server does not answer.

use crate::script::{Rate, Terms};

/// A bucket of one N-th of a quota, for N processes.
///
/// The bucket is empty at the server's last reply. From then on it fills at one N-th of the rate, up to one N-th of the burst, but at
/// least one token. So a process has no saved tokens when the server stops, and `k` processes that are cut off spend at most `k/N` of
/// the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LocalShare {
    /// The server's last reply: the local time in µs at which the bucket was empty.
    empty_at: u64,
    /// The local time in µs up to which the level has grown.
    at: u64,
    /// The level in parts of a token. A token has as many parts as the rate's period times `processes`.
    level: u128,
    processes: u32,
    /// The tokens spent in this outage that will be charged when the server is back.
    charged: u32,
}

/// A share after a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareLevel {
    /// The tokens left.
    pub(crate) tokens: u32,
    /// The time in µs until the requested tokens are there; `None` if they never will be.
    pub(crate) wait: Option<u64>,
    /// The time in µs until the share is full; `None` if it never will be.
    pub(crate) full_in: Option<u64>,
}

/// The circumstances of a decision by a share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    /// The local time in µs.
    pub(crate) now: u64,
    /// The local time in µs of the server's last reply.
    pub(crate) since: u64,
    /// The number of processes; at least 1.
    pub(crate) processes: u32,
}

impl LocalShare {
    /// Fills the bucket up to the present time.
    pub(crate) fn fill(&mut self, terms: &Terms, outage: Outage) {
        let processes = outage.processes.max(1);
        // A delayed thread may bring an older reply than the bucket already knows.
        if self.processes == 0 || self.empty_at < outage.since {
            *self = Self { empty_at: outage.since, at: outage.since, level: 0, processes, charged: 0 };
        }
        if self.processes != processes {
            // The level is below 2^48 · 2^32 · 2^32. Dividing first keeps the product below 2^128.
            self.level = self.level / u128::from(self.processes) * u128::from(processes);
            self.processes = processes;
        }
        let passed = outage.now.saturating_sub(self.at);
        self.at = self.at.max(outage.now);
        // The product is below 2^43 · 2^64.
        let grown = self.level + u128::from(terms.rate.tokens()) * u128::from(passed);
        self.level = grown.min(self.parts(terms.rate, self.burst(terms)));
    }

    /// Returns whether the share has `n` tokens.
    pub(crate) fn has(&self, terms: &Terms, n: u32) -> bool {
        self.level >= self.parts(terms.rate, n)
    }

    /// Takes `n` tokens. The caller has checked that they are there.
    pub(crate) fn take(&mut self, terms: &Terms, n: u32) {
        self.level = self.level.saturating_sub(self.parts(terms.rate, n));
    }

    /// Returns how many of `n` spent tokens to charge to the limit when the server is back.
    ///
    /// An outage charges at most the share of the burst. A bucket that no process reaches fills by no more than a burst. So if all
    /// processes are cut off, their charges take back exactly that. If they charged all that they spent, an outage of ten seconds would
    /// be followed by ten seconds in which nothing is allowed.
    pub(crate) fn charge(&mut self, terms: &Terms, n: u32) -> u32 {
        let charge = n.min(self.burst(terms).saturating_sub(self.charged));
        // The sum is at most the burst.
        self.charged += charge;
        charge
    }

    /// Returns the level, and the time until there are `n` tokens.
    pub(crate) fn level(&self, terms: &Terms, n: u32) -> ShareLevel {
        let burst = self.burst(terms);
        let tokens = self.level / self.parts(terms.rate, 1).max(1);
        let wait = if n > burst { None } else { self.time_to(terms, n) };
        // `tokens` is at most the burst.
        ShareLevel { tokens: tokens as u32, wait, full_in: self.time_to(terms, burst) }
    }

    /// Returns the time in µs until there are `n` tokens, rounded up.
    fn time_to(&self, terms: &Terms, n: u32) -> Option<u64> {
        let missing = self.parts(terms.rate, n).saturating_sub(self.level);
        match u128::from(terms.rate.tokens()) {
            _ if missing == 0 => Some(0),
            0 => None,
            speed => u64::try_from(missing.div_ceil(speed)).ok(),
        }
    }

    /// Returns the most tokens of the share; at least one, if the quota has any.
    fn burst(&self, terms: &Terms) -> u32 {
        (terms.burst / self.processes.max(1)).max(terms.burst.min(1))
    }

    /// Returns the parts of `tokens` tokens.
    fn parts(&self, rate: Rate, tokens: u32) -> u128 {
        u128::from(rate.micros()) * u128::from(self.processes.max(1)) * u128::from(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalShare, Outage};
    use crate::script::Terms;
    use damper_core::Quota;

    const SECOND: u64 = 1_000_000;

    fn terms(quota: Quota) -> Terms {
        Terms::new(quota, 0).unwrap()
    }

    /// Takes one token at a time, as often as it can.
    fn drain(share: &mut LocalShare, terms: &Terms, outage: Outage) -> u32 {
        share.fill(terms, outage);
        let mut taken = 0;
        while share.has(terms, 1) {
            share.take(terms, 1);
            taken += 1;
        }
        taken
    }

    #[test]
    fn share_is_empty_at_the_last_reply_and_fills_at_its_part_of_the_rate() {
        let terms = terms(Quota::per_second(100));
        let mut share = LocalShare::default();
        let outage = |now| Outage { now, since: 5 * SECOND, processes: 4 };
        assert_eq!(drain(&mut share, &terms, outage(5 * SECOND)), 0);
        assert_eq!(drain(&mut share, &terms, outage(5 * SECOND + SECOND / 5)), 5);
        let total: u32 =
            (1..=100).map(|tenth| drain(&mut share, &terms, outage(6 * SECOND + tenth * SECOND / 10))).sum();
        assert_eq!(total, 270 - 5 + 5);
        assert_eq!(drain(&mut share, &terms, outage(600 * SECOND)), 25, "a quarter of the burst");
    }

    #[test]
    fn share_of_the_burst_is_charged_in_each_outage() {
        let terms = terms(Quota::per_second(100));
        let mut share = LocalShare::default();
        let charged = |share: &mut LocalShare, since| {
            (0..50)
                .map(|_| {
                    share.fill(&terms, Outage { now: since + SECOND, since, processes: 4 });
                    share.charge(&terms, 1)
                })
                .sum::<u32>()
        };
        assert_eq!((charged(&mut share, 0), charged(&mut share, 0)), (25, 0));
        assert_eq!(charged(&mut share, 9 * SECOND), 25);
        assert_eq!((share.charge(&terms, 3), LocalShare { charged: 20, ..share }.charge(&terms, 9)), (0, 5));
    }

    #[test]
    fn next_outage_starts_empty_again() {
        let terms = terms(Quota::per_second(100));
        let mut share = LocalShare::default();
        assert_eq!(drain(&mut share, &terms, Outage { now: 9 * SECOND, since: 0, processes: 1 }), 100);
        assert_eq!(
            drain(&mut share, &terms, Outage { now: 90 * SECOND, since: 90 * SECOND - 10_000, processes: 1 }),
            1
        );
    }

    #[test]
    fn older_reply_does_not_fill_the_share_again() {
        let terms = terms(Quota::per_second(100));
        let mut share = LocalShare::default();
        let outage = |since| Outage { now: 90 * SECOND, since, processes: 1 };
        assert_eq!(drain(&mut share, &terms, outage(0)), 100);
        assert_eq!(
            drain(&mut share, &terms, outage(89 * SECOND + SECOND / 2)),
            50,
            "the server answered another thread"
        );
        assert_eq!(drain(&mut share, &terms, outage(0)), 0, "a thread that was stopped before that");
    }

    #[test]
    fn wait_is_the_time_to_the_token() {
        let terms = terms(Quota::per_second(10));
        let mut share = LocalShare::default();
        share.fill(&terms, Outage { now: 250_000, since: 0, processes: 3 });
        let level = share.level(&terms, 1);
        assert_eq!((level.tokens, level.wait), (0, Some(50_000)));
        assert_eq!(share.level(&terms, 9).wait, None, "beyond a third of the burst");
        share.fill(&terms, Outage { now: 299_999, since: 0, processes: 3 });
        assert!(!share.has(&terms, 1));
        share.fill(&terms, Outage { now: 300_000, since: 0, processes: 3 });
        assert!(share.has(&terms, 1));
    }

    #[test]
    fn more_processes_keep_the_tokens() {
        let terms = terms(Quota::per_second(100));
        let mut share = LocalShare::default();
        share.fill(&terms, Outage { now: SECOND / 10, since: 0, processes: 1 });
        share.fill(&terms, Outage { now: SECOND / 10, since: 0, processes: 4 });
        assert_eq!(share.level(&terms, 1).tokens, 10);
    }

    #[test]
    fn quota_of_nothing_has_no_share() {
        let terms = terms(Quota::per_second(0));
        let mut share = LocalShare::default();
        share.fill(&terms, Outage { now: u64::MAX, since: 0, processes: 1 });
        assert!(!share.has(&terms, 1));
        assert_eq!(share.level(&terms, 1).wait, None);
    }
}
