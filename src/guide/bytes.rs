//! Bandwidth: bytes in a second, for all connections together and for each client.
//!
//! A limit of bytes is a [`RateLimiter`](crate::RateLimiter) whose tokens are bytes. The crate [`io`](crate::io) (feature `io`) puts it around
//! readers, writers and HTTP bodies. They wait for bytes and are never refused.
//!
//! # Choosing an adapter
//!
//! | you want to limit | take |
//! |---|---|
//! | what a connection sends | [`PacedIo`](crate::io::PacedIo) around the stream, with [`pace_writes`](crate::io::PacedIo::pace_writes) |
//! | what a connection receives | the same with [`pace_reads`](crate::io::PacedIo::pace_reads): while it waits it reads nothing, so TCP slows the peer down |
//! | both | both, with a limit for each direction or with one for both |
//! | the bodies of some responses or requests | a `PacedBody` (features `io` and `http`) |
//! | files, pipes and threads that block | [`PacedIo::blocking`](crate::io::PacedIo::blocking) |
//! | a modem or a radio of a device | `PacedIo` for `embedded-io` and `embedded-io-async` (feature `embedded-io`), with the limit in a `static` |
//! | I/O of your own | [`BytePacer`](crate::io::BytePacer), which says how many bytes may be moved now, or how long to wait |
//!
//! `PacedIo` implements the traits of tokio (features `io` and `tokio`), of `std`, and of the crate `futures` (feature `futures-io`). Halves
//! that `tokio::io::split` makes of it wait independently of each other.
//!
//! # One limit for all connections, and one for each client
//!
//! ```
//! # #[cfg(all(feature = "io", feature = "tokio"))] {
//! use damper::io::{BytePacer, PacedIo};
//! use damper::{BoundedStore, Quota, RateLimiter};
//! use std::net::IpAddr;
//! use std::sync::Arc;
//! use tokio::io::AsyncWriteExt;
//! use tokio::net::TcpListener;
//!
//! async fn serve(listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
//!     let total = Arc::new(RateLimiter::new(Quota::per_second(10_000_000).burst(1_000_000)));
//!     let clients = BoundedStore::<IpAddr, RateLimiter>::new(10_000)?;
//!     loop {
//!         let (stream, peer) = listener.accept().await?;
//!         let quota = Quota::per_second(1_000_000).burst(100_000);
//!         let client = clients.get_or_insert_with(&peer.ip(), || RateLimiter::new(quota));
//!         let mut stream = PacedIo::new(stream).pace_writes(BytePacer::all([Arc::clone(&total), client]));
//!         tokio::spawn(async move { stream.write_all(&[0; 1_000_000]).await });
//!     }
//! }
//! # }
//! ```
//!
//! `cargo run --release -p damper-io --example bandwidth` is this server.
//!
//! Connections that always have something to move get equal parts of a limit, whatever the sizes of their buffers and however often they ask.
//! The parts are those of connections, not of clients: a client that opens ten gets ten. So give each client a limit of its own, too.
//!
//! A proxy paces both directions of a client by its limit and copies as before:
//!
//! ```
//! # #[cfg(all(feature = "io", feature = "tokio"))] {
//! use damper::RateLimiter;
//! use damper::io::{BytePacer, PacedIo};
//! use std::{io, sync::Arc};
//! use tokio::{io::copy_bidirectional, net::TcpStream};
//!
//! async fn proxy(client: TcpStream, mut server: TcpStream, limit: Arc<RateLimiter>) -> io::Result<(u64, u64)> {
//!     let pacer = BytePacer::new(limit);
//!     let mut client = PacedIo::new(client).pace_reads(pacer.clone()).pace_writes(pacer);
//!     copy_bidirectional(&mut client, &mut server).await
//! }
//! # }
//! ```
//!
//! # Choosing a quota
//!
//! - **The burst** evens out timers that fire late, and lets a short answer pass at once. A tenth of a second's bytes is enough. No chunk is
//!   larger than the burst, and timers tick in milliseconds. So a lone connection moves at most a burst in a millisecond or two: with a
//!   burst of 100 bytes, some 100 kB in a second at any rate.
//! - **`max_debt`** is how many bytes may be waited for: ten bursts unless set. Each busy connection waits for a chunk, the bytes of
//!   2 ms, and chunks shrink when the line is long. For a thousand busy connections set it to a second's bytes or more.
//! - [`set_quota`](crate::RateLimiter::set_quota) changes the rate while connections wait. They notice it within a second.
//! - **A rate of 0** stops the connections once the burst is spent, and a burst of 0 stops them at once. They wait until another quota is
//!   set, without an error. Put a timeout around I/O that must not wait so long.
//! - **Requests** have a limit of their own. While connections wait at a limit it is in debt, so [`check`](crate::RateLimiter::check) refuses
//!   all requests there.
//!
//! # Counting
//!
//! A limit counts exactly the bytes that the inner reader or writer moved, in the directions that it paces. The chunk that a connection took and did not move is given
//! back at once if the I/O is not ready, and when the connection ends. A connection that stops in the middle of a chunk keeps the rest
//! of it. Headers of TCP and IP, retransmissions, and what TLS or a compression *inside* the paced stream adds are not counted: pace the
//! `TcpStream` below TLS to limit the wire. Buffers belong around the paced stream: a `BufWriter` inside of it passes what it has collected on
//! at once.
//!
//! Flushing, closing, empty buffers and trailers never wait. The end of a stream and errors come after the wait for the chunk, because a
//! reader that waits does not read.
//!
//! A read or a write that `select!` or a timeout cancels has moved nothing and keeps its place in the line. The next one has it. A connection
//! that ends while it waits gives its chunk back if it is the last in the line. Otherwise the time of the chunk passes unused.
//!
//! # Costs
//!
//! A chunk costs a system call, a timer and a few atomic operations. It takes no lock of damper's and allocates nothing. Connections of a limit wake up
//! together where they wait for long.
//!
//! `cargo run --release -p damper-io --example bandwidth -- measure` sends from one thread to 100 clients in another process for 20 s. On two
//! logical cores of a virtual machine (Intel Xeon, Linux 6.18) with nothing beside it, the middle of three runs, 2026-11-30:
//!
//! | server | total | part of a connection | CPU of its thread |
//! |---|---|---|---|
//! | paced | 10.00 MB/s | 0.0 % from its share | 1.7 % of a core |
//! | the same chunks by an interval of tokio for each connection, no limit | 10.03 MB/s | up to 1.0 % | 0.74 % |
//! | as fast as it can, the same 200 MB | all in 0.1 s | | 44 ms, which would be 0.22 % over 20 s |
//!
//! So a chunk of 20 kB costs 34 µs, with the wake-up of its thread. In a second the thread sends 500 chunks and wakes 130 times
//! (`strace -c`, 2026-11-30). Three quarters of its time are the kernel's, and 4 % are damper's (`perf record`).
//!
//! # Names elsewhere
//!
//! | elsewhere | here |
//! |---|---|
//! | `limit_rate` of nginx, `--limit-rate` of curl | `PacedIo` with a limit for each connection |
//! | the limiter of `async-speed-limit`, the throttle layer of opendal | one limiter in an `Arc`, shared by all readers and writers |
//! | HTB of Linux, with a class for each client | a limit in total and one for each client; a client cannot borrow what others do not use |
