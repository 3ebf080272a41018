//! A server that sends bytes for as long as its clients read.
//!
//! It sends at most 10 MB/s in total, shared fairly, and 1 MB/s to each client.
//!
//! ```text
//! cargo run --release -p damper-io --example bandwidth                # then, in other terminals: nc 127.0.0.1 9000 | pv > /dev/null
//! cargo run --release -p damper-io --example bandwidth -- measure     # 100 connections at 10 MB/s: their parts, the CPU (Linux)
//! ```

mod measure;

use damper::io::{BytePacer, PacedIo};
use damper::{BoundedStore, Quota, RateLimiter};
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// 10 MB/s. A burst of a tenth of a second evens out late timers.
const TOTAL: Quota = Quota::per_second(10_000_000).burst(1_000_000);

/// 1 MB/s for all connections of a client.
const CLIENT: Quota = Quota::per_second(1_000_000).burst(100_000);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => runtime.block_on(serve()),
        ["measure"] => runtime.block_on(measure::measure()),
        ["read", address] => runtime.block_on(measure::read(address)),
        _ => Err("usage: bandwidth [measure]".into()),
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:9000").await?;
    let total = Arc::new(RateLimiter::new(TOTAL));
    let clients = BoundedStore::<IpAddr, RateLimiter>::new(10_000)?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let client = clients.get_or_insert_with(&peer.ip(), || RateLimiter::new(CLIENT));
        let mut stream = PacedIo::new(stream).pace_writes(BytePacer::all([Arc::clone(&total), client]));
        tokio::spawn(async move {
            // It ends when the client goes.
            while stream.write_all(&[b'.'; 16_384]).await.is_ok() {}
        });
    }
}
