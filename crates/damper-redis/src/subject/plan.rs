//! The settings that the subjects of a limiter share: when to lease, how much and how often.

use crate::micros::micros_of;
use crate::script::Terms;
use core::time::Duration;
use damper_core::internal::ExpiringLease;

/// The usual time between two requests for tokens of a limit that is used up, in µs.
pub(super) const PACE: u64 = 20_000;

/// The time without use after which a process returns its leased tokens, in µs.
///
/// A charge or a refund also waits for this long. If no command has carried it by then, one is sent for it.
pub(super) const IDLE: u64 = 100_000;

/// The checks per second at which a subject begins to lease: eight in 100 ms.
pub(super) const BUSY: u64 = 80;

/// The checks per second below which a subject stops leasing, if they are of the usual cost.
pub(super) const QUIET: u64 = 40;

/// The number of leasable tokens below which a subject does not lease.
///
/// All processes together may lease at most [`Terms::hold`] tokens. If these are fewer than 24, rounding wastes too
/// large a part of them.
const FEWEST: u32 = 24;

/// The fewest tokens that a request should bring, if this process uses enough tokens.
const WORTHWHILE: u64 = 48;

/// The longest time from a request that brought too few tokens to the next one, in µs.
///
/// If the limit takes longer than this to refill 32 tokens, the time can be up to four times as long.
const LONGEST_CYCLE: u64 = 100_000;

/// The default deadline of a check, in µs.
///
/// It is also the shortest validity of tokens that the server takes for waiting checks.
const DEADLINE: u64 = 5_000;

/// The longest validity of tokens that the server takes for waiting checks, in µs.
///
/// It is bounded because the checks that waited for the tokens may have been cancelled.
const LONGEST_ASIDE: u64 = 100_000;

/// The settings that all subjects of a limiter have in common.
///
/// A subject begins to lease tokens when this process makes at least 80 checks a second, and stops when it makes fewer
/// than 40. While the subject does not lease, the server decides each check. A subject never leases in these cases:
///
/// - It has several limits.
/// - The limit never refills.
/// - The burst is less than what the rate brings in 100 ms.
/// - Fewer than 24 tokens may be leased.
/// - Leases are shorter than 100 ms.
#[derive(Clone, Debug)]
pub struct Plan {
    terms: Box<[Terms]>,
    lease: u64,
    leases: bool,
    joint_validity: u64,
}

impl Plan {
    /// Creates a plan for subjects with the limits `terms` and leases of the length `lease`.
    ///
    /// There must be at least one limit. The length is rounded down to microseconds.
    #[must_use]
    pub fn new(terms: Vec<Terms>, lease: Duration) -> Self {
        let lease = micros_of(lease);
        let leases = match &*terms {
            [terms] => {
                let (tokens, micros) = (u128::from(terms.rate.tokens()), u128::from(terms.rate.micros()));
                tokens > 0
                    && u128::from(terms.burst) * micros >= tokens * 100_000
                    && terms.hold >= FEWEST
                    && lease >= 100_000
            }
            _ => false,
        };
        Self { terms: terms.into(), lease, leases, joint_validity: DEADLINE }
    }

    /// Sets how long a check waits for the server at most. Default: 5 ms.
    ///
    /// When the server takes tokens for waiting checks, these tokens are valid for as long, but at least for 5 ms and
    /// at most for 100 ms.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        let deadline = micros_of(deadline);
        Self { joint_validity: deadline.clamp(DEADLINE, LONGEST_ASIDE), ..self }
    }

    /// Returns the validity of tokens that the server takes for waiting checks, in µs from the command on.
    pub(super) fn joint_validity(&self) -> u64 {
        self.joint_validity
    }

    /// Returns the limits of a subject, in the order of its keys on the server.
    #[must_use]
    pub fn terms(&self) -> &[Terms] {
        &self.terms
    }

    /// Returns the length of a lease in µs. Commands send it to the server.
    #[must_use]
    pub fn lease_micros(&self) -> u64 {
        self.lease
    }

    /// Returns whether subjects with this plan can lease tokens.
    #[must_use]
    pub fn leases(&self) -> bool {
        self.leases
    }

    /// Returns how long leased tokens are usually valid after their request was sent, in µs.
    pub(crate) fn validity(&self) -> u64 {
        validity(self.lease)
    }

    /// Returns the largest cost that can ever be allowed: the smallest burst of the limits.
    pub(super) fn largest_cost(&self) -> u32 {
        self.terms.iter().map(|terms| terms.burst).min().unwrap_or(0)
    }

    /// Returns the most tokens that a lease can hold if no other process holds any.
    pub(super) fn most_held(&self) -> u32 {
        self.terms.first().map_or(0, |terms| terms.hold.min(terms.burst).min(ExpiringLease::MOST))
    }

    /// Returns the most tokens that this process should hold while other processes hold `others`.
    ///
    /// It is nine tenths of the leasable tokens that the others leave. So each of `n` busy processes comes to hold
    /// `9/(9n+1)` of the leasable tokens, and `1/(9n+1)` is left for the next process. If each took all it could get,
    /// the first ones would keep the others from leasing.
    pub(super) fn share(&self, others: u32) -> u32 {
        let left = self.most_held().saturating_sub(others);
        (left - left / 10).max(1)
    }

    /// Returns how many tokens this process should hold if it uses `own` tokens a second.
    ///
    /// Usually the tokens last for 100 ms. At a low rate they last longer, so that a request brings [`WORTHWHILE`]
    /// tokens. Three rules reduce the number of tokens:
    ///
    /// - `leased` is how many tokens all processes hold. If these are more than three quarters of the leasable tokens,
    ///   those of this process last only until its next request.
    /// - `others` is how many tokens the other processes hold. If they hold any, a process whose tokens last for more
    ///   than 100 ms gets at most an eighth of the leasable tokens. Otherwise slow processes would leave too little for
    ///   a fast one.
    /// - `length` is the present length of leases in µs. The tokens last for at most half of it, and for at most 500
    ///   ms. If half of it is less than 20 ms, they may last for up to 20 ms, but not longer than they are valid.
    pub(super) fn target(&self, own: u64, leased: u32, others: u32, length: u64) -> u32 {
        let longest = (length / 2).max(validity(length).min(PACE)).min(500_000);
        let most = self.most_held();
        let of = |time: u64| u32::try_from(own.saturating_mul(time.min(longest)) / 1_000_000).unwrap_or(u32::MAX);
        let is_scarce = leased > most - most / 4;
        let target = if is_scarce {
            of(PACE + PACE / 4)
        } else {
            let worthwhile = of(WORTHWHILE * 1_000_000 / own.max(1));
            let worthwhile = if others == 0 { worthwhile } else { worthwhile.min(most / 8) };
            of(100_000).max(worthwhile)
        };
        target.max(1).min(most)
    }

    /// Returns the number of tokens left at which the next request goes out.
    ///
    /// These tokens should last until the reply to that request arrives. They are at most half of `held`. `own` is the
    /// number of tokens that this process uses in a second. `round_trip` is how long the last request took, in µs.
    pub(super) fn low(&self, own: u64, round_trip: u64, held: u32) -> u32 {
        let lead = PACE + PACE / 4 + round_trip.saturating_mul(2).min(self.lease);
        let low = own.saturating_mul(lead) / 1_000_000;
        u32::try_from(low).unwrap_or(u32::MAX).min(held / 2)
    }

    /// Returns the time from a request to the next one, in µs.
    ///
    /// `missing` is how many tokens the request did not bring. The process waits until the limit may have refilled
    /// them. But it asks before the bucket could be full, because a full bucket wastes what is refilled. `length` is
    /// the present length of leases in µs. `jitter` is a random number, so that processes do not always ask in the same
    /// order.
    pub(super) fn pace(&self, missing: u32, length: u64, jitter: u64) -> u64 {
        let hold = self.refill_of(self.most_held().into());
        let cycle = (hold / 2).min(LONGEST_CYCLE);
        let cycle = cycle.max(self.refill_of(32).min(hold / 5 * 4).min(4 * LONGEST_CYCLE)).min(length / 4);
        let pace = self.refill_of(missing.into()).min(cycle);
        if pace <= PACE {
            // This jitter is small: with a small burst a process needs nearly all of its 50 requests a second.
            return PACE + part(PACE / 16, jitter);
        }
        // The jitter moves the time by up to a quarter in both directions.
        (pace - pace / 4 + part(pace / 2, jitter)).max(PACE)
    }

    /// Returns how long the limit takes to refill `tokens`, in µs, rounded up.
    fn refill_of(&self, tokens: u64) -> u64 {
        let Some(terms) = self.terms.first() else { return 0 };
        let micros = u128::from(tokens) * u128::from(terms.rate.micros());
        u64::try_from(micros.div_ceil(u128::from(terms.rate.tokens().max(1)))).unwrap_or(u64::MAX)
    }
}

/// Returns how long the tokens of a request are valid after it was sent: 7/8 of `length`.
///
/// Both times are in µs, and the result is rounded down.
pub(super) fn validity(length: u64) -> u64 {
    length - length.div_ceil(8)
}

/// Scales a random number to the range from 0 to below `most`.
fn part(most: u64, random: u64) -> u64 {
    // The result is below `most`, so it fits.
    ((u128::from(most) * u128::from(random)) >> 64) as u64
}
