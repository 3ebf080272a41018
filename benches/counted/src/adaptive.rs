//! A call under an adaptive limit, and what its sample is of that.

use crate::still::{self, still};
use crate::{Call, Row, rows};
use damper::AdaptiveLimit;
use damper::concurrency::{BulkheadPermit, LimitBounds};

pub(crate) const ROWS: &[Row] = rows![
    adaptive_limit_call,
    adaptive_limit_ignored,
    adaptive_limit_sample - adaptive_limit_ignored,
    adaptive_limit_full
];

/// A permit, and its success after a nanosecond.
fn adaptive_limit_call() -> Call {
    let limit = AdaptiveLimit::with_clock(LimitBounds::DEFAULT, still!());
    Box::new(move || {
        let permit = limit.try_acquire();
        still::pass();
        permit.map(BulkheadPermit::success).is_ok()
    })
}

/// A permit, dropped without a word.
fn adaptive_limit_ignored() -> Call {
    let limit = AdaptiveLimit::with_clock(LimitBounds::DEFAULT, still!());
    Box::new(move || {
        let permit = limit.try_acquire();
        still::pass();
        permit.map(BulkheadPermit::ignore).is_ok()
    })
}

/// The cost of recording a success, without that of the permit.
fn adaptive_limit_sample() -> Call {
    adaptive_limit_call()
}

/// A call that finds no slot free.
fn adaptive_limit_full() -> Call {
    let bounds = LimitBounds::new(1, 1).expect("they are in their range");
    let limit: &'static _ = Box::leak(Box::new(AdaptiveLimit::with_clock(bounds, still!())));
    let permit = limit.try_acquire();
    Box::new(move || permit.is_ok() && limit.try_acquire().is_err())
}
