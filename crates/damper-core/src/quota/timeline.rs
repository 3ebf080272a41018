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
//! positions are kept in 56 bits). A tick is then more than 2 units (unless the deepest debt takes decades to refill), so
//! that a position, which is rounded down to units, is early by less than half a tick. With nanosecond ticks the positions
//! circle after more than a century. (Where a tick brings more than 4 whole tokens F is 0, and they circle after 2^64 tokens.) A bucket that
//! nobody touched for more than half a circle may read as indebted; it is healed like one whose clock stepped back. A
//! line is good for 2^63 ticks.
//!
//! **F stays when the quota changes.** Under a quota that is k times slower than the one that F was chosen for, a unit takes
//! k/2 ticks or less, and what is rounded to units counts:
//!
//! | what | is | because |
//! |---|---|---|
//! | a wait | exact to the tick | it is counted from the reading, with the *part* of a unit that has passed since its position |
//! | a token | late by less than a tick after a change, and never otherwise | a line that is bent goes on from the part of a unit where the last one was, in whole ticks; what is less than a tick is kept in `behind` for the next change |
//! | a token | early by less than a unit, and by less than a tick of the old line more where the quota changes in between | a full bucket is taken from at a position, which is rounded down; a changed line catches up on what is in `behind` |

use super::measure::Measure;
use super::pace::Pace;
use super::{Quota, SetQuotaError};
use crate::time::{Clock, Frequency, Scale, Ticks};
use core::time::Duration;

/// The most units that a tick is worth, unless a tick is worth more whole tokens than that.
const UNITS_PER_TICK: u128 = 4;

/// The fraction bits where the rate, being 0, asks for none in particular.
const IDLE_FRACTION_BITS: u32 = 28;

/// The most units that a tick may be worth after a change of the quota: with nanosecond ticks the positions then
/// circle after 52 days.
const MOST_UNITS_PER_TICK: u64 = UNITS_PER_TICK as u64 * 1_024;

/// The most ticks by which the start of a line is put back, for a part of a unit that was brought before.
const LONGEST_PART: u64 = 1 << 62;

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
    /// How far the reading that waits are counted from lies past its position, in 2^-64 units.
    pub(super) part: u64,
    /// How much later the line is than what all quotas so far have brought, in 2^-64 units: less than a tick.
    pub(super) behind: u64,
}

impl Timeline {
    /// The line of `quota` on a clock of `frequency` ticks per second, starting at the tick `origin`, where a word of 0
    /// is that of a bucket in which `missing` tokens are missing. It can be changed to `largest`.
    pub(crate) const fn new(
        measure: Measure,
        quota: &Quota,
        largest: &Quota,
        frequency: u64,
        origin: u64,
        missing: u32,
    ) -> Self {
        let fraction_bits = fraction_bits(measure, quota, largest, frequency);
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
            pace: Pace::new(scale),
            fraction_bits,
            frequency: Frequency::from_hertz(frequency),
            full: measure.full(quota, fraction_bits),
            deepest_debt: measure.deepest_debt(quota),
            deepest_ever: measure.deepest_debt(quota),
            unlimited: quota.is_unlimited(),
            part: 0,
            behind: 0,
        }
    }

    /// The line of another quota in the fixed point of this one, with no start yet.
    pub(super) const fn changed(&self, measure: Measure, quota: &Quota, hertz: u64) -> Result<Self, SetQuotaError> {
        let deepest_debt = measure.deepest_debt(quota);
        if u64::BITS - deepest_debt.leading_zeros() + self.fraction_bits > measure.debt_bits() {
            let most = (1 << (measure.debt_bits() - self.fraction_bits)) - 1;
            return Err(SetQuotaError::TooLarge { tokens: deepest_debt, most });
        }
        let (tokens, ticks) = rate(measure, quota, hertz);
        // A tick may be worth more whole tokens than that from the start.
        let most = if self.fraction_bits == 0 { u64::MAX } else { MOST_UNITS_PER_TICK };
        // Shifted by at most 61, the tokens stay below 2^123.
        if ticks > 0 && (tokens << self.fraction_bits).div_ceil(most as u128) > ticks {
            return Err(self.too_fast(measure, quota, hertz));
        }
        let mut line = Self::with_fraction_bits(measure, quota, hertz, self.fraction_bits);
        if self.deepest_ever > line.deepest_ever {
            line.deepest_ever = self.deepest_ever;
        }
        Ok(line)
    }

    /// The error for a quota whose tick would be worth more than `MOST_UNITS_PER_TICK`.
    #[cold]
    const fn too_fast(&self, measure: Measure, quota: &Quota, hertz: u64) -> SetQuotaError {
        // What the units of a token, times so many tokens, may be in a window of so many ticks. The ticks are fewer than
        // 2^111, or the quota would not be too fast.
        let token = 1_000_000_000u128 << self.fraction_bits;
        let most_per_tick = MOST_UNITS_PER_TICK as u128;
        if let Measure::Windows(_) = measure {
            // A clock that stands still makes no quota too fast.
            let least = token.div_ceil(most_per_tick * hertz as u128);
            let least = Duration::from_nanos(if least > u64::MAX as u128 { u64::MAX } else { least as u64 });
            return SetQuotaError::WindowTooShort { window: quota.window(), least };
        }
        let ticks = quota.window_nanos() as u128 * hertz as u128;
        // Fewer than the limit, or the quota would not be too fast.
        SetQuotaError::TooFast { quota: *quota, most: (most_per_tick * ticks / token) as u32 }
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

    /// This line, going on at the tick `now` from where `old` is.
    pub(super) const fn starting(self, now: u64, old: &Self) -> Self {
        let mut old = *old;
        let position = old.reading(now);
        // What `old` has brought of the next unit. With what it was behind, that may be a whole one.
        let (brought, is_whole) = old.part.overflowing_add(old.behind);
        // What a tick of this line brings, in 2^-64 units: at most 2^126.
        let tick = (self.scale.mult as u128) << (u64::BITS - self.scale.shift);
        let ticks = match (brought as u128).checked_div(tick) {
            Some(ticks) => ticks,
            None => 0,
        };
        // A line is good for 2^63 ticks, and this is less than a unit.
        let ticks = if ticks > LONGEST_PART as u128 { LONGEST_PART } else { ticks as u64 };
        Self {
            origin: now.wrapping_sub(ticks),
            start: position.wrapping_add(is_whole as u64),
            behind: (brought as u128 - ticks as u128 * tick) as u64,
            ..self
        }
    }

    /// The position of the tick `now`, rounded down to units.
    #[inline]
    pub(crate) const fn position(&self, now: u64) -> u64 {
        self.start.wrapping_add_signed(self.scale.units(now.wrapping_sub(self.origin) as i64))
    }

    /// The position of the tick `now`, from which waits are counted from here on.
    #[inline]
    pub(crate) const fn reading(&mut self, now: u64) -> u64 {
        self.part = self.scale.part(now.wrapping_sub(self.origin) as i64);
        self.position(now)
    }

    /// The units that so many ticks bring, rounded up.
    pub(crate) const fn units_in(&self, ticks: Ticks) -> u64 {
        self.scale.saturating_units(ticks.count()).saturating_add(1)
    }

    /// The fewest units for which the [`wait`](Self::wait) is at least so long, up to two more; of a line that refills.
    pub(crate) fn units_for(&self, wait: Ticks) -> u64 {
        // Between so many ticks and the wait back lie the part of a unit at the reading, and what is cut off: less than two.
        let least = self.scale.saturating_units(wait.count());
        (0..2)
            .map(|more| least.saturating_add(more))
            .find(|&units| self.wait(units) >= wait)
            .unwrap_or(least.saturating_add(2))
    }

    /// Whether no wait brings anything.
    pub(crate) const fn refills_nothing(&self) -> bool {
        self.scale.mult == 0
    }

    /// How many bits a unit is above 2^-61, in tokens.
    pub(crate) const fn bits_below_units(&self) -> u32 {
        61 - self.fraction_bits
    }

    /// The shortest wait from the [`reading`](Self::reading) after which the position is `units` further. (From its
    /// position, of a line without a reading: that may be longer by a unit.)
    #[inline]
    pub(crate) const fn wait(&self, units: u64) -> Ticks {
        self.pace.wait(units, self.part, self.scale)
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

/// F for a line that starts with `quota` and can be changed to `largest`.
const fn fraction_bits(measure: Measure, quota: &Quota, largest: &Quota, frequency: u64) -> u32 {
    let (own, of_largest) =
        (most_fraction_bits(measure, quota, frequency), most_fraction_bits(measure, largest, frequency));
    let bits = if own < of_largest { own } else { of_largest };
    let is_idle = is_idle(rate(measure, quota, frequency)) && is_idle(rate(measure, largest, frequency));
    if is_idle && bits > IDLE_FRACTION_BITS { IDLE_FRACTION_BITS } else { bits }
}

const fn is_idle((tokens, ticks): (u128, u128)) -> bool {
    tokens == 0 || ticks == 0
}

/// The largest F with which a tick of `quota` is at most 4 units, and its deepest debt fits.
const fn most_fraction_bits(measure: Measure, quota: &Quota, frequency: u64) -> u32 {
    let (tokens, ticks) = rate(measure, quota, frequency);
    let debt_bits = u64::BITS - measure.deepest_debt(quota).leading_zeros();
    let mut bits = measure.debt_bits() - debt_bits;
    if is_idle((tokens, ticks)) {
        return bits;
    }
    // tokens · 2^bits / ticks <= 4, rearranged so that nothing overflows: the left side stays below 2^123.
    while bits > 0 && (tokens << bits).div_ceil(UNITS_PER_TICK) > ticks {
        bits -= 1;
    }
    bits
}
