//! The level of a limit on the server, and the time until it has tokens.

use super::{Sighting, Terms};
use core::time::Duration;

/// A time that never comes: the largest that the script can count, in the year 2255.
pub const NEVER: u64 = (1 << 53) - 1;

/// The state of one limit at the time of a reply, after the command.
///
/// Its debt is `owed - frac / q` tokens at the time `at`, where q is the period of its rate; the bucket is full at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The version, which grows with every change. It is sent back as [`Sighting::version`](super::Sighting::version).
    pub version: u64,
    /// The server's time at which `owed` and `frac` are the debt.
    ///
    /// This is the reply's `now`, or later if the server's clock stepped back by a little.
    pub at: u64,
    /// The debt in tokens, rounded up.
    pub owed: u64,
    /// The part of the next token that has dripped in, counted in parts of q.
    pub frac: u64,
    /// The leased tokens, and those that holders may still have since the server lost the limit.
    pub held: u64,
    /// The server's time at which the bucket is full if nothing else is taken; [`NEVER`] if it will not be.
    ///
    /// It is sent back as [`Sighting::full_at`](super::Sighting::full_at). It is rounded up by some µs, and by the length of a lease if
    /// tokens are leased.
    pub full_at: u64,
}

impl Level {
    /// Returns the sighting of a process that received this level.
    #[must_use]
    pub const fn seen(&self) -> Sighting {
        Sighting { version: self.version, full_at: self.full_at }
    }

    /// Returns the tokens that are left, rounded down; 0 while there is debt beyond the burst.
    ///
    /// Leased tokens are not left, whoever holds them.
    #[must_use]
    pub fn remaining(&self, terms: &Terms) -> u32 {
        // The difference is at most the burst.
        u64::from(terms.burst).saturating_sub(self.owed) as u32
    }

    /// Returns how long after `now` a take of `n` can be allowed, if nothing else is taken.
    ///
    /// Returns zero if the take can be allowed at once. The time is rounded up to whole µs of the server's clock, so it is never too
    /// early. Returns `None` if that time never comes: `n` exceeds the burst, nothing drips in, or it takes more than 584,542 years.
    /// `now` is the time of the reply.
    ///
    /// Leased tokens that never come back may lengthen it, because the bucket fills only up to `burst - held` until they expire. The next
    /// reply then has the longer time.
    #[must_use]
    pub fn retry_after(&self, terms: &Terms, n: u32, now: u64) -> Option<Duration> {
        let spare = terms.burst.checked_sub(n)?;
        self.until_owed(terms, u64::from(spare), now)
    }

    /// Returns how long after `now` the bucket is full, if nothing else is taken.
    ///
    /// The time is rounded up to whole µs. Returns `None` if it never is. While tokens are leased, the bucket is full at
    /// [`full_at`](Self::full_at), when the last lease has ended.
    #[must_use]
    pub fn resets_in(&self, terms: &Terms, now: u64) -> Option<Duration> {
        if self.held == 0 || self.full_at == NEVER {
            return self.until_owed(terms, 0, now);
        }
        Some(Duration::from_micros(self.full_at.saturating_sub(now)))
    }

    /// Returns the time until the debt is at most `most` tokens.
    fn until_owed(&self, terms: &Terms, most: u64, now: u64) -> Option<Duration> {
        let Some(excess) = self.owed.checked_sub(most).filter(|&excess| excess > 0) else {
            return Some(Duration::ZERO);
        };
        if terms.rate.tokens() == 0 {
            return None;
        }
        // The debt must fall by `excess - frac / q` tokens. The product is below 2^64 * 2^48.
        let parts = (u128::from(excess) * u128::from(terms.rate.micros())).saturating_sub(u128::from(self.frac));
        let micros = parts.div_ceil(u128::from(terms.rate.tokens())) + u128::from(self.at.saturating_sub(now));
        u64::try_from(micros).ok().map(Duration::from_micros)
    }
}
