//! A server's limit as a client reads it, to pace itself.

use super::rate_limit::{RATE_LIMIT, RATE_LIMIT_POLICY};
use super::reset::{digits, time_until_reset};
use super::string_items::{Malformed, StringItem, read_all};
use core::cmp::Reverse;
use core::time::Duration;
use http::{HeaderMap, HeaderName};
use sfv::{BareItemFromInput, KeyRef, key_ref};

const REMAINING: &KeyRef = key_ref("r");
const RESET: &KeyRef = key_ref("t");
const QUOTA: &KeyRef = key_ref("q");
const WINDOW: &KeyRef = key_ref("w");
const UNIT: &KeyRef = key_ref("qu");
const PARTITION: &KeyRef = key_ref("pk");

/// The headers of a limit of requests: the requests left, the limit and the reset.
struct Names {
    remaining: HeaderName,
    limit: HeaderName,
    reset: HeaderName,
}

/// Makes names of what a service begins and ends them with.
macro_rules! names {
    ($prefix:literal, $suffix:literal) => {
        Names {
            remaining: HeaderName::from_static(concat!($prefix, "remaining", $suffix)),
            limit: HeaderName::from_static(concat!($prefix, "limit", $suffix)),
            reset: HeaderName::from_static(concat!($prefix, "reset", $suffix)),
        }
    };
}

/// Older drafts, then the names that GitHub and many others have, then the same spelled apart.
static CUSTOM: [Names; 3] = [names!("ratelimit-", ""), names!("x-ratelimit-", ""), names!("x-rate-limit-", "")];

/// The headers of a service that counts requests and other units.
struct OfService {
    requests: Names,
    others: &'static [Names],
}

static OF_REQUESTS_AND_TOKENS: [OfService; 2] = [
    OfService { requests: names!("x-ratelimit-", "-requests"), others: &OPENAI_TOKENS },
    OfService { requests: names!("anthropic-ratelimit-requests-", ""), others: &ANTHROPIC_TOKENS },
];

static OPENAI_TOKENS: [Names; 1] = [names!("x-ratelimit-", "-tokens")];

static ANTHROPIC_TOKENS: [Names; 3] = [
    names!("anthropic-ratelimit-tokens-", ""),
    names!("anthropic-ratelimit-input-tokens-", ""),
    names!("anthropic-ratelimit-output-tokens-", ""),
];

/// The beginnings of all names above, and of `RateLimit`.
const BEGINNINGS: [&str; 3] = ["ratelimit", "x-rate", "anthropic-ratelimit-"];

/// A server's limit in a response: the tokens left, and how long they have to do.
///
/// A client that reads it can slow down before it is refused. A `Retry-After` in the same response counts more: read it
/// with [`retry_after_in`](super::retry_after_in).
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use core::time::Duration;
/// use damper::wire::{RATE_LIMIT, RATE_LIMIT_POLICY, RateLimitStatus};
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new(); // of a response
/// headers.insert(RATE_LIMIT_POLICY, HeaderValue::from_static(r#""hour";q=1000;w=3600"#));
/// headers.insert(RATE_LIMIT, HeaderValue::from_static(r#""hour";r=20;t=60"#));
///
/// let status = RateLimitStatus::in_headers(&headers).unwrap();
/// assert_eq!((status.remaining, status.limit), (20, Some(1000)));
/// assert_eq!(status.pace(), Some(Duration::from_secs(3))); // 20 requests in the next minute
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RateLimitStatus {
    /// The requests that are left.
    pub remaining: u64,
    /// The time until there are more; `None` if the server does not say.
    pub resets_in: Option<Duration>,
    /// The requests that are allowed in each window; `None` if the server does not say.
    pub limit: Option<u64>,
    /// The window, in whole seconds; `None` if the server does not say.
    pub window: Option<Duration>,
}

impl RateLimitStatus {
    /// Reads the headers of a response; `None` if they say nothing of a limit, or what they say is malformed.
    ///
    /// | headers | read as |
    /// |---|---|
    /// | `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers) | of several limits the one with the fewest requests left, and of these the one that resets last. Limits whose policy counts something else than requests are left out |
    /// | else `RateLimit-Remaining`, `-Limit` and `-Reset` (older drafts), else `X-RateLimit-*` (GitHub and many others), else `X-Rate-Limit-*` | the reset is seconds from now, or from 1,000,000,000 on a date in seconds of Unix time, as of the header `Date` or else of the system's clock |
    /// | else `x-ratelimit-remaining-requests`, `-limit-` and `-reset-` (`OpenAI`) | the reset is a duration such as `6m0s`. A limit of `-tokens` counts where none are left |
    /// | else `anthropic-ratelimit-requests-remaining`, `-limit` and `-reset` (Anthropic) | the reset is a date of RFC 3339. A limit of `tokens`, `input-tokens` or `output-tokens` counts where none are left |
    ///
    /// Each of these forms of a reset is read in each of the headers but `RateLimit`. Stripe has no header with what remains, so it is
    /// paced by its 429.
    ///
    /// A header that is malformed anywhere, or has more than 32 members, is ignored as a whole. A malformed `RateLimit-Policy` leaves the limit unknown, a
    /// malformed `RateLimit` counts as absent.
    #[must_use]
    pub fn in_headers(headers: &HeaderMap) -> Option<Self> {
        // Most responses have none of these headers: one pass over their names costs a fraction of ten look-ups.
        if !headers.keys().any(|name| BEGINNINGS.iter().any(|beginning| name.as_str().starts_with(beginning))) {
            return None;
        }
        let custom = || CUSTOM.iter().find_map(|names| Self::of_names(headers, names));
        Self::of_draft(headers).or_else(custom).or_else(|| Self::of_requests_and_tokens(headers))
    }

    fn of_draft(headers: &HeaderMap) -> Option<Self> {
        let limits = read_all(headers, &RATE_LIMIT, Left::read)?;
        let policies = read_all(headers, &RATE_LIMIT_POLICY, Policy::read).unwrap_or_default();
        let of_requests = limits.iter().filter_map(|left| {
            let policy = policies.iter().find(|policy| policy.name == left.name);
            policy.is_none_or(|policy| policy.counts_requests).then_some((left, policy))
        });
        let (left, policy) = of_requests.min_by_key(|(left, _)| (left.remaining, Reverse(left.resets_in)))?;
        Some(Self {
            remaining: left.remaining,
            resets_in: left.resets_in,
            limit: policy.map(|policy| policy.quota),
            window: policy.and_then(|policy| policy.window),
        })
    }

    fn of_names(headers: &HeaderMap, Names { remaining, limit, reset }: &Names) -> Option<Self> {
        Some(Self {
            remaining: text(headers, remaining).and_then(digits)?,
            resets_in: text(headers, reset).and_then(|value| time_until_reset(value, headers)),
            // Some of the older drafts list the windows after the limit: `10, 10;w=1, 50;w=60`.
            limit: text(headers, limit).and_then(|value| digits(value.split([',', ';']).next()?.trim_ascii())),
            window: None,
        })
    }

    /// Reads a limit of requests, and one of tokens where none are left.
    ///
    /// Otherwise the number of tokens says nothing of that of requests.
    fn of_requests_and_tokens(headers: &HeaderMap) -> Option<Self> {
        OF_REQUESTS_AND_TOKENS.iter().find_map(|service| {
            let empty = service.others.iter().filter_map(|names| Self::of_names(headers, names));
            let empty = empty.filter(|status| status.remaining == 0).map(|status| Self { limit: None, ..status });
            let requests = Self::of_names(headers, &service.requests);
            requests.into_iter().chain(empty).min_by_key(|status| (status.remaining, Reverse(status.resets_in)))
        })
    }

    /// Returns the interval between requests that uses up the tokens left just when there are more.
    ///
    /// The whole time if none are left. `None` if the server does not say how long they have to do.
    #[must_use]
    pub fn pace(&self) -> Option<Duration> {
        let parts = u32::try_from(self.remaining.max(1)).unwrap_or(u32::MAX);
        self.resets_in.map(|time| time / parts)
    }
}

/// Returns the only value of a header.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    Some(value.to_str().ok()?.trim_ascii())
}

/// A member of `RateLimit`.
struct Left {
    name: sfv::String,
    remaining: u64,
    resets_in: Option<Duration>,
}

impl Left {
    fn read(item: &StringItem<'_>) -> Result<Self, Malformed> {
        check_partition(item)?;
        let (remaining, reset) = (item.number(REMAINING)?.ok_or(Malformed)?, item.number(RESET)?);
        Ok(Self { name: item.string.clone().into_owned(), remaining, resets_in: reset.map(Duration::from_secs) })
    }
}

/// A member of `RateLimit-Policy`.
struct Policy {
    name: sfv::String,
    quota: u64,
    window: Option<Duration>,
    counts_requests: bool,
}

impl Policy {
    fn read(item: &StringItem<'_>) -> Result<Self, Malformed> {
        check_partition(item)?;
        let counts_requests = match item.get(UNIT) {
            None => true,
            Some(BareItemFromInput::String(unit)) => unit.as_str() == "requests",
            Some(_) => return Err(Malformed),
        };
        let (quota, window) = (item.number(QUOTA)?.ok_or(Malformed)?, item.number(WINDOW)?);
        if window == Some(0) {
            return Err(Malformed);
        }
        let name = item.string.clone().into_owned();
        Ok(Self { name, quota, window: window.map(Duration::from_secs), counts_requests })
    }
}

/// Checks the partition key, which is optional.
fn check_partition(item: &StringItem<'_>) -> Result<(), Malformed> {
    match item.get(PARTITION) {
        None | Some(BareItemFromInput::ByteSequence(_)) => Ok(()),
        Some(_) => Err(Malformed),
    }
}
