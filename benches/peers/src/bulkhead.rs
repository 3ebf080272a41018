//! One call through a bulkhead: a permit is taken and dropped.

use crate::contest::{Contest, Peer, Side, calls, calls_on_threads};
use damper::Bulkhead;
use std::hint::black_box;
use tokio::sync::Semaphore;

pub(crate) const CONTESTS: &[Contest] = &[
    // With a queue that is empty, as a semaphore's.
    Contest {
        name: "bulkhead_call",
        damper: call,
        peer: Some(Peer { name: "tokio Semaphore", side: semaphore_call, bar: Some(1.1) }),
    },
    // The same on two threads, of one bulkhead.
    Contest {
        name: "bulkhead_call_2t",
        damper: call_on_two_threads,
        peer: Some(Peer { name: "tokio Semaphore", side: semaphore_call_on_two_threads, bar: Some(1.1) }),
    },
    Contest {
        name: "bulkhead_full",
        damper: full,
        peer: Some(Peer { name: "tokio Semaphore", side: semaphore_full, bar: Some(1.1) }),
    },
];

fn call() -> Side {
    let bulkhead = Bulkhead::new(64).queue(16);
    calls(move || black_box(&bulkhead).try_acquire().is_ok())
}

fn call_on_two_threads() -> Side {
    let bulkhead = Bulkhead::new(64).queue(16);
    calls_on_threads(2, move || bulkhead.try_acquire().is_ok())
}

fn full() -> Side {
    let bulkhead = Bulkhead::new(0).queue(16);
    calls(move || black_box(&bulkhead).try_acquire().is_err())
}

fn semaphore_call() -> Side {
    let semaphore = Semaphore::new(64);
    calls(move || black_box(&semaphore).try_acquire().is_ok())
}

fn semaphore_call_on_two_threads() -> Side {
    let semaphore = Semaphore::new(64);
    calls_on_threads(2, move || semaphore.try_acquire().is_ok())
}

fn semaphore_full() -> Side {
    let semaphore = Semaphore::new(0);
    calls(move || black_box(&semaphore).try_acquire().is_err())
}
