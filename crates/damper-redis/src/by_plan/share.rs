//! A process's share of a plan while the server does not answer.

use crate::script::Terms;

/// One N-th of a plan, for N processes, in nanoseconds.
///
/// Like the bucket on the server, a share is the instant at which it is full, so that any plan can read it. It is empty at the
/// server's last reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareTerms {
    /// The most tokens of the share; at least one, if the plan has any.
    burst: u32,
    /// A token takes `period / tokens` ns.
    period: u128,
    tokens: u128,
}

/// A share at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShareLevel {
    /// The tokens left.
    pub(super) left: u32,
    /// How long it takes until the requested tokens are there, in µs; `None` if they never are.
    pub(super) wait: Option<u64>,
    /// How long it takes until the share is full, in µs.
    pub(super) full_in: u64,
}

impl ShareTerms {
    /// Returns the share of one of `processes` processes.
    pub(super) fn new(terms: &Terms, processes: u32) -> Self {
        let processes = processes.max(1);
        // The period is below 2^49 µs.
        let period = u128::from(terms.rate.micros()) * u128::from(processes) * 1_000;
        Self { burst: (terms.burst / processes).max(terms.burst.min(1)), period, tokens: terms.rate.tokens().into() }
    }

    pub(super) fn burst(&self) -> u32 {
        self.burst
    }

    /// Returns the ns that `n` tokens take, rounded up.
    fn time(&self, n: u32) -> u128 {
        (u128::from(n) * self.period).div_ceil(self.tokens.max(1))
    }

    /// Returns the instant in ns at which a share is full that was empty at the local time `since` in µs.
    ///
    /// It is no earlier than `full`, which takes have moved.
    pub(super) fn full(&self, full: u128, since: u64) -> u128 {
        full.max(u128::from(since) * 1_000 + self.time(self.burst))
    }

    /// Returns the instant in ns at which the share is full after a take of `n` tokens.
    ///
    /// `now` is the local time in µs.
    pub(super) fn take(&self, full: u128, now: u64, n: u32) -> u128 {
        full.max(u128::from(now) * 1_000) + self.time(n)
    }

    /// Returns the level for a call of `n` tokens of a share that is full at the instant `full` in ns.
    ///
    /// `now` is the local time in µs.
    pub(super) fn level(&self, full: u128, now: u64, n: u32) -> ShareLevel {
        let debt = full.saturating_sub(u128::from(now) * 1_000);
        let spare = self.time(self.burst).saturating_sub(debt);
        let micros = |nanos: u128| u64::try_from(nanos.div_ceil(1_000)).unwrap_or(u64::MAX);
        // At most the burst.
        let left = (spare * self.tokens / self.period) as u32;
        let wait = (n <= self.burst).then(|| micros((debt + self.time(n)).saturating_sub(self.time(self.burst))));
        ShareLevel { left, wait, full_in: micros(debt) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ShareLevel, ShareTerms};
    use crate::script::Terms;
    use damper_core::{Plan, Quota};

    const SECOND: u64 = 1_000_000;

    fn share(quota: Quota, processes: u32) -> ShareTerms {
        ShareTerms::new(&Terms::of_plan(&Plan::new(quota).unwrap()).unwrap(), processes)
    }

    /// Takes one token at a time, as often as it can, and returns how many it took.
    fn drain(share: &ShareTerms, full: &mut u128, since: u64, now: u64) -> u32 {
        let mut taken = 0;
        *full = share.full(*full, since);
        while share.level(*full, now, 1).wait == Some(0) {
            *full = share.take(*full, now, 1);
            taken += 1;
        }
        taken
    }

    #[test]
    fn share_is_empty_at_the_last_reply_and_fills_at_its_part_of_the_rate() {
        let share = share(Quota::per_second(100), 4);
        let (mut full, since) = (0, 5 * SECOND);
        assert_eq!(drain(&share, &mut full, since, since), 0);
        assert_eq!(drain(&share, &mut full, since, since + SECOND / 5), 5);
        assert_eq!(drain(&share, &mut full, since, since + 600 * SECOND), 25, "a quarter of the burst");
        assert_eq!(drain(&share, &mut full, since + 700 * SECOND, since + 700 * SECOND), 0, "a later reply");
    }

    #[test]
    fn wait_is_the_time_to_the_token_and_another_plan_reads_the_same_time() {
        let (slow, fast) = (share(Quota::per_second(10), 2), share(Quota::per_second(1_000), 2));
        let full = slow.full(0, 0);
        assert_eq!(slow.level(full, 0, 1), ShareLevel { left: 0, wait: Some(SECOND / 5), full_in: SECOND });
        assert_eq!(slow.level(full, SECOND / 5, 1).wait, Some(0));
        assert_eq!(slow.level(full, 0, 6).wait, None, "half of the burst is 5");
        assert_eq!(fast.level(full, SECOND / 2, 500).wait, Some(SECOND / 2), "it owes half a second");
        assert_eq!(share(Quota::per_second(1).burst(0), 2).level(0, 0, 1).wait, None);
    }
}
