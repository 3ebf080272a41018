//! When to lease, how much and how often.

use crate::micros::micros_of;
use crate::script::Terms;
use core::time::Duration;
use damper_core::internal::ExpiringLease;

/// The usual time between two requests of a limit that is used up, in µs.
pub(super) const PACE: u64 = 20_000;

/// A lease that is not used for so many µs is returned.
pub(super) const IDLE: u64 = 100_000;

/// A subject leases from so many checks a second: eight in 100 ms.
pub(super) const BUSY: u64 = 80;

/// A subject stops leasing below so many checks a second.
pub(super) const QUIET: u64 = 40;

/// The fewest tokens that processes must be able to lease together: of fewer, rounding wastes too many.
const FEWEST: u32 = 24;

/// The tokens that a command is to bring, where the rate allows it.
const WORTHWHILE: u64 = 48;

/// The longest time between two requests that brought too few tokens, in µs.
const LONGEST_CYCLE: u64 = 100_000;

/// How long a check may wait unless that is set, in µs, and the least that tokens are set aside for.
const DEADLINE: u64 = 5_000;

/// The longest time that tokens are set aside for checks that may have gone away, in µs.
const LONGEST_ASIDE: u64 = 100_000;

/// The settings that all subjects of a limiter have in common.
///
/// A subject with one limit leases tokens of it where the burst is at least what the rate brings in 100 ms, and while this process
/// makes at least 80 checks a second (until there are fewer than 40). Otherwise the server decides each check: always where there are
/// several limits, where nothing drips in, where the terms let fewer than 24 tokens be leased, and with leases under 100 ms.
#[derive(Clone, Debug)]
pub struct Plan {
    terms: Box<[Terms]>,
    lease: u64,
    leases: bool,
    joint_validity: u64,
}

impl Plan {
    /// Creates a plan for subjects with these limits, and leases of this length.
    ///
    /// At least one limit is needed. The length is rounded down to microseconds.
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
    /// Tokens that the server took for several checks at once are set aside for so long, at least for 5 ms and at most for 100 ms.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        let deadline = micros_of(deadline);
        Self { joint_validity: deadline.clamp(DEADLINE, LONGEST_ASIDE), ..self }
    }

    /// For how long after a joint take was made its tokens are set aside, in µs.
    pub(super) fn joint_validity(&self) -> u64 {
        self.joint_validity
    }

    /// The limits, in the order of the keys.
    #[must_use]
    pub fn terms(&self) -> &[Terms] {
        &self.terms
    }

    /// The length of a lease in µs, as commands carry it.
    #[must_use]
    pub fn lease_micros(&self) -> u64 {
        self.lease
    }

    /// Whether the subjects lease at all.
    #[must_use]
    pub fn leases(&self) -> bool {
        self.leases
    }

    /// How long the tokens of a usual request may be spent after it was sent, in µs.
    pub(crate) fn validity(&self) -> u64 {
        validity(self.lease)
    }

    /// The largest cost that can ever be allowed.
    pub(super) fn largest_cost(&self) -> u32 {
        self.terms.iter().map(|terms| terms.burst).min().unwrap_or(0)
    }

    /// The most tokens that a lease can hold, however few other processes hold.
    pub(super) fn most_held(&self) -> u32 {
        self.terms.first().map_or(0, |terms| terms.hold.min(terms.burst).min(ExpiringLease::MOST))
    }

    /// The most tokens to hold while other processes hold `others`: nine tenths of what they leave.
    ///
    /// So n busy processes each come to hold 9 of 9n + 1 parts of what may be leased, and a part is left for the next one. If each
    /// took what it can get, the first ones would keep the others from leasing at all.
    pub(super) fn share(&self, others: u32) -> u32 {
        let left = self.most_held().saturating_sub(others);
        (left - left / 10).max(1)
    }

    /// How many tokens to hold, by this process's tokens a second.
    ///
    /// Enough for 100 ms, and at a low rate for longer, so that a command brings tokens that are worth it. Where `leased` tokens, those
    /// of all processes, are most of what may be leased, no more than what is spent until the next request. Beside `others`, a
    /// process that spends little keeps no more than an eighth of it for longer: one that spends much could lease too little.
    /// `length` is that of leases at present: no more than what is spent in half of it, or until the next request.
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

    /// With how many tokens left the next request goes out: what is spent until its reply is there.
    ///
    /// At most half of `held`. `round_trip` is that of the last request, in µs.
    pub(super) fn low(&self, own: u64, round_trip: u64, held: u32) -> u32 {
        let lead = PACE + PACE / 4 + round_trip.saturating_mul(2).min(self.lease);
        let low = own.saturating_mul(lead) / 1_000_000;
        u32::try_from(low).unwrap_or(u32::MAX).min(held / 2)
    }

    /// How long after a request the next one goes out, in µs.
    ///
    /// `missing` are the tokens that the last request did not bring: it is worth waiting until the limit has so many, for as
    /// long as no refill is wasted. `jitter` is a random number, so that processes do not stay in the same order.
    /// `length` is that of leases at present.
    pub(super) fn pace(&self, missing: u32, length: u64, jitter: u64) -> u64 {
        let hold = self.refill_of(self.most_held().into());
        let cycle = (hold / 2).min(LONGEST_CYCLE);
        let cycle = cycle.max(self.refill_of(32).min(hold / 5 * 4).min(4 * LONGEST_CYCLE)).min(length / 4);
        let pace = self.refill_of(missing.into()).min(cycle);
        if pace <= PACE {
            // Hardly any: 50 requests a second are few where the burst is small.
            return PACE + part(PACE / 16, jitter);
        }
        // By a quarter of it earlier or later.
        (pace - pace / 4 + part(pace / 2, jitter)).max(PACE)
    }

    /// The time in which so many tokens drip in, in µs, rounded up.
    fn refill_of(&self, tokens: u64) -> u64 {
        let Some(terms) = self.terms.first() else { return 0 };
        let micros = u128::from(tokens) * u128::from(terms.rate.micros());
        u64::try_from(micros.div_ceil(u128::from(terms.rate.tokens().max(1)))).unwrap_or(u64::MAX)
    }
}

/// How long the tokens of a request may be spent after it was sent, in µs: 7/8 of the lease's length.
pub(super) fn validity(length: u64) -> u64 {
    length - length.div_ceil(8)
}

/// As much of `most` as a random number says.
fn part(most: u64, random: u64) -> u64 {
    // Below `most`.
    ((u128::from(most) * u128::from(random)) >> 64) as u64
}
