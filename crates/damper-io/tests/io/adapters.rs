//! The I/O of tokio, on its paused time.

use crate::scripted::Scripted;
use damper::io::{BytePacer, PacedIo};
use damper::time::{TokioClock, TokioSleep};
use damper::{Quota, RateLimiter, TokenBucket};
use std::io::IoSlice;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

type Limit = Arc<RateLimiter<TokenBucket, TokioClock>>;

/// 1,000 bytes in a second, in chunks of 20.
fn limit() -> Limit {
    Arc::new(RateLimiter::with_clock(Quota::per_second(1_000).burst(20), TokioClock::new()))
}

fn reader(io: Scripted, limit: &Limit) -> PacedIo<Scripted, BytePacer<Limit>, TokioSleep> {
    PacedIo::new(io).pace_reads(BytePacer::new(Arc::clone(limit)))
}

fn writer(io: Scripted, limit: &Limit) -> PacedIo<Scripted, BytePacer<Limit>, TokioSleep> {
    PacedIo::new(io).pace_writes(BytePacer::new(Arc::clone(limit)))
}

#[tokio::test(start_paused = true)]
async fn reader_and_writer_take_the_time_of_their_bytes() {
    let (start, read_limit) = (Instant::now(), limit());
    let mut io = reader(Scripted::default(), &read_limit);
    let mut buf = [0; 520];
    io.read_exact(&mut buf).await.unwrap();
    assert_eq!((start.elapsed(), buf), (Duration::from_millis(500), [7; 520]));
    assert_eq!(read_limit.debt(), 0, "what a buffer had before is not charged");
    assert!(io.get_ref().offered.iter().all(|&offered| offered <= 20));

    let start = Instant::now();
    let mut io = writer(Scripted::default(), &limit());
    io.write_all(&[7; 520]).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(500));
    assert_eq!(io.get_ref().offered.iter().sum::<usize>(), 520);
}

/// `read_buf` offers memory that is not initialized.
#[tokio::test(start_paused = true)]
async fn uninitialized_buffers_are_filled() {
    let mut io = reader(Scripted::default(), &limit());
    let mut bytes = Vec::with_capacity(64);
    while bytes.len() < 64 {
        io.read_buf(&mut bytes).await.unwrap();
    }
    assert_eq!(bytes, [7; 64]);
}

#[tokio::test(start_paused = true)]
async fn flush_does_not_wait_and_shutdown_gives_back() {
    let limit = limit();
    let mut io = writer(Scripted::default(), &limit);
    io.write_all(&[0; 20]).await.unwrap();
    let start = Instant::now();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(&mut io).poll_write(&mut context, &[0; 20]).is_pending(), "a write waits for bytes");
    io.flush().await.unwrap();
    assert_eq!((io.get_ref().flushes, start.elapsed(), limit.debt()), (1, Duration::ZERO, 20));
    io.shutdown().await.unwrap();
    assert_eq!((io.get_ref().closes, start.elapsed(), limit.debt()), (1, Duration::ZERO, 0));

    let mut io = writer(Scripted::default(), &limit);
    assert!(pin!(&mut io).poll_write(&mut context, &[0; 20]).is_pending());
    assert_eq!(limit.debt(), 20);
    let _ = io.into_inner();
    assert_eq!(limit.debt(), 0, "the last of the line gives back what it waited for");
}

#[tokio::test(start_paused = true)]
async fn cancelled_read_keeps_its_place() {
    let limit = limit();
    limit.drain();
    let mut io = reader(Scripted::default(), &limit);
    let mut buf = [0; 20];
    for _ in 0..4 {
        assert!(tokio::time::timeout(Duration::from_millis(4), io.read(&mut buf)).await.is_err());
    }
    let start = Instant::now();
    assert_eq!(io.read(&mut buf).await.unwrap(), 20);
    assert_eq!(start.elapsed(), Duration::from_millis(4), "16 of the 20 ms were over");
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_cut_where_the_chunk_ends() {
    let (limit, mut context) = (limit(), Context::from_waker(Waker::noop()));
    let mut io = writer(Scripted::default(), &limit);
    assert!(io.is_write_vectored());
    let bufs = [&[][..], &[1; 6], &[2; 6], &[], &[3; 6], &[4; 6]].map(IoSlice::new);
    let mut io = pin!(&mut io);
    assert!(matches!(io.as_mut().poll_write_vectored(&mut context, &bufs), Poll::Ready(Ok(20))));
    assert!(io.as_mut().poll_write_vectored(&mut context, &bufs).is_pending());
    let nothing = io.as_mut().poll_write_vectored(&mut context, &bufs[..1]);
    assert!(matches!(nothing, Poll::Ready(Ok(0))), "nothing is wanted");
    assert_eq!(io.get_ref().offered, [20, 0]);
    assert_eq!(io.get_ref().written, [[1; 6], [2; 6], [3; 6]].concat().into_iter().chain([4; 2]).collect::<Vec<_>>());
}

/// A write takes 64 buffers at most. The rest of the chunk goes back.
#[tokio::test(start_paused = true)]
async fn vectored_write_of_many_buffers_is_cut() {
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_second(10_000).burst(200), TokioClock::new()));
    let (mut io, mut context) = (writer(Scripted::default(), &limit), Context::from_waker(Waker::noop()));
    let bufs = [IoSlice::new(&[1]); 100];
    assert!(matches!(pin!(&mut io).poll_write_vectored(&mut context, &bufs), Poll::Ready(Ok(64))));
    assert_eq!(limit.peek().used(), 64);

    let mut bufs = [IoSlice::new(&[]); 100];
    bufs[99] = IoSlice::new(&[1; 7]);
    let written = pin!(&mut io).poll_write_vectored(&mut context, &bufs);
    assert!(matches!(written, Poll::Ready(Ok(7))), "empty buffers do not count");
}

#[tokio::test(start_paused = true)]
async fn both_directions_have_limits_of_their_own_or_one() {
    let (down, up) = (limit(), limit());
    let mut io = reader(Scripted::default(), &down).pace_writes(BytePacer::new(Arc::clone(&up)));
    io.read_exact(&mut [0; 20]).await.unwrap();
    io.write_all(&[0; 10]).await.unwrap();
    assert_eq!((down.peek().used(), up.peek().used()), (20, 10));

    let mut io = reader(Scripted::default(), &up).pace_writes(BytePacer::new(Arc::clone(&up)));
    io.read_exact(&mut [0; 5]).await.unwrap();
    io.write_all(&[0; 5]).await.unwrap();
    assert_eq!(up.peek().used(), 20);
}

/// One wake-up serves several connections, and the rate is reached all the same.
#[tokio::test(start_paused = true)]
async fn long_waits_end_together() {
    const CONNECTIONS: usize = 80;
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_second(1_000_000).burst(100_000), TokioClock::new()));
    limit.drain();
    let (start, pacer) = (Instant::now(), BytePacer::new(limit));
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut io = PacedIo::new(Scripted::default()).pace_writes(pacer.clone());
            tokio::spawn(async move {
                let mut written = Vec::new();
                for _ in 0..16 {
                    io.write_all(&[7; 2_000]).await.unwrap();
                    written.push(start.elapsed());
                }
                written
            })
        })
        .collect();
    let mut instants = Vec::new();
    for task in tasks {
        instants.extend(task.await.unwrap());
    }
    let (writes, last) = (instants.len() as u32, instants.iter().max().copied().unwrap());
    instants.sort_unstable();
    instants.dedup();
    assert!(instants.len() as u32 * 3 < writes * 2, "{} instants of {writes} writes", instants.len());
    let needed = Duration::from_millis(2) * writes;
    assert!(last >= needed && last < needed * 21 / 20, "{last:?} of {needed:?}");
}
