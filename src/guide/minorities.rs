//! Minorities: the most that a few callers can do to all others.
//!
//! A limit per client decides on each client alone. Everything else decides for many callers at once: an adaptive limit, a
//! breaker per host, a retry budget, a full table of keys. This page says for each what a few callers that are greedy, broken
//! or hostile were seen to do to the others, and what helps.
//!
//! The figures are of simulations and of real servers. `tests/stack/minorities.rs`, `sim/tests/sim/crowd.rs`, `sim/tests/sim/minorities.rs` and
//! `cargo run --release -p damper-examples --example minorities` show them again.
//!
//! # Limits on calls in flight
//!
//! Polite callers get this part of what the best fixed limit gives them, in simulations of 20 workers at three seeds:
//!
//! | a minority does | [`ProbedGradient`](crate::concurrency::ProbedGradient) | [`Gradient2`](crate::concurrency::compared::Gradient2) | [`Vegas`](crate::concurrency::compared::Vegas) | [`Aimd`](crate::concurrency::compared::Aimd) |
//! |---|---|---|---|---|
//! | 15 % of the replies are a 503 in 1 ms, at three times the capacity | 0.99 | 0.05 | 0.07 | 0.26 |
//! | 34 % of the replies are a 503 in 1 ms, at half of the capacity | 0.99 | 0.09 | 0.09 | 0.26 |
//! | 2,000 calls a second succeed in 0.1 ms, one second on and one off, beside 700 | 0.99 | 0.80 | 1.00 | 0.99 |
//! | calls of 2 ms and 200 ms in turns of 5 s, nobody else | 0.93 | 0.96 | 0.94 | 0.99, but 100 times as slow |
//! | 100 calls a second have deadlines of 30 ms on a path of 300 ms, beside 500 | 0.99 | 0.07 | 0.08 | 0.38 |
//! | nothing, but the clock has ticks of 10 ms, and calls take 20 ms | 0.99 | 0.87 | 0.81 | 1.00, but 12 times as slow |
//!
//! `cargo run --release -p damper-sim -- minorities --all` prints 92 such services. `ProbedGradient` is below 0.85 in four of them:
//!
//! | a minority does | polite callers |
//! |---|---|
//! | 503s in bursts of 1 s *and* cheap calls in bursts of 1.7 s, at twice the capacity | **0.05** |
//! | 2,000 calls of 2 ms a second in turns of 1 s, beside calls of constant length for 1.5 times the capacity | **0.12** |
//! | 500 calls of 1 ms a second in turns of 2 s, beside 1.5 times the capacity | 0.68 |
//! | 500 cheap calls a second in turns of 1 s, beside 500 | 0.76 and 0.84 in two of twenty runs, from 0.94 in the others |
//!
//! One limit cannot tell a mix of calls that changes as fast as it measures from a queue that comes and goes. So give paths that
//! answer at once, health checks and cached pages among them, a limit of their own, or `exempt` them. Give slow paths a limit of
//! their own too (`ConcurrencyLayer::adaptive_by` takes one per route). Record a 4xx as ignored and not as a success: a client can
//! ask for it at will. Where callers are not trusted, prefer a fixed [`Bulkhead`](crate::Bulkhead), or set a lowest limit that
//! serves the polite callers ([`LimitBounds`](crate::concurrency::LimitBounds)). A 429, another 4xx and a deadline that was too
//! short are no signs of overload, so they take nothing from others.
//!
//! Over real sockets and through the real layers (`cargo run --release -p damper-examples --example minorities`), as shares of the polite work:
//!
//! | a minority does | served by `AdaptiveLimit` | by a fixed limit |
//! |---|---|---|
//! | 15 % of a client's calls get 429 in 1 ms | 0.61 of 1.5 times the capacity | 0.62 |
//! | 100 calls a second have deadlines of 1 ms, beside 500 | 1.00 | 1.00 |
//! | 150 calls a second go to a path that answers 503 at once, beside 600 | 0.99 | 1.00 |
//! | the same, before an adaptive admission | 1.00 | 1.00 |
//! | 500 calls a second succeed in no time, one second on and one off, beside 500 | 0.95 | 1.00 |
//! | calls of 5 ms and 200 ms in turns of 2 s | 0.87 | 0.89 |
//! | 100 calls a second have deadlines of 30 to 60 ms on a path of 300 ms, beside 500 | 0.97 | 1.00 |
//!
//! Overloaded replies that other clients of a service cause look like those that do not depend on the load. Ten clients that share an
//! overloaded service keep limits of 20 to 25 each, where their calls fill it at 5. A [throttle](super::throttles) is for that.
//!
//! # A greedy tenth and a quota
//!
//! Ten of 100 callers are far over a quota that the other ninety keep, before an admission that knows no tenants. The polite ones make calls for
//! 0.6 of the capacity. The limit [marks](super::trying#marks-instead-of-refusals) the calls over the quota and gives them the lowest class, or
//! refuses them, or is absent. These shares of the calls are answered in time, at the worst of three seeds (`sim/tests/sim/marks.rs`):
//!
//! | the limit | polite, with greedy calls for 2.4 of the capacity | greedy | polite, with 0.3 of the capacity | greedy |
//! |---|---|---|---|---|
//! | is absent | 0.32 | 0.33 | 0.99 | 0.99 |
//! | marks | 0.98 | 0.16 | 0.99 | 0.98 |
//! | refuses | 0.99 | 0.04 | 0.99 | 0.33 |
//!
//! So a mark protects the others as a refusal does, and takes nothing while the server has room.
//!
//! # Readers that take no data
//!
//! The HTTP layers hold a slot until the body of its response has been read. Twenty connections that read nothing, or one of
//! HTTP/2 with a window of 0, took all of 20 slots:
//!
//! | the layers | slots usable while the connections stay open |
//! |---|---|
//! | a deadline outside, until it has passed | 0 of 20 |
//! | a deadline outside, after it has passed | at least 19 of 20, over HTTP/1 and HTTP/2, `ConcurrencyLayer` and `AdmissionLayer` |
//! | no deadline, a stall limit, once it has passed | at least 19 of 20 |
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
//! whole burst each, settled unused at one instant, let 11,000 tokens of a quota of 1,000 a minute pass in that instant. A
//! [`LimitSet`](crate::LimitSet) and a [`QuotaTree`](crate::QuotaTree) bound what is [unsettled](crate::LimitSet::unsettled),
//! so there it is at most 3,000. Where clients choose the estimates, use one of these, or reserve less than a burst and
//! settle soon.
//!
//! A tenant's quota also pays for requests that an inner layer refuses, because the server is overloaded, for example. Count
//! its retries before you lower its quota, or let the limit [give back](crate::http::RateLimitLayer::refund_unserved) half of them.
//!
//! # Keys
//!
//! [`full_table`](super::full_table) has the figures of a crowd of new keys. Tiers that nobody uses cost nothing, and a flood of
//! one tier takes nothing from another.
