//! Minorities: the most that a few callers can do to all others.
//!
//! A limit per client decides on each client alone. Everything else decides for many callers at once: an adaptive limit, a
//! breaker per host, a retry budget, a full table of keys. This page says for each what a few callers that are greedy, broken
//! or hostile were seen to do to the others, and what helps.
//!
//! The figures are of simulations and of real servers. `tests/minorities.rs`, `sim/tests/crowd.rs` and
//! `cargo run --release --example minorities` show them again.
//!
//! # Limits on calls in flight
//!
//! | a minority does | polite callers served, by `AdaptiveLimit` | by a fixed limit |
//! |---|---|---|
//! | 15 % of a client's calls get 429 in 1 ms | 0.62 of 1.5 times the capacity | 0.63 |
//! | 100 calls a second have deadlines of 1 ms, beside 500 | 1.00 | 1.00 |
//! | 150 calls a second go to a path that answers 503 at once, beside 600 | **0.17** | 1.00 |
//! | 500 calls a second succeed in no time, one second on and one off, beside 500 | **0.42** | 1.00 |
//! | 100 calls a second have deadlines of 30 to 60 ms on a path of 300 ms, beside 500 | **0.19** | 1.00 |
//!
//! The adaptive limit takes the replies of one path for those of the whole service. So give paths that answer at once, health
//! checks and cached pages among them, a limit of their own, or `exempt` them. Give slow paths a limit of their own too
//! (`ConcurrencyLayer::adaptive_by` takes one per route). Where callers are not trusted, prefer a fixed
//! [`Bulkhead`](crate::Bulkhead), or set a lowest limit that serves the polite callers
//! ([`LimitBounds`](crate::concurrency::LimitBounds)). A 429, another 4xx and a deadline that was too short are no signs of
//! overload, so they take nothing from others.
//!
//! # Readers that take no data
//!
//! The HTTP layers hold a slot until the body of its response has been read. Twenty connections that read nothing, or one of
//! HTTP/2 with a window of 0, took all of 20 slots:
//!
//! | the layers | slots usable while the connections stay open |
//! |---|---|
//! | a deadline outside, until it has passed | 0 of 20 |
//! | a deadline outside, after it has passed | 20 of 20, over HTTP/1 and HTTP/2, `ConcurrencyLayer` and `AdmissionLayer` |
//! | no deadline, a stall limit, once it has passed | 20 of 20 |
//! | neither | 0 of 20, for as long as the connections live |
//!
//! A slot is freed at the deadline of its call, whether or not anyone reads, and the handler's body is dropped with it. A stall
//! limit (`ConcurrencyLayer::stall_limit`) bounds how long one frame may wait for its reader; `server_stack` has one of
//! 30 s. Both need tokio. The connection itself stays until the server or the client closes it, so set the server's own limits
//! of connections and streams too.
//!
//! # Admission
//!
//! A tenant that asks for twenty times its share takes nothing from the others: 97 % of their calls were admitted beside it. The
//! same caller with a new name in each call left them **1 %**. So a tenant is a name that was verified. Without one, leave the
//! tenant out.
//!
//! # Breakers and throttles
//!
//! | a minority does | the others |
//! |---|---|
//! | ten calls with a deadline of 1 ms, once | none refused: a deadline counts only if it left the host its usual time |
//! | a sixth of a host's calls fail, at random | five in a row fail now and then, which opens the default breaker for 30 s: take a [failure rate](super::breakers) where there are many calls |
//! | 500 calls a second to 1,000 dead hosts, in a store of 100 breakers | their breakers work as without it: open ones are kept |
//!
//! A host that hangs from the start of the process opens its breaker only by deadlines of a second or more, because nothing is
//! known of it. `CircuitBreakerLayer::min_budget` sets another time.
//!
//! An [adaptive throttle](super::throttles) refuses calls of all callers alike. It ignores 429, which is about one tenant's quota: counted, a
//! tenant beyond its quota with 60 % of the calls left the others 21 % of theirs, and one with 80 % left them 3 %. Where a
//! service rejects a part of the calls by 503 for reasons of its own, it refuses at most a fifth more than that part:
//!
//! | the service accepts | calls that are sent |
//! |---|---|
//! | 50 % | 98 % |
//! | 45 % | 25 %; by the formula alone 3 to 6 % |
//! | 30 % | 10 % |
//!
//! A larger [`multiplier`](crate::throttle::AdaptiveThrottle::multiplier) or
//! [`max_refused`](crate::throttle::AdaptiveThrottle::max_refused) helps where such a part is usual.
//!
//! # Retry budgets
//!
//! Callers whose calls always fail use up the budget that they share with others:
//!
//! | share of calls that always fail | retries of the others that are allowed |
//! |---|---|
//! | 10 % | 100 % |
//! | 15 % | 98 % |
//! | 20 % | 85 % |
//! | 30 % | 60 % |
//!
//! With one budget per host (`http::RetryLayer::budget_per_host`) a host that fails takes nothing from other hosts.
//!
//! # Quotas
//!
//! A limiter that a program uses for all clients together is used up by the greediest one. Put a limit per client outside.
//!
//! A [reservation](crate::RateLimiter::reserve) gives back what it did not use, whenever it is settled. Ten reservations of a
//! whole burst each, settled unused at one instant, let 11,000 tokens of a quota of 1,000 a minute pass in that instant. Where
//! clients choose the estimates, reserve less than a burst, and settle soon.
//!
//! A tenant's quota also pays for requests that an inner layer refuses, because the server is overloaded, for example. Count
//! its retries before you lower its quota.
//!
//! # Keys
//!
//! [`full_table`](super::full_table) has the figures of a crowd of new keys. Tiers that nobody uses cost nothing, and a flood of
//! one tier takes nothing from another.
