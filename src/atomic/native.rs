//! The atomics of the target, and crossbeam's backoff.

#[cfg(target_has_atomic = "64")]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(not(target_has_atomic = "64"))]
pub(crate) use portable_atomic::AtomicU64;

pub(crate) use core::sync::atomic::fence;
pub(crate) use crossbeam_utils::Backoff;
#[cfg(feature = "std")]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(feature = "std")]
pub(super) type RawLock = parking_lot::Mutex<()>;

#[cfg(feature = "std")]
pub(super) fn held(lock: &RawLock) -> parking_lot::MutexGuard<'_, ()> {
    lock.lock()
}
