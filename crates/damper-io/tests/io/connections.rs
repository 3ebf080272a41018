//! Real connections over the loopback, on tokio's paused time.

use damper::io::{BytePacer, PacedIo};
use damper::time::TokioClock;
use damper::{Quota, RateLimiter};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};

const RATE: u32 = 2_000_000;
const CONNECTIONS: usize = 20;

async fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// Returns what the connections moved between the first second and the sixth.
async fn shares(are_readers_paced: bool) -> Vec<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let clock = TokioClock::new();
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_second(RATE).burst(RATE / 50), clock));
    let pacer = BytePacer::new(Arc::clone(&limit));
    let (begin, end) = (Instant::now() + Duration::from_secs(1), Instant::now() + Duration::from_secs(6));
    let mut readers = Vec::new();
    for connection in 0..CONNECTIONS {
        let (near, far) = pair(&listener).await;
        // A tenth is greedy, and the others have small, usual and large buffers.
        let buffer = if connection < 2 { 1 << 20 } else { [4_096, 16_384, 65_536][connection % 3] };
        let (write_limit, read_limit) = if are_readers_paced {
            (BytePacer::new(Arc::new(unlimited(clock))), pacer.clone())
        } else {
            (pacer.clone(), BytePacer::new(Arc::new(unlimited(clock))))
        };
        tokio::spawn(async move {
            let mut near = PacedIo::new(near).pace_writes(write_limit);
            let bytes = vec![7; buffer];
            while near.write_all(&bytes).await.is_ok() {}
        });
        readers.push(tokio::spawn(async move {
            let mut far = PacedIo::new(far).pace_reads(read_limit);
            let (mut moved, mut buf) = (0, vec![0; buffer]);
            while let Ok(read) = timeout_at(end, far.read(&mut buf)).await {
                if Instant::now() >= begin {
                    moved += read.unwrap() as u64;
                }
            }
            moved
        }));
    }
    let mut moved = Vec::new();
    for reader in readers {
        moved.push(reader.await.unwrap());
    }
    moved
}

fn unlimited(clock: TokioClock) -> RateLimiter<damper::TokenBucket, TokioClock> {
    RateLimiter::with_clock(Quota::UNLIMITED, clock)
}

fn assert_shares(moved: &[u64]) {
    let (total, part) = (u64::from(RATE) * 5, u64::from(RATE) * 5 / CONNECTIONS as u64);
    for &bytes in moved {
        assert!(bytes.abs_diff(part) * 100 <= part * 5, "{bytes} of {part}: {moved:?}");
    }
    let sum = moved.iter().sum::<u64>();
    assert!(sum <= total + u64::from(RATE / 50), "{sum} of {total}");
}

#[tokio::test(start_paused = true)]
async fn paced_writers_get_equal_parts() {
    assert_shares(&shares(false).await);
}

/// TCP slows the peers down, whose writers are not paced.
#[tokio::test(start_paused = true)]
async fn paced_readers_get_equal_parts() {
    assert_shares(&shares(true).await);
}
