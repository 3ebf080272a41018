//! Positions in time: the arithmetic that lines of tokens and of windows share, free of atomics.
//!
//! A *line* counts the tokens that a quota has produced (or the windows that have begun) up to each tick of a clock.
//! The count at a tick is the tick's *position*. A position is a fixed-point number with F fraction bits. Its smallest
//! step, 2^-F of a token (or window), is a *unit*. Positions have 64 bits and wrap. So only the difference of two
//! positions has a meaning, as a signed number.
//!
//! **F** is the largest number that meets two bounds, both under the first quota and under the largest later one:
//!
//! - A tick of the clock brings at most 4 units.
//! - The deepest debt is below 2^61 units (2^54 if positions are stored in 56 bits, 2^58 on a line of windows).
//!
//! If neither quota brings anything at a tick, F is at most 28. The bounds have these effects:
//!
//! - Under the faster quota a tick brings more than 2 units, unless the deepest debt takes very long to refill. With
//!   nanosecond ticks, that is 18 years (52 days in 56 bits, 2 years on a line of windows). A position is rounded down
//!   to units, so it is off by less than half a tick.
//! - With nanosecond ticks, positions wrap after more than a century (208 days in 56 bits). After a change to a faster
//!   quota, they wrap sooner.
//! - If a tick brings more than 4 whole tokens, F is 0. Positions then wrap after 2^64 tokens.
//! - If a bucket is unused for more than half of the time after which positions wrap, it may seem to be in debt. It is
//!   then [healed](super::live), as after a backward step of the clock.
//! - A line can be used for 2^63 ticks.
//!
//! **F stays when the quota changes.** The line is then *bent*: it continues from its present position at the new rate.
//! If the new quota is k times slower than the quota for which F was chosen, a unit takes k/2 ticks or less. So
//! rounding to units then matters:
//!
//! | what | accuracy | reason |
//! |---|---|---|
//! | a wait | exact to the tick | A wait counts from a reading of the clock. It takes into account the *part* of a unit that the line had reached beyond its position at the reading. |
//! | a token | late by less than two ticks after a change of the quota, otherwise never late | The new line has to include the part of a unit that the old line had reached. For this it starts a whole number of ticks before the change. These ticks bring at most that part. The amount that they bring too little is called `behind`. It is less than a tick brings, unless the quota refills nothing or almost nothing. The new line lacks it until the next change, so the token is late by less than a tick. Rounding the token's time up to a tick adds less than another tick. |
//! | a token | early by less than a unit, plus less than a tick of the old line if the quota changes in between | A take from a full bucket starts at a position, which is rounded down by less than a unit. A change of the quota then adds the old line's `behind`, which is less than a tick of that line brings. |
//!
//! **The shape** of a line packs F, the frequency of its clock, the shifts of its two scale factors and the marks
//! LINE and UNLIMITED into one word:
//!
//! ```text
//!  63           58 57      26 25  15   14      13        12            6 5    0
//! | FRACTION BITS | FREQUENCY | SPARE | LINE | UNLIMITED | INVERSE SHIFT | SHIFT |
//! ```
//!
//! A check needs only the fields at the two ends of the word, which are the cheapest to extract. An answer keeps the
//! whole word.

use super::{Alignment, Quota, SetQuotaError};
use crate::sync::Field;
use crate::time::{Clock, Frequency, Scale, Ticks};

/// The shape of a quota's line.
const SHIFT: Field = Field::lowest(6);
const INVERSE_SHIFT: Field = SHIFT.then(7);
const UNLIMITED: Field = INVERSE_SHIFT.then(1);
/// Marks the shape of a line. It is 0 in a [`Tempo`] that holds two known waits instead of a line.
const LINE: Field = UNLIMITED.then(1);
const SPARE: Field = LINE.then(11);
const FREQUENCY: Field = SPARE.then(32);
const FRACTION_BITS: Field = FREQUENCY.then(6);
const _: () = assert!(FRACTION_BITS.end() == u64::BITS, "fields must tile the word");

/// The most units that a tick brings, unless it brings more than 4 whole tokens.
///
/// A unit is 2^-F tokens, where F is the number of fraction bits.
const UNITS_PER_TICK: u128 = 4;

/// The most fraction bits of a line whose first and largest quotas are both idle.
///
/// An idle quota refills nothing or has no limit. It sets no bound, because no tick brings anything.
const IDLE_FRACTION_BITS: u32 = 28;

/// The most units (2^-F tokens, F fraction bits) that a tick may bring after a change of the quota.
///
/// With nanosecond ticks positions then wrap after 52 days.
const MOST_UNITS_PER_TICK: u64 = UNITS_PER_TICK as u64 * 1_024;

/// The most ticks from the start of a changed line to the change of quota.
///
/// A changed line starts before the change, to include the part of a unit that the old line had reached.
const LONGEST_PART: u64 = 1 << 62;

/// The longest finite wait, in ticks.
const LONGEST_WAIT: u64 = u64::MAX - 1;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The line of a quota: its [`Timeline`], and the amounts that decisions compare with, such as the burst.
///
/// The timeline gives each tick of a clock a *position*, the count of tokens or windows up to that tick. The type of
/// the line defines which of the two are counted. [`LiveQuota`](super::LiveQuota) builds a line, publishes it, and
/// replaces it when the quota changes.
pub trait Line: Copy {
    /// Whether the fast path loads the deepest debts of the quota.
    ///
    /// With these debts it recognizes a limiter's word that was written before the clock stepped back.
    const HEALS_ON_FAST_PATH: bool;

    /// Returns how many tokens a window of the quota brings, or 1 if the line counts windows.
    fn per_window(quota: &Quota) -> u32;

    /// Returns the deepest debt under the quota, in whole tokens or windows.
    fn deepest_debt(quota: &Quota) -> u64;

    /// Returns the position at which a new line starts.
    ///
    /// The position is chosen so that the word 0 stands for a new limiter, whose bucket lacks `missing` tokens.
    fn first_position(fraction_bits: u32, missing: u32) -> u64;

    /// Returns the error for a quota that is too fast for a line.
    ///
    /// `whole` is 10^9 times the number of units in a token or a window. `most` is the largest number of units that a
    /// second may bring.
    fn too_fast(quota: &Quota, whole: u128, most: u128) -> SetQuotaError;

    /// Returns the amounts of a quota that decisions compare with, such as the burst in units.
    ///
    /// These amounts are published together with the timeline.
    fn sizes(timeline: &Timeline, quota: &Quota) -> [u64; 2];

    /// Creates a line from a timeline and the [`sizes`](Self::sizes) that were published with it.
    ///
    /// `size(i)` returns element `i` of these sizes. It is called only for the sizes that the line needs.
    fn from_parts(timeline: Timeline, size: impl Fn(usize) -> u64) -> Self;

    /// Returns the timeline, which gives each tick of the clock its position.
    fn timeline(&self) -> &Timeline;

    /// Returns the timeline, mutably.
    fn timeline_mut(&mut self) -> &mut Timeline;

    /// Creates the line of a quota from its timeline.
    fn new(timeline: Timeline, quota: &Quota) -> Self {
        let sizes = Self::sizes(&timeline, quota);
        Self::from_parts(timeline, |index| sizes[index])
    }

    /// Returns the position of the tick `now`. From then on, [`wait`](Self::wait) counts from this reading.
    #[inline]
    fn reading(&mut self, now: u64) -> u64 {
        self.timeline_mut().reading(now)
    }

    /// Returns the shortest wait from the last [`reading`](Self::reading) until the position has grown by `units`.
    #[inline]
    fn wait(&self, units: u64) -> Ticks {
        self.timeline().wait(units)
    }

    /// Returns whether the quota has no limit.
    ///
    /// Then everything is allowed, and the limiter's word never changes.
    #[inline]
    fn is_unlimited(&self) -> bool {
        self.timeline().unlimited
    }

    /// Returns the frequency of the clock.
    #[inline]
    fn frequency(&self) -> Frequency {
        self.timeline().tempo.frequency()
    }

    /// Stops treating a debt of up to `whole` tokens or windows as a sign that a clock stepped back.
    #[inline]
    fn expect_debt_of(&mut self, whole: u64) {
        self.timeline_mut().expect_debt_of(whole);
    }
}

/// The settings with which a [`Line`] starts at its first use.
#[derive(Clone, Copy, Debug)]
pub struct LineStart {
    /// The instant at which the line starts.
    pub(crate) alignment: Alignment,
    /// How many tokens the bucket lacks at the start.
    pub(crate) missing: u32,
    /// The most bits that the deepest debt may have, counted in units.
    pub(crate) debt_bits: u32,
}

/// The positions of a [`Line`] at the ticks of a clock: the tokens or windows that it has counted by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The tick at which the position was `start`.
    pub(super) origin: u64,
    pub(super) start: u64,
    pub(super) tempo: Tempo,
    /// The deepest debt under the quota, in whole tokens or windows.
    pub(super) deepest_debt: u64,
    /// The deepest debt under any quota so far, in whole tokens or windows.
    ///
    /// A limiter's word that lies further ahead of the clock was written before the clock stepped back.
    pub(super) deepest_ever: u64,
    /// Whether the quota has no limit. Then everything is allowed, and the limiter's word never changes.
    ///
    /// The shape in `tempo` has a mark with the same meaning. The fast path excludes unlimited quotas before it loads
    /// the tempo. So it stores `false` here without reading that mark.
    pub(super) unlimited: bool,
    /// The part of a unit by which this line lags behind the lines before it, in 2^-64 units.
    ///
    /// After a change of quota, a line starts a whole number of ticks before the change, to include the part of a unit
    /// that the old line had reached. `behind` is the rest of that part, which the next change adds. It is less than a
    /// tick brings, unless the quota refills nothing or almost nothing.
    pub(super) behind: u64,
}

impl Timeline {
    /// Creates the timeline of `quota`. It starts at the tick `origin`, and can later be changed to `largest`.
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
        let unlimited = quota.is_unlimited();
        let deepest_debt = L::deepest_debt(quota);
        Self {
            origin: 0,
            start: 0,
            tempo: Tempo::new(scale, fraction_bits, Frequency::from_hertz(hertz), unlimited),
            deepest_debt,
            deepest_ever: deepest_debt,
            unlimited,
            behind: 0,
        }
    }

    /// Creates a timeline from its fields, in the form in which a failed proof gives its counterexample.
    #[cfg(all(test, feature = "alloc", not(any(loom, shuttle))))]
    pub(crate) const fn of_fields(fields: [u64; 8], deepest_debt: u64, unlimited: bool) -> Self {
        let [origin, start, mult, inverse, brought, shape, deepest_ever, behind] = fields;
        let tempo = Tempo { mult, inverse, brought, shape };
        Self { origin, start, tempo, deepest_debt, deepest_ever, unlimited, behind }
    }

    /// Returns the timeline of another quota, with as many fraction bits as this one. It has no start yet.
    pub(super) fn changed<L: Line>(&self, quota: &Quota, hertz: u64, debt_bits: u32) -> Result<Self, SetQuotaError> {
        let deepest_debt = L::deepest_debt(quota);
        let fraction_bits = self.fraction_bits();
        if u64::BITS - deepest_debt.leading_zeros() + fraction_bits > debt_bits {
            let most = (1 << (debt_bits - fraction_bits)) - 1;
            return Err(SetQuotaError::TooLarge { tokens: deepest_debt, most });
        }
        let (brought, ticks) = rate::<L>(quota, hertz);
        // If there are no fraction bits, the first quota may already have brought more than `MOST_UNITS_PER_TICK`. So
        // no bound applies.
        let most = if fraction_bits == 0 { u64::MAX } else { MOST_UNITS_PER_TICK };
        // `brought` is shifted by at most 61 bits, so it stays below 2^123.
        if ticks > 0 && (brought << fraction_bits).div_ceil(most.into()) > ticks {
            let whole = NANOS_PER_SECOND << fraction_bits;
            return Err(L::too_fast(quota, whole, u128::from(MOST_UNITS_PER_TICK) * u128::from(hertz)));
        }
        let mut timeline = Self::with_fraction_bits::<L>(quota, hertz, fraction_bits);
        timeline.expect_debt_of(self.deepest_ever);
        Ok(timeline)
    }

    pub(super) const fn is_slower_than(&self, other: &Self) -> bool {
        let (scale, other) = (self.tempo.scale(), other.tempo.scale());
        // The products are below 2^126.
        (scale.mult as u128) << other.shift < (other.mult as u128) << scale.shift
    }

    /// Returns this timeline with a start: at the tick `now`, it continues from the position of `old`.
    pub(super) const fn starting(self, now: u64, old: &Self) -> Self {
        let mut old = *old;
        let position = old.reading(now);
        // `brought` is the part of a unit from which the new line continues. It is the part that `old` has reached
        // beyond its position, plus `old.behind`, the part that `old` did not take over from the line before it. The
        // sum may reach a whole unit.
        let (brought, is_whole) = old.tempo.part().overflowing_add(old.behind);
        // `tick` is the amount that a tick of this line brings, in 2^-64 units. It is at most 2^126.
        let scale = self.tempo.scale();
        let tick = (scale.mult as u128) << (u64::BITS - scale.shift);
        let ticks = match (brought as u128).checked_div(tick) {
            Some(ticks) => ticks,
            None => 0,
        };
        // The line starts `ticks` before `now`. These ticks bring less than a unit. Their number is bounded, because a
        // line can be used for only 2^63 ticks.
        let ticks = if ticks > LONGEST_PART as u128 { LONGEST_PART } else { ticks as u64 };
        Self {
            origin: now.wrapping_sub(ticks),
            start: position.wrapping_add(is_whole as u64),
            behind: (brought as u128 - ticks as u128 * tick) as u64,
            ..self
        }
    }

    /// Returns this timeline without healing: no word counts as too far ahead of the clock.
    pub(super) const fn without_healing(self) -> Self {
        Self { deepest_ever: u64::MAX >> self.fraction_bits(), ..self }
    }

    /// Stops treating a debt of up to `whole` tokens or windows as a sign that a clock stepped back.
    #[inline]
    pub(crate) fn expect_debt_of(&mut self, whole: u64) {
        self.deepest_ever = self.deepest_ever.max(whole);
    }

    /// Returns the position of the tick `now`.
    ///
    /// It is the count of tokens or windows up to then, rounded down to units.
    #[cfg(any(test, feature = "alloc", target_has_atomic = "64"))]
    #[inline]
    pub(crate) const fn position(&self, now: u64) -> u64 {
        self.start.wrapping_add_signed(self.tempo.scale().units(now.wrapping_sub(self.origin) as i64).0)
    }

    /// Returns the position of the tick `now`. From then on, [`wait`](Self::wait) counts from this reading.
    #[inline]
    pub(crate) const fn reading(&mut self, now: u64) -> u64 {
        let (units, product) = self.tempo.scale().units(now.wrapping_sub(self.origin) as i64);
        self.tempo.brought = product;
        self.start.wrapping_add_signed(units)
    }

    /// Returns the shortest wait from the last [`reading`](Self::reading) until the position has grown by `units`.
    ///
    /// Without a reading, the wait counts from the start of a unit. It is then too long by at most the time of a unit.
    #[inline]
    pub(crate) const fn wait(&self, units: u64) -> Ticks {
        self.tempo.wait(units)
    }

    /// Returns the rate and the last reading of the line. An answer computes its [waits](Self::wait) from them.
    #[inline]
    pub(crate) const fn tempo(&self) -> Tempo {
        self.tempo
    }

    /// Returns a number of units that is at least what `ticks` bring, and at most one more.
    pub(crate) const fn units_in(&self, ticks: Ticks) -> u64 {
        self.tempo.scale().saturating_units(ticks.count()).saturating_add(1)
    }

    /// Returns a number of units whose [`wait`](Self::wait) is at least `wait`.
    ///
    /// It is the number of units that `wait` brings, rounded down. If so many units arrive sooner than `wait`, it is
    /// one or two more. The line must have a rate above 0.
    pub(crate) const fn units_for(&self, wait: Ticks) -> u64 {
        // The conversion to units and back loses less than two units. It loses the part of a unit that the line had
        // reached at the reading, and the part that rounding cuts off.
        let brought = self.tempo.scale().saturating_units(wait.count());
        if self.wait(brought).count() >= wait.count() {
            return brought;
        }
        let more = brought.saturating_add(1);
        if self.wait(more).count() >= wait.count() { more } else { brought.saturating_add(2) }
    }

    /// Returns whether the line stands still, so that no wait brings anything.
    pub(crate) const fn refills_nothing(&self) -> bool {
        self.tempo.mult == 0
    }

    /// Converts whole tokens or windows to units.
    #[inline]
    pub(crate) const fn units(&self, whole: u64) -> u64 {
        whole << self.fraction_bits()
    }

    /// Returns F, the number of fraction bits.
    #[inline]
    pub(crate) const fn fraction_bits(&self) -> u32 {
        self.tempo.fraction_bits()
    }

    #[inline]
    pub(crate) const fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Returns the deepest debt under the quota, in whole tokens or windows.
    #[inline]
    pub(crate) const fn deepest_debt(&self) -> u64 {
        self.deepest_debt
    }

    /// Returns the deepest debt under any quota so far, in units.
    #[inline]
    pub(crate) const fn deepest_ever(&self) -> u64 {
        self.deepest_ever << self.fraction_bits()
    }

    /// Returns whether a word `units` ahead of a reading was written before a large step back of the clock.
    ///
    /// A legal debt puts a word ahead by at most the deepest debt. A step back of up to
    /// [`max_step_back`](Clock::max_step_back) ticks adds at most what these ticks bring. If the word lies further
    /// ahead, the clock made a larger step back.
    #[cold]
    pub(crate) fn is_from_before_a_step_back(&self, units: u64, clock: &impl Clock) -> bool {
        let ticks = clock.max_step_back();
        // The conversion of `ticks` to units rounds down, so a unit is added.
        let skew = self.tempo.scale().saturating_units(ticks).saturating_add(u64::from(ticks > 0));
        units > self.deepest_ever().saturating_add(skew)
    }
}

/// The rate of a line, and the reading of the clock from which waits count.
///
/// In the answer of an algorithm that has no line of tokens, a `Tempo` holds two known waits instead.
///
/// The two cases share fields. An `enum` would make a check of two limits longer by 36 instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tempo {
    /// Units per tick: `units = ticks * mult >> SHIFT`.
    ///
    /// A unit is 2^-F of a token or window, where F is the number of fraction bits. In a tempo that holds two
    /// [known](Tempo::known) waits instead of a line, `mult` is the first of them, in ticks.
    pub(super) mult: u64,
    /// Ticks per unit, rounded up: `ticks = units * inverse >> INVERSE_SHIFT`.
    ///
    /// A unit is 2^-F of a token or window, where F is the number of fraction bits. In a tempo that holds two
    /// [known](Tempo::known) waits instead of a line, `inverse` is the second of them, in ticks.
    pub(super) inverse: u64,
    /// The lowest 64 bits of `ticks * mult` at the last reading.
    ///
    /// `ticks` is the time from the line's origin to that reading.
    pub(super) brought: u64,
    /// The word that packs the fraction bits, the frequency and the shifts. The head of this file draws it.
    pub(super) shape: u64,
}

impl Tempo {
    pub(super) const fn new(scale: Scale, fraction_bits: u32, frequency: Frequency, unlimited: bool) -> Self {
        let inverse = scale.inverse();
        Self {
            mult: scale.mult,
            inverse: inverse.mult,
            brought: 0,
            shape: FRACTION_BITS.put(fraction_bits as u64)
                | FREQUENCY.put(frequency.to_bits() as u64)
                | LINE.put(1)
                | UNLIMITED.put(unlimited as u64)
                | INVERSE_SHIFT.put(inverse.shift as u64)
                | SHIFT.put(scale.shift as u64),
        }
    }

    /// Creates a tempo that holds two known waits, in ticks of a clock, instead of the rate of a line.
    #[inline]
    pub(crate) const fn known(waits: [Ticks; 2], frequency: Frequency) -> Self {
        let [first, second] = waits;
        let shape = FREQUENCY.put(frequency.to_bits() as u64);
        Self { mult: first.count(), inverse: second.count(), brought: 0, shape }
    }

    /// Returns the two known waits, or `None` for the tempo of a line.
    pub(crate) const fn waits(&self) -> Option<[Ticks; 2]> {
        let is_of_line = LINE.get(self.shape) != 0;
        if is_of_line { None } else { Some([Ticks::of_count(self.mult), Ticks::of_count(self.inverse)]) }
    }

    /// Returns the number of units that a tick brings.
    #[inline]
    pub(super) const fn scale(&self) -> Scale {
        Scale { mult: self.mult, shift: SHIFT.get(self.shape) as u32 }
    }

    /// Returns the part of the next unit that the line had reached at the reading, in 2^-64 units.
    #[inline]
    const fn part(&self) -> u64 {
        self.scale().fraction(self.brought)
    }

    /// Returns the fewest ticks after the reading that bring `units`. The tempo must be that of a line.
    ///
    /// A wait of up to 2^62 ticks is exact, if a unit takes at most 2^62 ticks. A longer wait may be too long, but not
    /// too short. The longest finite wait is 2^64 - 2 ticks, also if the units take longer.
    #[inline]
    pub(crate) const fn wait(&self, units: u64) -> Ticks {
        if units == 0 {
            return Ticks::ZERO;
        }
        if self.inverse == 0 {
            return Ticks::NEVER;
        }
        let part = self.part();
        // `part` is less than a unit, so it is below 2^64 and the product is below 2^128.
        let passed = (part as u128 * self.inverse as u128) >> u64::BITS;
        let ticks = (units as u128 * self.inverse as u128 - passed) >> INVERSE_SHIFT.get(self.shape);
        if ticks >= LONGEST_WAIT as u128 {
            return Ticks::new(LONGEST_WAIT);
        }
        // Rounding `inverse` up adds less than a tick to the product, and the shift rounds down. So `ticks` are enough,
        // or one too few.
        let ticks = ticks as u64;
        Ticks::new(if self.scale().brings(ticks, units, part) { ticks } else { ticks + 1 })
    }

    /// Converts whole tokens to units.
    ///
    /// The quota must have a limit.
    pub(crate) const fn units(&self, tokens: u32) -> u64 {
        (tokens as u64) << self.fraction_bits()
    }

    /// Converts units to whole tokens, rounded down.
    ///
    /// The quota must have a limit, and the result must fit a `u32`.
    pub(crate) const fn tokens(&self, units: u64) -> u32 {
        (units >> self.fraction_bits()) as u32
    }

    /// Returns F, the number of fraction bits.
    #[inline]
    pub(super) const fn fraction_bits(&self) -> u32 {
        FRACTION_BITS.get(self.shape) as u32
    }

    #[inline]
    pub(crate) const fn is_unlimited(&self) -> bool {
        UNLIMITED.get(self.shape) != 0
    }

    #[inline]
    pub(crate) const fn frequency(&self) -> Frequency {
        Frequency::from_bits(FREQUENCY.get(self.shape) as u32)
    }
}

/// Returns the rate of a line as a fraction: tokens or windows, and the ticks that bring them.
fn rate<L: Line>(quota: &Quota, hertz: u64) -> (u128, u128) {
    // The fraction is `per_window * 10^9 / (window_nanos * hertz)`. Its numerator is below 2^62.
    let brought = u128::from(L::per_window(quota)) * NANOS_PER_SECOND;
    (brought, u128::from(quota.window_nanos()) * u128::from(hertz))
}

/// Returns the fraction bits of a line that starts with `quota` and can be changed to `largest`.
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

/// Returns the most fraction bits that a line may have under this quota.
///
/// With them a tick brings at most 4 units, and the deepest debt fits `debt_bits`. The number is 0 if a tick brings
/// more than 4 whole tokens.
fn most_fraction_bits<L: Line>(quota: &Quota, hertz: u64, debt_bits: u32) -> u32 {
    let (brought, ticks) = rate::<L>(quota, hertz);
    let mut bits = debt_bits - (u64::BITS - L::deepest_debt(quota).leading_zeros());
    if is_idle((brought, ticks)) {
        return bits;
    }
    // A tick brings `brought * 2^bits / ticks` units. `brought` is below 2^62 and `bits` is at most 61, so the shifted
    // number stays below 2^123.
    while bits > 0 && (brought << bits).div_ceil(UNITS_PER_TICK) > ticks {
        bits -= 1;
    }
    bits
}
