//! One call through a bulkhead: a permit is taken and dropped.

use crate::still::still;
use crate::{Call, Row, rows};
use damper::time::Seed;
use damper::{Bulkhead, KeyedBulkhead};
use std::sync::Arc;

pub(crate) const ROWS: &[Row] =
    rows![bulkhead_call, bulkhead_call_owned, bulkhead_full, bulkhead_acquire, bulkhead_keyed];

fn bulkhead_call() -> Call {
    let bulkhead = Bulkhead::new(64);
    Box::new(move || bulkhead.try_acquire().is_ok())
}

fn bulkhead_call_owned() -> Call {
    let bulkhead = Arc::new(Bulkhead::with_clock(64, still!()));
    Box::new(move || bulkhead.try_acquire_owned().is_ok())
}

fn bulkhead_full() -> Call {
    let bulkhead = Bulkhead::new(0);
    Box::new(move || bulkhead.try_acquire().is_err())
}

/// With a slot free, beside a queue.
fn bulkhead_acquire() -> Call {
    let bulkhead = Bulkhead::new(64).queue(16);
    Box::new(move || bulkhead.acquire().wait().is_ok())
}

fn bulkhead_keyed() -> Call {
    let bulkheads = KeyedBulkhead::with_clock_and_hasher(64, 1024, still!(), Seed::new(1, 2)).expect("a capacity");
    Box::new(move || bulkheads.try_acquire(&7_u64).is_ok())
}
