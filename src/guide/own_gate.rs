//! Your own gate.
//!
//! A gate decides whether a call may pass. Limiters, breakers, throttles and concurrency limits are gates, and what decides by something else
//! can be one too: by the hour of the day, by a switch, by the load of a machine. It takes some twenty lines:
//!
//! | you write | it says |
//! |---|---|
//! | `impl Gate` | the types of its permit, of its refusal, and of its wait: [`Never`](crate::gate::Never) if no call waits |
//! | `impl Ask<Q>` | whether a call of the type `Q` may pass. `impl<Q: ?Sized> Ask<Q>` decides without looking at the call |
//! | `impl Refusal` | the kind of a refusal, which gives its status, and when a call has a chance again |
//! | `impl Permit` | only if it learns from calls, or holds something while they last; `()` is a permit that does neither |
//!
//! # A gate that learns
//!
//! A permit is told how its call went by a [`Verdict`](crate::gate::Verdict), in facts: the call was limited, or unavailable, or it was never
//! sent. Each gate decides for itself how to take that. This one closes for a caller whose last call cost more than it had:
//!
//! ```
//! use damper::gate::{Answer, Ask, Ending, Gate, Never, Permit, Refusal, RefusalKind, Verdict};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicI64, Ordering};
//!
//! /// Tokens that are spent once, by what each call turns out to cost.
//! #[derive(Clone)]
//! struct Credit(Arc<AtomicI64>);
//!
//! #[derive(Clone, Debug)]
//! struct UsedUp;
//!
//! impl Gate for Credit {
//!     type Permit = Credit;
//!     type Refusal = UsedUp;
//!     type Wait = Never<Credit, UsedUp>;
//! }
//!
//! impl<Q: ?Sized> Ask<Q> for Credit {
//!     fn ask(&self, _call: &Q) -> Answer<Credit, Self::Wait, UsedUp> {
//!         if self.0.load(Ordering::Relaxed) > 0 { Answer::Pass(self.clone()) } else { Answer::Refuse(UsedUp) }
//!     }
//! }
//!
//! impl Permit for Credit {
//!     fn end(self, verdict: &Verdict) {
//!         if verdict.ending != Ending::NotSent {
//!             self.0.fetch_sub(i64::from(verdict.cost.unwrap_or(1)), Ordering::Relaxed);
//!         }
//!     }
//! }
//!
//! impl Refusal for UsedUp {
//!     fn kind(&self) -> RefusalKind {
//!         RefusalKind::OverLimit
//!     }
//! }
//!
//! impl std::error::Error for UsedUp {}
//!
//! impl std::fmt::Display for UsedUp {
//!     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
//!         f.write_str("the credit is used up")
//!     }
//! }
//!
//! let gate = Credit(Arc::new(AtomicI64::new(100)));
//! let Answer::Pass(permit) = gate.ask("a prompt") else { panic!("there is credit") };
//! permit.end(&Verdict::of(Ending::Success).with_cost(250));
//! assert!(!gate.ask("another prompt").is_pass());
//! ```
//!
//! # Before a service
//!
//! The layer of every gate is [`GateLayer`](crate::tower::GateLayer) (with the feature `tower`). It asks the gate about each request, tells
//! the permit how the call went, and returns refusals as errors:
//!
//! ```
//! # #[cfg(feature = "tower")] {
//! use damper::gate::Exempt;
//! use damper::tower::GateLayer;
//! use damper::{Bulkhead, CallError};
//! use std::sync::Arc;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let closed = Arc::new(Bulkhead::new(0)); // or a gate of yours
//! let gate = Exempt::new(closed, |path: &&str| *path == "/health");
//! let mut service =
//!     ServiceBuilder::new().layer(GateLayer::new(gate)).service(service_fn(async |path: &'static str| path.parse::<u32>()));
//! assert!(matches!(service.ready().await.unwrap().call("/health").await, Err(CallError::Failed(_))));
//! assert!(matches!(service.ready().await.unwrap().call("7").await, Err(CallError::Refused(_))));
//! # }
//! # main() }
//! ```
//!
//! For `http::Request` a gate is asked about the [`Head`](crate::http::Head) of each request, and a permit may be held until the response has
//! ended (with the feature `http`):
//!
//! | before | write | a refusal is |
//! |---|---|---|
//! | a server | [`ConcurrencyLayer::new(gate)`](crate::http::ConcurrencyLayer::new) | a response of the status of its kind, or of gRPC |
//! | a client | `GateLayer::at(`[`ClientGate::new(gate)`](crate::http::ClientGate)`)` | [`CallError::Refused`](crate::CallError) |
//! | a client of gRPC | the same, with `.completion(AtTrailers::new())` of `damper::tonic`, whose `IntoStatus` the refusal has | a `Status` |
//! | part of a handler | `gate.ask(..)`, and [`refusal_response`](crate::http::refusal_response) | the same response |
//!
//! # Together with others
//!
//! A gate of your own goes wherever one of damper's does: into a pair, behind an [`Exempt`](crate::gate::Exempt), into shadow
//! mode by [`Shadowed`](crate::shadow::Shadowed), as a store of gates into [`PerKey`](crate::gate::PerKey), and into a client's stack: its
//! `breakers`, `throttles`, `limiter` and `concurrency` take any gate at which no call waits. A
//! [`CallError`](crate::CallError) with its refusal is known to [`is_refusal`](crate::is_refusal), so a breaker around it does not count the
//! call as a failure of the server, and a retry does not repeat it. If its `source` is [`NotSent`](crate::gate::NotSent), callers find the
//! refusal by its type in every error around it. For gRPC, `damper::tonic::status_of_refusal` makes a status of it.
//!
//! A setting of a gate can be refused with the error of damper's settings, [`OutOfRange`](crate::OutOfRange): its `check_count`,
//! `check_ratio` and `check_duration` compare a value with a range, and the message has both.
//!
//! The example [`own_gate`](https://github.com/damper-rs/damper/blob/main/examples/own_gate.rs) is closed at night. The package
//! [`opening_hours`](https://github.com/damper-rs/damper/tree/main/tests/opening_hours) puts such a gate into all these places.
