//! The token line: arithmetic on positions, free of atomics.
//!
//! Think of the instants at which tokens are produced as a line measured in tokens, in fixed point with F fraction
//! bits: a *unit* is 2^-F tokens. A *position* is a place on that line; the clock's reading is one, and so is the
//! *word* of a bucket: the position at which it will be full again. Positions are 64 bits wide and wrap: only
//! their differences mean anything, as signed numbers.
//!
//! With `debt = word - position`: a debt of 0 or less is a full bucket, and taking a cost moves the word to
//! `max(word, position) + cost` if that is no further than the burst. Admissions are sound in whatever order and
//! with however skewed readings they come: each satisfies `word <= position + burst` at its own reading and moves the
//! word by at least its cost, so that the costs between two readings a and b are at most
//! `burst + position(b) - position(a)`.
//!
//! **F** is the largest with a tick of the clock at most 4 units and the deepest debt at most 2^61 (2^54 where
//! positions are kept in 56 bits). A tick is then more than 2 units (unless the deepest debt takes decades to refill),
//! which is what makes waits exact to the tick; and with nanosecond ticks the positions circle after more than a
//! century. (Where a tick brings more than 4 whole tokens F is 0, and they circle after 2^64 tokens.) A bucket that
//! nobody touched for more than half a circle may read as indebted; it is healed like one whose clock stepped back. A
//! line is good for 2^63 ticks.

use super::measure::Measure;
use super::pace::Pace;
use super::{Quota, SetQuotaError};
use crate::clock::{Clock, Frequency, Scale, Ticks};

/// The most units that a tick is worth, unless a tick is worth more whole tokens than that.
const UNITS_PER_TICK: u128 = 4;

/// The fraction bits where the rate, being 0, asks for none in particular.
const IDLE_FRACTION_BITS: u32 = 28;

/// The most units that a tick may be worth after a change of the quota: with nanosecond ticks the positions then
/// circle after 52 days.
const MOST_UNITS_PER_TICK: u64 = UNITS_PER_TICK as u64 * 1_024;

/// A quota's line on a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The tick at which the position was `start`.
    pub(super) origin: u64,
    pub(super) start: u64,
    /// Units per tick.
    pub(super) scale: Scale,
    /// Ticks per unit, for waits.
    pub(super) pace: Pace,
    /// F.
    pub(super) fraction_bits: u32,
    pub(super) frequency: Frequency,
    /// What can be there at once: of tokens the burst, in units; of windows the limit, as a number.
    pub(super) full: u64,
    /// In tokens, counted from a full bucket.
    pub(super) deepest_debt: u64,
    /// The deepest debt of all quotas there were: what lies beyond was not taken under any of them.
    pub(super) deepest_ever: u64,
    /// Whether everything is allowed, and the word left alone.
    pub(super) unlimited: bool,
}

impl Timeline {
    /// The line of `quota` on a clock of `frequency` ticks per second, starting at the tick `origin`, where a word of 0
    /// is that of a bucket in which `missing` tokens are missing.
    pub(crate) const fn new(measure: Measure, quota: &Quota, frequency: u64, origin: u64, missing: u32) -> Self {
        let (tokens, ticks) = rate(measure, quota, frequency);
        let fraction_bits = fraction_bits(tokens, ticks, measure.debt_bits(), measure.deepest_debt(quota));
        let line = Self::with_fraction_bits(measure, quota, frequency, fraction_bits);
        Self { origin, start: measure.start(fraction_bits, missing), ..line }
    }

    const fn with_fraction_bits(measure: Measure, quota: &Quota, frequency: u64, fraction_bits: u32) -> Self {
        let (tokens, ticks) = rate(measure, quota, frequency);
        let scale = Scale::ratio(tokens << fraction_bits, ticks);
        Self {
            origin: 0,
            start: 0,
            scale,
            pace: Pace::new(scale, ticks, tokens),
            fraction_bits,
            frequency: Frequency::from_hertz(frequency),
            full: measure.full(quota, fraction_bits),
            deepest_debt: measure.deepest_debt(quota),
            deepest_ever: measure.deepest_debt(quota),
            unlimited: quota.is_unlimited(),
        }
    }

    /// The line of another quota in the fixed point of this one, with no start yet.
    pub(super) const fn changed(&self, measure: Measure, quota: &Quota, hertz: u64) -> Result<Self, SetQuotaError> {
        let deepest_debt = measure.deepest_debt(quota);
        if u64::BITS - deepest_debt.leading_zeros() + self.fraction_bits > measure.debt_bits() {
            return Err(SetQuotaError::TooLarge);
        }
        let (tokens, ticks) = rate(measure, quota, hertz);
        // A tick may be worth more whole tokens than that from the start.
        let most = if self.fraction_bits == 0 { u64::MAX } else { MOST_UNITS_PER_TICK };
        // Shifted by at most 61, the tokens stay below 2^123.
        if ticks > 0 && (tokens << self.fraction_bits).div_ceil(most as u128) > ticks {
            return Err(SetQuotaError::TooFast);
        }
        let mut line = Self::with_fraction_bits(measure, quota, hertz, self.fraction_bits);
        // What is owed from before does not end at the position of a tick.
        line.pace.aligned = false;
        if self.deepest_ever > line.deepest_ever {
            line.deepest_ever = self.deepest_ever;
        }
        Ok(line)
    }

    pub(super) const fn is_slower_than(&self, other: &Self) -> bool {
        // Below 2^126.
        (self.scale.mult as u128) << other.scale.shift < (other.scale.mult as u128) << self.scale.shift
    }

    /// This line, taking no word for one from before a clock stepped back.
    pub(super) const fn without_healing(self) -> Self {
        Self { deepest_ever: u64::MAX >> self.fraction_bits, ..self }
    }

    /// This line, on which a debt of so many tokens (or windows) is no sign that a clock stepped back.
    pub(crate) const fn expecting_debt_of(self, tokens: u64) -> Self {
        Self { deepest_ever: if tokens > self.deepest_ever { tokens } else { self.deepest_ever }, ..self }
    }

    /// This line, starting where `old` is at the tick `origin`.
    pub(super) const fn starting(self, origin: u64, old: &Self) -> Self {
        Self { origin, start: old.position(origin), ..self }
    }

    /// The position of the tick `now`, rounded down to units.
    #[inline]
    pub(crate) const fn position(&self, now: u64) -> u64 {
        self.start.wrapping_add_signed(self.scale.units(now.wrapping_sub(self.origin) as i64))
    }

    /// The units that so many ticks bring, rounded up.
    pub(crate) const fn units_in(&self, ticks: Ticks) -> u64 {
        self.scale.saturating_units(ticks.count()).saturating_add(1)
    }

    /// The wait until `units` more are there: never too short, and at most a tick too long.
    #[inline]
    pub(crate) const fn wait(&self, units: u64) -> Ticks {
        self.pace.wait(units, self.pace.aligned)
    }

    /// As [`wait`](Self::wait), for a number of units that need not end at the position of a tick.
    #[inline]
    pub(crate) const fn wait_unaligned(&self, units: u64) -> Ticks {
        self.pace.wait(units, false)
    }

    /// The tokens that a window brings.
    #[inline]
    pub(crate) const fn limit(&self) -> u32 {
        // Of windows it was a `u32`.
        self.full as u32
    }

    #[inline]
    pub(crate) const fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Whether a window that begins so many units ahead of a reading can only be from before the clock stepped back:
    /// more than a window and what the clock may step back.
    #[cold]
    pub(crate) fn is_beyond_next_window(&self, units: u64, clock: &impl Clock) -> bool {
        units > (self.deepest_ever << self.fraction_bits).saturating_add(self.skew(clock))
    }

    /// The units of a window, on a line that is measured in windows.
    #[inline]
    pub(crate) const fn window(&self) -> u64 {
        1 << self.fraction_bits
    }

    #[inline]
    pub(crate) const fn fraction_bits(&self) -> u32 {
        self.fraction_bits
    }

    /// The units by which the clock may step back, rounded up.
    pub(super) fn skew(&self, clock: &impl Clock) -> u64 {
        let ticks = clock.max_step_back();
        self.scale.saturating_units(ticks).saturating_add(u64::from(ticks > 0))
    }

    #[inline]
    pub(crate) const fn frequency(&self) -> Frequency {
        self.frequency
    }
}

/// What a line brings, as a fraction: tokens (or what it is measured in) in so many ticks.
const fn rate(measure: Measure, quota: &Quota, frequency: u64) -> (u128, u128) {
    // per window / window · 10^9 / frequency; the numerator is below 2^62.
    (measure.per_window(quota) as u128 * 1_000_000_000, quota.window_nanos() as u128 * frequency as u128)
}

/// F for a rate of `tokens / ticks`.
const fn fraction_bits(tokens: u128, ticks: u128, most_bits: u32, deepest_debt: u64) -> u32 {
    let debt_bits = u64::BITS - deepest_debt.leading_zeros();
    let mut bits = most_bits - debt_bits;
    if tokens == 0 || ticks == 0 {
        return if bits < IDLE_FRACTION_BITS { bits } else { IDLE_FRACTION_BITS };
    }
    // tokens · 2^bits / ticks <= 4, rearranged so that nothing overflows: the left side stays below 2^123.
    while bits > 0 && (tokens << bits).div_ceil(UNITS_PER_TICK) > ticks {
        bits -= 1;
    }
    bits
}
