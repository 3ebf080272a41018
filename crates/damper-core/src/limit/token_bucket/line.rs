//! The line of tokens: the debt of a bucket, and the next state of its word.
//!
//! This is arithmetic, free of atomics.
//!
//! A position on the line counts the tokens that were produced up to then. The *word* of a bucket is the position at
//! which it will be full again.
//!
//! **Taking.** The *debt* of a bucket is `word - position`. The bucket is full if its debt is 0 or less, and *below
//! empty* if its debt exceeds a burst. A thread takes a cost by one compare-and-swap of the word to
//! `max(word, position) + cost`, if that is at most a burst ahead of the position. This is sound in any order of the
//! swaps and with any skew of the clock readings. Each take moves the word by at least its cost, and leaves
//! `word <= position + burst` at its own reading. So the costs taken between two readings a and b are at most
//! `burst + position(b) - position(a)`.
//!
//! **The deepest legal debt** is a burst plus the tokens that waiters and charges may take in advance. A quota change
//! keeps the words, so the deepest debt under any quota so far counts (`quota::live` has the details).
//!
//! **Healing.** A clock that steps back leaves words that are further ahead than the deepest legal debt. A refusal
//! *heals* such a word: it sets the word to the deepest legal debt. It never sets it to a full bucket, which would mint
//! tokens. It heals only words that are ahead by more than the deepest legal debt plus the longest step back that the
//! clock may take.

use crate::quota::{Alignment, Line, LineStart, Quota, SetQuotaError, Timeline};
use crate::time::{Clock, Ticks};

/// The position at which the line of a new limiter with a full bucket starts.
///
/// A word of 0 lies so far behind this position that it means a full bucket. That holds even for a thread whose clock
/// is behind the clock of the thread that started the line.
const FULL_FOR_LONG: u64 = 1 << 60;

/// The reason why tokens were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeError {
    /// The call asks for more tokens than the burst, so no wait helps.
    ExceedsBurst,
    /// The bucket lacks this many units, which are fractions of a token.
    Short(u64),
    /// The wait is this many ticks longer than the caller allows.
    Later(Ticks),
}

/// The line of a quota that counts tokens: it converts readings of the clock to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLine {
    timeline: Timeline,
    /// A token, in units.
    token: u64,
    /// The burst, in units.
    full: u64,
}

impl Line for TokenLine {
    /// Is `false`, because only the slow path of a refusal heals a word.
    const HEALS_ON_FAST_PATH: bool = false;

    fn per_window(quota: &Quota) -> u32 {
        quota.limit()
    }

    fn deepest_debt(quota: &Quota) -> u64 {
        if quota.is_unlimited() { 0 } else { quota.deepest_debt() }
    }

    fn first_position(fraction_bits: u32, missing: u32) -> u64 {
        match missing {
            0 => FULL_FOR_LONG,
            _ => (u64::from(missing) << fraction_bits).wrapping_neg(),
        }
    }

    #[cold]
    fn too_fast(quota: &Quota, whole: u128, most: u128) -> SetQuotaError {
        // `most` is 2^12 times the ticks of a second, and `whole` is 10^9 · 2^F. A quota is too fast only if its limit
        // times `whole` exceeds `most` times the nanoseconds of its window. So the product below is less than 2^123.
        // The result is less than the limit, so it fits a `u32`.
        SetQuotaError::TooFast { quota: *quota, most: (most * u128::from(quota.window_nanos()) / whole) as u32 }
    }

    fn sizes(timeline: &Timeline, quota: &Quota) -> [u64; 2] {
        let full = if quota.is_unlimited() { 0 } else { timeline.units(quota.burst_size().into()) };
        [full, timeline.units(1)]
    }

    #[inline]
    fn from_parts(timeline: Timeline, size: impl Fn(usize) -> u64) -> Self {
        Self { timeline, token: size(1), full: size(0) }
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

impl TokenLine {
    /// The start of a line whose positions have 56 bits and wrap.
    ///
    /// The deepest debt has at most 54 bits, so it is at most a quarter of the range of positions.
    pub(crate) const IN_LEVELS: LineStart = LineStart { alignment: Alignment::FirstRequest, missing: 0, debt_bits: 54 };

    /// Returns the start of a line whose bucket lacks `missing` tokens.
    pub(crate) const fn missing(missing: u32) -> LineStart {
        LineStart { alignment: Alignment::FirstRequest, missing, debt_bits: 61 }
    }

    /// Returns how far the word lies ahead of the position `at`, in units, or 0 for a full bucket.
    #[inline]
    pub(crate) const fn debt(word: u64, at: u64) -> u64 {
        let ahead = word.wrapping_sub(at) as i64;
        if ahead > 0 { ahead as u64 } else { 0 }
    }

    #[inline]
    const fn units(&self, tokens: u32) -> u64 {
        self.timeline.units(tokens as u64)
    }

    /// Returns the position at `tick`.
    #[cfg(feature = "alloc")]
    pub(crate) const fn position_at(&self, tick: u64) -> u64 {
        self.timeline.position(tick)
    }

    /// Returns the word after taking all of `n` tokens at the position `at`, or the reason why not.
    #[inline]
    pub(crate) const fn take(&self, word: u64, at: u64, n: u32) -> Result<u64, TakeError> {
        if n == 0 || self.timeline.is_unlimited() {
            return Ok(word);
        }
        // One token is within every burst except 0, which is handled below.
        let cost = if n == 1 {
            self.token
        } else if n as u64 > self.full >> self.timeline.fraction_bits() {
            // The comparison is in tokens, because a large `n` would lose its high bits if it were shifted.
            return Err(TakeError::ExceedsBurst);
        } else {
            self.units(n)
        };
        // The sum is at most 2^63 + 2^61, so it does not overflow.
        let after = Self::debt(word, at) + cost;
        if after <= self.full {
            Ok(at.wrapping_add(after))
        } else if self.full == 0 {
            Err(TakeError::ExceedsBurst)
        } else {
            Err(TakeError::Short(after - self.full))
        }
    }

    /// Returns the word after taking `n` tokens, which may exceed the burst.
    ///
    /// Only a full bucket allows more than its burst. Its debt may then reach the deepest debt of the quota.
    #[inline]
    pub(crate) const fn take_oversized(&self, word: u64, at: u64, n: u32) -> Result<u64, TakeError> {
        match self.take(word, at, n) {
            Err(TakeError::ExceedsBurst) if n as u64 <= self.timeline.deepest_debt() => match Self::debt(word, at) {
                0 => Ok(at.wrapping_add(self.units(n))),
                missing => Err(TakeError::Short(missing)),
            },
            result => result,
        }
    }

    /// Returns the word after giving back `n` tokens that were taken at the position `since`.
    ///
    /// It leaves out the tokens that the line has refilled after `since`, because their debt is repaid already. While
    /// the bucket is below empty, for example because callers wait, it gives nothing back.
    #[inline]
    pub(crate) const fn roll_back(&self, word: u64, at: u64, n: u32, since: u64) -> u64 {
        if self.is_below_zero(word, at) { word } else { self.take_back(word, at, n, since) }
    }

    /// Returns the word as [`roll_back`](Self::roll_back) does, even while the bucket is below empty.
    ///
    /// `roll_back` gives nothing back to such a bucket.
    #[inline]
    pub(crate) const fn take_back(&self, word: u64, at: u64, n: u32, since: u64) -> u64 {
        let owed = Self::debt(word, at);
        let passed = at.wrapping_sub(since) as i64;
        let repaid = if passed > 0 { passed as u64 } else { 0 };
        let back = self.units(n).saturating_sub(repaid);
        word.wrapping_sub(if back < owed { back } else { owed })
    }

    /// Returns how many of `n` tokens can be taken at the position `at`, and the word after that.
    #[inline]
    pub(crate) const fn take_up_to(&self, word: u64, at: u64, n: u32) -> (u32, u64) {
        if self.timeline.is_unlimited() {
            return (n, word);
        }
        let there = self.remaining(word, at);
        let n = if there < n { there } else { n };
        (n, if n == 0 { word } else { at.wrapping_add(Self::debt(word, at) + self.units(n)) })
    }

    /// Returns how many of `n` tokens can be booked down to the deepest debt, and the word after that.
    #[inline]
    pub(crate) const fn charge(&self, word: u64, at: u64, n: u32) -> (u32, u64) {
        if self.timeline.is_unlimited() {
            return (n, word);
        }
        let owed = Self::debt(word, at);
        let room =
            self.timeline.units(self.timeline.deepest_debt()).saturating_sub(owed) >> self.timeline.fraction_bits();
        let n = if room < n as u64 { room as u32 } else { n };
        (n, if n == 0 { word } else { at.wrapping_add(owed + self.units(n)) })
    }

    /// Returns the part of `n` tokens that a bucket has room for, in units.
    ///
    /// Units are fixed-point fractions of a token. A bucket may have room for only a part of a token.
    #[inline]
    pub(crate) const fn refundable(&self, word: u64, at: u64, n: u32) -> u64 {
        let missing = Self::debt(word, at);
        // The comparison is in tokens, because a large `n` would lose its high bits if it were shifted.
        if n as u64 > missing >> self.timeline.fraction_bits() { missing } else { self.units(n) }
    }

    /// Converts `units` into tokens, rounded up. The result must fit a `u32`.
    #[inline]
    pub(crate) const fn tokens(&self, units: u64) -> u32 {
        units.div_ceil(1 << self.timeline.fraction_bits()) as u32
    }

    /// Returns how many of `n` tokens are given back, rounded up, and the word after that.
    ///
    /// The bucket may be below empty. Tokens for which it has no room are lost.
    #[inline]
    pub(crate) const fn give_back(&self, word: u64, at: u64, n: u32) -> (u32, u64) {
        let back = self.refundable(word, at, n);
        (self.tokens(back), word.wrapping_sub(back))
    }

    /// Returns the word after reserving `n` tokens that become available within `longest`.
    #[inline]
    pub(crate) fn reserve(&self, word: u64, at: u64, n: u32, longest: Ticks) -> Result<u64, TakeError> {
        if n == 0 || self.timeline.is_unlimited() {
            return Ok(word);
        }
        if u64::from(n) > self.full >> self.timeline.fraction_bits() {
            return Err(TakeError::ExceedsBurst);
        }
        let after = Self::debt(word, at) + self.units(n);
        let deepest = self.timeline.units(self.timeline.deepest_debt());
        let wait = self.timeline.wait(after.saturating_sub(self.full));
        if after > deepest {
            // The call can succeed once two things hold: the debt leaves room for it, and its wait is within `longest`.
            let room = self.timeline.wait(after - deepest);
            Err(TakeError::Later(room.max(wait.less(longest))))
        } else if wait > longest {
            Err(TakeError::Later(wait.less(longest)))
        } else {
            Ok(at.wrapping_add(after))
        }
    }

    /// Returns the wait from the position `at` until the bucket is no longer below empty.
    ///
    /// With the word that a reservation left, it is the wait until that reservation is ready.
    #[inline]
    pub(crate) const fn ready_in(&self, word: u64, at: u64) -> Ticks {
        if self.timeline.is_unlimited() {
            Ticks::ZERO
        } else {
            self.timeline.wait(Self::debt(word, at).saturating_sub(self.full))
        }
    }

    /// Returns the word as if the last `n` tokens had not been taken.
    #[inline]
    pub(crate) const fn without(&self, word: u64, n: u32) -> u64 {
        word.wrapping_sub(self.units(n))
    }

    /// Returns how many tokens the bucket is below empty, rounded up. It is 0 if tokens are left.
    #[inline]
    pub(crate) const fn below_zero(&self, word: u64, at: u64) -> u64 {
        let below = Self::debt(word, at).saturating_sub(self.full);
        below.div_ceil(1 << self.timeline.fraction_bits())
    }

    /// Returns [`below_zero`](Self::below_zero) as a `u32`, or 0 if the quota has no limit.
    #[inline]
    pub(crate) fn debt_in_tokens(&self, word: u64, at: u64) -> u32 {
        // The debt below empty is at most `max_debt`, a `u32`, unless the clock steps back.
        if self.is_unlimited() { 0 } else { u32::try_from(self.below_zero(word, at)).unwrap_or(u32::MAX) }
    }

    /// Returns the replacement of a word that was written before a large step back of the clock, else `None`.
    ///
    /// Such a word lies further ahead than the sum of the deepest debt and the longest step back that the clock may
    /// take. (So does the word of a bucket that was unused for half of the time after which positions wrap.) The
    /// replacement is the deepest debt. A full bucket as the replacement would mint tokens.
    #[inline]
    pub(crate) fn heal(&self, word: u64, at: u64, clock: &impl Clock) -> Option<u64> {
        if self.is_beyond_deepest_debt(word, at) { self.heal_slow(word, at, clock) } else { None }
    }

    /// Returns the word that lies `ahead` units ahead of the position `at`. A negative `ahead` counts as 0.
    ///
    /// A word so far ahead that [`heal`](Self::heal) would replace it counts as a full bucket. The keyed table stores
    /// positions in few bits, which wrap while no thread looks at them. So an old word may only seem to be ahead.
    #[inline]
    pub(crate) fn word_ahead(&self, ahead: i64, at: u64, clock: &impl Clock) -> u64 {
        let word = at.wrapping_add_signed(ahead.max(0));
        if self.is_beyond_deepest_debt(word, at) && self.heal_slow(word, at, clock).is_some() { at } else { word }
    }

    /// Returns whether the bucket is below empty: it owes more than its burst.
    #[inline]
    pub(crate) const fn is_below_zero(&self, word: u64, at: u64) -> bool {
        Self::debt(word, at) > self.full
    }

    const fn is_beyond_deepest_debt(&self, word: u64, at: u64) -> bool {
        Self::debt(word, at) > self.timeline.deepest_ever()
    }

    #[cold]
    fn heal_slow(&self, word: u64, at: u64, clock: &impl Clock) -> Option<u64> {
        let is_stale = self.timeline.is_from_before_a_step_back(Self::debt(word, at), clock);
        is_stale.then(|| at.wrapping_add(self.timeline.deepest_ever()))
    }

    /// Returns the burst, in tokens.
    #[inline]
    pub(crate) const fn burst(&self) -> u32 {
        (self.full >> self.timeline.fraction_bits()) as u32
    }

    /// Returns the tokens that can be taken at once, rounded down.
    #[inline]
    pub(crate) const fn remaining(&self, word: u64, at: u64) -> u32 {
        if self.timeline.is_unlimited() {
            return u32::MAX;
        }
        let left = self.full.saturating_sub(Self::debt(word, at));
        // The quotient is at most the burst.
        (left >> self.timeline.fraction_bits()) as u32
    }

    /// Returns the tokens that are missing from a full bucket, rounded up.
    #[inline]
    pub(crate) const fn level(&self, word: u64, at: u64) -> u32 {
        let level = Self::debt(word, at).div_ceil(1 << self.timeline.fraction_bits());
        if self.timeline.is_unlimited() {
            0
        } else if level > u32::MAX as u64 {
            u32::MAX
        } else {
            level as u32
        }
    }

    /// Returns the wait until the bucket is full.
    #[inline]
    pub(crate) const fn resets_in(&self, word: u64, at: u64) -> Ticks {
        if self.timeline.is_unlimited() { Ticks::ZERO } else { self.timeline.wait(Self::debt(word, at)) }
    }
}
