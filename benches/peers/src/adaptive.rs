//! One call under an adaptive limit: a permit is taken, and its success recorded.
//!
//! No peer has a limit of this kind without a service around it: beside peers it is measured as a layer.

use crate::contest::{Contest, Side, calls, calls_on_threads};
use damper::AdaptiveLimit;
use damper::concurrency::BulkheadPermit;
use std::hint::black_box;

pub(crate) const CONTESTS: &[Contest] = &[
    Contest { name: "adaptive_call", damper: call, peer: None },
    // The same on two threads, of one limit.
    Contest { name: "adaptive_call_2t", damper: call_on_two_threads, peer: None },
];

fn call() -> Side {
    let limit = AdaptiveLimit::default();
    calls(move || black_box(&limit).try_acquire().map(BulkheadPermit::success).is_ok())
}

fn call_on_two_threads() -> Side {
    let limit = AdaptiveLimit::default();
    calls_on_threads(2, move || limit.try_acquire().map(BulkheadPermit::success).is_ok())
}
