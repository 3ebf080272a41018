//! What a token bucket owes, and what becomes of its word: arithmetic on a line, free of atomics.

use super::timeline::Timeline;
use crate::time::{Clock, Ticks};

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
        if self.is_below_zero(word, at) { word } else { self.take_back(word, at, n, since) }
    }

    /// The same, also while tokens are owed: where nobody waits.
    #[inline]
    pub(crate) const fn take_back(&self, word: u64, at: u64, n: u32, since: u64) -> u64 {
        let owed = Self::debt(word, at);
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

    /// What a bucket has room for of `n` tokens, in units.
    #[inline]
    pub(crate) const fn refundable(&self, word: u64, at: u64, n: u32) -> u64 {
        let missing = Self::debt(word, at);
        // Tested in tokens: shifted, a large `n` would lose its high bits.
        if n as u64 > missing >> self.fraction_bits { missing } else { self.units(n) }
    }

    /// So many units in tokens, rounded up; of no more than a `u32` of tokens.
    #[inline]
    pub(crate) const fn tokens(&self, units: u64) -> u32 {
        units.div_ceil(1 << self.fraction_bits) as u32
    }

    /// How many of `n` tokens are given back, rounded up, and the word after that, whatever is owed; a full bucket gets
    /// no fuller.
    #[inline]
    pub(crate) const fn give_back(&self, word: u64, at: u64, n: u32) -> (u32, u64) {
        let back = self.refundable(word, at, n);
        (self.tokens(back), word.wrapping_sub(back))
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
}
