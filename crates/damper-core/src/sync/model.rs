//! The atomics of a model checker, loom's or shuttle's.
//!
//! They have two settings, and flaws that a model must notice.

extern crate std;

use core::sync::atomic::Ordering;
#[cfg(loom)]
use loom::sync;
#[cfg(loom)]
pub(super) use loom::thread_local;
#[cfg(shuttle)]
use shuttle::sync;
#[cfg(shuttle)]
pub(super) use shuttle::thread_local;
use std::boxed::Box;
use std::cell::Cell;

std::thread_local! {
    /// Whether loads and stores are read-modify-writes.
    ///
    /// All threads of a model run on one thread of the system.
    static LOADS_AS_RMW: Cell<bool> = const { Cell::new(false) };
    static FLAW: Cell<Option<Flaw>> = const { Cell::new(None) };
    static WRITES: Cell<u32> = const { Cell::new(0) };
    /// Whether any thread of the model stops, or is killed.
    static HAS_STOPS: Cell<bool> = const { Cell::new(false) };
}

thread_local! {
    /// How many accesses the thread makes before it stops, and what it does then.
    static STOP: Cell<Option<(u32, Box<dyn FnOnce()>)>> = Cell::new(None);
}

/// Runs `action`, and calls `stop` in the middle of it, after this many accesses to atomics.
///
/// If `action` makes fewer, `stop` is not called.
pub fn stopped_after<T>(accesses: u32, stop: impl FnOnce() + 'static, action: impl FnOnce() -> T) -> T {
    HAS_STOPS.set(true);
    STOP.with(|left| left.set(Some((accesses, Box::new(stop)))));
    let result = action();
    STOP.with(|left| left.set(None));
    result
}

/// The payload of the unwinding of a killed process.
struct Killed;

/// Runs `action` as a process that is killed after this many accesses to atomics; `None` if it was.
///
/// Destructors run while it unwinds, so a permit that it holds by then should be forgotten first.
pub fn killed_after<T>(accesses: u32, action: impl FnOnce() -> T) -> Option<T> {
    let kill = || {
        std::panic::resume_unwind(Box::new(Killed));
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stopped_after(accesses, kill, action)));
    match result {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Killed>() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Counts an access, and stops the thread if it has no more.
fn count_access() {
    if HAS_STOPS.get() {
        let stop = STOP.with(|left| match left.take() {
            Some((0, stop)) => Some(stop),
            steps => {
                left.set(steps.map(|(steps, stop)| (steps - 1, stop)));
                None
            }
        });
        if let Some(stop) = stop {
            stop();
        }
    }
}

/// Returns how many writes, swaps and locks `action` makes, including swaps that fail.
pub fn count_writes(action: impl FnOnce()) -> u32 {
    let before = WRITES.get();
    action();
    WRITES.get() - before
}

fn count_write() {
    WRITES.set(WRITES.get() + 1);
}

/// A flaw of the atomics, for models that show that they would notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A compare-and-swap stores without comparing.
    BlindExchange,
    /// Every access is Relaxed, and a fence does nothing.
    NothingOrdered,
    /// A fence does nothing.
    NoFences,
    /// A swap, an addition or a subtraction is a load and a store.
    SplitUpdate,
}

/// Runs `model` on flawed atomics.
pub fn with_flaw(flaw: Flaw, model: impl FnOnce()) {
    FLAW.set(Some(flaw));
    model();
    FLAW.set(None);
}

fn is_split() -> bool {
    FLAW.get() == Some(Flaw::SplitUpdate)
}

fn flawed(order: Ordering) -> Ordering {
    if FLAW.get() == Some(Flaw::NothingOrdered) { Ordering::Relaxed } else { order }
}

pub(crate) fn fence(order: Ordering) {
    if !matches!(FLAW.get(), Some(Flaw::NothingOrdered | Flaw::NoFences)) {
        sync::atomic::fence(order);
    }
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

/// An atomic of so many bits.
macro_rules! atomic {
    ($visibility:vis $atomic:ident, $value:ident) => {
        /// The checker's atomic with the interface of `core`'s, as far as this crate uses it.
        #[derive(Debug)]
        $visibility struct $atomic(sync::atomic::$atomic);

        #[allow(dead_code, reason = "not each of them has a use for all")]
        impl $atomic {
            /// Creates an atomic with this value.
            #[must_use]
            $visibility fn new(value: $value) -> Self {
                Self(sync::atomic::$atomic::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                count_access();
                let order = flawed(order);
                if LOADS_AS_RMW.get() { self.0.fetch_or(0, order) } else { self.0.load(order) }
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                count_access();
                count_write();
                let order = flawed(order);
                if LOADS_AS_RMW.get() {
                    self.0.swap(value, order);
                } else {
                    self.0.store(value, order);
                }
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                if is_split() {
                    return self.updated_in_two(|_| value);
                }
                count_access();
                count_write();
                self.0.swap(value, flawed(order))
            }

            /// A load and a store, for [`Flaw::SplitUpdate`].
            fn updated_in_two(&self, update: impl FnOnce($value) -> $value) -> $value {
                let old = self.load(Ordering::Acquire);
                self.store(update(old), Ordering::Release);
                old
            }

            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                if is_split() {
                    return self.updated_in_two(|old| old.wrapping_add(value));
                }
                count_access();
                count_write();
                self.0.fetch_add(value, flawed(order))
            }

            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                if is_split() {
                    return self.updated_in_two(|old| old.wrapping_sub(value));
                }
                count_access();
                count_write();
                self.0.fetch_sub(value, flawed(order))
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                count_access();
                count_write();
                if FLAW.get() == Some(Flaw::BlindExchange) {
                    self.0.swap(new, success);
                    return Ok(current);
                }
                self.0.compare_exchange(current, new, flawed(success), failure)
            }

            /// Swaps without spurious failures.
            ///
            /// Checkers model the strong operation, and the loops around it are the same.
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

/// A word of a record that is stored and loaded, and never compared and swapped.
///
/// loom visits every interleaving of such accesses, stale values among them. So they are loads and stores in both settings,
/// which keeps models of limiters and breakers small enough to run without a bound.
macro_rules! versioned {
    ($atomic:ident, $inner:ident, $value:ident) => {
        #[derive(Debug)]
        pub(crate) struct $atomic(sync::atomic::$inner);

        impl $atomic {
            pub(crate) fn new(value: $value) -> Self {
                Self(sync::atomic::$inner::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                count_access();
                self.0.load(flawed(order))
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                count_access();
                count_write();
                self.0.store(value, flawed(order));
            }
        }
    };
}

versioned!(Versioned64, AtomicU64, u64);
versioned!(Epoch, AtomicUsize, usize);

atomic!(pub(crate) AtomicU16, u16);
atomic!(pub(crate) AtomicU32, u32);
atomic!(pub AtomicU64, u64);
atomic!(pub(crate) AtomicUsize, usize);

/// The flag of the model, with the operations that this crate uses.
#[derive(Debug)]
pub(crate) struct AtomicBool(sync::atomic::AtomicBool);

impl AtomicBool {
    pub(crate) fn new(value: bool) -> Self {
        Self(sync::atomic::AtomicBool::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        count_access();
        let order = flawed(order);
        if LOADS_AS_RMW.get() { self.0.fetch_or(false, order) } else { self.0.load(order) }
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        count_access();
        count_write();
        let order = flawed(order);
        if LOADS_AS_RMW.get() {
            self.0.swap(value, order);
        } else {
            self.0.store(value, order);
        }
    }

    pub(crate) fn compare_exchange(
        &self,
        current: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        count_access();
        count_write();
        if FLAW.get() == Some(Flaw::BlindExchange) {
            self.0.swap(new, success);
            return Ok(current);
        }
        self.0.compare_exchange(current, new, flawed(success), flawed(failure))
    }
}

#[cfg(feature = "std")]
pub(super) use sync::{Condvar, Mutex, MutexGuard};
/// A value behind the checker's mutex.
///
/// A reader excludes other readers too, because their order matters as well.
#[derive(Debug)]
pub(crate) struct Guarded<T>(sync::Mutex<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        self.write(|value| look(value))
    }

    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        count_write();
        let mut value = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A thread that stops here holds the lock.
        count_access();
        change(&mut value)
    }
}

/// A backoff that does nothing.
///
/// Backing off changes no outcome, and crossbeam's spins for ever under a checker.
pub(crate) struct SpinWait;

impl SpinWait {
    pub(crate) fn new() -> Self {
        Self
    }

    #[allow(clippy::unused_self)]
    pub(crate) fn spin(&self) {}
}
