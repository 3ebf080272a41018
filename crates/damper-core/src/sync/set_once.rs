//! A value on the heap that is set once.

use super::const_unless_loom;
#[cfg(any(loom, shuttle))]
use super::{AtomicBool, Ordering};
use alloc::boxed::Box;
use once_cell::race::OnceBox;

/// A place for a value that is set once, while other threads read it.
///
/// No thread waits. A thread that sees the value also sees everything written before it was set.
pub(crate) struct SetOnce<T> {
    value: OnceBox<T>,
    /// Orders threads as the `OnceBox` does. A model checker does not see the atomics inside the box.
    #[cfg(any(loom, shuttle))]
    is_set: AtomicBool,
}

impl<T> SetOnce<T> {
    const_unless_loom! {
        pub(crate) const fn new() -> Self {
            Self {
                value: OnceBox::new(),
                #[cfg(any(loom, shuttle))]
                is_set: AtomicBool::new(false),
            }
        }
    }

    /// Returns the value, if it is set.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // ORDERING: Acquire pairs with the Release in `set`, as once_cell documents it of its own.
        #[cfg(any(loom, shuttle))]
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        self.value.get()
    }

    /// Sets the value, or returns it as an error if another one is set.
    pub(crate) fn set(&self, value: Box<T>) -> Result<(), Box<T>> {
        // ORDERING: Release pairs with the Acquire in `get`, and Acquire, also on failure, with the Release of another `set`: as
        // once_cell's own swap.
        #[cfg(any(loom, shuttle))]
        if self.is_set.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Err(value);
        }
        self.value.set(value)
    }
}
