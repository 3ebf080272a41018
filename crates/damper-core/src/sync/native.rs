//! The atomics and locks of the target, and crossbeam's `Backoff`.

#[cfg(not(any(feature = "std", target_has_atomic = "64")))]
pub(crate) use super::sectioned::AtomicU64;
#[cfg(target_has_atomic = "64")]
pub(crate) use AtomicU64 as Versioned64;
#[cfg(target_has_atomic = "8")]
pub(crate) use core::sync::atomic::AtomicBool;
#[cfg(target_has_atomic = "32")]
pub(crate) use core::sync::atomic::AtomicU32;
#[cfg(target_has_atomic = "64")]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(not(target_has_atomic = "8"))]
pub(crate) use portable_atomic::AtomicBool;
#[cfg(not(target_has_atomic = "32"))]
pub(crate) use portable_atomic::AtomicU32;
// Threads are preempted, so its locks are not held for ever.
#[cfg(all(feature = "std", not(target_has_atomic = "64")))]
pub(crate) use portable_atomic::AtomicU64;

#[cfg(not(target_has_atomic = "64"))]
use core::sync::atomic::Ordering;
pub(crate) use core::sync::atomic::{AtomicUsize, fence};
#[cfg(feature = "std")]
pub(crate) use crossbeam_utils::Backoff as SpinWait;
#[cfg(feature = "std")]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// 64 bits in two halves, where the target has no atomics of 64 bits.
///
/// One thread at a time stores the value, and readers find out by other means whether it was stored meanwhile.
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

/// A value behind a lock that many read, or one thread at a time changes: `parking_lot`'s.
///
/// No code of the user's may run under it that uses the lock again.
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

/// A value behind a critical section, which the firmware provides; no interrupt runs inside it.
///
/// No code of the user's may run under it that uses the value again.
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

/// Without an operating system a swap mostly fails because of an interrupt.
///
/// The interrupt is over by then, so the swap is tried again at once.
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
