//! Concurrency limits: bulkhead, adaptive limit or admission, and what a simulation says of them.
//!
//! A rate limit says how many calls may *begin* in a second, whatever becomes of them. A concurrency limit says how many may be
//! *in flight*. When a service becomes slower, calls stay longer, so the same concurrency limit lets fewer of them begin.
//!
//! # Choosing a limit
//!
//! | limit | use it | decide |
//! |---|---|---|
//! | [`Bulkhead`](crate::Bulkhead) | where the number is known: a pool of connections, memory for so many requests, a contract | the number, and how many calls may wait |
//! | [`KeyedBulkhead`](crate::KeyedBulkhead) | where one tenant, host or route must not take all of it | the number for each key |
//! | [`AdaptiveLimit`](crate::AdaptiveLimit) | where the number is not known, or changes with every release | nothing |
//! | admission | where some calls matter more than others | classes, tenants, deadlines |
//!
//! Put the limit where calls would queue otherwise: before the handler of a server, or in a client before the one
//! service that it calls. Use one limit for each thing that can be overloaded: one per host, one per group of routes
//! that take a similar time. A limit over two services of which one hangs stops the calls to the other.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
//! use damper::{AdaptiveLimit, BulkheadFull};
//!
//! static SEARCH: AdaptiveLimit = AdaptiveLimit::DEFAULT;
//!
//! enum Failure {
//!     Refused(BulkheadFull), // answer 503
//!     TimedOut,
//!     NotFound,
//! }
//!
//! fn search(ask: impl FnOnce() -> Result<String, Failure>) -> Result<String, Failure> {
//!     let permit = SEARCH.try_acquire().map_err(Failure::Refused)?;
//!     let found = ask();
//!     match &found {
//!         Ok(_) => permit.success(),
//!         Err(Failure::TimedOut) => permit.overloaded(),
//!         Err(_) => permit.ignore(), // says nothing about the load
//!     }
//!     found
//! }
//! # assert!(search(|| Ok("42".into())).is_ok());
//! ```
//!
//! # The rule of the adaptive limit
//!
//! 1. The limit aims at calls that take 1.4 times as long as those of the unloaded service, which is its *baseline*.
//! 2. A reading is the geometric mean of the latencies of 100 calls or more that succeeded, in half a second or more.
//! 3. Only a reading under a full limit changes the limit, so that it does not grow while the callers are what limits the calls.
//! 4. The limit is multiplied by the square root of the target over the reading.
//! 5. A reading far from the baseline (below it by 1.4, or above 2.3 times) is not believed until a second one follows.
//! 6. The baseline is learnt whenever half of the limit was enough.
//! 7. A limit that stays full is halved for some hundred calls now and then, which is a *probe*: after 2 s at first, and up to 30 s.
//! 8. If the latency falls as the limit does, there was a queue, and the limit is halved again until the latency stays.
//! 9. If the latency stays, it is the service's own, and becomes the baseline: a release may be slower for good.
//! 10. When more than a tenth of the calls of a full window are overloaded or time out, the limit falls by a tenth.
//!
//! [`ProbedGradient`](crate::concurrency::ProbedGradient) has the details. [`Aimd`](crate::concurrency::Aimd),
//! [`Vegas`](crate::concurrency::Vegas) and [`Gradient2`](crate::concurrency::Gradient2) are there for those who know them.
//!
//! # What the simulation showed
//!
//! `sim/` simulates services, their clients and their trouble for 30 minutes, with damper's own code on a clock that it moves:
//!
//! ```text
//! cargo run --release -p damper-sim -- concurrency --bars    # what the limits are held to, and whether they do
//! cargo run --release -p damper-sim -- concurrency FOLDER    # every table, and charts
//! ```
//!
//! The share of the possible calls that were served / p90 as a multiple of the unloaded one / how much p90 grew from the first to
//! the last five minutes. The rules of others are copies written from their documentation.
//!
//! | service | damper | failsafe-go | Gradient2 | Vegas | Envoy | AIMD | no limit |
//! |---|---|---|---|---|---|---|---|
//! | 50 workers, exponential, 10x | 0.99 / 1.1 / 1.0 | 0.85 / 1.0 / 1.0 | 1.00 / 6.7 / 5.2 | 0.12 / 1.0 / 1.0 | 0.89 / 1.1 / 1.1 | 1.00 / 9.3 / 1.0 | 1.00 / > 1000 / 4.8 |
//! | 50 workers, constant, 10x | 0.99 / 1.9 / 1.0 | 0.78 / 1.0 / 1.0 | 1.00 / 18 / 6.9 | 0.89 / 8.0 / 1.1 | 0.97 / 2.0 / 1.0 | 1.00 / 20 / 1.0 | 1.00 / > 1000 / 4.8 |
//! | 200 workers, log-normal 0.5, 200 ms, 10x | 0.99 / 1.2 / 1.0 | 0.82 / 1.0 / 1.0 | 0.99 / 3.1 / 2.9 | 0.04 / 1.0 / 1.0 | 0.94 / 1.2 / 1.0 | 1.00 / 3.4 / 1.0 | 1.00 / > 1000 / 3.0 |
//! | 4 workers, log-normal 1, 20 ms, 10x | 0.98 / 1.1 / 1.0 | 0.98 / 2.8 / 1.0 | 1.00 / 47 / 6.8 | 1.00 / 1.5 / 1.0 | 1.00 / 1.3 / 1.0 | 1.00 / 117 / 1.0 | 1.00 / > 1000 / 4.8 |
//! | 20 workers, exponential 2 s, 10x | 0.99 / 1.1 / 1.0 | 0.92 / 1.2 / 1.1 | 0.99 / 4.8 / 4.2 | 0.31 / 1.0 / 1.0 | 0.39 / 3.6 / 1.1 | 1.01 / 1.5 / 1.0 | 1.00 / 321 / 4.8 |
//! | 8 cores, exponential, 10x | 0.99 / 1.4 / 1.0 | 0.91 / 2.0 / 1.0 | 1.00 / 31 / 8.4 | 0.75 / 1.0 / 1.0 | 1.00 / 1.6 / 0.8 | 1.00 / 88 / 1.0 | 1.00 / > 1000 / 6.2 |
//! | knee at 20, 5 % a call, 10x | 0.85 / 1.4 / 1.1 | 0.72 / 1.3 / 1.0 | 0.30 / 15 / 12 | 0.30 / 1.0 / 1.0 | 0.81 / 1.5 / 0.9 | 0.09 / 155 / 1.0 | 0.00 / > 1000 / 4.8 |
//! | 50 workers, exponential, 1.05x | 0.97 / 1.1 / 1.0 | 1.00 / 3.7 / 3.3 | 1.00 / 5.2 / 4.5 | 0.12 / 1.0 / 1.0 | 0.94 / 1.2 / 1.0 | 1.00 / 9.2 / 1.0 | 1.00 / 342 / 5.1 |
//! | 50 workers, exponential, 0.3x | 1.00 / 1.0 / 1.0 | 1.00 / 1.0 / 1.0 | 1.00 / 1.0 / 1.0 | 0.37 / 1.0 / 1.0 | 0.97 / 1.0 / 1.0 | 1.00 / 1.0 / 1.0 | 1.00 / 1.0 / 1.0 |
//! | timeouts of 0.5 s, three retries, 3x | 0.98 / 1.1 / 1.0 | 0.84 / 1.0 / 1.0 | 0.41 / 6.5 / 5.1 | 0.12 / 1.0 / 1.0 | 0.92 / 1.1 / 1.0 | 0.00 / 9.3 / 1.0 | 0.00 / > 1000 / 4.8 |
//!
//! Ten times the load that 50 workers can do:
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/overload.svg"))]
//!
//! A third of the speed for a minute:
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/drop.svg"))]
//!
//! A release that is three times slower for good:
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/slower.svg"))]
//!
//! Ten calls a second, far below what the service can do: a limit that is not reached stays where it is.
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/low-load.svg"))]
//!
//! # What is not covered
//!
//! - A service of few calls a second. A reading of 100 calls has a chance error of some 13 % where latencies are exponential, and
//!   takes 10 s at 10 calls a second. It follows within ten readings, not within ten seconds.
//! - A service of one worker: at a limit of 1 it waits for each next call, and does 0.92 of what it could at ten times the load.
//! - Calls of very different cost under one limit: the mean moves when their mix does. Give each kind a limit.
//! - A service whose latency does not rise when it is overloaded, because it refuses. Then record
//!   [`overloaded`](crate::concurrency::BulkheadPermit::overloaded), or use [`Aimd`](crate::concurrency::Aimd).
//! - Fairness among clients. A limit refuses whoever comes when it is full.
//!
//! # Admission
//!
//! A limit treats all calls alike. Admission decides by the class, the tenant and the deadline of each call which of them to
//! serve when not all can be.
