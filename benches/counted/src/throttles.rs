//! One call through an adaptive throttle: a permit is taken, and its outcome recorded.

use crate::still::still;
use crate::{Call, Row, rows};
use damper::Clock;
use damper::throttle::{AdaptiveThrottle, KeyedThrottle, ThrottlePermit};
use damper::time::Seed;

pub(crate) const ROWS: &[Row] = rows![throttle_call, throttle_rejected, throttle_outage, throttle_keyed];

fn throttle<C: Clock>(clock: C) -> AdaptiveThrottle<C> {
    AdaptiveThrottle::with_clock(clock, 7)
}

fn throttle_call() -> Call {
    let throttle = throttle(still!());
    Box::new(move || throttle.try_acquire().map(ThrottlePermit::accepted).is_ok())
}

/// Before so many were rejected that calls are refused.
fn throttle_rejected() -> Call {
    let throttle = throttle(still!());
    for _ in 0..100_000 {
        throttle.try_acquire().expect("none was rejected").accepted();
    }
    Box::new(move || throttle.try_acquire().map(ThrottlePermit::rejected).is_ok())
}

/// 99 of 100 calls are refused.
fn throttle_outage() -> Call {
    let throttle = throttle(still!());
    for _ in 0..10 {
        throttle.try_acquire().expect("it has seen no ten calls").rejected();
    }
    Box::new(move || {
        _ = throttle.try_acquire().map(ThrottlePermit::rejected);
        true
    })
}

fn throttle_keyed() -> Call {
    let throttles = KeyedThrottle::with_clock_and_hasher(1024, still!(), Seed::new(1, 2)).expect("a capacity");
    Box::new(move || throttles.get_or_create(&7_u64).try_acquire().map(ThrottlePermit::accepted).is_ok())
}
