//! `tracing_limited!`: what a subscriber gets.

use crate::captured::{Captured, Line};
use crate::subscribers::register_two;
use damper::logs::{LogLimit, tracing_limited};
use damper::{ManualClock, Quota, RateLimiter};
use std::cell::Cell;
use std::time::Duration;
use tracing::{Level, info, info_span, warn};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

/// Calls `run` with a subscriber that keeps what it gets from `level` on.
///
/// The filter is one of the whole subscriber. With one of the layer, tracing says that an event is enabled which this subscriber does not
/// want, while that of another test wants it.
fn captured(level: LevelFilter, run: impl FnOnce(&Captured)) {
    register_two();
    let captured = Captured::default();
    tracing::subscriber::with_default(registry().with(level).with(captured.clone()), || run(&captured));
}

#[test]
fn call_site_has_a_limit_and_a_count() {
    captured(LevelFilter::INFO, |captured| {
        for disk in 0..100 {
            tracing_limited!(Quota::per_hour(1).burst(2), warn!(disk, "full"));
            tracing_limited!(Quota::per_hour(1), info!("another call site"));
        }
        let lines = captured.take();
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].message(), lines[0].field("disk"), lines[0].level), ("full", Some("0"), Level::WARN));
        assert_eq!(lines[0].field("suppressed"), None, "nothing was suppressed before it");
        assert_eq!(lines[0].target, module_path!());
    });
}

#[test]
fn event_that_passes_has_the_count_as_a_field() {
    captured(LevelFilter::INFO, |captured| {
        let clock = ManualClock::new();
        let limit = LogLimit::with_limiter(RateLimiter::with_clock(Quota::per_second(1), &clock));
        for _ in 0..1_205 {
            tracing_limited!(&limit, warn!(disk = "sda", "full: {} %", 99));
        }
        clock.advance(Duration::from_secs(1));
        tracing_limited!(&limit, tracing::error!("another call site, the same limit"));
        let lines = captured.take();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].message(), "full: 99 %");
        assert_eq!((lines[1].level, lines[1].field("suppressed")), (Level::ERROR, Some("1204")));
        assert_eq!(lines[1].message(), "another call site, the same limit", "the message is as the caller wrote it");
    });
}

#[test]
fn every_form_of_a_call_is_limited() {
    captured(LevelFilter::TRACE, |captured| {
        let limit = LogLimit::new(Quota::per_hour(1).burst(10));
        let span = info_span!("work");
        let disk = "sda";
        tracing_limited!(&limit, warn!("plain"));
        tracing_limited!(&limit, warn!("captured {disk}",));
        tracing_limited!(&limit, warn!(%disk, percent = 97, "fields"));
        tracing_limited!(&limit, warn!(disk));
        tracing_limited!(&limit, warn!({ disk, percent = 97 }, "braces {}", 1));
        tracing_limited!(&limit, warn!(target: "disks", "target"));
        tracing_limited!(&limit, warn!(target: "disks", parent: &span, { ?disk }, "all"));
        tracing_limited!(&limit, ::tracing::trace!(name: "named", "name"));
        tracing_limited!(&limit, tracing::debug!("path"),);
        tracing_limited!(&limit, info!("last"));
        tracing_limited!(&limit, info!("over the limit"));
        let lines = captured.take();
        let messages: Vec<_> = lines.iter().map(Line::message).collect();
        assert_eq!(
            messages,
            ["plain", "captured sda", "fields", "", "braces 1", "target", "all", "name", "path", "last"]
        );
        assert_eq!((&*lines[5].target, &*lines[6].target), ("disks", "disks"));
        assert_eq!(lines[6].field("disk"), Some("\"sda\""));
        assert_eq!(limit.take_suppressed().get(), Some(1));
    });
}

/// A level that no subscriber wants takes no token, counts nothing and computes no value.
#[test]
fn disabled_event_is_not_counted() {
    captured(LevelFilter::INFO, |captured| {
        let limit = LogLimit::new(Quota::per_hour(1));
        let computed = Cell::new(0);
        let compute = || computed.replace(computed.get() + 1);
        for _ in 0..10 {
            tracing_limited!(&limit, tracing::debug!(value = compute(), "disabled"));
            tracing_limited!(&limit, tracing::debug!(target: "disks", value = compute(), "disabled"));
        }
        assert_eq!((computed.get(), limit.take_suppressed().get()), (0, None));
        for _ in 0..10 {
            tracing_limited!(&limit, info!(value = compute(), "enabled"));
        }
        assert_eq!((computed.get(), limit.take_suppressed().get()), (1, Some(9)));
        assert_eq!(captured.take_messages(), ["enabled"]);
    });
}
