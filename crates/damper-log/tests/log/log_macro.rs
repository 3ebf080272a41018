//! `log_limited!`: what a logger gets.

use damper::logs::{LogLimit, log_limited};
use damper::{ManualClock, Quota, RateLimiter};
use log::kv::{self, Key, VisitSource};
use log::{Level, Log, Metadata, Record, warn};
use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

/// A record as a logger gets it: level, target, message and pairs.
type Line = (Level, String, String, String);

/// Keeps the records of `info` and above.
///
/// The calls name it, so that the process needs no global one.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Line>>);

impl Kept {
    fn take(&self) -> Vec<Line> {
        std::mem::take(&mut *self.0.lock().expect("no test fails under it"))
    }
}

impl Log for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Info
    }

    fn log(&self, record: &Record<'_>) {
        struct Pairs(String);
        impl<'kvs> VisitSource<'kvs> for Pairs {
            fn visit_pair(&mut self, key: Key<'kvs>, value: kv::Value<'kvs>) -> Result<(), kv::Error> {
                self.0.write_fmt(format_args!("{key}={value} ")).map_err(kv::Error::from)
            }
        }
        let mut pairs = Pairs(String::new());
        record.key_values().visit(&mut pairs).expect("it cannot fail");
        let line = (record.level(), record.target().to_owned(), record.args().to_string(), pairs.0);
        self.0.lock().expect("no test fails under it").push(line);
    }

    fn flush(&self) {}
}

fn line(level: Level, target: &str, message: &str, pairs: &str) -> Line {
    (level, target.to_owned(), message.to_owned(), pairs.to_owned())
}

#[test]
fn message_without_pairs_has_the_count_as_a_suffix() {
    log::set_max_level(log::LevelFilter::Trace);
    let (kept, clock) = (Kept::default(), ManualClock::new());
    let limit = LogLimit::with_limiter(RateLimiter::with_clock(Quota::per_second(1), &clock));
    let disk = "sda";
    for _ in 0..3 {
        log_limited!(&limit, warn!(logger: &kept, "{disk} is full: {} %", 99));
    }
    clock.advance(Duration::from_secs(1));
    log_limited!(&limit, log::error!(logger: &kept, target: "disks", "dead"));
    assert_eq!(
        kept.take(),
        [
            line(Level::Warn, module_path!(), "sda is full: 99 %", ""),
            line(Level::Error, "disks", "dead (2 suppressed)", "")
        ]
    );
}

#[test]
fn message_with_pairs_has_the_count_as_a_pair() {
    log::set_max_level(log::LevelFilter::Trace);
    let (kept, clock) = (Kept::default(), ManualClock::new());
    let limit = LogLimit::with_limiter(RateLimiter::with_clock(Quota::per_second(1), &clock));
    let disk = "sda";
    for percent in 97..=99 {
        log_limited!(&limit, warn!(logger: &kept, disk, percent:? = percent; "full"));
    }
    clock.advance(Duration::from_secs(1));
    log_limited!(&limit, ::log::info!(logger: &kept, target: "disks", disk; "dead {}", 1),);
    assert_eq!(
        kept.take(),
        [
            line(Level::Warn, module_path!(), "full", "disk=sda percent=97 "),
            line(Level::Info, "disks", "dead 1", "suppressed=2 disk=sda ")
        ]
    );
}

#[test]
fn disabled_record_is_not_counted() {
    log::set_max_level(log::LevelFilter::Trace);
    let kept = Kept::default();
    let limit = LogLimit::new(Quota::per_hour(1));
    let computed = Cell::new(0);
    let compute = || computed.replace(computed.get() + 1);
    for _ in 0..10 {
        log_limited!(&limit, log::debug!(logger: &kept, "disabled {}", compute()));
        log_limited!(&limit, log::trace!(logger: &kept, value = compute(); "disabled"));
    }
    assert_eq!((computed.get(), limit.take_suppressed().get()), (0, None));
    for _ in 0..10 {
        log_limited!(&limit, log::info!(logger: &kept, "enabled {}", compute()));
    }
    assert_eq!((computed.get(), limit.take_suppressed().get(), kept.take().len()), (1, Some(9), 1));
}

/// Without a logger of its own: the global one, of which there is none here. The limit is not asked.
#[test]
fn call_site_has_a_limit_of_its_own() {
    for _ in 0..10 {
        log_limited!(Quota::per_hour(1), warn!("no logger"));
    }
}
