//! The rule: the share of the calls that is refused, by the outcomes of earlier calls.
//!
//! The formula is that of Google's SRE book (chapter 21, "Handling Overload"). It covers 30 s, which is too long to detect an
//! outage or a recovery soon, so two phases take precedence over it.

use super::call_counts::CallSums;
use crate::out_of_range::OutOfRange;
use crate::setting::sealed::LiveValue;
use crate::sync::Field;
use core::num::NonZeroU64;

/// Shares are counted in ten-thousandths.
pub(super) const WHOLE: u64 = 10_000;

/// The smallest share that is sent: 1 %.
const LEAST_SENT: u64 = WHOLE / 100;

/// The fewest calls by which the formula judges.
const FEWEST_REQUESTS: u64 = 10;

/// The most by which the refused share may exceed the share that the service rejects.
///
/// That is a share of the calls that it gets.
const MARGIN: u64 = WHOLE / 5;

/// The fewest verdicts that show an outage if the service accepted no call.
const FEWEST_OF_OUTAGE: u64 = 10;

/// The fewest verdicts that show a recovery.
const FEWEST_OF_RECOVERY: u64 = 3;

/// The settings of a throttle.
const MULTIPLIER: Field = Field::lowest(32);
const MAX_REFUSED: Field = MULTIPLIER.then(32);

/// The settings of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// How many calls may be made for each accepted one, in thousandths.
    pub(super) multiplier: u32,
    /// The largest share that is refused.
    pub(super) max_refused: u32,
}

impl Rule {
    pub(super) const DEFAULT: Self = Self { multiplier: 2_000, max_refused: (WHOLE - LEAST_SENT) as u32 };

    pub(super) fn with_multiplier(self, multiplier: f64) -> Result<Self, OutOfRange> {
        OutOfRange::check_ratio("multiplier", multiplier, 1.0..=10.0)?;
        Ok(Self { multiplier: (multiplier * 1_000.0 + 0.5) as u32, ..self })
    }

    pub(super) fn with_max_refused(self, share: f64) -> Result<Self, OutOfRange> {
        OutOfRange::check_ratio("max_refused", share, 0.0..=0.99)?;
        Ok(Self { max_refused: (share * 10_000.0 + 0.5) as u32, ..self })
    }
}

/// A multiplier is at least 1, so no word is 0.
impl LiveValue for Rule {
    #[inline]
    fn to_word(self) -> NonZeroU64 {
        let word = MULTIPLIER.put(self.multiplier.into()) | MAX_REFUSED.put(self.max_refused.into());
        NonZeroU64::new(word).unwrap_or(NonZeroU64::MIN)
    }

    #[inline]
    fn of_word(word: NonZeroU64) -> Self {
        Self { multiplier: MULTIPLIER.get(word.get()) as u32, max_refused: MAX_REFUSED.get(word.get()) as u32 }
    }
}

/// The time in which the share that is sent doubles, in microseconds.
const DOUBLING: u64 = 1_000_000;

/// The phase of a throttle.
const SINCE: Field = Field::lowest(48);
const SENT: Field = SINCE.then(14);
const KIND: Field = SENT.then(2);
const _: () = assert!(KIND.end() == u64::BITS, "fields must tile the word");

/// The rule in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The formula.
    Formula,
    /// The service accepts no call: almost none is sent.
    Outage,
    /// The service accepts calls again: the share that is sent doubles each second.
    Recovery {
        /// The share that was sent when it began.
        sent: u64,
        /// When it began, in microseconds; 48 bits of them.
        since: u64,
    },
}

impl Phase {
    /// ```text
    ///  63  62 61  48 47     0
    /// | KIND | SENT | SINCE |
    /// ```
    pub(super) const fn from_word(word: u64) -> Self {
        match KIND.get(word) {
            0 => Self::Formula,
            1 => Self::Outage,
            _ => Self::Recovery { sent: SENT.get(word), since: SINCE.get(word) },
        }
    }

    pub(super) const fn word(self) -> u64 {
        match self {
            Self::Formula => 0,
            Self::Outage => KIND.put(1),
            Self::Recovery { sent, since } => KIND.put(2) | SENT.put(sent) | SINCE.put(since),
        }
    }

    /// Returns the next phase after the calls up to `now`, in microseconds.
    pub(super) fn after(self, sums: &CallSums, rule: Rule, now: u64) -> Self {
        let CallSums { recent_verdicts, recent_accepted, .. } = *sums;
        if recent_accepted == 0 && (recent_verdicts >= FEWEST_OF_OUTAGE || self == Self::Outage) {
            return Self::Outage;
        }
        let is_accepted = recent_verdicts >= FEWEST_OF_RECOVERY && recent_accepted * 10 >= recent_verdicts * 9;
        match self {
            _ if !is_accepted => Self::Formula,
            Self::Recovery { .. } => self,
            Self::Formula | Self::Outage => match self.refused(sums, rule, now) {
                0 => Self::Formula,
                refused => Self::Recovery { sent: WHOLE - refused, since: now & SINCE.max() },
            },
        }
    }

    /// Returns the share of the calls that is refused.
    pub(super) fn refused(self, sums: &CallSums, rule: Rule, now: u64) -> u64 {
        let most = u64::from(rule.max_refused);
        match self {
            Self::Outage => most,
            Self::Recovery { sent, since } => {
                // The clock of another thread may be a little ahead. If it is more, the clock has stepped back.
                let elapsed = match SINCE.ahead(now, since) {
                    elapsed if elapsed >= 0 => elapsed as u64,
                    behind if behind > -(DOUBLING as i64) => 0,
                    _ => return 0,
                };
                let doublings = elapsed / DOUBLING;
                // From 1 % it takes seven.
                if doublings >= 14 {
                    return 0;
                }
                let doubled = sent << doublings;
                WHOLE.saturating_sub(doubled + doubled * (elapsed % DOUBLING) / DOUBLING).min(most)
            }
            Self::Formula if sums.requests < FEWEST_REQUESTS => 0,
            Self::Formula => {
                // At most 24 buckets of three fields of 17 bits, and a multiplier of 10,000.
                let excess = (sums.requests * 1_000).saturating_sub(sums.accepted * u64::from(rule.multiplier));
                let refused = (excess * (WHOLE / 1_000) / (sums.requests + 1)).min(most);
                if refused <= MARGIN || sums.verdicts < FEWEST_REQUESTS {
                    return refused;
                }
                // Where the service rejects a share whatever its load is, the formula alone refuses more and more: fewer calls that
                // are sent mean fewer that are accepted.
                refused.min((sums.verdicts - sums.accepted) * WHOLE / sums.verdicts + MARGIN)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallSums, Phase, Rule};

    const SECOND: u64 = 1_000_000;

    const RULE: Rule = Rule::DEFAULT;

    /// All calls but those of the last 5 s that were accepted or rejected were refused.
    fn sums(requests: u64, accepted: u64, recent_verdicts: u64, recent_accepted: u64) -> CallSums {
        CallSums { requests, verdicts: accepted.max(recent_verdicts), accepted, recent_verdicts, recent_accepted }
    }

    #[test]
    fn words_keep_phases() {
        for phase in [Phase::Formula, Phase::Outage, Phase::Recovery { sent: 10_000, since: (1 << 48) - 1 }] {
            assert_eq!(Phase::from_word(phase.word()), phase);
        }
    }

    /// Of 1,000 calls 250 were accepted: (1,000 - 2 * 250) / 1,001.
    #[test]
    fn formula_is_that_of_the_book() {
        let phase = Phase::Formula;
        let half_accepted = CallSums { verdicts: 500, ..sums(1_000, 250, 100, 25) };
        assert_eq!(phase.refused(&half_accepted, RULE, 0), 4_995);
        assert_eq!(phase.refused(&sums(1_000, 500, 100, 50), RULE, 0), 0);
        assert_eq!(phase.refused(&sums(9, 0, 9, 0), RULE, 0), 0, "too few calls");
        assert_eq!(phase.refused(&sums(1_000_000, 0, 1, 0), RULE, 0), 9_900, "one of 100 is sent");
    }

    #[test]
    fn refused_share_is_at_most_a_fifth_above_the_rejected_one() {
        let phase = Phase::Formula;
        let rejected = |rejected: u64| CallSums { verdicts: 100, ..sums(1_000, 100 - rejected, 100, 50) };
        assert_eq!([55, 70, 90].map(|share| phase.refused(&rejected(share), RULE, 0)), [7_500, 9_000, 9_790]);
        let few = CallSums { verdicts: 9, ..sums(1_000, 4, 9, 4) };
        assert_eq!(phase.refused(&few, RULE, 0), 9_900, "too few verdicts");
    }

    #[test]
    fn no_phase_refuses_more_than_the_most() {
        let half = Rule { max_refused: 5_000, ..RULE };
        let rejecting = sums(1_000, 1, 100, 1);
        for phase in [Phase::Formula, Phase::Outage, Phase::Recovery { sent: 100, since: 0 }] {
            assert_eq!(phase.refused(&rejecting, half, 0), 5_000, "{phase:?}");
        }
    }

    #[test]
    fn ten_rejections_are_an_outage_whatever_the_past_was() {
        let healthy = sums(1_000_000, 1_000_000, 10, 0);
        assert_eq!(Phase::Formula.after(&healthy, RULE, 0), Phase::Outage);
        assert_eq!(Phase::Formula.after(&sums(1_000_000, 1_000_000, 9, 0), RULE, 0), Phase::Formula);
        assert_eq!(Phase::Outage.after(&sums(1_000, 0, 0, 0), RULE, 0), Phase::Outage, "it lasts");
        assert_eq!(Phase::Outage.after(&sums(1_000, 0, 2, 1), RULE, 0), Phase::Formula);
    }

    #[test]
    fn share_that_is_sent_doubles_each_second_of_a_recovery() {
        let accepted = sums(10_000, 3, 3, 3);
        let phase = Phase::Outage.after(&accepted, RULE, 5 * SECOND);
        assert_eq!(phase, Phase::Recovery { sent: 100, since: 5 * SECOND });
        let refused = |halves: u64| phase.refused(&accepted, RULE, (10 + halves) * SECOND / 2);
        assert_eq!([0, 2, 3, 4, 12, 14, 1 << 24].map(refused), [9_900, 9_800, 9_700, 9_600, 3_600, 0, 0]);
        assert_eq!(phase.refused(&accepted, RULE, 5 * SECOND - 1), 9_900, "a clock that is a little behind");
        assert_eq!(phase.after(&sums(10_000, 13, 13, 11), RULE, 6 * SECOND), Phase::Formula, "it relapses");
    }
}
