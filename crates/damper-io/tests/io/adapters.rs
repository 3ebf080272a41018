//! The readers and writers of tokio, `futures` and `std`, on tokio's paused time or on a manual clock.

use damper::io::{BytePacer, Pace, PacedReader, PacedWriter};
use damper::time::{TokioClock, TokioSleep};
use damper::{Clock, ManualClock, Quota, RateLimiter, TokenBucket};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;

type Limit = Arc<RateLimiter<TokenBucket, TokioClock>>;

/// 1,000 bytes in a second, in chunks of 20.
fn limit() -> Limit {
    Arc::new(RateLimiter::with_clock(Quota::per_second(1_000).burst(20), TokioClock::new()))
}

/// I/O that follows a script: what each poll does with what it is offered.
#[derive(Debug, Default)]
struct Scripted {
    script: VecDeque<Poll<io::Result<usize>>>,
    offered: Vec<usize>,
    flushed: bool,
}

impl Scripted {
    fn new(script: impl IntoIterator<Item = Poll<io::Result<usize>>>) -> Self {
        Self { script: script.into_iter().collect(), ..Self::default() }
    }

    /// Does what the script says; at its end all that is offered.
    fn next(&mut self, offered: usize) -> Poll<io::Result<usize>> {
        self.offered.push(offered);
        self.script.pop_front().unwrap_or(Poll::Ready(Ok(offered))).map_ok(|bytes| bytes.min(offered))
    }
}

impl AsyncRead for Scripted {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.next(buf.remaining()).map_ok(|bytes| buf.put_slice(&vec![7; bytes]))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.next(buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        self.next(offered)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn reader(io: Scripted, limit: &Limit) -> PacedReader<Scripted, Pace<Limit, TokioSleep>> {
    PacedReader::new(io, BytePacer::new(Arc::clone(limit)))
}

fn writer(io: Scripted, limit: &Limit) -> PacedWriter<Scripted, Pace<Limit, TokioSleep>> {
    PacedWriter::new(io, BytePacer::new(Arc::clone(limit)))
}

#[tokio::test(start_paused = true)]
async fn reader_and_writer_take_the_time_of_their_bytes() {
    let start = Instant::now();
    let mut io = reader(Scripted::default(), &limit());
    let mut buf = [0; 520];
    io.read_exact(&mut buf).await.unwrap();
    assert_eq!((start.elapsed(), buf), (Duration::from_millis(500), [7; 520]));
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
async fn unused_bytes_cost_nothing() {
    // No read has to wait, so that no time brings bytes back.
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_second(1_000).burst(200), TokioClock::new()));
    let used = || limit.peek().used();
    let script = [Poll::Ready(Ok(5)), Poll::Ready(Ok(0)), Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))];
    let mut io = reader(Scripted::new(script), &limit);
    let mut buf = [0; 64];
    assert_eq!(io.read(&mut buf).await.unwrap(), 5);
    assert_eq!(used(), 5);
    assert_eq!(io.read(&mut buf).await.unwrap(), 0, "the end");
    assert_eq!(used(), 5);
    assert_eq!(io.read(&mut buf).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(used(), 5);
    assert_eq!(io.read(&mut []).await.unwrap(), 0);
    assert_eq!(used(), 5);

    let mut io = writer(Scripted::new([Poll::Ready(Ok(5)), Poll::Pending]), &limit);
    assert_eq!(io.write(&[0; 64]).await.unwrap(), 5);
    assert_eq!(used(), 10);
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(&mut io).poll_write(&mut context, &[0; 64]).is_pending());
    assert_eq!(used(), 10, "the inner writer is not ready");
    assert_eq!(io.write(&[]).await.unwrap(), 0);
    assert_eq!(used(), 10);
}

#[tokio::test(start_paused = true)]
async fn flush_and_shutdown_do_not_wait() {
    let limit = limit();
    let mut io = writer(Scripted::default(), &limit);
    io.write_all(&[0; 20]).await.unwrap();
    let start = Instant::now();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(&mut io).poll_write(&mut context, &[0; 20]).is_pending(), "a write waits for bytes");
    io.flush().await.unwrap();
    io.shutdown().await.unwrap();
    assert!(io.get_ref().flushed);
    assert_eq!((start.elapsed(), limit.debt()), (Duration::ZERO, 20));
    drop(io);
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
    let [small, large] = [[0; 6], [1; 6]];
    let bufs = [&[][..], &small, &large, &small, &large].map(IoSlice::new);
    let mut io = pin!(&mut io);
    assert!(matches!(io.as_mut().poll_write_vectored(&mut context, &bufs), Poll::Ready(Ok(18))), "three whole buffers");
    let whole = [IoSlice::new(&[0; 64])];
    assert!(matches!(io.as_mut().poll_write_vectored(&mut context, &whole), Poll::Ready(Ok(2))), "a part of the first");
    assert!(io.as_mut().poll_write_vectored(&mut context, &bufs).is_pending());
    assert!(
        matches!(io.as_mut().poll_write_vectored(&mut context, &bufs[..1]), Poll::Ready(Ok(0))),
        "nothing is wanted"
    );
    assert_eq!(io.get_ref().offered, [18, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn both_directions_have_limits_of_their_own_or_one() {
    let (down, up) = (limit(), limit());
    let mut io = PacedWriter::new(reader(Scripted::default(), &down), BytePacer::new(Arc::clone(&up)));
    io.read_exact(&mut [0; 20]).await.unwrap();
    io.write_all(&[0; 10]).await.unwrap();
    assert_eq!((down.peek().used(), up.peek().used()), (20, 10));

    let mut io = PacedReader::new(writer(Scripted::default(), &up), BytePacer::new(Arc::clone(&up)));
    io.read_exact(&mut [0; 5]).await.unwrap();
    io.write_all(&[0; 5]).await.unwrap();
    assert_eq!(up.peek().used(), 20);
}

fn elapsed(clock: &ManualClock) -> Duration {
    Duration::from_nanos(clock.now())
}

#[test]
fn futures_io_is_paced_by_any_timer() {
    use futures_util::io::{AsyncReadExt, AsyncWriteExt, Cursor};
    let clock = Arc::new(ManualClock::new());
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_second(1_000).burst(20), Arc::clone(&clock)));
    let sleep = |time| {
        clock.advance(time);
        std::future::ready(())
    };
    let pacer = BytePacer::new(Arc::clone(&limit));
    futures_util::FutureExt::now_or_never(async {
        let mut bytes = vec![0; 120];
        let mut io = PacedReader::sleeping_by(Cursor::new(vec![7; 120]), pacer.clone(), sleep);
        io.read_exact(&mut bytes).await.unwrap();
        assert_eq!((bytes, elapsed(&clock)), (vec![7; 120], Duration::from_millis(100)));

        let mut io = PacedWriter::sleeping_by(Cursor::new(Vec::new()), pacer, sleep);
        io.write_all(&[7; 100]).await.unwrap();
        io.close().await.unwrap();
        assert_eq!((io.into_inner().into_inner(), elapsed(&clock)), (vec![7; 100], Duration::from_millis(200)));
    })
    .expect("no sleep is pending");
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
            let mut io = PacedWriter::new(Scripted::default(), pacer.clone());
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
