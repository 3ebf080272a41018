//! The readers and writers of `std::io`, whose sleeps advance a manual clock.

use damper::io::{BlockingSleep, BytePacer, PacedReader, PacedWriter};
use damper::{Clock, ManualClock, Quota, RateLimiter};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn std_io_blocks() {
    let clock = Arc::new(ManualClock::new());
    let limit = Arc::new(RateLimiter::with_clock(Quota::per_second(1_000).burst(20), Arc::clone(&clock)));
    let elapsed = || Duration::from_nanos(clock.now());
    let sleep = BlockingSleep(|time| clock.advance(time));
    let pacer = BytePacer::new(limit);
    let mut bytes = vec![0; 120];
    PacedReader::sleeping_by(&[7; 120][..], pacer.clone(), sleep).read_exact(&mut bytes).unwrap();
    assert_eq!((bytes, elapsed()), (vec![7; 120], Duration::from_millis(100)));
    let mut io = PacedWriter::sleeping_by(Vec::new(), pacer, BlockingSleep(|time| clock.advance(time)));
    io.write_all(&[7; 100]).unwrap();
    io.flush().unwrap();
    assert_eq!((io.into_inner(), elapsed()), (vec![7; 100], Duration::from_millis(200)));
}
