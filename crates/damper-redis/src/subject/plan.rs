//! The settings that the subjects of a limiter share: when to lease, how much and how often.

use crate::micros::micros_of;
use crate::script::Terms;
use core::time::Duration;
use damper_core::internal::ExpiringLease;

/// The usual time between two requests to a limit that is used up, in µs.
pub(super) const PACE: u64 = 20_000;

/// The time without use after which a lease is returned, in µs.
///
/// Bookings wait to be sent for no longer either.
pub(super) const IDLE: u64 = 100_000;

/// The checks per second with which a subject begins to lease: eight in 100 ms.
pub(super) const BUSY: u64 = 80;

/// The checks per second below which a subject stops leasing.
pub(super) const QUIET: u64 = 40;

/// The fewest tokens that may be leased to all processes together, if a subject is to lease at all.
///
/// If there are fewer, rounding wastes too large a part of them.
const FEWEST: u32 = 24;

/// The fewest tokens that a request should bring, if this process uses enough tokens.
const WORTHWHILE: u64 = 48;

/// The longest time between two requests that bring too few tokens, in µs.
///
/// If the limit takes longer than that to refill 32 tokens, the time can be up to four times as long.
const LONGEST_CYCLE: u64 = 100_000;

/// The default deadline of a check, and the shortest validity of the tokens of a joint take, in µs.
const DEADLINE: u64 = 5_000;

/// The longest validity of the tokens of a joint take, in µs.
///
/// It is bounded because the checks that waited for the tokens may have been cancelled.
const LONGEST_ASIDE: u64 = 100_000;

/// The settings that all subjects of a limiter have in common.
///
/// A subject leases tokens while this process makes at least 80 checks a second, until it makes fewer than 40. Otherwise the server
/// decides each check. A subject never leases if it has several limits, if the limit never refills, if the burst is less than what
/// the rate brings in 100 ms, if fewer than 24 tokens may be leased, or if leases are shorter than 100 ms.
#[derive(Clone, Debug)]
pub struct Plan {
    terms: Box<[Terms]>,
    lease: u64,
    leases: bool,
    joint_validity: u64,
}

impl Plan {
    /// Creates a plan for subjects with these limits and leases of this length.
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
    /// The tokens that the server takes for waiting checks are valid for this time, but for at least 5 ms and at most 100 ms.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        let deadline = micros_of(deadline);
        Self { joint_validity: deadline.clamp(DEADLINE, LONGEST_ASIDE), ..self }
    }

    /// Returns how long the tokens of a joint take are valid after the command was made, in µs.
    pub(super) fn joint_validity(&self) -> u64 {
        self.joint_validity
    }

    /// Returns the limits, in the order of the keys.
    #[must_use]
    pub fn terms(&self) -> &[Terms] {
        &self.terms
    }

    /// Returns the length of a lease in µs, as commands carry it.
    #[must_use]
    pub fn lease_micros(&self) -> u64 {
        self.lease
    }

    /// Returns whether the subjects ever lease.
    #[must_use]
    pub fn leases(&self) -> bool {
        self.leases
    }

    /// Returns how long leased tokens are usually valid after their request was sent, in µs.
    pub(crate) fn validity(&self) -> u64 {
        validity(self.lease)
    }

    /// Returns the largest cost that can ever be allowed.
    pub(super) fn largest_cost(&self) -> u32 {
        self.terms.iter().map(|terms| terms.burst).min().unwrap_or(0)
    }

    /// Returns the most tokens that a lease can hold if no other process holds any.
    pub(super) fn most_held(&self) -> u32 {
        self.terms.first().map_or(0, |terms| terms.hold.min(terms.burst).min(ExpiringLease::MOST))
    }

    /// Returns the most tokens to hold while other processes hold `others`: nine tenths of what they leave.
    ///
    /// So with n busy processes, each comes to hold 9/(9n + 1) of the tokens that may be leased, and 1/(9n + 1) is left for the
    /// next process. If each took all it could get, the first ones would keep the others from leasing.
    pub(super) fn share(&self, others: u32) -> u32 {
        let left = self.most_held().saturating_sub(others);
        (left - left / 10).max(1)
    }

    /// Returns how many tokens to hold, for a process that uses `own` tokens a second.
    ///
    /// The tokens should last for 100 ms. At a low rate they should last longer, so that a request brings [`WORTHWHILE`] tokens.
    /// Three things bound their number:
    ///
    /// - If `leased`, the tokens that all processes hold, are more than three quarters of those that may be leased, the tokens last
    ///   only until the next request.
    /// - If other processes hold tokens (`others`), the tokens last longer than 100 ms only up to an eighth of those that may be
    ///   leased. Otherwise slow processes would leave too little for a fast one.
    /// - The tokens last at most for half of `length`, the present length of leases, or until the next request if that is longer.
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
    /// These tokens last until the reply to that request arrives. They are at most half of `held`. `round_trip` is how long the
    /// last request took, in µs.
    pub(super) fn low(&self, own: u64, round_trip: u64, held: u32) -> u32 {
        let lead = PACE + PACE / 4 + round_trip.saturating_mul(2).min(self.lease);
        let low = own.saturating_mul(lead) / 1_000_000;
        u32::try_from(low).unwrap_or(u32::MAX).min(held / 2)
    }

    /// Returns how long after a request the next one goes out, in µs.
    ///
    /// The process waits until the limit may have refilled the `missing` tokens, which the last request did not bring. But it asks
    /// before the bucket could be full and waste what is refilled. `length` is the present length of leases. `jitter` is a random
    /// number, which keeps processes from always asking in the same order.
    pub(super) fn pace(&self, missing: u32, length: u64, jitter: u64) -> u64 {
        let hold = self.refill_of(self.most_held().into());
        let cycle = (hold / 2).min(LONGEST_CYCLE);
        let cycle = cycle.max(self.refill_of(32).min(hold / 5 * 4).min(4 * LONGEST_CYCLE)).min(length / 4);
        let pace = self.refill_of(missing.into()).min(cycle);
        if pace <= PACE {
            // The jitter is small here, because a small burst needs all of the 50 requests a second.
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

/// Returns how long the tokens of a request are valid after it was sent, in µs: 7/8 of `length`.
pub(super) fn validity(length: u64) -> u64 {
    length - length.div_ceil(8)
}

/// Scales a random number to the range from 0 to below `most`.
fn part(most: u64, random: u64) -> u64 {
    // The result is below `most`, so it fits.
    ((u128::from(most) * u128::from(random)) >> 64) as u64
}
