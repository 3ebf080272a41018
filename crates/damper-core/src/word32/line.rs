//! The arithmetic of a token bucket whose positions have 32 bits, free of atomics.
//!
//! As `quota::timeline` has it: a *unit* is 2^-F tokens, a *position* a place on the line of tokens, the *word* the
//! position at which the bucket will be full. Ticks have 64 bits here too; only positions are cut to 32. F is the
//! largest with a burst below 2^28 units and a tick of at most 4 units.
//!
//! **Circling.** Positions circle after 2^32 units: sixteen times the time in which a full burst is refilled, or more.
//! A bucket that was idle meanwhile reads as full for 15/16 of the circle or more; for the rest it reads as if it
//! owed up to its burst, and is full again, at the latest, after as long as a burst takes to be refilled. A word beyond
//! the burst is a full bucket too.

use super::check_fits;
use crate::out_of_range::OutOfRange;
use crate::quota::Quota;
use crate::time::{Scale, Ticks};

/// The bits of a full burst in units.
const FULL_BITS: u32 = 28;

const MOST_BURST: u32 = (1 << FULL_BITS) - 1;

/// The most units that a tick is worth, unless a tick is worth more whole tokens than that.
const UNITS_PER_TICK: u128 = 4;

/// Bits of `mult`: the product of 32 of them with 64 of the ticks is made of two multiplications.
const MULT_BITS: u32 = 31;

/// Bits of `pace`: with the 29 of what is owed at the most they fit 64.
const PACE_BITS: u32 = 34;

#[derive(Clone, Copy, Debug)]
pub(super) struct Line32 {
    /// Units per tick, as `mult / 2^shift`.
    mult: u32,
    shift: u32,
    fraction_bits: u32,
    /// The burst, in tokens; 0 where there is no limit.
    burst: u32,
    /// Only a bucket that circled can owe more than this.
    reach: u32,
    /// Ticks per unit, as `pace / 2^pace_shift`; 0 if nothing is refilled, or a burst only in centuries.
    pace: u64,
    pace_shift: u32,
}

/// The result of taking tokens, where the word has not wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Take32 {
    /// The word after taking the tokens.
    Taken(u32),
    /// So many units are owed, and the tokens would make it more than the burst.
    Owed(u32),
}

impl Line32 {
    /// On a clock of such a frequency, which may step back by so many ticks.
    pub(super) const fn new(quota: &Quota, hertz: u64, skew: u64) -> Result<Self, OutOfRange> {
        let burst = if quota.is_unlimited() { 0 } else { quota.burst_size() };
        if let Err(error) = check_fits("burst", burst, MOST_BURST) {
            return Err(error);
        }
        // limit / window · 10^9 / hertz, as in `quota::timeline`; the numerator is below 2^62.
        let (tokens, ticks) = (quota.limit() as u128 * 1_000_000_000, quota.window_nanos() as u128 * hertz as u128);
        let mut fraction_bits = FULL_BITS - (u32::BITS - burst.leading_zeros());
        while fraction_bits > 0 && (tokens << fraction_bits).div_ceil(UNITS_PER_TICK) > ticks {
            fraction_bits -= 1;
        }
        let units = tokens << fraction_bits;
        let scale = Scale::ratio_below(units, ticks, MULT_BITS);
        // A tick that brings more than any burst brings a burst.
        let (mult, shift) =
            if scale.mult >> scale.shift >= 1 << FULL_BITS { (1 << FULL_BITS, 0) } else { (scale.mult, scale.shift) };
        // More than the burst, and than what the clock may have stepped back, as far as that is no more than another
        // burst.
        let (full, stepped) = (burst << fraction_bits, (skew as u128 * mult as u128) >> shift);
        let reach = full + if stepped < full as u128 { stepped as u32 + 1 } else { full };
        // There may be no units, or one may take longer than the field can hold: then the wait is unknown.
        let is_known = units > 0 && ticks / units <= 1 << PACE_BITS;
        let pace = if is_known { Scale::ratio_below(ticks, units, PACE_BITS) } else { Scale::STOPPED };
        let pace = if pace.mult > 1 << PACE_BITS { Scale::STOPPED } else { pace };
        Ok(Self { mult: mult as u32, shift, fraction_bits, burst, reach, pace: pace.mult, pace_shift: pace.shift })
    }

    /// The position of the tick `now`, rounded down to units.
    #[inline]
    pub(super) const fn position(&self, now: u64) -> u32 {
        // The product has 96 bits, of which 32 are wanted.
        let low = (now & 0xFFFF_FFFF) * self.mult as u64;
        let high = (now >> 32) * self.mult as u64 + (low >> 32);
        // `shift` is below 64; each half of the choice is a double shift by less than 32.
        if self.shift & 32 == 0 {
            ((((high & 0xFFFF_FFFF) << 32) | (low & 0xFFFF_FFFF)) >> (self.shift & 31)) as u32
        } else {
            (high >> (self.shift & 31)) as u32
        }
    }

    /// The word after taking `n` tokens at the position `at`; there are 1 to `burst` of them.
    #[inline]
    pub(super) const fn take(&self, word: u32, at: u32, n: u32) -> Take32 {
        let owed = Self::owed(word, at);
        // Below 2^31 + 2^28.
        let after = owed + (n << self.fraction_bits);
        if after <= self.full() { Take32::Taken(at.wrapping_add(after)) } else { Take32::Owed(owed) }
    }

    /// The debt of a bucket; 0 if it is full.
    #[inline]
    pub(super) const fn owed(word: u32, at: u32) -> u32 {
        let ahead = word.wrapping_sub(at) as i32;
        if ahead > 0 { ahead as u32 } else { 0 }
    }

    /// The debt of a bucket that may have circled: then it is full.
    #[inline]
    pub(super) const fn surely_owed(&self, word: u32, at: u32) -> u32 {
        let owed = Self::owed(word, at);
        if owed > self.reach { 0 } else { owed }
    }

    /// Whether `n` is 1 to the burst.
    #[inline]
    pub(super) const fn is_takeable(&self, n: u32) -> bool {
        n.wrapping_sub(1) < self.burst
    }

    /// Whether `n` can be tried at once.
    ///
    /// For more than one token that is [`is_takeable`](Self::is_takeable). One token needs no question, for where the
    /// burst is none it is not there.
    #[inline]
    pub(super) const fn is_worth_a_try(&self, n: u32) -> bool {
        n == 1 || self.is_takeable(n)
    }

    #[inline]
    const fn full(&self) -> u32 {
        self.burst << self.fraction_bits
    }

    /// The wait until `n` tokens are there, of a bucket that owes so much.
    #[inline]
    pub(super) const fn wait_for(&self, n: u32, owed: u32) -> Ticks {
        self.wait((owed + (n << self.fraction_bits)).saturating_sub(self.full()))
    }

    /// The wait until so many units are there.
    ///
    /// It is never too short, and at most a tick and 2^-33 of itself too long.
    ///
    /// Out of line, to be there once.
    #[inline(never)]
    pub(super) const fn wait(&self, units: u32) -> Ticks {
        if units == 0 {
            return Ticks::ZERO;
        }
        if self.pace == 0 {
            return Ticks::NEVER;
        }
        // At most 29 bits, 34 and one of a carry.
        Ticks::new((units as u64 * self.pace + ((1 << self.pace_shift) - 1)) >> self.pace_shift)
    }

    /// The tokens that can be taken at once, rounded down.
    pub(super) const fn remaining(&self, owed: u32) -> u32 {
        self.full().saturating_sub(owed) >> self.fraction_bits
    }
}
