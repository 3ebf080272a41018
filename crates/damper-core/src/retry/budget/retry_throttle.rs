//! gRPC's budget: tokens that failures take and successes return.

use super::Budget;
use super::ratio::Ratio;
use super::tokens::Tokens;
use crate::out_of_range::{OutOfRange, check};
use crate::sync::const_unless_loom;

/// Thousandths per token.
const TOKEN: u32 = 1_000;

/// gRPC's budget: the "retry throttling" of its proposal A6.
///
/// A failure takes a token and a success returns a part of one. Retries are allowed while more than half of the tokens
/// are left.
///
/// It ignores time: after an outage only successes allow retries again, so a client without calls waits for ever. Use
/// it where gRPC clients in other languages use the same settings.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::retry::{Budget, RetryThrottle};
///
/// static THROTTLE: RetryThrottle = match RetryThrottle::new(10, 0.1) {
///     Ok(throttle) => throttle,
///     Err(_) => panic!("out of range"),
/// };
/// for _ in 0..4 {
///     THROTTLE.failed();
/// }
/// assert!(THROTTLE.try_withdraw()); // 6 of 10 tokens
/// THROTTLE.failed();
/// assert!(!THROTTLE.try_withdraw());
/// THROTTLE.succeeded();
/// assert!(THROTTLE.try_withdraw());
/// ```
#[derive(Debug)]
pub struct RetryThrottle {
    /// In thousandths.
    tokens: Tokens,
    per_success: u32,
}

impl RetryThrottle {
    const_unless_loom! {
        /// Creates a full budget of `max_tokens` tokens, 1 to 1000.
        ///
        /// A success returns `ratio` of a token, 0.0 to 100.0, in thousandths.
        ///
        /// # Errors
        ///
        /// [`OutOfRange`], which names the setting that is out of range.
        pub const fn new(max_tokens: u32, ratio: f64) -> Result<Self, OutOfRange> {
            check!(check_count("max_tokens", max_tokens as u64, 1..=1_000));
            match Ratio::new(ratio) {
                Ok(ratio) => {
                    Ok(Self { tokens: Tokens::full(max_tokens * TOKEN), per_success: ratio.thousandths() })
                }
                Err(error) => Err(error),
            }
        }
    }

    /// Returns the remaining tokens, in thousandths.
    #[must_use]
    pub fn thousandths(&self) -> u32 {
        self.tokens.left()
    }

    /// Returns after how many more failures no retry is allowed, for dashboards; 0 if none is.
    #[must_use]
    pub fn retries_left(&self) -> u32 {
        self.thousandths().saturating_sub(self.tokens.most() / 2).div_ceil(TOKEN)
    }
}

impl Budget for RetryThrottle {
    /// Adds a part of a token, up to the maximum.
    #[inline]
    fn succeeded(&self) {
        self.tokens.add(self.per_success);
    }

    /// Takes a token, or the rest of it.
    #[inline]
    fn failed(&self) {
        self.tokens.take_up_to(TOKEN);
    }

    /// Returns whether more than half of the tokens are left, and takes none.
    #[inline]
    fn try_withdraw(&self) -> bool {
        self.thousandths() > self.tokens.most() / 2
    }
}
