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
//! | rejects a part of the calls with 503 | a throttle | it refuses at most as large a part as the service rejects, and a fifth |
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
//! [the simulation](super::concurrency#results-of-a-simulation) has the figures.)
//!
//! # Using one
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::throttle::AdaptiveThrottle;
//!
//! static SEARCH: AdaptiveThrottle = AdaptiveThrottle::new();
//!
//! /// Asks the search service, and returns the status of its response.
//! fn search(ask: impl FnOnce() -> u16) -> Result<u16, damper::throttle::Throttled> {
//!     let permit = SEARCH.try_acquire()?; // Err: not sent, and `retry_after()` says when to try again
//!     let status = ask();
//!     match status {
//!         429 => permit.ignore(), // about one quota
//!         502..=504 => permit.rejected(),
//!         _ => permit.accepted(), // 404 and 500 too: the service did the work
//!     }
//!     Ok(status)
//! }
//! # assert_eq!(search(|| 200).unwrap(), 200);
//! # }
//! ```
//!
//! Record as rejected what overload causes: 503, a timeout, no connection. An answer that says no is accepted. A 429 is about one quota:
//! record it only if all calls of the client share that quota. A dropped
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
//! | any tower service: a database | `tower::GateLayer::new`, for which every `Err` is a rejection unless `classify` says otherwise |
//!
//! `http::client_stack` and [the order around a client](super::retries) put it inside of the retries and outside of the limits.
//!
//! # Pacing: sleeping before a call
//!
//! An adaptive throttle refuses calls. A job that may wait rather sleeps until its calls are accepted: a crawler, an import, a
//! client of an API with a quota. A [`Pacer`](crate::throttle::Pacer) says how long. It learns from rejections (429) and from what the
//! server says remains; clients that share a quota need not know of one another.
//! `PacingLayer` of `http` and of `tower` paces a client and retries what was rejected. Without retries it is a gate,
//! [`Paces`](crate::gate::Paces), which also stands before a service of yours, alone or behind another gate.
//!
//! A strategy is judged by four figures, and by how much of the quota is used:
//!
//! | figure | why it matters |
//! |---|---|
//! | retries: rejected calls of all calls | the server pays for each |
//! | longest sleep | a client that sleeps for minutes misses what became free |
//! | deviation of the clients' counts of calls | an unlucky client should get as much as the others |
//! | time to clear a full quota | no client should sleep while there is plenty |
//!
//! `cargo run --release -p damper-sim` simulates 10 clients that share 4,500 calls per hour, for 30 minutes, against damper's own limiter. The
//! figures are means of 20 seeds, with those that were published for the same strategies in parentheses:
//!
#![doc = include_str!("../../docs/charts/throttling/table.md")]
//!
//! The published figures are of one run each, with real threads and a real server on a clock that ran ten times too fast. An earlier run of
//! the same program had a longest sleep of 134.9 s for backoff with 1.2, where the table has 46.7, and of 208.8 s for the gradual
//! decrease: how long an unlucky client sleeps differs that much from run to run, so a mean of 20 seeds (153 and 201) need not agree with one
//! of them. The times to clear differ for another reason. By its rule the gradual decrease has forgotten a sleep of 1 s after two successes, and
//! then 10 clients clear 4,490 calls of 165 ms in 75 s, as backoff does. The published 116 and 84 s are close to what a start at 8 s gives
//! (120 and 82 s), not at 1 s. The torture run is a start at 8 s and a server that goes on to gain tokens:
//! `damper-sim throttling --start 8 --refill yes`. The proportional decrease takes 4.6 hours there (published: nearly 7, from 10 s), the
//! others minutes.
//!
//! The charts are in `docs/charts/throttling` of the repository: sleeps, requests, what remains, and retries over time, of each
//! strategy, and in `strategies.svg` of all of them.
//!
//! | take | for |
//! |---|---|
//! | [`Level`](crate::throttle::Level), the default | a server that says what remains |
//! | [`RemainingDecrease`](crate::throttle::RemainingDecrease) | the same behaviour as other implementations of the published winner |
//! | [`ExponentialBackoff`](crate::throttle::compared::ExponentialBackoff) (feature `compared`) | calls so rare that nothing learned stays true |
//! | none | a caller that handles rejections itself |
//!
//! The server pays little for `Level`: each of the 10 clients is rejected once, when it finds the quota used up, and hardly ever after that.
//! Backoff has three of four calls rejected, because it forgets what it learned with each success.
//!
//! A server with a fixed window pays more, because nothing comes back before its end. With `remaining` alone `Level` has 8 % of
//! calls rejected where 10 clients share 100 calls a minute; strategy 4 has 34 %. If rejections say when to retry and when the window
//! ends, `Level` learns from the first one to stop when the window is used up. Then it has 0.4 % rejected, and most of these are a client's first.
//! A quota that is wrong by a tenth changes little. `--told 5000/1h` simulates that, and `--bare 0.1` a tenth of the responses without
//! headers.
//!
//! Many clients cost more. Until the first rejection no client knows how many others there are, so the first 30 minutes of 50 clients at an
//! empty quota have some 17 % of calls rejected, and those of 200 clients about 57 %. Hints do not change that, because `Retry-After` says when one
//! call may succeed, not how many clients wait for it. Let the threads of a process share one pacer, which then learns
//! faster. After an outage of 5 minutes in which all calls are rejected, clients sleep for up to two minutes.
//!
//! `cargo run --release -p damper-sim -- throttling --clients 50 --server fixed-window` and further options simulate your own case, and a
//! [`Strategy`](crate::throttle::Strategy) of your own is one line in `sim/src/throttling/contender.rs`.
