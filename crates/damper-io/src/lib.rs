//! Limits of bandwidth: readers, writers and HTTP bodies whose bytes come no faster than a limit.
//!
//! The limit is a [`RateLimiter`](damper_core::RateLimiter) whose tokens are bytes. Many connections share it in an `Arc` or a `static`, and
//! those that always have something to move get equal parts of it.
//!
//! The crate [`damper`](https://docs.rs/damper) re-exports all of it as `damper::io`.
//!
//! # Examples
//!
//! A server that sends at most 10 MB/s in total:
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! use damper_core::{Quota, RateLimiter};
//! use damper_io::{BytePacer, PacedIo};
//! use std::sync::Arc;
//! use tokio::io::AsyncWriteExt;
//! use tokio::net::TcpListener;
//!
//! async fn serve(listener: TcpListener) -> std::io::Result<()> {
//!     let total = BytePacer::new(Arc::new(RateLimiter::new(Quota::per_second(10_000_000).burst(1_000_000))));
//!     loop {
//!         let (stream, _) = listener.accept().await?;
//!         let mut stream = PacedIo::new(stream).pace_writes(total.clone());
//!         tokio::spawn(async move { stream.write_all(&[0; 1_000_000]).await });
//!     }
//! }
//! # }
//! ```
//!
//! `pace_reads` limits what is received: while it waits nothing is read, the buffers of the connection fill, and TCP slows the peer down.
//!
//! # Adapters
//!
//! | of | feature | waits by |
//! |---|---|---|
//! | `AsyncRead`, `AsyncWrite` of tokio | `tokio` | tokio's timer, or another [`Sleep`](damper_core::time::Sleep) |
//! | `AsyncRead`, `AsyncWrite` of `futures` | `futures-io` | a `Sleep` |
//! | `http_body::Body`, as `PacedBody` | `http-body` | tokio's timer, or another `Sleep` |
//! | `Read`, `Write` of `std::io` | `std` | `thread::sleep`, or another function that blocks |
//! | `Read`, `Write` of `embedded-io-async` | `embedded-io` | a `Sleep` |
//! | `Read`, `Write` of `embedded-io` | `embedded-io` | a function that blocks |
//! | I/O of your own | | what you like: [`BytePacer`] says how many bytes may be moved now, or how long to wait |
//!
//! # Features
//!
//! All are additive; without any the crate needs neither `std` nor `alloc`.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | readers and writers of `std::io`; the default clock (with `alloc`) |
//! | `alloc` | yes | limits in an `Arc`, timers of adapters that are polled |
//! | `tokio` | | `AsyncRead` and `AsyncWrite` of tokio, and its timer (with `std`) |
//! | `futures-io` | | `AsyncRead` and `AsyncWrite` of the crate `futures` (with `std`) |
//! | `http-body` | | `PacedBody` (with `alloc`) |
//! | `embedded-io` | | `Read` and `Write` of `embedded-io` and `embedded-io-async` |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", test, doctest))]
extern crate std;

// | file | idea |
// |---|---|
// | `chunk` | the size of a chunk, by the quota and the bytes that are waited for |
// | `byte_pacer` | `BytePacer`: how many bytes may be moved now, or how long to wait |
// | `direction` | a `BytePacer` and its timer: polls, awaits or blocks until bytes may be moved, and moves them |
// | `paced_io` | `PacedIo`: a direction for reads and one for writes |
// | `tokio_io`, `futures_io`, `embedded`, `std_io` | its traits of I/O |
// | `async_write`, `first_bytes` | what writes of tokio and of `futures` have in common; where a vectored write ends |
// | `paced_body` | `PacedBody`: a body of HTTP |

#[cfg(any(feature = "futures-io", feature = "tokio"))]
mod async_write;
mod byte_pacer;
mod chunk;
mod direction;
#[cfg(feature = "embedded-io")]
mod embedded;
#[cfg(feature = "std")]
mod first_bytes;
#[cfg(feature = "futures-io")]
mod futures_io;
#[cfg(feature = "http-body")]
mod paced_body;
mod paced_io;
#[cfg(feature = "std")]
mod std_io;
#[cfg(feature = "tokio")]
mod tokio_io;

pub use byte_pacer::BytePacer;
#[cfg(feature = "http-body")]
pub use paced_body::PacedBody;
pub use paced_io::PacedIo;
