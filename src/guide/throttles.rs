//! Throttles: a client holds back calls that an overloaded service would reject.
//!
//! A service pays for each call that it rejects: it accepts a connection, parses a request and writes a response. With enough
//! clients it does little else. An [`AdaptiveThrottle`](crate::throttle::AdaptiveThrottle) stands in the client, sees how many of its calls
//! the service accepts, and refuses most of those that would be rejected. It is the adaptive throttling of the chapter "Handling
//! Overload" in Google's SRE book.
//!
//! # Choosing a throttle
//!
//! | the service | take | because |
//! |---|---|---|
//! | rejects a part of the calls with 429 or 503 | a throttle | it refuses as large a part as the service rejects, and no more |
//! | is down, or answers none in time | a [breaker](super::breakers) | it refuses all calls for a set time, and then sends a probe |
//! | says how many calls it allows | a [rate limit](super::rates) at the client | no call has to be rejected to find out |
//! | becomes slow instead of rejecting | an [adaptive limit](super::concurrency) at the client | latency rises before calls fail |
//!
//! Throttle and breaker work together: the breaker is outside, the throttle counts every attempt inside of the retries.
//!
//! # The rule
//!
//! The throttle counts the client's calls of the last 30 s that have ended, and refuses a call with the probability
//!
//! ```text
//! (requests − multiplier · accepted) / (requests + 1)
//! ```
//!
//! Calls that it refused itself count as requests. With the default multiplier of 2 it refuses nothing while the service accepts half of
//! the calls, and beyond that about one rejected call is sent for each accepted one. A smaller
//! [`multiplier`](crate::throttle::AdaptiveThrottle::multiplier) spares the service more, and refuses more calls that would have succeeded.
//!
//! The formula alone is slow to believe in an outage and slow to see its end. So beside it:
//!
//! | | the throttle |
//! |---|---|
//! | outage: none of 10 or more verdicts of the last 5 s accepted | sends 1 % of the calls |
//! | recovery: 90 % of 3 or more such verdicts accepted | doubles the share that it sends each second |
//! | nothing was sent for a second | sends the next call |
//!
//! In the simulation, clients of 5, 100 and 2,000 calls a second refused fewer than one in a thousand calls of a service that accepts 90 %. In an outage they
//! sent at most one call a second above 1 %. After it they had 95 % of their calls accepted within 11 s. (`concurrency --bars` of
//! [the simulation](super::concurrency#what-the-simulation-showed) has the figures.)
//!
//! # Using one
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! use damper::throttle::AdaptiveThrottle;
//!
//! static SEARCH: AdaptiveThrottle = AdaptiveThrottle::new();
//!
//! /// Asks the search service, and returns the status of its response.
//! fn search(ask: impl FnOnce() -> u16) -> Result<u16, damper::throttle::Throttled> {
//!     let permit = SEARCH.try_acquire()?; // Err: not sent, and `retry_after()` says when to try again
//!     let status = ask();
//!     match status {
//!         429 | 502..=504 => permit.rejected(),
//!         _ => permit.accepted(), // 404 and 500 too: the service did the work
//!     }
//!     Ok(status)
//! }
//! # assert_eq!(search(|| 200).unwrap(), 200);
//! ```
//!
//! Record as rejected what overload causes: 429, 503, a timeout, no connection. An answer that says no is accepted. A dropped
//! permit says nothing. Calls in flight are not counted, so put a timeout on them: a service that never answers looks healthy
//! until they end.
//!
//! Use one throttle per service, or per host with [`KeyedThrottle`](crate::throttle::KeyedThrottle).
//!
//! # Layers
//!
//! | client | layer |
//! |---|---|
//! | HTTP: hyper-util, reqwest | `http::ThrottleLayer::per_host()`; statuses, deadlines and dropped calls are judged |
//! | gRPC: a `Channel` of tonic | the same with `.completion(tonic::AtTrailers::rejections())`, which reads the status where gRPC puts it |
//! | any tower service: a database | `tower::ThrottleLayer`, for which every `Err` is a rejection unless `classify` says otherwise |
//!
//! `http::client_stack` and [the order around a client](super::retries) put it inside of the retries and outside of the limits.
