//! One call through a client's throttle: a permit is taken, and what the server said recorded.

use crate::still::still;
use crate::{Call, Row, rows};
use damper::throttle::{AdaptiveThrottle, ThrottlePermit};

pub(crate) const ROWS: &[Row] = rows![throttle_accepted, throttle_rejected, throttle_refused];

fn throttle_accepted() -> Call {
    let throttle = AdaptiveThrottle::with_clock(still!(), 7);
    Box::new(move || throttle.try_acquire().map(ThrottlePermit::accepted).is_ok())
}

/// Before so many were rejected that calls are refused.
fn throttle_rejected() -> Call {
    let throttle = AdaptiveThrottle::with_clock(still!(), 7);
    for _ in 0..100_000 {
        let _ = throttle.try_acquire().map(ThrottlePermit::accepted);
    }
    Box::new(move || throttle.try_acquire().map(ThrottlePermit::rejected).is_ok())
}

/// A call of a service that rejects all calls: 99 in 100 are refused.
fn throttle_refused() -> Call {
    let throttle = AdaptiveThrottle::with_clock(still!(), 7);
    for _ in 0..1_000 {
        let _ = throttle.try_acquire().map(ThrottlePermit::rejected);
    }
    Box::new(move || {
        // One in 100 is made.
        let _ = throttle.try_acquire().map(ThrottlePermit::rejected);
        true
    })
}
