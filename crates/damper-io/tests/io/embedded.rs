//! The traits of `embedded-io`, with a limit in a `static`.

use damper::io::{BytePacer, PacedIo};
use damper::{Clock, Quota, RateLimiter, TokenBucket};
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static MICROS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Timer;

impl Clock for Timer {
    fn now(&self) -> u64 {
        MICROS.load(Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000
    }
}

static UPLINK: RateLimiter<TokenBucket, Timer> = RateLimiter::with_clock(Quota::per_second(1_000).burst(20), Timer);

fn pass(time: Duration) {
    MICROS.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
}

/// One test, because there is one time.
#[test]
fn embedded_io_is_paced() {
    let pacer = BytePacer::new(&UPLINK);
    let sleep = |time| {
        pass(time);
        ready(())
    };
    {
        use embedded_io::{Read, Write};
        let mut buf = [0; 120];
        PacedIo::sleeping_by(&[7; 120][..], sleep).pace_reads(pacer.clone()).read_exact(&mut buf).unwrap();
        assert_eq!((buf, MICROS.load(Ordering::Relaxed)), ([7; 120], 100_000));
        let mut memory = [0; 100];
        let mut io = PacedIo::sleeping_by(&mut memory[..], sleep).pace_writes(pacer.clone());
        io.write_all(&[7; 100]).unwrap();
        io.flush().unwrap();
        assert_eq!((memory, MICROS.load(Ordering::Relaxed)), ([7; 100], 200_000));
    }
    let run = async {
        use embedded_io_async::{Read, Write};
        let mut buf = [0; 100];
        PacedIo::sleeping_by(&[7; 100][..], sleep).pace_reads(pacer.clone()).read_exact(&mut buf).await.unwrap();
        assert_eq!((buf, MICROS.load(Ordering::Relaxed)), ([7; 100], 300_000));
        let mut memory = [0; 100];
        let mut io = PacedIo::sleeping_by(&mut memory[..], sleep).pace_writes(pacer.clone());
        assert_eq!(io.write(&[]).await.unwrap(), 0);
        io.write_all(&[7; 100]).await.unwrap();
        io.flush().await.unwrap();
        assert_eq!((memory, MICROS.load(Ordering::Relaxed)), ([7; 100], 400_000));
    };
    futures_util::FutureExt::now_or_never(run).expect("no sleep is pending");
}
