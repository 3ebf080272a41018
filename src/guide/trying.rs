//! Trying a limit before it refuses anyone: candidates in shadow mode, and a log of decisions.
//!
//! | you have | and want to know | take |
//! |---|---|---|
//! | a candidate | what it would refuse, from now on | [shadow mode](#a-candidate-beside-the-limit) |
//! | a limit that should be noticed, and refuse no request | which requests are over it | [a marking layer](#marks-instead-of-refusals) |
//! | a client who is refused | which part refuses it, and until when | [`explain`](#what-would-happen-to-this-request) |
//! | a share of calls that may be refused | the smallest quota for yesterday's traffic | [a log of decisions](#a-log-of-decisions) |
//!
//! To try a first limit, put [`Quota::UNLIMITED`](crate::Quota::UNLIMITED) in force, with a candidate or a log beside it.
//!
//! # A candidate beside the limit
//!
//! In shadow mode a candidate decides on the same calls as the limit in force, and changes nothing: no answer, no header, no state of the
//! limit in force depends on it. It has buckets of its own, and takes tokens exactly when it would have allowed the call. A call takes one
//! more decision and nothing else.
//!
//! Layers for HTTP have `shadow`. For a limit per client, per header value or per key, a quota is enough: the candidate goes by the same
//! keys, in a table of the same capacity.
//!
//! ```
//! # #[cfg(feature = "tower")] {
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//!
//! let clients = RateLimitLayer::per_client(Quota::per_second(50).burst(100))
//!     .named("clients")?
//!     .shadow(Quota::per_second(20).burst(40));
//! let kept = clients.clone();
//! // In the router: `.layer(clients)`. A day later:
//! if let Some(report) = kept.shadow_report() {
//!     println!("{} of the requests that passed would have been refused", report.only_by_candidate);
//! }
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Around other code, [`Shadowed`](crate::shadow::Shadowed) takes any two limiters, two keyed limiters of the same keys, or two breakers:
//!
//! ```
//! use damper::shadow::Shadowed;
//! use damper::{ManualClock, Quota, RateLimiter};
//!
//! let clock = ManualClock::new();
//! let limiter = |quota| RateLimiter::with_clock(quota, &clock);
//! let mails = Shadowed::new(limiter(Quota::per_hour(100)), limiter(Quota::per_hour(20)));
//! let sent = (0..30).filter(|_| mails.check().is_ok()).count();
//! assert_eq!((sent, mails.report().only_by_candidate), (30, 10));
//! ```
//!
//! The candidates of each layer:
//!
//! | of | write |
//! |---|---|
//! | limits for HTTP and gRPC | `RateLimitLayer::...shadow(quota)`, or `.shadow(limit)` with any limit that decides at once |
//! | breakers for HTTP and gRPC | `CircuitBreakerLayer::...shadow(PerHost::builder(config).named("nervous").build()?)` |
//! | calls in flight | `AdmissionLayer::...shadow_admission(gate)`, `ConcurrencyLayer::...shadow(limit)`, `ClientConcurrencyLayer::...shadow(limit)` |
//! | services of any request | `damper::tower::GateLayer::limit(shadowed)`, `GateLayer::new(shadowed)` |
//!
//! Refusals of candidates are counted apart. A [report](crate::shadow::ShadowReport) has the calls that both refused, and those that only
//! one of them refused. With the feature `metrics` an exporter reads it as `damper_shadow_refusals_total`, whose label `by` says `both`,
//! `candidate` or `in_force`. With `tracing` limits log samples of the candidate's refusals, with a field `shadow`.
//!
//! ## Limits of a candidate
//!
//! - A candidate also decides on the calls that the limit in force refuses, so it shows what it would do alone. Those clients may have
//!   sent fewer calls, or more retries, than they would send under the candidate. A candidate that is stricter than the limit
//!   in force is judged best.
//! - A candidate breaker learns only from calls that were made. While it is open, calls go on in force, so it does not show whether the
//!   pause would have helped the server.
//! - A candidate for the calls in flight holds a slot of its own as long as the call takes in force. It has no queue: a call that would
//!   have had to wait counts as refused.
//! - Waits, reservations and charges are those of the limit in force. The candidate sees checks only.
//!
//! # Marks instead of refusals
//!
//! A candidate is counted, and no request knows of it. Where something is to be done with a request over a limit other than to refuse it,
//! `marking` turns a layer into one that lets every request pass and writes its verdict on the request:
//!
//! ```
//! # #[cfg(feature = "tower")] {
//! use damper::Quota;
//! use damper::concurrency::Criticality;
//! use damper::http::{Head, Marks, RateLimitLayer};
//! use http::HeaderName;
//!
//! let soft = RateLimitLayer::per_client(Quota::per_second(20))
//!     .named("soft")?
//!     .marking()
//!     .header(HeaderName::from_static("x-over-limit")) // for servers behind this one: `"soft";t=3`
//!     .at_most(Criticality::Sheddable); // for an admission inside
//!
//! /// For handlers, and for layers inside.
//! fn costs_a_captcha(head: &Head<'_>) -> bool {
//!     Marks::of(head).iter().any(|mark| mark.limit() == "soft")
//! }
//! # let _ = (soft, costs_a_captcha);
//! # }
//! # Ok::<(), damper::InvalidText>(())
//! ```
//!
//! With `at_most` the requests over a soft quota are served last: while the server has room no caller notices the quota, and under overload
//! those who exceed it lose first. The layer removes its header from requests that it does not mark, so no client can send it. With the
//! feature `tracing` the current span gets the name in its field `over_limit`, if it has one. [`http::MarkingLayer`](crate::http::MarkingLayer)
//! has the details, and the example `marking` a server.
//!
//! In a [file of settings](super::configuration) the limit of a server's stack marks by a key:
//!
//! ```
//! # #[cfg(feature = "config")] {
//! use damper::config::Sources;
//!
//! let text = r#"
//!     [server.http.ratelimit]
//!     quota = "20/s burst 40"
//!     key = "client"
//!     mark = true
//!     mark_header = "x-over-limit"   # optional
//!     mark_class = "sheddable"       # optional
//!
//!     [server.http.stack]
//!     concurrency = "admission"      # serves low classes last
//! "#;
//! let settings = Sources::new().toml("app.toml", text).load()?;
//! // settings.server.http.server_stack()?
//! # let _ = settings;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler finds the marks in an `Option<Extension<Marks>>`, by the name of the stack: `server.http`. A reload changes the quota. The
//! other keys need a restart. Outside of a stack, `ratelimit.layer()` refuses requests, so `mark = true` is an error there, and
//! `ratelimit.marking(layer)` builds the layer that marks.
//!
//! Beside a greedy tenth of the callers a mark [protects the others](super::minorities#a-greedy-tenth-and-a-quota) as a refusal does.
//!
//! # What would happen to this request?
//!
//! A client says that it is refused. `explain` of a stack answers which part does that, with the wait and the standing of its quota,
//! for a request that is not made:
//!
//! ```
//! # #[cfg(feature = "tower")] {
//! use damper::Quota;
//! use damper::http::{Head, PeerAddress, server_stack};
//! use http::Request;
//!
//! let stack = server_stack().limit_per_client(Quota::per_second(5)).limit(Quota::per_second(100)).bulkhead(64);
//!
//! let mut request = Request::get("/search").body(())?;
//! request.extensions_mut().insert(PeerAddress(([203, 0, 113, 9], 0).into()));
//! let explanation = stack.explain(&Head::of(&request));
//! assert_eq!(
//!     explanation.to_string(),
//!     "client limit \"client\": passes (5 left of 5/s burst 5)\n\
//!      limit \"server\": passes (100 left of 100/s burst 100)\n\
//!      admission: passes\n\
//!      not refused"
//! );
//! # }
//! # Ok::<(), http::Error>(())
//! ```
//!
//! `to_json` says the same to programs. Nothing is taken, counted, logged or written for it. A part sees what those outside of it would have
//! changed: the class, the deadline and the marks. Each part answers, also behind one that refuses.
//!
//! | a part | says |
//! |---|---|
//! | rate limits, trees, sets, tiers and prefixes | passes or refuses, with the standing before the request |
//! | bulkheads, adaptive limits and admissions | passes, waits or refuses. A request that would wait may still find the queue full, or wait in vain |
//! | a limit that marks | marks, with the refusal |
//! | throttles, which decide by chance | passes or refuses, by the number that is drawn for the next call |
//! | pacing, and limits elsewhere, such as on Redis | unknown |
//! | a layer of your own | what its [`http::Explain`](crate::http::Explain) says |
//!
//! A client's stack has the [same method](crate::http::ClientStack::explain), about the first attempt of a call: it says whether the breaker, the
//! throttle or a limit would refuse it, and what is left of a deadline. For a stack from a file, write `stack.parts().explain(&head)`.
//!
//! Each gate says the same without HTTP, by [`Ask::forecast`](crate::gate::Ask::forecast), and a gate of your own may too. The example
//! `explain` has an endpoint for operators, and the live page another. It shows how much of its quota a client has left, so keep it
//! from clients.
//!
//! # A log of decisions
//!
//! A [`DecisionLog`] keeps the last decisions, as many as it has room for: the time, the hash of the key, the cost and the answer, in
//! 24 bytes each. It is off unless you attach it. To write an entry takes about 35 instructions, one `fetch_add` among them, and one reading of
//! the clock. No writer waits for another or for a reader, and a writer that is stopped in the middle leaves an entry that readers pass over.
//!
//! ```
//! # #[cfg(feature = "tower")] {
//! use damper::Quota;
//! use damper::decision_log::DecisionLog;
//! use damper::http::RateLimitLayer;
//! use std::fs::File;
//!
//! static LOG: DecisionLog = DecisionLog::new(1 << 18); // the last 262,144 decisions, in 6 MiB
//!
//! let clients = RateLimitLayer::per_client(Quota::per_second(50)).decision_log(&LOG);
//!
//! // In a thread of its own, for as long as the program runs:
//! fn save(mut file: File) -> std::io::Result<()> {
//!     let mut reader = LOG.reader();
//!     loop {
//!         reader.write_to(&mut file)?;
//!         std::thread::sleep(std::time::Duration::from_secs(10));
//!     }
//! }
//! # let _ = (clients, save);
//! # }
//! ```
//!
//! Other limiters are wrapped in [`Logged`], and a limiter of your own calls [`DecisionLog::record`].
//! Keys are not stored, only 48 bits of their hash, with the limiter's random seed: the entries of one process belong together.
//! Size the log for the decisions between two reads. Entries that were overwritten before a read are counted, and stand in the file as `lost 12`.
//!
//! In a checkout of damper, `damper-sim` replays the file:
//!
//! ```text
//! $ cargo run --release -p damper-sim -- replay decisions.log --refuse-at-most 0.1% --per minute
//! 211040 calls of 1289 keys in 24.0 h: 0 were refused (0.000 %), 0 are lost
//!
//! smallest quota: 41/min burst 41, which refuses 203 calls (0.096 %)
//! ```
//!
//! It gives each key a token bucket that is full at the start, and asks for the same tokens at the same times. `--burst N` keeps the
//! burst, and searches for the rate. The answer holds for these calls: clients that are refused behave differently, and tomorrow's traffic
//! does too. Put the result beside the limit in force as a candidate before you put it in force.
//!
//! [`DecisionLog`]: crate::decision_log::DecisionLog
//! [`DecisionLog::record`]: crate::decision_log::DecisionLog::record
//! [`Logged`]: crate::decision_log::Logged
