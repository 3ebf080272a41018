//! Words of 64 bits in critical sections, for targets without atomics of 64 bits.
//!
//! The firmware provides the critical sections.
//!
//! The atomics of `portable-atomic` do not fit. On targets that can compare and swap 32 bits, such as Cortex-M3 and M4, they
//! take a lock of their own, and an interrupt that comes while the main loop holds it would spin for ever.

use core::cell::Cell;
use core::sync::atomic::Ordering;
use critical_section::Mutex;

/// A word of 64 bits with the operations of `core`'s that this crate uses.
///
/// All orderings are those of the critical section, which are stronger.
#[derive(Debug)]
pub(crate) struct AtomicU64(Mutex<Cell<u64>>);

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(Mutex::new(Cell::new(value)))
    }

    #[inline]
    pub(crate) fn load(&self, _order: Ordering) -> u64 {
        critical_section::with(|section| self.0.borrow(section).get())
    }

    #[inline]
    pub(crate) fn store(&self, value: u64, _order: Ordering) {
        critical_section::with(|section| self.0.borrow(section).set(value));
    }

    #[inline]
    pub(crate) fn swap(&self, value: u64, _order: Ordering) -> u64 {
        self.update(|_| value)
    }

    #[inline]
    pub(crate) fn fetch_add(&self, value: u64, _order: Ordering) -> u64 {
        self.update(|old| old.wrapping_add(value))
    }

    #[inline]
    pub(crate) fn fetch_sub(&self, value: u64, _order: Ordering) -> u64 {
        self.update(|old| old.wrapping_sub(value))
    }

    #[inline]
    fn update(&self, new: impl FnOnce(u64) -> u64) -> u64 {
        critical_section::with(|section| {
            let cell = self.0.borrow(section);
            let old = cell.get();
            cell.set(new(old));
            old
        })
    }

    #[inline]
    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u64, u64> {
        critical_section::with(|section| {
            let cell = self.0.borrow(section);
            let old = cell.get();
            if old == current {
                cell.set(new);
                Ok(old)
            } else {
                Err(old)
            }
        })
    }

    #[inline]
    pub(crate) fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.compare_exchange(current, new, success, failure)
    }
}
