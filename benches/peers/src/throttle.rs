//! One call through a client's throttle: a permit is taken, and its acceptance recorded.
//!
//! No peer has one in Rust.

use crate::contest::{Contest, Side, calls, calls_on_threads};
use damper::throttle::{AdaptiveThrottle, ThrottlePermit};
use std::hint::black_box;

pub(crate) const CONTESTS: &[Contest] = &[
    Contest { name: "throttle_call", damper: call, peer: None },
    // The same on two threads, of one throttle.
    Contest { name: "throttle_call_2t", damper: call_on_two_threads, peer: None },
];

fn call() -> Side {
    let throttle = AdaptiveThrottle::new();
    calls(move || black_box(&throttle).try_acquire().map(ThrottlePermit::accepted).is_ok())
}

fn call_on_two_threads() -> Side {
    let throttle = AdaptiveThrottle::new();
    calls_on_threads(2, move || throttle.try_acquire().map(ThrottlePermit::accepted).is_ok())
}
