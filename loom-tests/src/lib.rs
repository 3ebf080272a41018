//! Model checks of damper's claims about interleavings, one file per concept in `tests/`.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --manifest-path loom-tests/Cargo.toml
//! ```
#![cfg(loom)]

pub mod healing;
pub mod holding;
pub mod outcomes;
pub mod slowing;
pub mod stale;
pub mod table_copy;
pub mod tables;
pub mod waiting;
pub mod windows;

use damper_core::Clock;
pub use damper_core::sync::Flaw;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Checks a model in both settings of damper's atomics.
///
/// As they are, and with every load a read-modify-write, because loom 0.7 does not visit every interleaving in which a
/// thread loads a location and then compare-exchanges it.
///
/// There is no bound on preemptions: loom visits every interleaving that its memory model has. `docs/models.md` says what that model leaves
/// out, and which models run here.
pub fn check(model: impl Fn() + Send + Sync + 'static) {
    check_with(builder(), model);
}

/// As [`check`], for models that are too large for that.
///
/// Visits the interleavings with at most so many preemptions.
pub fn check_preemptions(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = builder();
    builder.preemption_bound = Some(preemptions);
    check_with(builder, model);
}

fn builder() -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    // Some models have long parts in which one thread runs alone.
    builder.max_branches = 20_000;
    builder
}

/// Runs a model on flawed atomics, in the plain setting: for the `should_panic` variant beside a model.
pub fn check_flawed(flaw: Flaw, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = builder();
    builder.preemption_bound = Some(3);
    damper_core::sync::with_flaw(flaw, || builder.check(model));
}

fn check_with(builder: loom::model::Builder, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let plain = Arc::clone(&model);
    builder.check(move || plain());
    damper_core::sync::with_loads_as_rmw(|| builder.check(move || model()));
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

/// A clock in nanoseconds that any thread sharing it can advance by hand.
///
/// It orders as time does: a thread that reads a moment sees what was stored before an earlier moment was read. (A store
/// takes no longer to be seen than the clock's skew; that is what `max_step_back` is for.)
#[derive(Clone, Debug)]
pub struct Time(Arc<AtomicU64>);

impl Time {
    pub fn at(nanos: u64) -> Self {
        Self(Arc::new(AtomicU64::new(nanos)))
    }

    pub fn advance(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::AcqRel);
    }

    pub fn step_back(&self, duration: Duration) {
        self.0.fetch_sub(duration.as_nanos() as u64, Ordering::AcqRel);
    }
}

impl Clock for Time {
    fn now(&self) -> u64 {
        self.0.fetch_add(0, Ordering::AcqRel)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

/// Hashes every key alike.
#[derive(Clone, Copy, Debug)]
pub struct Constant;

impl std::hash::BuildHasher for Constant {
    type Hasher = std::collections::hash_map::DefaultHasher;

    fn build_hasher(&self) -> Self::Hasher {
        Self::Hasher::new()
    }
}
