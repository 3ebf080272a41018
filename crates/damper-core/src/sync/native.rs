//! The atomics and locks of the target, and crossbeam's `Backoff`.

#[cfg(not(any(feature = "std", target_has_atomic = "64")))]
pub(crate) use super::sectioned::AtomicU64;
#[cfg(target_has_atomic = "64")]
pub(crate) use AtomicU64 as Versioned64;
#[cfg(target_has_atomic = "8")]
pub(crate) use core::sync::atomic::AtomicBool;
#[cfg(target_has_atomic = "16")]
pub(crate) use core::sync::atomic::AtomicU16;
#[cfg(target_has_atomic = "32")]
pub(crate) use core::sync::atomic::AtomicU32;
#[cfg(target_has_atomic = "64")]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(target_has_atomic = "8"))]
pub(crate) use portable_atomic::AtomicBool;
#[cfg(not(target_has_atomic = "16"))]
pub(crate) use portable_atomic::AtomicU16;
#[cfg(not(target_has_atomic = "32"))]
pub(crate) use portable_atomic::AtomicU32;
// Its locks are safe under `std`, because the operating system preempts threads: no thread spins for ever.
#[cfg(all(feature = "std", not(target_has_atomic = "64")))]
pub(crate) use portable_atomic::AtomicU64;

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub(crate) use core::sync::atomic::AtomicUsize;
#[cfg(not(target_has_atomic = "64"))]
use core::sync::atomic::Ordering;
pub(crate) use core::sync::atomic::{AtomicUsize as Epoch, fence};
#[cfg(feature = "std")]
pub(crate) use crossbeam_utils::Backoff as SpinWait;
#[cfg(feature = "std")]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// A word of 64 bits in two halves, for targets without atomics of 64 bits.
///
/// One thread at a time stores the value. Readers detect by other means, such as an epoch, that it was stored meanwhile.
#[cfg(not(target_has_atomic = "64"))]
#[derive(Debug)]
pub(crate) struct Versioned64([AtomicU32; 2]);

#[cfg(not(target_has_atomic = "64"))]
impl Versioned64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self([AtomicU32::new(value as u32), AtomicU32::new((value >> 32) as u32)])
    }

    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        u64::from(self.0[0].load(order)) | u64::from(self.0[1].load(order)) << 32
    }

    #[inline]
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        self.0[0].store(value as u32, order);
        self.0[1].store((value >> 32) as u32, order);
    }
}

/// A value behind `parking_lot`'s lock, which many threads read or one changes.
///
/// Code of the user that uses the lock again must not run under it.
#[cfg(feature = "std")]
#[derive(Debug)]
pub(crate) struct Guarded<T>(parking_lot::RwLock<T>);

#[cfg(feature = "std")]
impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.read())
    }

    #[inline]
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.write())
    }
}

/// A value behind a critical section.
///
/// The firmware provides the section, and no interrupt runs inside it. Code of the user that uses the value again must not run under it.
#[cfg(not(feature = "std"))]
#[derive(Debug)]
pub(crate) struct Guarded<T>(critical_section::Mutex<core::cell::RefCell<T>>);

#[cfg(not(feature = "std"))]
impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(critical_section::Mutex::new(core::cell::RefCell::new(value)))
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        critical_section::with(|section| look(&self.0.borrow_ref(section)))
    }

    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        critical_section::with(|section| change(&mut self.0.borrow_ref_mut(section)))
    }
}

/// The backoff without an operating system, which retries at once.
///
/// A swap usually fails there because of an interrupt, which is over by then.
#[cfg(not(feature = "std"))]
pub(crate) struct SpinWait;

#[cfg(not(feature = "std"))]
#[allow(clippy::unused_self, reason = "as crossbeam's, which counts")]
impl SpinWait {
    #[inline]
    pub(crate) fn new() -> Self {
        Self
    }

    #[inline]
    pub(crate) fn spin(&self) {
        core::hint::spin_loop();
    }
}
