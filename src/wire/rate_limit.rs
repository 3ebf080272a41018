//! The headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers), lists of structured fields
//! (RFC 9651) with an item for each limit.

use super::seconds::whole_seconds;
use crate::quota::Quota;
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::time::Duration;
use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, ItemSerializer, StringRef};
use std::sync::OnceLock;

/// The name of the header `RateLimit-Policy`: what is allowed.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The name of the header `RateLimit`: what is left.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const DEFAULT_NAME: &StringRef = StringRef::constant("default");

// Parameters, as they are written.
const QUOTA: &str = ";q=";
const WINDOW: &str = ";w=";
const REMAINING: &str = ";r=";
const RESET: &str = ";t=";

/// Tells clients what a limit allows, and what is left of it, by `RateLimit-Policy` and `RateLimit`.
///
/// | parameter | what it says |
/// |---|---|
/// | `q` | [`Quota::capacity`]: so many tokens at once, when all are there |
/// | `w` | the seconds in which `q` tokens are refilled, rounded up; absent where they never are |
/// | `r` | the tokens that are left, rounded down |
/// | `t` | the seconds until all of `q` is there if nothing is taken, rounded up; absent if it never will be |
///
/// The draft's `q` is what is allotted per window `w`. A bucket has no windows: 50 tokens a second with a burst of 100
/// are told as `q=100;w=2`, which is their rate. A client may rely on `q` tokens in every `w` seconds if it takes them
/// evenly, and on `q` at once after `t` seconds of silence. A window of less than a second is told as a second, which
/// says less than what is allowed; nothing that is told is more.
///
/// Nothing is written of [`Quota::UNLIMITED`].
///
/// # Examples
///
/// ```
/// use damper::wire::{RATE_LIMIT, RATE_LIMIT_POLICY, RateLimitHeaders};
/// use damper::{ManualClock, Quota, RateLimiter};
/// use http::HeaderMap;
///
/// let quota = Quota::per_minute(100);
/// let limiter = RateLimiter::with_clock(quota, ManualClock::new());
/// let allowed = limiter.check_n(50)?;
///
/// let mut headers = HeaderMap::new();
/// RateLimitHeaders::default().write(&mut headers, quota, allowed.remaining(), allowed.resets_in());
/// assert_eq!(headers[RATE_LIMIT_POLICY], r#""default";q=100;w=60"#);
/// assert_eq!(headers[RATE_LIMIT], r#""default";r=50;t=30"#);
/// # Ok::<(), damper::Denied>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateLimitHeaders {
    name: sfv::String,
    /// As it is written.
    item: String,
    /// The policy's item of the first quota that was told, which mostly is the only one.
    policy: OnceLock<(Quota, Option<HeaderValue>)>,
}

/// By their names.
impl PartialEq for RateLimitHeaders {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RateLimitHeaders {}

impl RateLimitHeaders {
    /// For the limit of this name, by which clients tell the limits of a server apart. Default: `default`.
    ///
    /// # Errors
    ///
    /// [`RateLimitNameError`] if the name has anything but printable ASCII: it has to be a string of RFC 9651.
    pub fn new(name: &str) -> Result<Self, RateLimitNameError> {
        match StringRef::from_str(name) {
            Ok(name) => Ok(Self::of(name)),
            Err(_) => Err(RateLimitNameError(name.to_owned())),
        }
    }

    fn of(name: &StringRef) -> Self {
        Self { name: name.to_owned(), item: ItemSerializer::new().bare_item(name).finish(), policy: OnceLock::new() }
    }

    /// The name of the limit.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Adds an item for this limit to both headers.
    ///
    /// `remaining` and `resets_in` are what the answer of a check says. With a refusal's `Retry-After`, pass
    /// [`retry_after`](crate::Denied::retry_after) for `resets_in`: the draft wants both to name the same moment.
    /// Of an algorithm that counts in windows, and to which a burst means nothing, pass `quota.burst(quota.limit())`.
    ///
    /// Items of other limits stay; the draft forbids two of the same name. A map that is full is left as it is.
    pub fn write(&self, headers: &mut HeaderMap, quota: Quota, remaining: u32, resets_in: Option<Duration>) {
        if quota.is_unlimited() {
            return;
        }
        // Unlike `reserve` and `append`, these do not panic when the map is full.
        let _ = headers.try_reserve(2);
        if let Some(policy) = self.policy(quota) {
            let _ = headers.try_append(RATE_LIMIT_POLICY, policy);
        }
        if let Some(left) = self.item(REMAINING, remaining, RESET, resets_in) {
            let _ = headers.try_append(RATE_LIMIT, left);
        }
    }

    fn policy(&self, quota: Quota) -> Option<HeaderValue> {
        let item = || self.item(QUOTA, quota.capacity(), WINDOW, quota.refill_window());
        let (first, told) = self.policy.get_or_init(|| (quota, item()));
        if *first == quota { told.clone() } else { item() }
    }

    /// An item with a parameter of tokens, and one of seconds if there are some and RFC 9651 has an integer for them
    /// (31 million years). Always a value, for it is printable ASCII.
    fn item(&self, amount: &str, tokens: u32, time: &str, duration: Option<Duration>) -> Option<HeaderValue> {
        let (mut token_digits, mut second_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (item, tokens) = (self.item.as_str(), token_digits.format(tokens));
        // Exactly as long as what is in it, so that the value takes it as it is.
        let item = match duration.map(whole_seconds) {
            Some(seconds) if Integer::try_from(seconds).is_ok() => {
                [item, amount, tokens, time, second_digits.format(seconds)].concat()
            }
            _ => [item, amount, tokens].concat(),
        };
        HeaderValue::try_from(item).ok()
    }
}

/// By the name `default`.
impl Default for RateLimitHeaders {
    fn default() -> Self {
        Self::of(DEFAULT_NAME)
    }
}

/// The name of a limit which has characters that a header cannot carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimitNameError(String);

impl RateLimitNameError {
    /// The name that was refused.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RateLimitNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a limit is {:?}, it must be of printable ASCII only", self.0)
    }
}

impl core::error::Error for RateLimitNameError {}
