//! The answer that a gate would give, without being asked.

use super::Standing;

/// The answer that a gate would give to a call now.
///
/// [`Ask::forecast`](super::Ask::forecast) returns it. Nothing is taken, counted or written for it, so any number of forecasts changes no later
/// decision. It is true as long as nothing else happens: another thread may take the last token before the call is made.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::gate::{Ask, Forecast};
/// use damper::{ManualClock, Quota, RateLimiter};
/// use core::time::Duration;
///
/// let limiter = RateLimiter::with_clock(Quota::per_minute(6).burst(1), ManualClock::new());
/// assert!(matches!((&limiter).forecast("a call"), Forecast::Pass(_)));
/// assert!((&limiter).ask("a call").is_pass(), "the token is still there");
/// let Forecast::Refuse(denied) = (&limiter).forecast("another") else { panic!("it would be refused") };
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forecast<R> {
    /// The call would pass. If the gate has a quota, this is its standing before the call.
    Pass(Option<Standing>),
    /// The call would wait for its turn, and may be refused later.
    Wait,
    /// The call would be refused.
    Refuse(R),
    /// The gate cannot say without deciding, because it decides by chance or elsewhere.
    Unknown,
}

impl<R> Forecast<R> {
    /// Changes the refusal.
    pub fn map<R2>(self, change: impl FnOnce(R) -> R2) -> Forecast<R2> {
        match self {
            Self::Pass(standing) => Forecast::Pass(standing),
            Self::Wait => Forecast::Wait,
            Self::Refuse(refusal) => Forecast::Refuse(change(refusal)),
            Self::Unknown => Forecast::Unknown,
        }
    }
}

/// The call passes unless there is a refusal.
impl<R> From<Option<R>> for Forecast<R> {
    fn from(refusal: Option<R>) -> Self {
        refusal.map_or(Self::Pass(None), Self::Refuse)
    }
}
