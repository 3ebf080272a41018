//! Rate limits for gRPC servers, circuit breakers and retries for gRPC clients, by tonic.
//!
//! The crate [`damper`](https://docs.rs/damper) has it as `damper::tonic`. The layers are those of
//! [`damper-http`](https://docs.rs/damper-http), and this crate has what gRPC needs beyond HTTP.
//!
//! # Rate limits
//!
//! A limit is the [`RateLimitLayer`](damper_http::RateLimitLayer) of HTTP: it answers a gRPC request over the limit
//! with `RESOURCE_EXHAUSTED`, and puts how long to wait into the status, as a `google.rpc.RetryInfo`.
//!
//! ```no_run
//! # mod damper { pub use damper_core::*; pub use damper_http as http; pub extern crate damper_tonic as tonic; }
//! use damper::Quota;
//! use damper::http::RateLimitLayer;
//! # use tonic::{body::Body, server::NamedService};
//! # #[derive(Clone)]
//! # struct GreeterServer;
//! # impl NamedService for GreeterServer { const NAME: &'static str = "hello.Greeter"; }
//! # impl tower::Service<http::Request<Body>> for GreeterServer {
//! #     type Response = http::Response<Body>;
//! #     type Error = std::convert::Infallible;
//! #     type Future = std::future::Ready<Result<http::Response<Body>, Self::Error>>;
//! #     fn poll_ready(
//! #         &mut self,
//! #         _: &mut std::task::Context<'_>,
//! #     ) -> std::task::Poll<Result<(), Self::Error>> {
//! #         Ok(()).into()
//! #     }
//! #     fn call(&mut self, _: http::Request<Body>) -> Self::Future {
//! #         std::future::ready(Ok(http::Response::default()))
//! #     }
//! # }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let each_client = RateLimitLayer::per_client(Quota::per_second(50).burst(100))
//!     .exempt(|head| head.uri.path() == "/grpc.health.v1.Health/Check");
//! let greetings = RateLimitLayer::by(|head| head.uri.path().to_owned(), Quota::per_second(500)); // each method
//! tonic::transport::Server::builder()
//!     .layer(each_client) // all services
//!     .add_service(greetings.layer(GreeterServer)) // this one
//!     .serve(([127, 0, 0, 1], 50_051).into())
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! Metadata are headers ([`by_header`](damper_http::RateLimitLayer::by_header)), the full method is the path, and the
//! address of the peer comes from tonic's server. A stream is limited when it is opened, and its messages are not.
//!
//! # Circuit breakers
//!
//! A breaker is the [`CircuitBreakerLayer`](damper_http::CircuitBreakerLayer) of HTTP around a `Channel`, with
//! [`AtTrailers`], because gRPC says after the last message whether a call succeeded:
//! `CircuitBreakerLayer::single(config).completion(AtTrailers::new())`. Without `AtTrailers` the breaker would see a
//! `200 OK` and count an unavailable server as healthy.
//!
//! # Retries
//!
//! Retries are the [`RetryLayer`](damper_http::RetryLayer) of HTTP around a `Channel`, with [`GrpcRetries`], which has gRPC's
//! rules: the codes, the server's pushback, streams that are kept while they are sent:
//! `RetryLayer::new(retry).protocol(GrpcRetries::on([Code::Unavailable]))`. The breaker belongs outside of it.
//!
//! # Calls in flight
//!
//! Limits on the calls in flight are the layers of HTTP too. A [`ConcurrencyLayer`](damper_http::ConcurrencyLayer) around a server
//! answers `UNAVAILABLE`, and holds the slot of a stream until its trailers. A
//! [`ClientConcurrencyLayer`](damper_http::ClientConcurrencyLayer) around a `Channel` does so at the client's side. Inside of a stack, of
//! `AtTrailers` or of `GrpcRetries` its refusal is `UNAVAILABLE` too, and
//! [`BulkheadFull::find_in`](damper_core::BulkheadFull::find_in) finds it in the status.
//!
//! # Throttles
//!
//! A throttle is the [`ThrottleLayer`](damper_http::ThrottleLayer) of HTTP around a `Channel`, inside of the retries, with its own
//! verdicts: `ThrottleLayer::single().completion(AtTrailers::rejections())`.
//!
//! A paced client is the [`PacingLayer`](damper_http::PacingLayer) of HTTP around a `Channel`, with the protocol [`Grpc`]:
//! `PacingLayer::single(quota).protocol(Grpc::new())`.
//!
//! # All in the right order
//!
//! [`client_stack`](damper_http::client_stack) puts all of them into the right order, and [`Grpc`] makes it one for gRPC:
//! `client_stack().breaker_single(config).retry(retry).protocol(Grpc::new())`.
//!
//! # Deadlines
//!
//! Deadlines are the layers of HTTP too. Around a server, [`DeadlineLayer`](damper_http::DeadlineLayer) reads `grpc-timeout`
//! and answers `DEADLINE_EXCEEDED`; the handler finds the deadline in `request.extensions()`. Around a `Channel`,
//! [`ClientDeadlineLayer`](damper_http::ClientDeadlineLayer) sends what is left of it, and with `.protocol(Grpc::new())` its error is the
//! status `DEADLINE_EXCEEDED`. A deadline in
//! `request.extensions_mut()` bounds this call, as `request.set_timeout(duration)` does.
#![cfg_attr(docsrs, feature(doc_cfg))]
// | file | idea |
// |---|---|
// | `at_trailers` | when a call has ended |
// | `grpc_retries` | which calls are tried again, and how |
// | `grpc_hints` | what a response says about the server's limit |
// | `grpc` | all together, as the protocol of a client's stack |
// | `grpc_endings` | how a call ended, by tonic's errors too |
// | `transport` | what the errors of a `Channel` say about a call |
// | `verdict` | what a status says about its server, and where a response has it |
// | `status` | refusals as statuses, for handlers of yours too |
// | `interceptor` | a limit as an interceptor |
#![no_std]
#![deny(clippy::std_instead_of_core)]

extern crate alloc;
extern crate std;

mod at_trailers;
mod grpc;
mod grpc_endings;
mod grpc_hints;
mod grpc_retries;
mod interceptor;
mod status;
mod transport;
mod verdict;

pub use at_trailers::AtTrailers;
pub use grpc::Grpc;
pub use grpc_endings::GrpcEndings;
pub use grpc_retries::GrpcRetries;
pub use interceptor::RateLimitInterceptor;
pub use status::{IntoStatus, status_of_refusal};
pub use verdict::{rejection, unavailability};
