//! 64 bits in two halves, where the target has no atomics of 64 bits.

use core::sync::atomic::{AtomicU32, Ordering};

/// 64 bits that are stored by one at a time, and of which a reader finds out by other means whether they were stored
/// meanwhile: two halves.
#[derive(Debug)]
pub(crate) struct Versioned64([AtomicU32; 2]);

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
