//! `LimitedLayer`: which events its inner layer gets, and which reports.

use crate::captured::{Captured, Line};
use crate::seed::seed;
use crate::subscribers::register_two;
use damper::logs::{LimitedLayer, LimitedLayerBuilder, LogReports};
use damper::{ManualClock, OutOfRange, Quota};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tracing::dispatcher::{self, Dispatch};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber, debug, error, info, info_span, trace, warn};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Layer, registry};

const SECOND: Duration = Duration::from_secs(1);

type Time = Arc<ManualClock>;

/// A limited layer in a subscriber, what its inner layer got, and a layer that is not limited.
struct Setup {
    dispatch: Dispatch,
    limited: Captured,
    unlimited: Captured,
    reports: LogReports<Time>,
    clock: Time,
}

impl Setup {
    fn of(builder: impl FnOnce(LimitedLayerBuilder<Time>) -> LimitedLayerBuilder<Time>) -> Self {
        register_two();
        let (clock, limited, unlimited) = (Time::default(), Captured::default(), Captured::default());
        let quota = Quota::per_second(1).burst(3);
        let builder = builder(LimitedLayer::builder(quota).clock(Arc::clone(&clock)));
        let (layer, reports) = builder.build(limited.clone()).expect("the settings are in range");
        let filter = EnvFilter::new("info,noise=off");
        let subscriber = registry().with(unlimited.clone()).with(layer.with_filter(filter));
        Self { dispatch: Dispatch::new(subscriber), limited, unlimited, reports, clock }
    }

    fn new() -> Self {
        Self::of(|builder| builder)
    }

    fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        dispatcher::with_default(&self.dispatch, run)
    }
}

fn disk_full(block: u64) {
    warn!(target: "disk", block, "disk full");
}

fn reset(peer: &str) {
    error!(peer, "connection reset");
}

/// Splits lines into events and reports.
fn split(lines: Vec<Line>) -> (Vec<Line>, Vec<Line>) {
    lines.into_iter().partition(|line| !line.is_report())
}

#[test]
fn each_call_site_has_a_limit() {
    let setup = Setup::new();
    setup.run(|| {
        for block in 0..100 {
            disk_full(block);
            info!("another call site");
        }
    });
    let messages = setup.limited.take_messages();
    assert_eq!(messages, ["disk full", "another call site"].repeat(3));
    assert_eq!(setup.unlimited.take().len(), 200, "another layer gets all events");
}

#[test]
fn flood_is_reported_while_it_lasts_and_when_it_has_ended() {
    let setup = Setup::new();
    setup.run(|| {
        // Twelve seconds with a hundred events each. One of them passes in each second, after the burst of 3.
        for block in 0..1_200 {
            disk_full(block);
            setup.clock.advance(SECOND / 100);
        }
        let (events, reports) = split(setup.limited.take());
        assert_eq!((events.len(), reports.len()), (14, 1));
        let report = &reports[0];
        assert_eq!(report.message(), format!("suppressed {} events in 10 s", report.suppressed()));
        assert_eq!((report.level, report.is_root), (Level::WARN, true));
        assert_eq!((report.field("origin"), report.field("key")), (Some("disk"), None));
        assert!(report.field("file").is_some_and(|file| file.ends_with("layer.rs")) && report.field("line").is_some());

        // An hour later another call site logs.
        setup.clock.advance(3_600 * SECOND);
        let _span = info_span!("request").entered();
        info!("all is well");
        let (later, end) = split(setup.limited.take());
        assert_eq!((later.len(), end.len()), (1, 1));
        assert_eq!(reports[0].suppressed() + end[0].suppressed() + events.len() as u64, 1_200);
        assert!(end[0].is_root, "the span of the event that reports has nothing to do with it");
        let elapsed_ms: u64 = end[0].field("elapsed_ms").and_then(|time| time.parse().ok()).expect("it is a number");
        assert!((1_500..=2_000).contains(&elapsed_ms), "the flood's own time, and not the hour: {elapsed_ms}");
        setup.clock.advance(3_600 * SECOND);
        info!("all is well");
        assert_eq!(setup.limited.take_messages(), ["all is well"], "each count is reported once");
    });
    assert!(setup.unlimited.take().iter().all(|line| !line.is_report()), "other layers get no reports");
}

/// A peer that chooses the value cannot fill the memory with it.
#[test]
fn long_values_have_limits_of_their_own_and_are_cut_in_reports() {
    let setup = Setup::of(|builder| builder.per_value_of("peer"));
    let long = |end: &str| format!("{}{end}", "é".repeat(100_000));
    setup.run(|| {
        for _ in 0..10 {
            reset(&long("1"));
            reset(&long("2"));
            // With the name of the field, it has 128 bytes.
            reset(&"x".repeat(123));
        }
        assert_eq!(setup.limited.take().len(), 9, "each has a burst of 3");
    });
    setup.reports.flush();
    let reports = setup.limited.take();
    let mut keys: Vec<_> = reports.iter().map(|report| report.field("key").expect("it has a value")).collect();
    keys.sort_unstable();
    let cut = format!("peer={}…", "é".repeat(61));
    assert_eq!(keys, [&*format!("peer={}", "x".repeat(123)), &*cut, &*cut]);
    assert!(reports.iter().all(|report| report.suppressed() == 7));
}

#[test]
fn reports_are_made_on_demand() {
    let setup = Setup::new();
    setup.run(|| (0..10).for_each(disk_full));
    assert_eq!(setup.limited.take().len(), 3);
    setup.reports.tick();
    assert_eq!(setup.limited.take_messages(), [""; 0], "ten seconds have not passed since the last reports");
    setup.clock.advance(10 * SECOND);
    setup.reports.tick();
    assert_eq!(setup.limited.take_messages(), ["suppressed 7 events"]);
    setup.run(|| (0..4).for_each(disk_full));
    setup.limited.take();
    setup.reports.flush();
    assert_eq!(setup.limited.take_messages(), ["suppressed 1 event"]);
    setup.reports.flush();
    assert_eq!(setup.limited.take_messages(), [""; 0]);
    setup.run(|| disk_full(0));
    drop(setup.reports);
    assert_eq!(
        setup.limited.take_messages(),
        ["suppressed 1 event"],
        "the last are reported when the handle is dropped"
    );
    assert_eq!(setup.unlimited.take().len(), 15, "no other layer sees a request to report");
}

/// The filter remembers for the thread that it rejected the last event.
#[test]
fn reports_are_made_after_a_rejected_event() {
    let setup = Setup::new();
    setup.run(|| {
        (0..10).for_each(disk_full);
        setup.limited.take();
        debug!("rejected by the filter of the limited layer");
        info!(target: "noise", "rejected too");
        setup.reports.flush();
    });
    assert_eq!(setup.limited.take_messages(), ["suppressed 7 events"]);
    assert_eq!(setup.unlimited.take().len(), 12);
}

#[test]
fn two_layers_report_their_own() {
    register_two();
    let clock = Time::default();
    let layer = |limit, captured: &Captured| {
        let builder = LimitedLayer::builder(Quota::per_hour(limit)).clock(Arc::clone(&clock));
        builder.build(captured.clone()).expect("the settings are in range")
    };
    let (outer, inner) = (Captured::default(), Captured::default());
    let ((outer_layer, outer_reports), (inner_layer, inner_reports)) = (layer(2, &outer), layer(4, &inner));
    let dispatch = Dispatch::new(registry().with(inner_layer).with(outer_layer));
    dispatcher::with_default(&dispatch, || (0..10).for_each(disk_full));
    assert_eq!((outer.take().len(), inner.take().len()), (2, 4));
    inner_reports.flush();
    assert_eq!((outer.take_messages(), inner.take_messages()), (vec![], vec!["suppressed 6 events".into()]));
    outer_reports.flush();
    assert_eq!((outer.take_messages(), inner.take_messages()), (vec!["suppressed 8 events".into()], vec![]));
}

#[test]
fn handle_outlives_its_subscriber() {
    let Setup { dispatch, limited, reports, .. } = Setup::new();
    dispatcher::with_default(&dispatch, || (0..10).for_each(disk_full));
    limited.take();
    drop(dispatch);
    reports.flush();
    assert_eq!(limited.take_messages(), [""; 0]);
}

#[test]
fn rejected_events_are_not_counted() {
    let setup = Setup::new();
    setup.run(|| {
        for _ in 0..100 {
            debug!("rejected by the filter of the limited layer");
        }
    });
    setup.reports.flush();
    assert_eq!(setup.limited.take_messages(), [""; 0]);
}

#[test]
fn each_value_of_a_field_has_a_limit() {
    let setup = Setup::of(|builder| builder.per_value_of("peer"));
    setup.run(|| {
        for _ in 0..10 {
            reset("192.0.2.7");
        }
        reset("192.0.2.8");
        disk_full(0);
        // The same text by another way has the same limit, but this is another call site.
        for _ in 0..10 {
            info!(peer = %"192.0.2.7", "as a display");
            info!(peer = 7, other = 8, "as a number");
        }
    });
    let (events, _) = split(setup.limited.take());
    let of_peer = |peer: &str| events.iter().filter(|line| line.field("peer") == Some(peer)).count();
    assert_eq!((of_peer("192.0.2.7"), of_peer("192.0.2.8"), of_peer("7")), (6, 1, 3));
    setup.reports.flush();
    let text = |line: &Line| format!("{} {} {}", line.level, line.suppressed(), line.field("key").unwrap_or_default());
    let mut reports: Vec<_> = setup.limited.take().iter().map(text).collect();
    reports.sort();
    assert_eq!(reports, ["ERROR 7 peer=192.0.2.7", "INFO 7 peer=192.0.2.7", "INFO 7 peer=7"]);
}

/// There is room for a few limits. The count of an evicted one is reported all the same.
#[test]
fn evicted_limits_keep_their_count() {
    const PEERS: u64 = 200;
    let setup = Setup::of(|builder| builder.per_value_of("peer").capacity(8));
    setup.run(|| {
        for peer in 0..PEERS {
            (0..5).for_each(|_| reset(&format!("192.0.2.{peer}")));
        }
    });
    let (events, reports) = split(setup.limited.take());
    assert_eq!((events.len() as u64, reports.len()), (3 * PEERS, 0));
    setup.reports.flush();
    let reports = setup.limited.take();
    assert_eq!(reports.len(), 9, "one for each limit that is left, and one for the others");
    assert_eq!(reports.iter().map(Line::suppressed).sum::<u64>(), 2 * PEERS);
    let evicted: Vec<_> = reports.iter().filter(|line| line.field("origin").is_none()).collect();
    assert_eq!(evicted.len(), 1);
    assert_eq!(evicted[0].message(), format!("suppressed {} events of evicted call sites", 2 * (PEERS - 8)));
}

#[test]
fn limit_with_something_to_report_is_evicted_last() {
    let setup = Setup::of(|builder| builder.per_value_of("peer").capacity(8));
    setup.run(|| {
        (0..10).for_each(|_| reset("192.0.2.7"));
        (0..1_000).for_each(|peer| reset(&format!("198.51.100.{peer}")));
    });
    setup.limited.take();
    setup.reports.flush();
    let reports = setup.limited.take();
    assert_eq!((reports.len(), reports[0].suppressed()), (1, 7));
    assert_eq!(reports[0].field("key"), Some("peer=192.0.2.7"));
}

/// `tracing-log` gives all records of a level one call site.
#[test]
fn records_of_the_facade_log_are_told_apart_by_their_origin() {
    let setup = Setup::new();
    setup.run(|| {
        for _ in 0..10 {
            for line in 1..=2 {
                tracing::event!(name: "log record", Level::INFO, log.target = "dependency", log.line = line, "a record");
            }
        }
    });
    assert_eq!(setup.limited.take().len(), 6);
    setup.reports.flush();
    let reports = setup.limited.take();
    let mut keys: Vec<_> = reports.iter().filter_map(|line| line.field("key")).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["log.target=dependency log.line=1", "log.target=dependency log.line=2"]);
}

/// Four threads flood three call sites while time passes. Each event passes or is in a report.
// CLAIM: logs::LogLimit
#[test]
fn no_event_is_lost_between_threads() {
    const THREADS: u64 = 4;
    const EVENTS: u64 = 5_000;
    let setup = Setup::new();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                setup.run(|| {
                    for event in 0..EVENTS {
                        setup.clock.advance(SECOND / 100);
                        match event % 3 {
                            0 => disk_full(event),
                            1 => reset("192.0.2.7"),
                            _ => info!("all is well"),
                        }
                    }
                });
            });
        }
    });
    setup.reports.flush();
    let (events, reports) = split(setup.limited.take());
    assert!(reports.len() > 10, "{} reports", reports.len());
    assert_eq!(events.len() as u64 + reports.iter().map(Line::suppressed).sum::<u64>(), THREADS * EVENTS);
}

/// Random steps beside a model of one bucket for each peer, in numbers without a limit.
#[test]
fn lines_are_those_of_a_model() {
    let setup = Setup::of(|builder| builder.per_value_of("peer"));
    let mut draws = seed();
    let mut draw = move |below: u64| {
        // SplitMix64.
        draws = draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (draws ^ (draws >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below
    };
    // By peer: thousandths of a token, when they were counted, and what is suppressed.
    let mut model = BTreeMap::<String, (u64, u64, u64)>::new();
    let (mut now, mut last_reports) = (0, None::<u64>);
    for _ in 0..20_000 {
        let pause = if draw(50) == 0 { draw(15_000) } else { draw(200) };
        setup.clock.advance(Duration::from_millis(pause));
        now += pause;
        let peer = format!("192.0.2.{}", draw(4));
        setup.run(|| reset(&peer));

        let (mut events, mut reported) = (0, BTreeMap::new());
        for line in setup.limited.take() {
            if line.is_report() {
                let key = line.field("key").and_then(|key| key.strip_prefix("peer=")).expect("it has a key");
                reported.insert(key.to_owned(), line.suppressed());
            } else {
                events += 1;
            }
        }
        let mut expected = BTreeMap::new();
        if last_reports.is_none_or(|at| now - at >= 10_000) {
            last_reports = Some(now);
            for (peer, (.., suppressed)) in &mut model {
                if *suppressed > 0 {
                    expected.insert(peer.clone(), std::mem::take(suppressed));
                }
            }
        }
        assert_eq!(reported, expected, "at {now} ms");
        let (level, at, suppressed) = model.entry(peer).or_insert((3_000, now, 0));
        *level = (*level + (now - *at)).min(3_000);
        *at = now;
        let passes = *level >= 1_000;
        if passes {
            *level -= 1_000;
        } else {
            *suppressed += 1;
        }
        assert_eq!(events, u64::from(passes), "at {now} ms");
    }
}

/// A report passes the filters that its events pass.
#[test]
fn report_has_the_level_of_its_events() {
    register_two();
    let captured = Captured::default();
    let builder = LimitedLayer::builder(Quota::per_hour(1)).clock(Time::default());
    let (layer, reports) = builder.build(captured.clone()).expect("the settings are in range");
    dispatcher::with_default(&Dispatch::new(registry().with(layer)), || {
        for _ in 0..2 {
            error!("full");
            warn!("full");
            info!("full");
            debug!("full");
            trace!("full");
        }
        assert_eq!(captured.take().len(), 5, "one of each call site");
        reports.flush();
    });
    let mut levels: Vec<Level> = captured.take().iter().map(|report| report.level).collect();
    levels.sort();
    assert_eq!(levels, [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE]);
}

/// An inner layer that writes spans beside events learns all that happens to them.
#[test]
fn spans_reach_the_inner_layer() {
    #[derive(Clone, Default)]
    struct Spans(Arc<Mutex<Vec<&'static str>>>);

    impl Spans {
        fn push(&self, event: &'static str) {
            self.0.lock().expect("no test fails under it").push(event);
        }
    }

    impl<S: Subscriber> Layer<S> for Spans {
        fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
            self.push("new");
        }

        fn on_record(&self, _: &Id, _: &Record<'_>, _: Context<'_, S>) {
            self.push("record");
        }

        fn on_follows_from(&self, _: &Id, _: &Id, _: Context<'_, S>) {
            self.push("follows");
        }

        fn on_enter(&self, _: &Id, _: Context<'_, S>) {
            self.push("enter");
        }

        fn on_exit(&self, _: &Id, _: Context<'_, S>) {
            self.push("exit");
        }

        fn on_close(&self, _: Id, _: Context<'_, S>) {
            self.push("close");
        }
    }

    register_two();
    let spans = Spans::default();
    let (layer, _reports) = LimitedLayer::builder(Quota::per_hour(1)).build(spans.clone()).expect("in range");
    dispatcher::with_default(&Dispatch::new(registry().with(layer)), || {
        let cause = info_span!("cause");
        let span = info_span!("request", status = tracing::field::Empty);
        span.record("status", 503);
        span.follows_from(&cause);
        span.in_scope(|| ());
    });
    let heard = spans.0.lock().expect("no test fails under it").clone();
    assert_eq!(heard, ["new", "new", "record", "follows", "enter", "exit", "close", "close"]);
}

#[test]
fn settings_out_of_range_are_named() {
    let error = |builder: LimitedLayerBuilder| -> OutOfRange {
        builder.build(Captured::default()).map(drop).expect_err("it is out of range")
    };
    let builder = LimitedLayer::builder(Quota::per_second(1));
    assert_eq!(error(builder.clone().capacity(0)).setting(), "capacity");
    assert_eq!(error(builder.report_every(Duration::ZERO)).setting(), "interval");
}

#[test]
fn layer_describes_itself() {
    let (layer, reports) = LimitedLayer::builder(Quota::per_second(1)).build(LevelFilter::OFF).expect("in range");
    for text in [format!("{layer:?}"), format!("{reports:?}")] {
        assert!(text.contains("capacity: 1024"), "{text}");
    }
}
