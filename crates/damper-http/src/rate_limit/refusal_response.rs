//! The response of a handler that was refused by a gate which it asked itself.

use super::Refused;
use super::refusal_body::plain_text;
use crate::wire::{self, RateLimitHeaders};
use alloc::string::String;
use damper_core::gate::{Refusal, Standing};
use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

/// Makes the response of a server from the refusal of any [gate](damper_core::gate).
///
/// Its status is `429`, `503` or `500` by the [kind](Refusal::kind), with a line of text. It is for handlers that ask a limiter, a breaker or a bulkhead themselves, because no layer can know what a request costs.
///
/// The response has `Retry-After` (whole seconds, rounded up, at least 1) if a wait helps and is known, `RateLimit` and
/// `RateLimit-Policy` if the refusal has a [standing](Refusal::standing), `Cache-Control: no-store`, and the mark of [`Refused`].
///
/// # Examples
///
/// A handler of axum that pays for its searches, of which a request has between none and twenty:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub use damper_http::wire; }
/// use damper::http::refusal_response;
/// use damper::{Quota, RateLimiter};
/// use http::Response;
///
/// static SEARCHES: RateLimiter = RateLimiter::new(Quota::per_second(100));
///
/// async fn search(words: Vec<String>) -> Result<String, Response<String>> {
///     SEARCHES.check_n(words.len() as u32).map_err(refusal_response)?;
///     Ok(format!("{} results", words.len()))
/// }
///
/// # let denied = RateLimiter::new(Quota::per_hour(1)).check_n(2).unwrap_err();
/// assert_eq!(refusal_response(denied).status(), 429);
/// ```
#[expect(clippy::needless_pass_by_value, reason = "it is the function of a `map_err`")]
pub fn refusal_response(refusal: impl Refusal) -> Response<String> {
    let kind = refusal.kind().http_status();
    let status = StatusCode::from_u16(kind).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = Refused::mark(plain_text(status, &refusal));
    let wait = refusal.retry_after();
    if let Some(Standing { quota, remaining, .. }) = refusal.standing() {
        RateLimitHeaders::default().write(response.headers_mut(), quota, remaining, wait);
    }
    if let Some(wait) = wait {
        response.headers_mut().insert(RETRY_AFTER, wire::retry_after(wait));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit;
    use core::time::Duration;
    use damper_core::quota::Quota;

    #[test]
    fn response_has_the_standing_of_the_refusal() {
        let wait = Duration::from_millis(29_100);
        let standing = Standing::new(Quota::per_minute(2), 0, Some(Duration::from_secs(59)));
        let response = refusal_response(limit::Refusal::from(limit::Limited::new(Some(wait), standing)));
        assert_eq!(response.status(), 429);
        let headers =
            ["retry-after", "ratelimit", "ratelimit-policy"].map(|name| response.headers()[name].to_str().unwrap());
        assert_eq!(headers, ["30", r#""default";r=0;t=30"#, r#""default";q=2;w=60"#]);
    }
}
