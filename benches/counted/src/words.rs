//! One decision on words that the program owns.

use crate::still::{SEED, still};
use crate::{Call, Row, rows};
use damper::words::{AtomicU64, Seat, WordBreaker, WordBulkhead, WordLimiter, WordTable};
use damper::{BreakerConfig, Plan, Quota};

pub(crate) const ROWS: &[Row] = rows![word_limiter_allowed, word_table_hit, word_bulkhead, word_breaker_success];

/// Returns words that live as long as the program, as those of a mapping do.
fn words(count: usize) -> &'static [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::new(0)).collect())
}

fn plenty() -> Plan {
    Plan::new(Quota::per_second(1_000_000)).expect("a quota in range")
}

fn word_limiter_allowed() -> Call {
    let limiter = WordLimiter::new(&words(1)[0], plenty(), still!());
    Box::new(move || limiter.check().is_ok())
}

fn word_table_hit() -> Call {
    let table = WordTable::<u64, _>::new(words(8 + 1_024), plenty(), still!(), SEED).expect("settings in range");
    Box::new(move || table.check(&7).is_ok())
}

fn word_bulkhead() -> Call {
    let bulkhead = WordBulkhead::new(&words(1)[0], 64, Seat::new(3).expect("a seat in range"));
    Box::new(move || bulkhead.enter().is_ok())
}

fn word_breaker_success() -> Call {
    let breaker = WordBreaker::new(&words(1)[0], &BreakerConfig::DEFAULT, still!()).expect("settings in range");
    Box::new(move || breaker.call(|| Ok::<_, u8>(7_u8)).is_ok())
}
