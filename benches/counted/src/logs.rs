//! One log call within its limit, or over it.

use crate::still::still;
use crate::{Call, Row, prepared, rows};
use damper::logs::{LimitedLayer, LogLimit, tracing_limited};
use damper::{Quota, RateLimiter, RateLimiter32};
use tracing::{Dispatch, Subscriber, dispatcher, warn};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

pub(crate) const ROWS: &[Row] = rows![
    log_passed,
    log_suppressed,
    log32_suppressed,
    log_disabled,
    log_event_suppressed - log_event,
    log_layer_suppressed - log_event,
];

/// More than is ever taken.
const PLENTY: Quota = Quota::per_hour(1).burst(1_000_000);

/// The one token is taken before the counting starts.
const ONE: Quota = Quota::per_hour(1);

fn log_passed() -> Call {
    let limit = LogLimit::with_limiter(RateLimiter::with_clock(PLENTY, still!()));
    Box::new(move || limit.check().is_some())
}

fn log_suppressed() -> Call {
    let limit = LogLimit::with_limiter(RateLimiter::with_clock(ONE, still!()));
    prepared(Box::new(move || limit.check().is_none()))
}

fn log32_suppressed() -> Call {
    let limit = LogLimit::with_limiter(RateLimiter32::new(ONE, still!()).expect("the burst fits"));
    prepared(Box::new(move || limit.check().is_none()))
}

/// Without a subscriber, as in a program that does not log.
fn log_disabled() -> Call {
    let limit = LogLimit::with_limiter(RateLimiter::with_clock(ONE, still!()));
    Box::new(move || {
        tracing_limited!(&limit, warn!("disk full"));
        true
    })
}

/// A layer that does nothing with what it gets.
struct Idle;

impl<S: Subscriber> tracing_subscriber::Layer<S> for Idle {}

/// A call of `tracing` with a subscriber.
fn with_subscriber(subscriber: impl Into<Dispatch>, log: impl Fn() + 'static) -> Call {
    let dispatch = subscriber.into();
    Box::new(move || {
        dispatcher::with_default(&dispatch, &log);
        true
    })
}

/// A call without a limit.
fn log_event() -> Call {
    with_subscriber(registry().with(Idle), || warn!("disk full"))
}

fn log_event_suppressed() -> Call {
    let limit = LogLimit::with_limiter(RateLimiter::with_clock(ONE, still!()));
    with_subscriber(registry().with(Idle), move || tracing_limited!(&limit, warn!("disk full")))
}

fn log_layer_suppressed() -> Call {
    let builder = LimitedLayer::builder(ONE).clock(still!());
    let (layer, _reports) = builder.build(Idle).expect("the settings are in range");
    with_subscriber(registry().with(layer), || warn!("disk full"))
}
