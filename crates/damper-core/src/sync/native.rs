//! The atomics of the target, and crossbeam's backoff.

#[cfg(not(target_has_atomic = "64"))]
pub(crate) use super::halves::Versioned64;
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

pub(crate) use core::sync::atomic::{AtomicUsize, fence};
pub(crate) use crossbeam_utils::Backoff;
#[cfg(feature = "std")]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// `parking_lot`'s lock.
#[cfg(feature = "std")]
#[derive(Debug)]
pub(super) struct RawLock<T>(parking_lot::RwLock<T>);

#[cfg(feature = "std")]
impl<T> RawLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    #[inline]
    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.read())
    }

    #[inline]
    pub(super) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0.write())
    }
}

/// A critical section: the firmware says what that is, and no interrupt comes in between.
#[cfg(not(feature = "std"))]
#[derive(Debug)]
pub(super) struct RawLock<T>(critical_section::Mutex<core::cell::RefCell<T>>);

#[cfg(not(feature = "std"))]
impl<T> RawLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(critical_section::Mutex::new(core::cell::RefCell::new(value)))
    }

    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        critical_section::with(|section| look(&self.0.borrow_ref(section)))
    }

    pub(super) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        critical_section::with(|section| change(&mut self.0.borrow_ref_mut(section)))
    }
}
