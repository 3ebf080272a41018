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
//! | [`KeyedAdaptiveLimit`](crate::KeyedAdaptiveLimit) | where each host or route has a capacity of its own | nothing |
//! | `Admission` (feature `alloc`) | where some calls matter more than others | classes, tenants, deadlines |
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
//! cargo run --release -p damper-sim -- concurrency --bars         # bars: bounds that the limits must hold
//! cargo run --release -p damper-sim -- concurrency docs/charts    # writes the tables and charts of this page again
//! ```
//!
//! A cell is the share of the possible calls that were served / the p90 as a multiple of the unloaded one / how much the p90 grew from the
//! first to the last five minutes. The rules of others are copies written from their documentation. All 46 services are in
//! [`docs/charts/tables.md`](https://github.com/damper-rs/damper/blob/main/docs/charts/tables.md).
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/rules.md"))]
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
//! Four hours of ten times the load, in which a drift shows:
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/four-hours.svg"))]
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
//! - A service with a knee: it does 0.83 of its peak at ten times the load, because more calls in flight than its size slow all of them down.
//! - Recovery within 10 s at every seed. At twelve other seeds (16 to 27) one of 237 bars was missed: a service
//!   that became three times slower for good, at a third of its load, was back after 14 s.
//! - Calls of very different cost under one limit: the mean moves when their mix does. Give each kind a limit.
//! - A service whose latency does not rise when it is overloaded, because it refuses. Then record
//!   [`overloaded`](crate::concurrency::BulkheadPermit::overloaded), or use [`Aimd`](crate::concurrency::Aimd).
//! - Fairness among clients. A full limit refuses the next call, whichever client makes it. `Admission` shares slots among tenants.
//!
//! # Admission
//!
//! A limit treats all calls alike: when it is full, it refuses the next one, whatever it is. An `Admission` has a limit too,
//! adaptive or fixed, and a queue as long as the limit, from which it chooses what the server works on.
//!
//! | | what decides |
//! |---|---|
//! | a call arrives and a slot is free | it runs at once |
//! | a slot becomes free | the highest class that has a call queued; in it the tenant that got the fewest slots lately; of that tenant the newest call |
//! | the queue is full | a call of the lowest class gives way: that of the tenant with most calls queued, and of those the oldest |
//! | less time is left until a call's deadline than the median call takes | the call is refused, also while it is queued |
//!
//! Classes are those of the SRE book: `CriticalPlus`, `Critical` (the default), `SheddablePlus` and `Sheddable`. A tenant is
//! anything that can be hashed. Take one that was verified: a client that chooses its own name gets a share for each name.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```text")]
//! use damper::concurrency::{Admission, AdmissionRequest, Criticality, NotAdmitted};
//! use damper::{Deadline, DeadlineExceeded};
//! use std::time::Duration;
//!
//! #[derive(Debug)]
//! enum Failure {
//!     Refused(NotAdmitted),      // answer 503 with `retry_after()`
//!     TooLate(DeadlineExceeded), // answer 504
//! }
//! # impl From<NotAdmitted> for Failure { fn from(refused: NotAdmitted) -> Self { Self::Refused(refused) } }
//! # impl From<DeadlineExceeded> for Failure { fn from(late: DeadlineExceeded) -> Self { Self::TooLate(late) } }
//!
//! async fn checkout(gate: &Admission, tenant: &str) -> Result<&'static str, Failure> {
//!     let deadline = Deadline::after(Duration::from_millis(500));
//!     let request = AdmissionRequest::new().criticality(Criticality::CriticalPlus).tenant(tenant).by(&deadline);
//!     let permit = gate.admit(request).await?;
//!     permit.run(async { Ok("paid") }).await // ends the work at the deadline
//! }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//!
//! let gate = Admission::default(); // one for the server
//! assert_eq!(checkout(&gate, "acme").await.unwrap(), "paid");
//! # }
//! ```
//!
//! Before an HTTP server, `http::AdmissionLayer` does this with the class, the tenant and the deadline of each request. Put a
//! `http::DeadlineLayer` outside, or take `http::server_stack`, which has the order. Plain bulkheads and
//! adaptive limits are layers too: `http::ConcurrencyLayer` before a server, `http::ClientConcurrencyLayer` before a client,
//! `tower::BulkheadLayer` before any service.
//!
//! # What admission gives, and what it takes
//!
//! Three times what a server can do, for ten minutes: the share of each group's calls that were answered in time, the worst of
//! three seeds. The top class wants half of the capacity. The middle class is ten equal tenants and a greedy one that sends as much as all
//! ten. *Limit only* is the same adaptive limit without admission.
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/admission.md"))]
//!
//! - **Strict priority starves.** While the classes above use up the capacity, a class gets nothing: the low class (`SheddablePlus`) had
//!   0.0 to 0.1 % of its calls answered, where the limit alone answered a third of them. `Sheddable` comes after it. Work of these
//!   classes has to bear that it is refused for as long as the overload lasts.
//! - **The top class must fit.** It is served because it wants less than the capacity. Where all calls are `CriticalPlus`, none is
//!   preferred.
//! - **Tight deadlines stay tight.** A server without load misses 5 % of deadlines that are three times the mean service time. With
//!   admission 94 % of the top class came in time.
//! - **A greedy tenant** got 1.0 to 1.6 times the slots of an equal one, though it sent ten times as many calls.
//! - **End work at its deadline**, with `AdmissionPermit::run` or a deadline layer. Otherwise 1 to 7 % of the work came too
//!   late, and took the slots of calls that would have come in time.
//! - **One gate, one median.** Put calls of seconds and calls of milliseconds behind gates of their own.
//!
//! The same on real sockets, a hyper server with and without admission in turn: `cargo run --release --example overload`.
