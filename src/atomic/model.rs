//! loom's atomics, in two settings.

use core::sync::atomic::Ordering;
pub(crate) use loom::sync::atomic::fence;
use std::cell::Cell;

std::thread_local! {
    /// Whether loads and stores are read-modify-writes. loom runs all threads of a model on one thread of the system.
    static LOADS_AS_RMW: Cell<bool> = const { Cell::new(false) };
}

/// Runs `model` with every load as `fetch_or(0)` and every store as `swap`.
///
/// A load that is a read-modify-write always reads the newest value, so a compare-exchange that follows it is
/// tried against every interleaving of the other threads.
pub fn with_loads_as_rmw(model: impl FnOnce()) {
    LOADS_AS_RMW.set(true);
    model();
    LOADS_AS_RMW.set(false);
}

/// loom's `AtomicU64` with the interface of `core`'s, as far as this crate uses it.
#[derive(Debug)]
pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

impl AtomicU64 {
    pub(crate) fn new(value: u64) -> Self {
        Self(loom::sync::atomic::AtomicU64::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        if LOADS_AS_RMW.get() { self.0.fetch_or(0, order) } else { self.0.load(order) }
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        if LOADS_AS_RMW.get() {
            self.0.swap(value, order);
        } else {
            self.0.store(value, order);
        }
    }

    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_add(value, order)
    }

    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.0.fetch_sub(value, order)
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }

    /// Never fails spuriously: loom models the strong one, and the loops around it are the same.
    pub(crate) fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

/// Backing off changes no outcome, and crossbeam's spins for ever under loom.
pub(crate) struct Backoff;

impl Backoff {
    pub(crate) fn new() -> Self {
        Self
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn spin(&self) {}
}
