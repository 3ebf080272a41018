//! Model checks of damper's claims about interleavings, one file per concept in `tests/`.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --manifest-path loom-tests/Cargo.toml
//! ```
#![cfg(loom)]

use damper::Clock;
use std::sync::Arc;

/// Checks a model in both settings of damper's atomics: as they are, and with every load a read-modify-write, because
/// loom 0.7 does not visit every interleaving in which a thread loads a location and then compare-exchanges it.
///
/// There is no bound on preemptions: every interleaving that loom knows is visited.
pub fn check(model: impl Fn() + Send + Sync + 'static) {
    check_with(loom::model::Builder::new(), model);
}

/// As [`check`], for models of three threads: visits the interleavings with at most three preemptions.
pub fn check_three_preemptions(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    check_with(builder, model);
}

fn check_with(builder: loom::model::Builder, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let plain = Arc::clone(&model);
    builder.check(move || plain());
    damper::atomic::with_loads_as_rmw(|| builder.check(move || model()));
}

/// A clock that shows one tick for ever, in nanoseconds, and adds no interleavings.
#[derive(Clone, Copy, Debug)]
pub struct Stopped(pub u64);

impl Clock for Stopped {
    fn now(&self) -> u64 {
        self.0
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}
