//! Concurrency limits: bulkhead, adaptive limit or admission, and their simulation.
//!
//! A rate limit bounds how many calls may *begin* in a second, however long they take. A concurrency limit bounds how
//! many may be *in flight*. When a service slows down, calls take longer, so the same concurrency limit lets fewer of
//! them begin.
//!
//! # Choosing a limit
//!
//! | limit | use it | decide |
//! |---|---|---|
//! | [`Bulkhead`](crate::Bulkhead) | where the number is known: a connection pool, memory per request, a contract | the number, and how many calls may wait |
//! | [`KeyedBulkhead`](crate::KeyedBulkhead) | where one tenant, host or route must not take all of it | the number for each key |
//! | [`AdaptiveLimit`](crate::AdaptiveLimit) | where the number is not known, or changes with every release | nothing |
//! | [`KeyedAdaptiveLimit`](crate::KeyedAdaptiveLimit) | where each host or route has a capacity of its own | nothing |
//! | `Admission` (feature `alloc`) | where some calls matter more than others | classes, tenants, deadlines |
//!
//! Put the limit where calls would otherwise queue: before a server's handler, or in a client before the one service
//! that it calls. Use one limit for each thing that can be overloaded: one per host, or one per group of routes of
//! similar duration. If a limit covers two services and one hangs, calls to the other stop too.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{AdaptiveLimit, BulkheadFull};
//!
//! static SEARCH: AdaptiveLimit = AdaptiveLimit::DEFAULT;
//!
//! enum Failure {
//!     Refused(BulkheadFull), // respond with 503
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
//! # }
//! ```
//!
//! # The rule of the adaptive limit
//!
//! 1. The limit aims at calls that take 1.4 times as long as in the unloaded service, whose latency is the *baseline*.
//! 2. A reading is the geometric mean of the latencies of at least 100 successful calls, over at least half a second.
//! 3. A reading changes the limit only if the limit is full, so that it does not grow while there are too few calls to
//!    reach it.
//! 4. The limit is multiplied by the square root of the target over the reading.
//! 5. A reading far from the baseline (below it by 1.4, or above 2.3 times) is ignored until a second one confirms it.
//! 6. The baseline is learned whenever half of the limit was enough.
//! 7. A limit that stays full is halved for some hundred calls now and then, which is a *probe*: after 2 s at first,
//!    and up to 30 s.
//! 8. If the latency falls with the limit, there was a queue, and the limit is halved again until the latency stays.
//! 9. If the latency stays, it is the service's own, and becomes the baseline: a release may be slower for good.
//! 10. When the share of overloaded calls and timeouts in a full window exceeds its usual share by more than a tenth of all calls,
//!     the limit falls by a tenth. A share that stays the same at half of the limit becomes the usual one.
//! 11. A latency that falls to less than a quarter at half of the limit is that of another mix of calls, not of a queue.
//! 12. If calls are refused or wait, and none ends for 10 s (or four times the baseline, if that is longer), with or without an
//!     outcome, the limit lets in one call more than are in flight, up to its highest value so far.
//!
//! [`ProbedGradient`](crate::concurrency::ProbedGradient) has the details.
//! [`concurrency::compared`](crate::concurrency::compared) (feature `compared`) has `Aimd`, `Vegas` and `Gradient2`, the rules of
//! other libraries, to compare with.
//!
//! # Results of a simulation
//!
//! `sim/` simulates services, their clients and their disturbances for 30 minutes, with damper's own code on a
//! simulated clock:
//!
//! ```text
//! cargo run --release -p damper-sim -- concurrency --bars         # bars: bounds that the limits must hold
//! cargo run --release -p damper-sim -- concurrency docs/charts    # writes the tables and charts of this page again
//! ```
//!
//! A cell is the share of the possible calls that were served / the p90 as a multiple of the unloaded one / the growth
//! of the p90 from the first to the last five minutes. The rules of other projects are copies from their documentation.
//! All 46 services are in
//! [`docs/charts/tables.md`](https://github.com/damper-rs/damper/blob/main/docs/charts/tables.md).
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/rules.md"))]
//!
//! Ten times the capacity of 50 workers:
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
//! Four hours of ten times the load, which would show a drift:
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/four-hours.svg"))]
//!
//! Ten calls a second, far below the capacity: a limit that is not reached does not change.
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/low-load.svg"))]
//!
//! # Limits of the simulation
//!
//! - A service of few calls a second. A reading of 100 calls has a random error of some 13 % where latencies are
//!   exponential, and takes 10 s at 10 calls a second. The limit follows within ten readings, not within ten seconds.
//! - A service of one worker: at a limit of 1 it waits for each next call, and reaches 0.92 of its capacity at ten
//!   times the load.
//! - A service with a knee: it reaches 0.83 of its peak at ten times the load, because more calls in flight than its
//!   size slow all of them down.
//! - Recovery within 10 s with every seed. With twelve other seeds (16 to 27) one of 237 bars was missed: a service
//!   that became three times slower for good, at a third of its load, recovered after 14 s.
//! - Calls of very different cost under one limit: the mean moves with their mix. Give each kind a separate limit.
//! - A service whose latency does not rise under overload, because it refuses calls. Then record
//!   [`overloaded`](crate::concurrency::BulkheadPermit::overloaded), or use [`Aimd`](crate::concurrency::compared::Aimd).
//! - Fairness among clients. A full limit refuses the next call of any client. `Admission` shares slots among tenants.
//!
//! # Admission
//!
//! A limit treats all calls alike: when it is full, it refuses the next one, whatever it is. An `Admission` has a limit
//! too, adaptive or fixed, and a queue as long as the limit, from which it chooses the next call.
//!
//! | event | decision |
//! |---|---|
//! | a call arrives and a slot is free | it runs at once |
//! | a slot becomes free | the highest queued class; in it the tenant with the fewest recent slots; its newest call |
//! | the queue is full | a call of the lowest class is displaced: the oldest of the tenant with the most queued calls |
//! | a call has less time left than the median call takes | it is refused, even while queued |
//!
//! Classes are those of the SRE book: `CriticalPlus`, `Critical` (the default), `SheddablePlus` and `Sheddable`. A
//! tenant is any hashable value. Use a verified one: a client that chooses its own name gets a share for each name.
//! Before a server, `http::CriticalityLayer` takes both from trusted callers only, and `http::ClientCriticalityLayer` passes them on.
//!
//! ```
//! # #[cfg(feature = "tokio")] {
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
//!     let permit = gate.acquire(request).await?;
//!     permit.run(async { Ok("paid") }).await // ends the work at the deadline
//! }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn run() {
//!
//! let gate = Admission::default(); // one for the server
//! assert_eq!(checkout(&gate, "acme").await.unwrap(), "paid");
//! # }
//! # run(); }
//! ```
//!
//! Before an HTTP server, `http::AdmissionLayer` applies the class, the tenant and the deadline of each request. Put a
//! `http::DeadlineLayer` outside, or use `http::server_stack`, which has the order. Plain bulkheads and adaptive limits
//! are layers too: `http::ConcurrencyLayer` before a server, `http::ClientConcurrencyLayer` before a client,
//! `tower::GateLayer::limit` before any service.
//!
//! # Benefits and costs of admission
//!
//! Three times a server's capacity, for ten minutes: the share of each group's calls answered in time, the worst of
//! three seeds. The top class wants half of the capacity. The middle class has ten equal tenants and a greedy one with
//! the load of all ten. *Limit only* is the same adaptive limit without admission.
//!
#![cfg_attr(doc, doc = include_str!("../../docs/charts/admission.md"))]
//!
//! - **Strict priority starves.** While the classes above use up the capacity, a class gets nothing: the low class
//!   (`SheddablePlus`) had 0.0 to 0.1 % of its calls answered, where the limit alone answered a third of them.
//!   `Sheddable` is served after it. Work of these classes must tolerate refusals for the whole overload.
//! - **The top class must fit.** It is served because it wants less than the capacity. If all calls are `CriticalPlus`,
//!   none is preferred.
//! - **Tight deadlines stay tight.** An unloaded server misses 5 % of deadlines that are three times the mean service
//!   time. With admission 94 % of the top class was in time.
//! - **A greedy tenant** got 1.0 to 1.6 times the slots of an equal one, although it sent ten times as many calls.
//! - **End work at its deadline**, with `AdmissionPermit::run` or a deadline layer. Otherwise 1 to 7 % of the work was
//!   too late, and took the slots of calls that would have been in time.
//! - **One gate, one median.** Put calls of seconds and calls of milliseconds behind separate gates.
//!
//! `cargo run --release -p damper-examples --example overload` shows it on real sockets, with a hyper server with and without admission.
