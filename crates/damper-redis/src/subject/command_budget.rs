//! The budget for the commands that a leasing process may send.

/// The time in which a budget grows by one command, in µs.
const APART: u64 = 20_000;

/// The most commands that a budget saves. So many may be sent at once after a pause.
const AT_ONCE: u64 = 20;

/// The number of saved commands that only requests for leased tokens may use.
const KEPT: u64 = 5;

/// Two budgets: one for extra takes, and one for all other commands.
///
/// Each budget grows by 50 a second and saves up to 20. So in any `t` seconds it allows at most `50 * t + 20` commands.
/// An extra take makes the server take tokens for waiting checks when the other budget has no command left for it.
/// Without it these checks would be denied although the limit has tokens.
#[derive(Debug, Default)]
pub(super) struct CommandBudget {
    /// The time at which the budget of the other commands is full, in µs of the subject's clock.
    full_at: u64,
    /// The time at which the budget of extra takes is full, in µs of the subject's clock.
    extra_full_at: u64,
}

impl CommandBudget {
    /// Returns the earliest time at which the budget allows a request for leased tokens.
    pub(super) fn next_from(&self) -> u64 {
        self.full_at.saturating_sub((AT_ONCE - 1) * APART)
    }

    /// Returns the earliest time at which the budget allows a take that is not extra.
    ///
    /// The last `KEPT` saved commands remain for requests for leased tokens.
    pub(super) fn next_beside_from(&self) -> u64 {
        self.full_at.saturating_sub((AT_ONCE - 1 - KEPT) * APART)
    }

    /// Returns the earliest time of the next extra take.
    pub(super) fn next_extra_from(&self) -> u64 {
        self.extra_full_at.saturating_sub((AT_ONCE - 1) * APART)
    }

    /// Counts an extra take that is sent at the time `now`.
    pub(super) fn count_extra(&mut self, now: u64) {
        self.extra_full_at = self.extra_full_at.max(now).saturating_add(APART);
    }

    /// Gives the budget back an extra take that was counted but not sent.
    pub(super) fn uncount_extra(&mut self) {
        self.extra_full_at = self.extra_full_at.saturating_sub(APART);
    }

    /// Counts a command that is sent at the time `now`.
    pub(super) fn count(&mut self, now: u64) {
        self.full_at = self.full_at.max(now).saturating_add(APART);
    }

    /// Gives the budget back a command that was counted but not sent.
    pub(super) fn uncount(&mut self) {
        self.full_at = self.full_at.saturating_sub(APART);
    }
}

#[cfg(test)]
mod tests {
    use super::CommandBudget;

    #[test]
    fn budget_allows_50_commands_a_second_and_20_saved() {
        let mut budget = CommandBudget::default();
        let (mut now, mut sent) = (7, Vec::new());
        // The pauses get longer. After each pause the loop sends all commands that the budget allows.
        for pause in (0..600).map(|step| step * 997) {
            now += pause;
            while budget.next_from() <= now {
                budget.count(now);
                sent.push(now);
            }
            now = now.max(budget.next_from());
        }
        assert!(sent.iter().is_sorted() && sent.len() > 600);
        for (first, from) in sent.iter().enumerate() {
            for (count, until) in (1..).zip(&sent[first..]) {
                assert!(count <= 20 + (until - from) / 20_000, "{count} from {from} to {until}");
            }
        }
        assert_eq!(budget.next_extra_from(), 0, "extra takes have a budget of their own");
        let most = sent.iter().filter(|time| sent[0] == **time).count();
        assert_eq!(most, 20);
    }
}
