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
use damper_core::time::FixedFrequency;
use loom::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;
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
    check_with(None, None, model);
}

/// As [`check`], for models that end without a bound only with the atomics as they are.
///
/// With every load a read-modify-write, it visits the interleavings with at most so many preemptions. There all accesses of a location
/// depend on each other, so even two threads that only read the same words have many more interleavings.
pub fn check_rmw_preemptions(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    check_with(None, Some(preemptions), model);
}

/// As [`check`], for models that are too large for that.
///
/// Visits the interleavings with at most so many preemptions.
pub fn check_preemptions(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    check_with(Some(preemptions), Some(preemptions), model);
}

fn builder(preemptions: Option<usize>) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    // Some models have long parts in which one thread runs alone.
    builder.max_branches = 20_000;
    builder
}

/// Runs a model on flawed atomics, in the plain setting: for the `should_panic` variant beside a model.
pub fn check_flawed(flaw: Flaw, model: impl Fn() + Send + Sync + 'static) {
    let builder = builder(Some(3));
    damper_core::sync::with_flaw(flaw, || builder.check(model));
}

/// Checks a model with the atomics as they are, and with every load a read-modify-write.
///
/// Each setting has its own bound on preemptions.
fn check_with(plain: Option<usize>, as_rmw: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let in_plain = Arc::clone(&model);
    builder(plain).check(move || in_plain());
    damper_core::sync::with_loads_as_rmw(|| builder(as_rmw).check(move || model()));
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

/// A clock in nanoseconds that is moved only while one thread is alone.
///
/// It orders nothing and adds no interleavings.
#[derive(Clone, Debug, Default)]
pub struct Hand(Arc<std::sync::atomic::AtomicU64>);

impl Hand {
    pub fn advance(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn step_back(&self, duration: Duration) {
        self.0.fetch_sub(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000_000
    }
}

loom::thread_local! {
    static SECONDS: Cell<u64> = Cell::new(0);
}

/// A clock in seconds that shows each thread a time of its own and adds no interleavings.
#[derive(Clone, Copy, Debug)]
pub struct OwnTime;

impl OwnTime {
    /// Sets the time of this thread.
    pub fn set(seconds: u64) {
        SECONDS.with(|own| own.set(seconds));
    }
}

impl Clock for OwnTime {
    fn now(&self) -> u64 {
        SECONDS.with(Cell::get)
    }

    fn frequency(&self) -> u64 {
        Self::HERTZ
    }
}

impl FixedFrequency for OwnTime {
    const HERTZ: u64 = 1;
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
