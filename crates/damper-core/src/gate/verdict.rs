//! The facts about a call that has ended.

use super::Ending;
use core::error::Error;
use core::time::Duration;

/// The facts about a call that has ended. Each gate reads from it what it needs.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::breaker;
/// use damper::concurrency::Outcome;
/// use damper::gate::{Ending, Verdict};
///
/// let verdict = Verdict::of(Ending::of_status(503)).with_retry_after(Some(Duration::from_secs(2)));
/// assert_eq!(breaker::Verdict::from(&verdict), breaker::Verdict::RetryAfter(Duration::from_secs(2)));
/// assert_eq!(Outcome::from(&verdict), Outcome::Overloaded);
///
/// let limited = Verdict::of(Ending::of_status(429));
/// assert_eq!(breaker::Verdict::from(&limited), breaker::Verdict::Success);
/// assert_eq!(Outcome::from(&limited), Outcome::Ignored);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Verdict {
    /// How the call ended.
    pub ending: Ending,
    /// The pause that the server asked for.
    pub retry_after: Option<Duration>,
    /// The cost of the call in the units of the limit, if the response told it.
    pub cost: Option<u32>,
    /// Whether a server may have processed the call.
    ///
    /// It is `false` for [`NotSent`](Ending::NotSent), although the server may have seen a part of a request whose own body failed.
    pub may_be_processed: bool,
}

impl Verdict {
    /// Creates a verdict of which nothing but the ending is known.
    #[inline]
    #[must_use]
    pub const fn of(ending: Ending) -> Self {
        Self { ending, retry_after: None, cost: None, may_be_processed: !matches!(ending, Ending::NotSent) }
    }

    /// Creates the verdict on the result of a call: a success, or what [`Ending::of_error`] returns.
    #[inline]
    #[must_use]
    pub fn of_result<T, E: Error + 'static>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::of(Ending::Success),
            Err(error) => Self::of(Ending::of_error(error)),
        }
    }

    /// Sets the pause that the server asked for, for example by `Retry-After`.
    #[inline]
    #[must_use]
    pub const fn with_retry_after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    /// Sets what the call cost.
    #[inline]
    #[must_use]
    pub const fn with_cost(self, cost: u32) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Says that no server can have processed the call.
    ///
    /// It was not sent, or refused unseen, as by HTTP/2's `REFUSED_STREAM`.
    #[inline]
    #[must_use]
    pub const fn unprocessed(self) -> Self {
        Self { may_be_processed: false, ..self }
    }
}

impl From<Ending> for Verdict {
    #[inline]
    fn from(ending: Ending) -> Self {
        Self::of(ending)
    }
}
