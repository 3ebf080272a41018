//! Positions in time: the arithmetic of lines of tokens and of windows, free of atomics.
//!
//! Think of the instants at which tokens are produced (or at which windows begin) as a line measured in tokens (or
//! windows), in fixed point with F fraction bits: a *unit* is 2^-F of one. A *position* is a place on that line, and the
//! clock's reading is one. Positions are 64 bits wide and wrap: only their differences mean anything, as signed numbers.
//!
//! **F** is the largest with a tick of the clock at most 4 units and the deepest debt at most 2^61 (2^54 where
//! positions are kept in 56 bits). A tick is then more than 2 units (unless the deepest debt takes decades to refill), so
//! that a position, which is rounded down to units, is early by less than half a tick. With nanosecond ticks the positions
//! circle after more than a century. (Where a tick brings more than 4 whole tokens F is 0, and they circle after 2^64 tokens.) A bucket
//! that was unused for more than half a circle may read as indebted; it is healed like one whose clock stepped back. A
//! line is good for 2^63 ticks.
//!
//! **F stays when the quota changes.** Under a quota that is k times slower than the one that F was chosen for, a unit takes
//! k/2 ticks or less, and what is rounded to units counts:
//!
//! | what | is | because |
//! |---|---|---|
//! | a wait | exact to the tick | it is counted from the reading, with the *part* of a unit that has passed since its position |
//! | a token | late by less than two ticks after a change, of which the rounding of its time up to a tick is one, and never otherwise | a line that is bent goes on from the part of a unit where the last one was, in whole ticks; what is less than a tick is kept in `behind` for the next change |
//! | a token | early by less than a unit, and by less than a tick of the old line more where the quota changes in between | a full bucket is taken from at a position, which is rounded down; a changed line catches up on what is in `behind` |

use super::live::{Record, Rest};
use super::shape::Shape;
use super::{Alignment, Quota, SetQuotaError, Tempo};
use crate::time::{Clock, Frequency, Scale, Ticks};

/// The most units that a tick is worth, unless a tick is worth more whole tokens than that.
const UNITS_PER_TICK: u128 = 4;

/// The fraction bits where the rate, being 0, asks for none in particular.
const IDLE_FRACTION_BITS: u32 = 28;

/// The most units that a tick may be worth after a change of the quota.
///
/// With nanosecond ticks the positions then circle after 52 days.
const MOST_UNITS_PER_TICK: u64 = UNITS_PER_TICK as u64 * 1_024;

/// The most ticks by which a line's start is put back, for a part of a unit that was brought before.
const LONGEST_PART: u64 = 1 << 62;

/// The longest wait that ends.
const LONGEST_WAIT: u64 = u64::MAX - 1;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A line of tokens or of windows: a timeline, and what may be taken at its positions.
///
/// The line says how a quota is counted. A [`LiveQuota`](super::LiveQuota) builds it, publishes it and bends it.
pub trait Line: Copy {
    /// How much a window of the quota brings, in whole tokens or windows.
    fn per_window(quota: &Quota) -> u32;

    /// The deepest debt under the quota, in whole tokens or windows.
    fn deepest_debt(quota: &Quota) -> u64;

    /// The position at which a new line starts.
    ///
    /// A word of 0 there is that of a bucket in which `missing` tokens are missing.
    fn first_position(fraction_bits: u32, missing: u32) -> u64;

    /// The error for a quota that is too fast for a line.
    ///
    /// On it a token or window lasts `whole` units a second, and at most `most` may pass in one.
    fn too_fast(quota: &Quota, whole: u128, most: u128) -> SetQuotaError;

    /// The line of a quota.
    fn new(timeline: Timeline, quota: &Quota) -> Self;

    /// Loads it from a record and the rest beside it.
    fn load(record: &Record, rest: &Rest) -> Self;

    /// Loads the part that the fast path of a check needs; the slow path handles the doubtful cases.
    #[inline]
    fn load_for_fast_path(record: &Record, rest: &Rest) -> Self {
        Self::load(record, rest)
    }

    /// The rest of the record that [`load`](Self::load) finds beside the timeline.
    fn sizes(&self) -> [u64; 3];

    /// Where it lies in time.
    fn timeline(&self) -> &Timeline;

    /// Where it lies in time, to be moved.
    fn timeline_mut(&mut self) -> &mut Timeline;

    /// The position of the tick `now`, from which waits are counted from here on.
    #[inline]
    fn reading(&mut self, now: u64) -> u64 {
        self.timeline_mut().reading(now)
    }

    /// The shortest wait from the reading after which the position is `units` further.
    #[inline]
    fn wait(&self, units: u64) -> Ticks {
        self.timeline().wait(units)
    }

    /// Whether everything is allowed, and the word left alone.
    #[inline]
    fn is_unlimited(&self) -> bool {
        self.timeline().unlimited
    }

    /// The clock's.
    #[inline]
    fn frequency(&self) -> Frequency {
        self.timeline().frequency
    }

    /// From now on, a debt of so many tokens or windows is no sign that a clock stepped back.
    #[inline]
    fn expect_debt_of(&mut self, whole: u64) {
        self.timeline_mut().expect_debt_of(whole);
    }
}

/// How a line begins, at its first use.
#[derive(Clone, Copy, Debug)]
pub struct LineStart {
    /// Where in time.
    pub(crate) alignment: Alignment,
    /// Tokens that are missing from a full bucket.
    pub(crate) missing: u32,
    /// The most bits that its deepest debt may have, in units.
    pub(crate) debt_bits: u32,
}

/// The positions of a line at the ticks of a clock.
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
    /// The deepest debt of all quotas there were, in whole tokens or windows.
    ///
    /// A clock that stepped back left what lies further ahead.
    pub(super) deepest_ever: u64,
    /// Whether everything is allowed, and the word left alone.
    pub(super) unlimited: bool,
    /// The shifts, F, the frequency and `unlimited` in one word, which an answer keeps.
    pub(super) shape: Shape,
    /// The lowest 64 bits of `ticks · mult` at the reading that waits are counted from.
    pub(super) brought: u64,
    /// How much the line lags behind what all quotas so far have brought.
    ///
    /// In 2^-64 units: less than a tick.
    pub(super) behind: u64,
}

impl Timeline {
    /// The timeline of `quota` from the tick `origin` on, which can be changed to `largest`.
    ///
    /// The clock has `hertz` ticks per second.
    pub(crate) fn new<L: Line>(quota: &Quota, largest: &Quota, hertz: u64, origin: u64, begin: LineStart) -> Self {
        let fraction_bits = fraction_bits::<L>(quota, largest, hertz, begin.debt_bits);
        let line = Self::with_fraction_bits::<L>(quota, hertz, fraction_bits);
        Self { origin, start: L::first_position(fraction_bits, begin.missing), ..line }
    }

    fn with_fraction_bits<L: Line>(quota: &Quota, hertz: u64, fraction_bits: u32) -> Self {
        let (brought, ticks) = rate::<L>(quota, hertz);
        let scale = Scale::ratio(brought << fraction_bits, ticks);
        let (pace, frequency) = (Pace::new(scale), Frequency::from_hertz(hertz));
        Self {
            origin: 0,
            start: 0,
            scale,
            pace,
            fraction_bits,
            frequency,
            deepest_ever: L::deepest_debt(quota),
            unlimited: quota.is_unlimited(),
            shape: Shape::new(scale.shift, pace.shift, fraction_bits, frequency).unlimited(quota.is_unlimited()),
            brought: 0,
            behind: 0,
        }
    }

    /// The timeline of another quota in the fixed point of this one, with no start yet.
    pub(super) fn changed<L: Line>(&self, quota: &Quota, hertz: u64, debt_bits: u32) -> Result<Self, SetQuotaError> {
        let deepest_debt = L::deepest_debt(quota);
        if u64::BITS - deepest_debt.leading_zeros() + self.fraction_bits > debt_bits {
            let most = (1 << (debt_bits - self.fraction_bits)) - 1;
            return Err(SetQuotaError::TooLarge { tokens: deepest_debt, most });
        }
        let (brought, ticks) = rate::<L>(quota, hertz);
        // A tick may be worth more whole tokens than that from the start.
        let most = if self.fraction_bits == 0 { u64::MAX } else { MOST_UNITS_PER_TICK };
        // Shifted by at most 61, the tokens stay below 2^123.
        if ticks > 0 && (brought << self.fraction_bits).div_ceil(most.into()) > ticks {
            let whole = NANOS_PER_SECOND << self.fraction_bits;
            return Err(L::too_fast(quota, whole, u128::from(MOST_UNITS_PER_TICK) * u128::from(hertz)));
        }
        let mut timeline = Self::with_fraction_bits::<L>(quota, hertz, self.fraction_bits);
        timeline.expect_debt_of(self.deepest_ever);
        Ok(timeline)
    }

    pub(super) const fn is_slower_than(&self, other: &Self) -> bool {
        // Below 2^126.
        (self.scale.mult as u128) << other.scale.shift < (other.scale.mult as u128) << self.scale.shift
    }

    /// This timeline, going on at the tick `now` from where `old` is.
    pub(super) const fn starting(self, now: u64, old: &Self) -> Self {
        let mut old = *old;
        let position = old.reading(now);
        // The part of the next unit that `old` has brought. With its lag, that may be a whole one.
        let (brought, is_whole) = old.part().overflowing_add(old.behind);
        // A tick of this line brings at most 2^126, in 2^-64 units.
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

    /// This timeline, on which nothing is too far ahead to be healed.
    pub(super) const fn without_healing(self) -> Self {
        Self { deepest_ever: u64::MAX >> self.fraction_bits, ..self }
    }

    /// From now on, a debt of so many tokens or windows is no sign that a clock stepped back.
    #[inline]
    pub(crate) fn expect_debt_of(&mut self, whole: u64) {
        self.deepest_ever = self.deepest_ever.max(whole);
    }

    /// The position of the tick `now`, rounded down to units.
    #[cfg(any(feature = "alloc", test))]
    #[inline]
    pub(crate) const fn position(&self, now: u64) -> u64 {
        self.start.wrapping_add_signed(self.scale.units(now.wrapping_sub(self.origin) as i64).0)
    }

    /// The position of the tick `now`, from which waits are counted from here on.
    #[inline]
    pub(crate) const fn reading(&mut self, now: u64) -> u64 {
        let (units, product) = self.scale.units(now.wrapping_sub(self.origin) as i64);
        self.brought = product;
        self.start.wrapping_add_signed(units)
    }

    /// How far the reading that waits are counted from lies past its position, in 2^-64 units.
    #[inline]
    const fn part(&self) -> u64 {
        self.scale.fraction(self.brought)
    }

    /// The shortest wait from the [`reading`](Self::reading) after which the position is `units` further.
    ///
    /// (From its position, of a line without a reading: that may be longer by a unit.)
    #[inline]
    pub(crate) const fn wait(&self, units: u64) -> Ticks {
        self.pace.wait(units, self.part(), self.scale)
    }

    /// The numbers that the [waits](Self::wait) depend on.
    #[inline]
    pub(crate) const fn tempo(&self) -> Tempo {
        Tempo { scale: self.scale.mult, pace: self.pace.mult, brought: self.brought, shape: self.shape }
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

    /// So many tokens or windows in units.
    #[inline]
    pub(crate) const fn units(&self, whole: u64) -> u64 {
        whole << self.fraction_bits
    }

    /// F.
    #[inline]
    pub(crate) const fn fraction_bits(&self) -> u32 {
        self.fraction_bits
    }

    #[inline]
    pub(crate) const fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// The units of the deepest debt of all quotas there were.
    #[inline]
    pub(crate) const fn deepest_ever(&self) -> u64 {
        self.deepest_ever << self.fraction_bits
    }

    /// Whether a place so many units ahead of a reading is from before a step back.
    ///
    /// It is if that is more than the deepest debt and the most that the clock may step back.
    #[cold]
    pub(crate) fn is_from_before_a_step_back(&self, units: u64, clock: &impl Clock) -> bool {
        let ticks = clock.max_step_back();
        // Rounded up.
        let skew = self.scale.saturating_units(ticks).saturating_add(u64::from(ticks > 0));
        units > self.deepest_ever().saturating_add(skew)
    }
}

/// The rate of a line, as a fraction: tokens or windows in so many ticks.
fn rate<L: Line>(quota: &Quota, hertz: u64) -> (u128, u128) {
    // per window / window · 10^9 / hertz; the numerator is below 2^62.
    let brought = u128::from(L::per_window(quota)) * NANOS_PER_SECOND;
    (brought, u128::from(quota.window_nanos()) * u128::from(hertz))
}

/// F for a line that starts with `quota` and can be changed to `largest`.
fn fraction_bits<L: Line>(quota: &Quota, largest: &Quota, hertz: u64, debt_bits: u32) -> u32 {
    let most = |quota| most_fraction_bits::<L>(quota, hertz, debt_bits);
    let bits = most(quota).min(most(largest));
    if is_idle(rate::<L>(quota, hertz)) && is_idle(rate::<L>(largest, hertz)) {
        bits.min(IDLE_FRACTION_BITS)
    } else {
        bits
    }
}

const fn is_idle((brought, ticks): (u128, u128)) -> bool {
    brought == 0 || ticks == 0
}

/// The largest F with which a tick of `quota` is at most 4 units, and its deepest debt fits.
fn most_fraction_bits<L: Line>(quota: &Quota, hertz: u64, debt_bits: u32) -> u32 {
    let (brought, ticks) = rate::<L>(quota, hertz);
    let mut bits = debt_bits - (u64::BITS - L::deepest_debt(quota).leading_zeros());
    if is_idle((brought, ticks)) {
        return bits;
    }
    // brought · 2^bits / ticks <= 4, rearranged so that nothing overflows: the left side stays below 2^123.
    while bits > 0 && (brought << bits).div_ceil(UNITS_PER_TICK) > ticks {
        bits -= 1;
    }
    bits
}

/// Ticks per unit, rounded up: `ticks = units · mult >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) mult: u64,
    pub(super) shift: u32,
}

impl Pace {
    /// The pace of `scale`.
    const fn new(scale: Scale) -> Self {
        let inverse = scale.inverse();
        Self { mult: inverse.mult, shift: inverse.shift }
    }

    /// The fewest ticks that bring `units`, from a reading that lies `part` past its position.
    ///
    /// `part` is in 2^-64 units.
    ///
    /// Exact for waits of up to 2^62 ticks, where a unit is no longer than that. Beyond, a wait may be too long, but never
    /// too short.
    #[inline]
    pub(super) const fn wait(self, units: u64, part: u64, scale: Scale) -> Ticks {
        if units == 0 {
            return Ticks::ZERO;
        }
        if self.mult == 0 {
            return Ticks::NEVER;
        }
        // Below 2^128; and a part is less than a unit.
        let passed = (part as u128 * self.mult as u128) >> u64::BITS;
        let ticks = (units as u128 * self.mult as u128 - passed) >> self.shift;
        if ticks >= LONGEST_WAIT as u128 {
            return Ticks::new(LONGEST_WAIT);
        }
        // `mult` is rounded up, by what is less than a tick in all: the result is enough, or one too few.
        let ticks = ticks as u64;
        Ticks::new(if scale.brings(ticks, units, part) { ticks } else { ticks + 1 })
    }
}
