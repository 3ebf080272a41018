//! The traits of tokio, `futures`, `std` and `embedded-io`, beside each other.

use crate::scripted::Scripted;
use damper::io::{BytePacer, PacedIo};
use damper::time::Sleep;
use damper::{Clock, ManualClock, Quota, RateLimiter, TokenBucket};
use futures_util::FutureExt;
use std::future::{Ready, ready};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::ReadBuf;

type Limit = Arc<RateLimiter<TokenBucket, Arc<ManualClock>>>;
type Paced = PacedIo<Scripted, BytePacer<Limit>, Advance>;

/// Sleeps by advancing the clock.
struct Advance(Arc<ManualClock>);

impl Sleep for Advance {
    type Sleeping = Ready<()>;

    fn sleep(&self, duration: Duration) -> Ready<()> {
        self.0.advance(duration);
        ready(())
    }
}

/// A family of traits: how it reads, and how it writes.
struct Family {
    name: &'static str,
    read: fn(&mut Paced, &mut [u8]) -> Poll<io::Result<usize>>,
    write: fn(&mut Paced, &[u8]) -> Poll<io::Result<usize>>,
    flush: fn(&mut Paced) -> Poll<io::Result<()>>,
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// The result of I/O that blocks, as that of polled I/O.
fn ready_at_once<T, E>(done: Result<T, E>) -> Poll<io::Result<T>> {
    Poll::Ready(done.map_err(|_| ErrorKind::Other.into()))
}

const FAMILIES: [Family; 5] = [
    Family {
        name: "tokio",
        read: |io, buf| {
            let mut buf = ReadBuf::new(buf);
            tokio::io::AsyncRead::poll_read(Pin::new(io), &mut context(), &mut buf).map_ok(|()| buf.filled().len())
        },
        write: |io, buf| tokio::io::AsyncWrite::poll_write(Pin::new(io), &mut context(), buf),
        flush: |io| tokio::io::AsyncWrite::poll_flush(Pin::new(io), &mut context()),
    },
    Family {
        name: "futures",
        read: |io, buf| futures_util::AsyncRead::poll_read(Pin::new(io), &mut context(), buf),
        write: |io, buf| futures_util::AsyncWrite::poll_write(Pin::new(io), &mut context(), buf),
        flush: |io| futures_util::AsyncWrite::poll_flush(Pin::new(io), &mut context()),
    },
    Family {
        name: "std",
        read: |io, buf| ready_at_once(io::Read::read(io, buf)),
        write: |io, buf| ready_at_once(io::Write::write(io, buf)),
        flush: |io| ready_at_once(io::Write::flush(io)),
    },
    Family {
        name: "embedded-io",
        read: |io, buf| ready_at_once(embedded_io::Read::read(io, buf)),
        write: |io, buf| ready_at_once(embedded_io::Write::write(io, buf)),
        flush: |io| ready_at_once(embedded_io::Write::flush(io)),
    },
    Family {
        name: "embedded-io-async",
        read: |io, buf| {
            ready_at_once(embedded_io_async::Read::read(io, buf).now_or_never().expect("no sleep is pending"))
        },
        write: |io, buf| {
            ready_at_once(embedded_io_async::Write::write(io, buf).now_or_never().expect("no sleep is pending"))
        },
        flush: |io| ready_at_once(embedded_io_async::Write::flush(io).now_or_never().expect("it does not sleep")),
    },
];

/// I/O at a limit of 1,000 bytes in a second, both directions in one line.
fn paced(burst: u32, script: impl IntoIterator<Item = Poll<io::Result<usize>>>) -> (Paced, Limit, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_second(1_000).burst(burst), Arc::clone(&clock)));
    let pacer = BytePacer::new(Arc::clone(&limit));
    let io = PacedIo::sleeping_by(Scripted::new(script), Advance(Arc::clone(&clock)));
    (io.pace_reads(pacer.clone()).pace_writes(pacer), limit, clock)
}

fn elapsed(clock: &ManualClock) -> Duration {
    Duration::from_nanos(clock.now())
}

fn moved(done: Poll<io::Result<usize>>) -> Option<usize> {
    match done {
        Poll::Ready(done) => done.ok(),
        Poll::Pending => None,
    }
}

// CLAIM: io::BytePacer
#[test]
fn bytes_that_were_not_moved_cost_nothing() {
    for Family { name, read, write, .. } in FAMILIES {
        let script = || {
            [
                Poll::Ready(Ok(5)),
                Poll::Ready(Ok(0)),
                Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
                Poll::Pending,
                Poll::Ready(Ok(3)),
            ]
        };
        let (mut io, limit, clock) = paced(200, script());
        for (expected, used) in [(Some(5), 5), (Some(0), 5), (None, 5), (None, 5), (Some(3), 8), (Some(20), 28)] {
            assert_eq!((moved(read(&mut io, &mut [0; 20])), limit.peek().used()), (expected, used), "reads of {name}");
        }
        let (mut io, limit, _) = paced(200, script());
        for (expected, used) in [(Some(5), 5), (Some(0), 5), (None, 5), (None, 5), (Some(3), 8), (Some(20), 28)] {
            assert_eq!((moved(write(&mut io, &[0; 20])), limit.peek().used()), (expected, used), "writes of {name}");
        }
        assert_eq!(elapsed(&clock), Duration::ZERO, "{name}");
    }
}

#[test]
fn io_takes_the_time_of_its_bytes() {
    for Family { name, read, write, flush } in FAMILIES {
        let (mut io, _, clock) = paced(20, []);
        let (mut buf, mut done) = ([0; 120], 0);
        while done < 120 {
            done += moved(read(&mut io, &mut buf[done..])).unwrap();
        }
        assert_eq!((buf, elapsed(&clock)), ([7; 120], Duration::from_millis(100)), "{name}");
        let bytes: Vec<u8> = (0..120).collect();
        while done < 240 {
            done += moved(write(&mut io, &bytes[done - 120..])).unwrap();
        }
        assert!(flush(&mut io).is_ready());
        assert_eq!((&io.get_ref().written, elapsed(&clock)), (&bytes, Duration::from_millis(220)), "{name}");
        assert!(io.get_ref().offered.iter().all(|&offered| offered == 20), "{name}: {:?}", io.get_ref().offered);
        assert_eq!(io.get_ref().flushes, 1, "{name}");
    }
}

#[test]
fn empty_buffers_and_unlimited_directions_do_not_wait() {
    for Family { name, read, write, .. } in FAMILIES {
        let (mut io, limit, clock) = paced(20, []);
        limit.drain();
        assert_eq!((moved(read(&mut io, &mut [])), moved(write(&mut io, &[]))), (Some(0), Some(0)), "{name}");
        assert_eq!((limit.debt(), elapsed(&clock), &io.get_ref().offered), (0, Duration::ZERO, &vec![0, 0]), "{name}");

        let unlimited = || PacedIo::sleeping_by(Scripted::default(), Advance(Arc::clone(&clock)));
        let mut io = unlimited().pace_writes(BytePacer::new(Arc::clone(&limit)));
        assert_eq!((moved(read(&mut io, &mut [0; 5_000])), elapsed(&clock)), (Some(5_000), Duration::ZERO), "{name}");
        let mut io = unlimited().pace_reads(BytePacer::new(Arc::clone(&limit)));
        assert_eq!((moved(write(&mut io, &[0; 5_000])), elapsed(&clock)), (Some(5_000), Duration::ZERO), "{name}");
        assert_eq!((limit.debt(), limit.peek().remaining()), (0, 0), "{name}");
    }
}

/// Long waits end together, but each is lengthened by at most a 16th, and a short one not at all.
#[test]
fn waits_are_hardly_lengthened() {
    for micros in [100, 1_500, 15_900, 16_000, 40_000, 200_000, 900_000] {
        let (clock, wait) = (Arc::new(ManualClock::new()), Duration::from_micros(micros));
        clock.advance(Duration::from_nanos(123_457));
        let limit = Arc::new(RateLimiter::with_clock(Quota::every(wait).unwrap(), Arc::clone(&clock)));
        limit.drain();
        let start = elapsed(&clock);
        let io = PacedIo::sleeping_by(Scripted::default(), Advance(Arc::clone(&clock)));
        let mut io = io.pace_reads(BytePacer::new(limit));
        assert_eq!(moved((FAMILIES[1].read)(&mut io, &mut [0; 9])), Some(1));
        let most = if micros < 16_000 { wait } else { wait * 17 / 16 };
        let slept = elapsed(&clock).saturating_sub(start);
        assert!((wait..=most).contains(&slept), "{slept:?} for {wait:?}");
    }
}

#[test]
fn vectored_writes_are_paced_and_closing_gives_back() {
    let bufs = [&[][..], &[1; 15], &[2; 15]].map(IoSlice::new);
    let written = [&[1; 15][..], &[2; 5]].concat();
    let (mut io, _, clock) = paced(20, []);
    assert_eq!(io::Write::write_vectored(&mut io, &bufs).unwrap(), 20);
    assert_eq!((&io.get_ref().written, elapsed(&clock)), (&written, Duration::ZERO));
    assert_eq!(io::Write::write_vectored(&mut io, &bufs[1..2]).unwrap(), 15);
    assert_eq!(elapsed(&clock), Duration::from_millis(15));

    let (mut io, limit, clock) = paced(20, [Poll::Ready(Ok(64)), Poll::Pending]);
    let done = futures_util::AsyncWrite::poll_write_vectored(Pin::new(&mut io), &mut context(), &bufs);
    assert_eq!((moved(done), &io.get_ref().written), (Some(20), &written));
    clock.advance(Duration::from_millis(20));
    let pending = futures_util::AsyncWrite::poll_write_vectored(Pin::new(&mut io), &mut context(), &bufs);
    assert!(pending.is_pending());
    assert_eq!(limit.peek().used(), 0);

    // While another connection waits, a chunk is larger than the write, and the connection keeps the rest.
    assert_eq!(moved(futures_util::AsyncWrite::poll_write(Pin::new(&mut io), &mut context(), &[0; 64])), Some(20));
    let mut other = BytePacer::new(Arc::clone(&limit));
    assert!(other.ask(5).is_err());
    assert_eq!(moved(futures_util::AsyncWrite::poll_write(Pin::new(&mut io), &mut context(), &[0; 2])), Some(2));
    assert_eq!(limit.peek().remaining(), 0);
    assert!(futures_util::AsyncWrite::poll_close(Pin::new(&mut io), &mut context()).is_ready());
    assert_eq!(
        (io.get_ref().closes, limit.peek().remaining()),
        (1, 10),
        "its chunk is a 16th of the room in the line, 12 bytes"
    );
}

/// The only test that really sleeps. Nothing bounds how long a machine takes, so it has no upper bound.
#[test]
fn blocking_io_blocks_the_thread() {
    let limit = Arc::new(RateLimiter::new(Quota::per_second(1_000).burst(20)));
    let mut io = PacedIo::blocking(Scripted::default()).pace_writes(BytePacer::new(limit));
    let start = Instant::now();
    io::Write::write_all(&mut io, &[7; 40]).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(20), "{:?}", start.elapsed());
    assert_eq!(io.into_inner().written, [7; 40]);
}
