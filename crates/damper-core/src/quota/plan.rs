//! Quotas that come with each call, prepared once.
//!
//! The buckets of a [`KeyedLimiter` by plan](crate::KeyedLimiter::by_plan) have no quota of their own. Each bucket
//! stores the instant at which it will be full. Every call brings a [`Plan`], which converts this instant to a number
//! of tokens.
//!
//! **Time** is counted in *beats* of 64 ns from tick 0 of the clock. So a plan fits every clock and can be a constant.
//! [`PlanClock`] converts a reading of the clock to beats, rounded down. An instant is stored in 48 bits, which wrap
//! after 208 days. Every debt is repaid within 52 days, a quarter of that time. (A [table of words](crate::words) has
//! fewer bits for an instant, and counts in coarser [`Beats`].)
//!
//! **The grid.** A plan counts tokens from 0 at beat 0, in steps of 2^-F tokens. A multiple of this step is a
//! *position*, as for every quota ([`timeline`](super::timeline)). A single limiter chooses F so that a tick of its
//! clock brings 2 to 4 steps. A plan chooses F so that a step takes 2 to 4 beats. (If a token takes less than 2 beats,
//! the plan is refused.)
//!
//! So each position has an instant of its own: the first beat at which the position is reached. This instant converts
//! back to the same position. Therefore rounding errors never add up, however often a bucket is written. If a plan
//! rounded the time of a token to whole nanoseconds instead, a plan of 7 million tokens a second would be 0.1 % slow.
//!
//! An instant that was stored under another plan may lie between two positions. It then counts as the later position.
//! So a change of a key's plan mints no part of a token.

use super::beats::Beats;
#[cfg(feature = "alloc")]
use super::beats::TIME_BITS;
use super::timeline::{Line, LineStart, Tempo, Timeline};
use super::{Alignment, Quota, SetQuotaError};
use crate::digest::Digest;
use crate::out_of_range::{OutOfRange, check};
#[cfg(target_has_atomic = "64")]
use crate::time::Clock;
use crate::time::{Frequency, Scale};
use core::fmt;
use core::num::NonZeroU8;
use core::time::Duration;

/// The longest window that [`Plan::quota`] can compute exactly from the stored rate.
const LONGEST_WINDOW: Duration = Duration::from_nanos(1 << 58);

/// The number of classes of plans. The time to repay a plan's deepest debt decides its class.
///
/// The longest time in a class is at most 16 times the longest time in the class before.
///
/// Keys without a slot in the table share words that store their debts. A word is shared only within a class.
#[cfg(feature = "alloc")]
pub(crate) const CLASSES: usize = ((TIME_BITS - 2 - FIRST_CLASS_BITS).div_ceil(4) + 1) as usize;

/// A plan of the first class repays its deepest debt within `2^FIRST_CLASS_BITS` beats, which are 1.1 s.
#[cfg(feature = "alloc")]
const FIRST_CLASS_BITS: u32 = 24;

/// A quota that was prepared once, for tables in which each key has a quota of its own.
///
/// A [`KeyedLimiter` by plan](crate::KeyedLimiter::by_plan) is given a plan with each call. There can be any number of
/// plans: the table stores none of them. A plan is 40 bytes, `Copy`, and can be a constant.
///
/// # Range
///
/// Time is counted in steps of 64 ns. A token takes at least 128 ns (7,812,500 a second). A refill of the burst plus
/// [`max_debt`](Quota::max_debt) takes at most 52 days. If the quota does not set `max_debt`, the default of ten bursts
/// is reduced to what fits. No token comes late. After a time in which nothing was taken, a token may come early by at
/// most 256 ns.
///
/// Stored instants wrap after 208 days. So a key that made no call for 104 days or more may be refused although it owes
/// nothing. The refusals last at most until the deepest debt of any plan of the table would be repaid.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{Plan, Quota};
///
/// const FREE: Plan = match Plan::new(Quota::per_minute(60)) {
///     Ok(plan) => plan,
///     Err(_) => panic!("a constant that is in range"),
/// };
/// assert_eq!(FREE.quota().to_string(), "60/min burst 60");
///
/// let error = Plan::new(Quota::per_second(10_000_000)).unwrap_err();
/// assert_eq!(error.to_string(), "limit is 10000000, it must be 1 to 7812500 (a token takes 128 ns or more)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Plan {
    /// How many steps a [beat](Beats) brings, in the format of `Tempo::mult`.
    ///
    /// A beat is the unit of time. A step is 2^-F tokens, the unit in which tokens are counted.
    mult: u64,
    /// How many [beats](Beats) (units of time) a step (2^-F tokens) takes, in the format of `Tempo::inverse`.
    inverse: u64,
    shape: u64,
    limit: u32,
    burst: u32,
    /// How many tokens below empty a bucket may go.
    max_debt: u32,
    tag: NonZeroU8,
    /// The deepest debt is repaid within 2^`debt_bits` [beats](Beats) (units of time).
    debt_bits: u8,
    /// Whether the quota sets `max_debt` itself.
    has_own_max_debt: bool,
}

const _: () = assert!(size_of::<Plan>() <= 40, "a plan is small");

impl Plan {
    /// A plan that allows every call and takes no tokens.
    pub const UNLIMITED: Self = Self::of_scale(Scale::STOPPED, 0, Quota::UNLIMITED, 0, 0, Beats::FINE);

    /// A plan that allows nothing: its burst is 0.
    ///
    /// Use it for a blocked key, or for a key without a [guarantee](crate::keyed::QuotaTreeBuilder::guarantees).
    pub const NOTHING: Self = match Self::new(Quota::per_second(1).burst(0).max_debt(0)) {
        Ok(plan) => plan,
        Err(_) => panic!("a burst of 0 is in range"),
    };

    /// Prepares a quota.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], which names the setting that does not fit: `limit`, `window`, `burst` or `max_debt`.
    pub const fn new(quota: Quota) -> Result<Self, OutOfRange> {
        Self::in_beats(quota, Beats::FINE)
    }

    /// Prepares a quota for buckets that store instants in `beats`.
    pub(crate) const fn in_beats(quota: Quota, beats: Beats) -> Result<Self, OutOfRange> {
        if quota.is_unlimited() {
            return Ok(Self::UNLIMITED);
        }
        let window = quota.window_nanos();
        let shortest = Duration::from_nanos(beats.shortest_token());
        check!(check_duration("window", quota.window(), shortest..=LONGEST_WINDOW), "(of a plan)");
        let most = window / beats.shortest_token();
        check!(check_count("limit", quota.limit() as u64, 1..=most), beats.shortest_note());
        // The product is below 2^89.
        let deepest = (beats.longest_debt() * beats.nanos()) as u128 * quota.limit() as u128 / window as u128;
        let deepest = if deepest > u64::MAX as u128 { u64::MAX } else { deepest as u64 };
        check!(check_count("burst", quota.burst_size() as u64, 0..=deepest), beats.longest_note());
        let room = deepest - quota.burst_size() as u64;
        let room = if room > u32::MAX as u64 { u32::MAX } else { room as u32 };
        let max_debt = if let Some(tokens) = quota.own_max_debt() {
            check!(check_count("max_debt", tokens as u64, 0..=room as u64), beats.longest_note());
            tokens
        } else {
            let bursts = quota.deepest_debt() - quota.burst_size() as u64;
            if bursts < room as u64 { bursts as u32 } else { room }
        };
        // F is the largest number with which a step of 2^-F tokens takes at least 2 beats. So
        // `limit * 2^F <= window / shortest_token`.
        let fraction_bits = (most / quota.limit() as u64).ilog2();
        let scale = Scale::ratio(((quota.limit() as u64 * beats.nanos()) as u128) << fraction_bits, window as u128);
        let deepest = quota.burst_size() as u128 + max_debt as u128;
        // The dividend is below 2^92. The quotient is at most `beats.longest_debt()`, which is 2^46 or less.
        let longest = (deepest * window as u128).div_ceil((quota.limit() as u64 * beats.nanos()) as u128) as u64;
        Ok(Self::of_scale(scale, fraction_bits, quota, max_debt, longest, beats))
    }

    const fn of_scale(
        scale: Scale,
        fraction_bits: u32,
        quota: Quota,
        max_debt: u32,
        longest: u64,
        beats: Beats,
    ) -> Self {
        let frequency = Frequency::from_hertz(beats.per_second());
        let tempo = Tempo::new(scale, fraction_bits, frequency, quota.is_unlimited());
        Self {
            mult: tempo.mult,
            inverse: tempo.inverse,
            shape: tempo.shape,
            limit: quota.limit(),
            burst: quota.burst_size(),
            max_debt,
            tag: tag_of(&quota),
            // These are the bits of `longest - 1`, so that `longest <= 2^debt_bits`: a debt of exactly 2^46 beats needs
            // only 46.
            debt_bits: (u64::BITS - longest.saturating_sub(1).leading_zeros()) as u8,
            has_own_max_debt: quota.own_max_debt().is_some(),
        }
    }

    /// Sets the tag by which [`replan`](crate::KeyedLimiter::replan) distinguishes plans.
    ///
    /// By default the tag is a hash of the quota. Two different plans then have the same tag with a probability of 1 in
    /// 255. If you have fewer than 256 plans, number them instead.
    #[must_use]
    pub const fn tagged(mut self, tag: NonZeroU8) -> Self {
        self.tag = tag;
        self
    }

    /// Returns the quota that was prepared.
    pub const fn quota(&self) -> Quota {
        if self.is_unlimited() {
            return Quota::UNLIMITED;
        }
        // `mult / 2^shift` equals `limit * beat * 2^F / window` with an error below 2^-60, and `window` is below 2^59.
        // So the rounded quotient below is the exact window. The dividend is at most `2^57 * 2^63`.
        let scale = self.tempo().scale();
        let beat = super::SECOND / self.tempo().frequency().hertz();
        let brought = ((self.limit as u64 * beat) as u128) << self.tempo().fraction_bits();
        let window = ((brought << scale.shift) + scale.mult as u128 / 2) / scale.mult as u128;
        let max_debt = if self.has_own_max_debt { Some(self.max_debt) } else { None };
        Quota::from_parts(self.limit, window as u64, self.burst, max_debt)
    }

    /// Returns whether the plan limits nothing.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.tempo().is_unlimited()
    }

    /// Returns the deepest debt in tokens, counted from a full bucket.
    pub(crate) const fn deepest_debt(&self) -> u64 {
        self.burst as u64 + self.max_debt as u64
    }

    /// Returns the most tokens that can be saved up and taken at once.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) const fn burst(&self) -> u32 {
        self.burst
    }

    /// Returns the [tag](Self::tagged), which distinguishes plans.
    pub(crate) const fn tag(&self) -> NonZeroU8 {
        self.tag
    }

    /// Returns the number of beats in which the deepest debt is repaid, rounded up to a power of two.
    #[inline]
    pub(crate) const fn longest_debt(&self) -> u64 {
        1 << self.debt_bits
    }

    /// Returns the plan's class, from 0. It depends on the time to repay the deepest debt, as [`CLASSES`] says.
    #[cfg(feature = "alloc")]
    pub(crate) const fn class(&self) -> usize {
        (self.debt_bits as u32).saturating_sub(FIRST_CLASS_BITS).div_ceil(4) as usize
    }

    #[inline]
    const fn tempo(&self) -> Tempo {
        Tempo { mult: self.mult, inverse: self.inverse, brought: 0, shape: self.shape }
    }

    /// Returns the plan's [`Line`], which converts beats to tokens.
    #[inline]
    pub(crate) fn line<L: Line>(&self) -> L {
        let deepest_debt = self.deepest_debt();
        let tempo = self.tempo();
        let unlimited = tempo.is_unlimited();
        let timeline =
            Timeline { origin: 0, start: 0, tempo, deepest_debt, deepest_ever: deepest_debt, unlimited, behind: 0 };
        let sizes = [timeline.units(self.burst.into()), timeline.units(1)];
        L::from_parts(timeline, |index| sizes[index])
    }

    /// Returns the first position that the plan's [`Line`] reaches at `beat` or later.
    ///
    /// A position is a number of tokens, counted in steps of 2^-F tokens, where F is the number of fraction bits.
    #[inline]
    pub(crate) const fn position_from(&self, beat: u64) -> u64 {
        // A step takes 2 beats or more, so the line reaches at most one new position in a beat. The result is therefore
        // one more than the position at `beat - 1`.
        (self.tempo().scale().units(beat.wrapping_sub(1) as i64).0 as u64).wrapping_add(1)
    }
}

/// Returns the default tag of a quota: its digest, reduced to the range 1 to 255.
const fn tag_of(quota: &Quota) -> NonZeroU8 {
    match NonZeroU8::new((quota.digest(Digest::EMPTY).get() % 255) as u8 + 1) {
        Some(tag) => tag,
        None => NonZeroU8::MIN,
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("quota", &self.quota()).field("tag", &self.tag).finish_non_exhaustive()
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Plan {
    fn format(&self, f: defmt::Formatter<'_>) {
        self.quota().format(f);
    }
}

/// The clock of plans: a [`Line`] that counts beats instead of tokens.
///
/// The count is 0 at tick 0 of the clock, no matter when the line is first used. So all plans and all tables on a clock
/// agree on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "alloc"), expect(unreachable_pub, reason = "keyed tables have it in a public trait"))]
pub struct PlanClock {
    timeline: Timeline,
}

impl PlanClock {
    /// The quota from which this [`Line`] is built: one token for each beat.
    #[cfg(feature = "alloc")]
    pub(crate) const QUOTA: Quota = Self::quota_of(Beats::FINE);

    /// The start of this [`Line`].
    ///
    /// `debt_bits` is 0, so the line has no fraction bits and its unit is a whole beat.
    pub(crate) const START: LineStart = LineStart { alignment: Alignment::FirstRequest, missing: 0, debt_bits: 0 };

    const fn quota_of(beats: Beats) -> Quota {
        Quota::per_second(beats.per_second() as u32)
    }

    /// Creates the [`Line`] that counts `beats` on `clock`, for debts that take up to `longest` beats to repay.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn of(clock: &impl Clock, beats: Beats, longest: u64) -> Self {
        let quota = Self::quota_of(beats);
        let timeline = Timeline::new::<Self>(&quota, &quota, clock.frequency(), 0, Self::START);
        let mut line = <Self as Line>::new(timeline, &quota);
        line.expect_debt_of(longest);
        line
    }
}

impl Line for PlanClock {
    const HEALS_ON_FAST_PATH: bool = false;

    fn per_window(quota: &Quota) -> u32 {
        quota.limit()
    }

    /// Returns 0. The debts of plans are added later, by [`expect_debt_of`](Line::expect_debt_of).
    fn deepest_debt(_: &Quota) -> u64 {
        0
    }

    fn first_position(_: u32, _: u32) -> u64 {
        0
    }

    fn too_fast(quota: &Quota, _: u128, _: u128) -> SetQuotaError {
        SetQuotaError::TooFast { quota: *quota, most: quota.limit() }
    }

    fn sizes(_: &Timeline, _: &Quota) -> [u64; 2] {
        [0; 2]
    }

    #[inline]
    fn from_parts(timeline: Timeline, _: impl Fn(usize) -> u64) -> Self {
        Self { timeline: Timeline { origin: 0, start: 0, ..timeline } }
    }

    #[inline]
    fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    #[inline]
    fn timeline_mut(&mut self) -> &mut Timeline {
        &mut self.timeline
    }
}
