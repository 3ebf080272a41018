//! The tokens that a quota allows in a stretch of time, in ticks and exactly.
//!
//! Beside it a log of the tokens that were allowed.

use crate::board::HERTZ;

/// A quota of so many tokens a second with such a burst.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Tokens a second.
    pub rate: u32,
    /// Tokens at once.
    pub burst: u32,
    /// How many ticks of tokens may be early, as the limiter's documentation has it.
    pub early: u32,
}

impl Envelope {
    /// Whether so many tokens may be allowed between two readings that are so many ticks apart.
    #[must_use]
    pub const fn allows(&self, tokens: u32, ticks: u64) -> bool {
        // Tokens times ticks a second. A program runs for seconds: far below 2^64.
        tokens as u64 * HERTZ as u64
            <= self.burst as u64 * HERTZ as u64 + self.rate as u64 * (ticks + self.early as u64)
    }

    /// Whether so few may have been allowed to callers that asked until they were refused.
    ///
    /// Then less than one token is left.
    #[must_use]
    pub const fn is_used_up_by(&self, tokens: u32, ticks: u64) -> bool {
        (tokens as u64 + 1) * HERTZ as u64 > self.burst as u64 * HERTZ as u64 + self.rate as u64 * ticks
    }
}

/// When tokens were allowed: the clock before and after each check.
#[derive(Debug)]
pub struct Log<const MOST: usize> {
    entries: [(u64, u64); MOST],
    len: usize,
}

impl<const MOST: usize> Log<MOST> {
    /// An empty log.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is for a static")]
    pub const fn new() -> Self {
        Self { entries: [(0, 0); MOST], len: 0 }
    }

    /// One more token, allowed between these two readings.
    ///
    /// A token that does not fit is counted all the same.
    pub fn push(&mut self, before: u64, after: u64) {
        if let Some(entry) = self.entries.get_mut(self.len) {
            *entry = (before, after);
        }
        self.len += 1;
    }

    /// How many there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it has no caller")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether *every* stretch of time has no more than the envelope allows.
    ///
    /// An interrupt can run between a check and its entry, so the entries are not quite in order. Even so, all checks of
    /// a stretch were decided between the earliest `before` and the latest `after` of its entries.
    #[must_use]
    pub fn is_within(&self, envelope: Envelope) -> bool {
        let Some(entries) = self.entries.get(..self.len) else { return false };
        (0..entries.len()).all(|first| {
            let (mut from, mut to) = (u64::MAX, 0);
            entries[first..].iter().zip(1..).all(|(&(before, after), tokens)| {
                (from, to) = (from.min(before), to.max(after));
                envelope.allows(tokens, to - from)
            })
        })
    }
}
