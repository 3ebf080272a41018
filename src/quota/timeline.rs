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

/// Why tokens were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// More tokens than the burst: waiting does not help.
    ExceedsBurst,
    /// So many units too few.
    Short(u64),
    /// So many ticks too early.
    Later(Ticks),
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

    /// This line, starting where `old` is at the tick `origin`.
    pub(super) const fn starting(self, origin: u64, old: &Self) -> Self {
        Self { origin, start: old.position(origin), ..self }
    }

    /// The position of the tick `now`, rounded down to units.
    #[inline]
    pub(crate) const fn position(&self, now: u64) -> u64 {
        self.start.wrapping_add_signed(self.scale.units(now.wrapping_sub(self.origin) as i64))
    }

    /// The word after taking `n` tokens at the position `at`, all or none.
    #[inline]
    pub(crate) const fn take(&self, word: u64, at: u64, n: u32) -> Result<u64, Refusal> {
        if n == 0 || self.unlimited {
            return Ok(word);
        }
        // Tested in tokens: shifted, a large `n` would lose its high bits. One token does not, and is within every
        // burst but none at all, which is told apart below.
        if n > 1 && n as u64 > self.full >> self.fraction_bits {
            return Err(Refusal::ExceedsBurst);
        }
        // At most 2^63 + 2^61: no overflow.
        let after = Self::debt(word, at) + self.units(n);
        if after <= self.full {
            Ok(at.wrapping_add(after))
        } else if self.full == 0 {
            Err(Refusal::ExceedsBurst)
        } else {
            Err(Refusal::Short(after - self.full))
        }
    }

    /// The word after taking `n` tokens, of which a full bucket gives more than its burst: as deep as debt may be.
    #[inline]
    pub(crate) const fn take_oversized(&self, word: u64, at: u64, n: u32) -> Result<u64, Refusal> {
        match self.take(word, at, n) {
            Err(Refusal::ExceedsBurst) if n as u64 <= self.deepest_debt => match Self::debt(word, at) {
                0 => Ok(at.wrapping_add(self.units(n))),
                missing => Err(Refusal::Short(missing)),
            },
            result => result,
        }
    }

    /// The word after giving back `n` tokens that were taken at the position `since`, less what has been refilled
    /// since: the line has repaid that already. Nothing is given back while somebody waits, or tokens are owed.
    #[inline]
    pub(crate) const fn roll_back(&self, word: u64, at: u64, n: u32, since: u64) -> u64 {
        let owed = Self::debt(word, at);
        if owed > self.full {
            return word;
        }
        let passed = at.wrapping_sub(since) as i64;
        let repaid = if passed > 0 { passed as u64 } else { 0 };
        let back = self.units(n).saturating_sub(repaid);
        word.wrapping_sub(if back < owed { back } else { owed })
    }

    /// The most of `n` tokens that can be taken at the position `at`, and the word after taking them.
    #[inline]
    pub(crate) const fn take_up_to(&self, word: u64, at: u64, n: u32) -> (u32, u64) {
        if self.unlimited {
            return (n, word);
        }
        let there = self.remaining(word, at);
        let n = if there < n { there } else { n };
        (n, if n == 0 { word } else { at.wrapping_add(Self::debt(word, at) + self.units(n)) })
    }

    /// The most of `n` tokens that can be booked before the deepest debt, and the word after booking them.
    #[inline]
    pub(crate) const fn charge(&self, word: u64, at: u64, n: u32) -> (u32, u64) {
        if self.unlimited {
            return (n, word);
        }
        let owed = Self::debt(word, at);
        let room = (self.deepest_debt << self.fraction_bits).saturating_sub(owed) >> self.fraction_bits;
        let n = if room < n as u64 { room as u32 } else { n };
        (n, if n == 0 { word } else { at.wrapping_add(owed + self.units(n)) })
    }

    /// The word after giving back up to `n` tokens; nothing is given back while somebody waits, or tokens are owed.
    #[inline]
    pub(crate) const fn refund(&self, word: u64, at: u64, n: u32) -> u64 {
        let owed = Self::debt(word, at);
        if owed > self.full {
            return word;
        }
        let back = self.units(n);
        word.wrapping_sub(if back < owed { back } else { owed })
    }

    /// The word after giving back `n` tokens that were held and not used, whatever is owed; a full bucket gets no
    /// fuller.
    #[inline]
    pub(crate) const fn give_back(&self, word: u64, at: u64, n: u32) -> u64 {
        let owed = Self::debt(word, at);
        let back = self.units(n);
        word.wrapping_sub(if back < owed { back } else { owed })
    }

    /// The word after reserving `n` tokens, which may lead into debt but for no longer than `longest`.
    #[inline]
    pub(crate) fn reserve(&self, word: u64, at: u64, n: u32, longest: Ticks) -> Result<u64, Refusal> {
        if n == 0 || self.unlimited {
            return Ok(word);
        }
        if u64::from(n) > self.full >> self.fraction_bits {
            return Err(Refusal::ExceedsBurst);
        }
        let after = Self::debt(word, at) + self.units(n);
        let deepest = self.deepest_debt << self.fraction_bits;
        if after > deepest {
            return Err(Refusal::Short(after - deepest));
        }
        let wait = self.wait(after.saturating_sub(self.full));
        if wait > longest { Err(Refusal::Later(wait.less(longest))) } else { Ok(at.wrapping_add(after)) }
    }

    /// The wait from the position `at` until what the word owes below zero is repaid: when a reservation is ready.
    #[inline]
    pub(crate) const fn ready_in(&self, word: u64, at: u64) -> Ticks {
        if self.unlimited { Ticks::ZERO } else { self.wait(Self::debt(word, at).saturating_sub(self.full)) }
    }

    /// The word without the last `n` tokens taken.
    #[inline]
    pub(crate) const fn without(&self, word: u64, n: u32) -> u64 {
        word.wrapping_sub(self.units(n))
    }

    /// The tokens that are missing from an empty bucket, rounded up; 0 for one that is not in debt.
    #[inline]
    pub(crate) const fn below_zero(&self, word: u64, at: u64) -> u64 {
        let below = Self::debt(word, at).saturating_sub(self.full);
        below.div_ceil(1 << self.fraction_bits)
    }

    /// What to put in the place of a word that lies beyond the deepest legal debt by more than the clock may step back.
    ///
    /// Such a word can only mean that the clock did step back, or that the word went unseen for half a circle. It is
    /// brought to the deepest debt; never to full, which would mint tokens.
    #[inline]
    pub(crate) fn heal(&self, word: u64, at: u64, clock: &impl Clock) -> Option<u64> {
        if self.is_beyond_deepest_debt(word, at) { self.heal_slow(word, at, clock) } else { None }
    }

    /// The word that lies so far `ahead` of a position: what is out of the range of debts is a full bucket, for what is
    /// kept in few bits circles while nobody looks at it.
    #[inline]
    pub(crate) fn word_ahead(&self, ahead: i64, at: u64, clock: &impl Clock) -> u64 {
        let word = at.wrapping_add_signed(ahead.max(0));
        if self.is_beyond_deepest_debt(word, at) && self.heal_slow(word, at, clock).is_some() { at } else { word }
    }

    /// As [`word_ahead`](Self::word_ahead) of a bucket that is not below empty; `None` if it may be.
    #[inline]
    pub(crate) fn word_near(&self, ahead: i64, at: u64) -> Option<u64> {
        let ahead = ahead.max(0) as u64;
        (ahead <= self.full).then(|| at.wrapping_add(ahead))
    }

    /// The deepest debt, in units.
    pub(crate) const fn deepest_debt_in_units(&self) -> u64 {
        self.deepest_debt << self.fraction_bits
    }

    /// The units that so many ticks bring, rounded up.
    pub(crate) const fn units_in(&self, ticks: Ticks) -> u64 {
        self.scale.saturating_units(ticks.count()).saturating_add(1)
    }

    /// Whether the bucket is in debt.
    #[inline]
    pub(crate) const fn is_below_zero(&self, word: u64, at: u64) -> bool {
        Self::debt(word, at) > self.full
    }

    const fn is_beyond_deepest_debt(&self, word: u64, at: u64) -> bool {
        Self::debt(word, at) > self.deepest_ever << self.fraction_bits
    }

    #[cold]
    fn heal_slow(&self, word: u64, at: u64, clock: &impl Clock) -> Option<u64> {
        let deepest = self.deepest_ever << self.fraction_bits;
        let tolerated = deepest.saturating_add(self.skew(clock));
        if Self::debt(word, at) > tolerated { Some(at.wrapping_add(deepest)) } else { None }
    }

    /// The tokens that can be taken at once, rounded down.
    #[inline]
    pub(crate) const fn remaining(&self, word: u64, at: u64) -> u32 {
        if self.unlimited {
            return u32::MAX;
        }
        let left = self.full.saturating_sub(Self::debt(word, at));
        // At most the burst.
        (left >> self.fraction_bits) as u32
    }

    /// The tokens that are missing from a full bucket, rounded up.
    #[inline]
    pub(crate) const fn level(&self, word: u64, at: u64) -> u32 {
        let level = Self::debt(word, at).div_ceil(1 << self.fraction_bits);
        if self.unlimited {
            0
        } else if level > u32::MAX as u64 {
            u32::MAX
        } else {
            level as u32
        }
    }

    /// The wait until the bucket is full.
    #[inline]
    pub(crate) const fn resets_in(&self, word: u64, at: u64) -> Ticks {
        if self.unlimited { Ticks::ZERO } else { self.wait(Self::debt(word, at)) }
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

    /// The units by which the clock may step back.
    fn skew(&self, clock: &impl Clock) -> u64 {
        self.scale.saturating_units(clock.max_step_back())
    }

    #[inline]
    pub(crate) const fn frequency(&self) -> Frequency {
        self.frequency
    }

    /// How far the word lies ahead of the position `at`, in units; 0 for a full bucket.
    #[inline]
    pub(crate) const fn debt(word: u64, at: u64) -> u64 {
        let ahead = word.wrapping_sub(at) as i64;
        if ahead > 0 { ahead as u64 } else { 0 }
    }

    #[inline]
    const fn units(&self, tokens: u32) -> u64 {
        (tokens as u64) << self.fraction_bits
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
