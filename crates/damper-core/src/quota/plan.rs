//! Quotas that come with each call, prepared once.
//!
//! The buckets of a [`KeyedLimiter` by plan](crate::KeyedLimiter::by_plan) have no quota of their own. Each stores the
//! instant at which it is full, and every call brings the [`Plan`] that turns this instant into a number of tokens.
//!
//! **Time** is counted in *beats* of 64 ns from tick 0 of the clock, so a plan fits every clock and can be a constant.
//! [`PlanClock`] converts a reading of the clock to beats, rounded down. An instant is stored in 48 bits, which wrap
//! after 208 days. Every debt is repaid within a quarter of that, 52 days. (A [table of words](crate::words), which
//! processes share, has fewer bits and counts in coarser [`Beats`].)
//!
//! **The grid.** A plan counts tokens in *positions*, which are multiples of 2^-F tokens, from 0 at beat 0. (Every
//! quota does, see [`timeline`](super::timeline).) A single limiter chooses F so that a tick brings 2 to 4 positions. A
//! plan does the opposite: each position lasts 2 to 4 beats. (A token lasts at least 2 beats, or the plan is refused.)
//! So each position has an instant of its own: the first beat at which the position is reached. Converted back, that
//! instant gives the same position. So rounding never adds up, however often a bucket is written. If the time of a token
//! were rounded to whole nanoseconds instead, a plan of 7 million a second would be 0.1 % slow.
//!
//! An instant that was stored under another plan may lie between two positions. It counts as the later one. So changing
//! the plan of a key mints no part of a token.

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

/// The number of classes into which plans are divided by their deepest debts.
///
/// The deepest debts of a class take up to 16 times as long as those of the class before.
///
/// Keys without a slot of their own share words with other keys. Each class has shared words of its own.
#[cfg(feature = "alloc")]
pub(crate) const CLASSES: usize = ((TIME_BITS - 2 - FIRST_CLASS_BITS).div_ceil(4) + 1) as usize;

/// The deepest debt of the first class is repaid within 2 to this power beats, 1.1 s.
#[cfg(feature = "alloc")]
const FIRST_CLASS_BITS: u32 = 24;

/// A quota that was prepared once, for tables in which each key has a quota of its own.
///
/// A [`KeyedLimiter` by plan](crate::KeyedLimiter::by_plan) is given a plan with each call. There can be any number of
/// plans: the table stores none of them. A plan is 40 bytes, `Copy`, and can be a constant.
///
/// # Range
///
/// Time is counted in steps of 64 ns. A token takes at least 128 ns (7,812,500 a second). A refill of the burst and of
/// [`max_debt`](Quota::max_debt) takes at most 52 days. The debt of ten bursts that a quota has by default is cut to
/// what fits. No token comes late. After a time in which nothing was taken, a token may come early by at most 256 ns.
///
/// A key that made no call for 104 days or more may be refused although it owes nothing, because stored instants wrap
/// after 208 days. It is refused for at most as long as the deepest debt of any plan of its table takes to be repaid.
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
    /// The positions per beat, scaled as in `Tempo`.
    mult: u64,
    /// The beats per position, scaled as in `Tempo`.
    inverse: u64,
    shape: u64,
    limit: u32,
    burst: u32,
    /// How many tokens below empty a bucket may go.
    max_debt: u32,
    tag: NonZeroU8,
    /// The deepest debt is repaid within 2^`debt_bits` beats.
    debt_bits: u8,
    /// Whether the quota sets `max_debt` itself.
    has_own_max_debt: bool,
}

const _: () = assert!(size_of::<Plan>() <= 40, "a plan is small");

impl Plan {
    /// A plan that allows everything and takes nothing.
    pub const UNLIMITED: Self = Self::of_scale(Scale::STOPPED, 0, Quota::UNLIMITED, 0, 0, Beats::FINE);

    /// A plan that allows nothing: its burst is 0.
    ///
    /// It is the plan of a blocked key, or of one without a [guarantee](crate::keyed::QuotaTreeBuilder::guarantees).
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
        // These are the most fraction bits with which a position lasts at least 2 beats: limit · 2^F <= window /
        // shortest token.
        let fraction_bits = (most / quota.limit() as u64).ilog2();
        let scale = Scale::ratio(((quota.limit() as u64 * beats.nanos()) as u128) << fraction_bits, window as u128);
        let deepest = quota.burst_size() as u128 + max_debt as u128;
        // The product is below 2^92, and the quotient at most 2^46.
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
            // A debt of exactly 2^46 beats needs only `debt_bits` of 46, although the number has 47 bits. So 1 is
            // subtracted.
            debt_bits: (u64::BITS - longest.saturating_sub(1).leading_zeros()) as u8,
            has_own_max_debt: quota.own_max_debt().is_some(),
        }
    }

    /// Sets the tag by which [`replan`](crate::KeyedLimiter::replan) tells plans apart.
    ///
    /// By default it is a hash of the quota, so one pair of different plans in 255 has the same tag. If there are fewer
    /// than 256 plans, number them instead.
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
        // mult / 2^shift is the fraction limit · beat · 2^F / window with an error below 2^-60, and a window is below
        // 2^59. So the rounded quotient is the exact window. The dividend is at most 2^57 · 2^63.
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

    /// Returns the tag that distinguishes plans.
    pub(crate) const fn tag(&self) -> NonZeroU8 {
        self.tag
    }

    /// Returns how many beats repaying the deepest debt takes, rounded up to a power of two.
    #[inline]
    pub(crate) const fn longest_debt(&self) -> u64 {
        1 << self.debt_bits
    }

    /// Returns the plan's class, which follows from its deepest debt.
    #[cfg(feature = "alloc")]
    pub(crate) const fn class(&self) -> usize {
        (self.debt_bits as u32).saturating_sub(FIRST_CLASS_BITS).div_ceil(4) as usize
    }

    #[inline]
    const fn tempo(&self) -> Tempo {
        Tempo { mult: self.mult, inverse: self.inverse, brought: 0, shape: self.shape }
    }

    /// Returns the plan's line of tokens, whose ticks are beats.
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

    /// Returns the first position that the line reaches at the instant `beat` or later, on the plan's grid.
    #[inline]
    pub(crate) const fn position_from(&self, beat: u64) -> u64 {
        // A position lasts 2 beats or more, so the line reaches at most one new position in a beat. The answer is
        // therefore the position after the one at the beat before.
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

/// The clock of plans: a line that counts beats instead of tokens.
///
/// The count is 0 at tick 0 of the clock, whenever the line is first used. So all plans and all tables on a clock agree
/// on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "alloc"), expect(unreachable_pub, reason = "keyed tables have it in a public trait"))]
pub struct PlanClock {
    timeline: Timeline,
}

impl PlanClock {
    /// The quota from which the line is built: one token for each beat.
    #[cfg(feature = "alloc")]
    pub(crate) const QUOTA: Quota = Self::quota_of(Beats::FINE);

    /// The start of the line. With 0 `debt_bits` the line has no fraction bits, so its unit is a whole beat.
    pub(crate) const START: LineStart = LineStart { alignment: Alignment::FirstRequest, missing: 0, debt_bits: 0 };

    const fn quota_of(beats: Beats) -> Quota {
        Quota::per_second(beats.per_second() as u32)
    }

    /// Creates the line that counts `beats` on `clock`, for debts that take up to `longest` beats to repay.
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

    /// Returns 0, because the table itself remembers the deepest debt of all plans that it has seen.
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
