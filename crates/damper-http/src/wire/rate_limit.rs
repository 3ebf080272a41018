//! The headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers).
//!
//! They are lists of structured fields (RFC 9651) with an item for each limit.

use super::policies::Policies;
use super::retry_after::whole_seconds;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use damper_core::InvalidText;
use damper_core::quota::Quota;
use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{Integer, ItemSerializer, StringRef};

/// The name of the header `RateLimit-Policy`: what is allowed.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The name of the header `RateLimit`, which says what remains.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

const DEFAULT_NAME: &StringRef = StringRef::constant("default");

/// The largest integer of RFC 9651.
const LARGEST_INTEGER: u128 = 999_999_999_999_999;

// Parameters, as they are written.
const QUOTA: &str = ";q=";
const WINDOW: &str = ";w=";
const REMAINING: &str = ";r=";
const RESET: &str = ";t=";

/// Writes what a limit allows and what remains of it as `RateLimit-Policy` and `RateLimit`.
///
/// | parameter | what it says |
/// |---|---|
/// | `q` | the tokens that are refilled in `w` seconds |
/// | `w` | whole seconds; absent where nothing is refilled |
/// | `r` | the tokens that are left, rounded down |
/// | `t` | the seconds until the burst is full if nothing is taken, rounded up; absent if it never will be |
///
/// The draft's `q` is what is allotted per window `w`. A bucket has no windows, so the two state its rate:
///
/// | the burst is refilled in | `q` | `w` | such as |
/// |---|---|---|---|
/// | a second or more | the burst ([`Quota::burst_size`]) | that time, rounded up | 50/s with a burst of 100: `q=100;w=2` |
/// | less than a second | the quota's limit | its window | 1000/s with a burst of 50: `q=1000;w=1` |
///
/// A window that is no whole number of seconds is stated as the same rate over the fewest seconds that make it exact
/// (10 in 250 ms are `q=40;w=1`), or else over a minute at least, rounded down. A client may rely on `q` tokens in
/// every `w` seconds if it takes them evenly; `q` and `w` never promise more than the quota.
///
/// Nothing is written of [`Quota::UNLIMITED`].
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
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
    policies: Policies,
}

/// By their names.
impl PartialEq for RateLimitHeaders {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RateLimitHeaders {}

impl RateLimitHeaders {
    /// Creates headers with the name by which clients distinguish a server's limits. Default: `default`.
    ///
    /// # Errors
    ///
    /// [`InvalidText`] if the name has anything but printable ASCII: it has to be a string of RFC 9651.
    pub fn new(name: &str) -> Result<Self, InvalidText> {
        match StringRef::from_str(name) {
            Ok(name) => Ok(Self::of(name)),
            Err(_) => Err(InvalidText::new("the name of a limit", name, "of printable ASCII only")),
        }
    }

    fn of(name: &StringRef) -> Self {
        Self {
            name: name.to_owned(),
            item: ItemSerializer::new().bare_item(name).finish(),
            policies: Policies::default(),
        }
    }

    /// The name of the limit.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns an item with the name and whole seconds, if any: `"default";t=3`.
    pub(crate) fn item_with_wait(&self, wait: Option<Duration>) -> String {
        match wait.map(whole_seconds).filter(|seconds| Integer::try_from(*seconds).is_ok()) {
            Some(seconds) => format!("{}{RESET}{seconds}", self.item),
            None => self.item.clone(),
        }
    }

    /// Adds an item for this limit to both headers.
    ///
    /// `remaining` and `resets_in` are what the answer of a check says. With a refusal's `Retry-After`, pass
    /// [`retry_after`](damper_core::Denied::retry_after) for `resets_in`: the draft wants both to name the same moment.
    /// Of an algorithm that counts in windows, and to which a burst means nothing, pass `quota.burst(quota.limit())`.
    ///
    /// Items of other limits stay; the draft forbids two of the same name. A map that is full is left as it is.
    pub fn write(&self, headers: &mut HeaderMap, quota: Quota, remaining: u32, resets_in: Option<Duration>) {
        if quota.is_unlimited() {
            return;
        }
        // Unlike `append`, this does not panic when the map is full. To reserve room for two would make an empty map too
        // small for what others add.
        let policy = self.policies.get(quota, |quota| {
            let (tokens, seconds) = stated(quota);
            self.item(QUOTA, tokens, WINDOW, seconds)
        });
        if let Some(policy) = policy {
            let _ = headers.try_append(RATE_LIMIT_POLICY, policy);
        }
        if let Some(left) = self.item(REMAINING, remaining.into(), RESET, resets_in.map(whole_seconds)) {
            let _ = headers.try_append(RATE_LIMIT, left);
        }
    }

    /// An item with a parameter of tokens, and one of seconds if there are some.
    ///
    /// RFC 9651 has an integer for up to 31 million years. Always a value, for it is printable ASCII.
    fn item(&self, amount: &str, tokens: u64, time: &str, seconds: Option<u64>) -> Option<HeaderValue> {
        let (mut token_digits, mut second_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let tokens = token_digits.format(tokens);
        let (time, seconds) = match seconds {
            Some(seconds) if Integer::try_from(seconds).is_ok() => (time, second_digits.format(seconds)),
            _ => ("", ""),
        };
        let pieces = [self.item.as_str(), amount, tokens, time, seconds];
        // Exactly as long as what is in it, so that the value takes it as it is.
        let mut item = String::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
        item.extend(pieces);
        HeaderValue::try_from(item).ok()
    }
}

/// The tokens `q` and the seconds `w` that state a quota.
fn stated(quota: Quota) -> (u64, Option<u64>) {
    match quota.refill_window() {
        // Nothing is refilled, or there is no room for it.
        None | Some(Duration::ZERO) => (quota.burst_size().into(), None),
        Some(refill) if refill < Duration::from_secs(1) => {
            let (tokens, seconds) = rate_of(quota);
            (tokens, Some(seconds))
        }
        Some(refill) => (quota.burst_size().into(), Some(whole_seconds(refill))),
    }
}

/// The tokens that a quota refills in whole seconds, and the number of seconds.
///
/// They are never more than its rate.
fn rate_of(quota: Quota) -> (u64, u64) {
    const SECOND: u128 = 1_000_000_000;
    const MINUTE: u128 = 60;
    let (limit, window) = (u128::from(quota.limit()), quota.window().as_nanos());
    // Below 2^62. In `window` seconds this many tokens are refilled.
    let per_window = limit * SECOND;
    let seconds = if window.is_multiple_of(SECOND) {
        window / SECOND
    } else {
        match window / greatest_common_divisor(per_window, window) {
            exact @ ..=MINUTE => exact,
            _ => window.div_ceil(SECOND).max(MINUTE),
        }
    };
    // A product below 2^97.
    let tokens = (per_window * seconds / window).min(LARGEST_INTEGER);
    (tokens as u64, seconds as u64)
}

/// By Euclid; the second is not 0.
fn greatest_common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// By the name `default`.
impl Default for RateLimitHeaders {
    fn default() -> Self {
        Self::of(DEFAULT_NAME)
    }
}
