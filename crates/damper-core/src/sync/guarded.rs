//! A value behind a lock: `parking_lot`'s, that of a model checker, or a critical section where there is no `std`.

use super::RawLock;

/// A value that is looked at by many or changed by one at a time. Nothing of the user's may run under it that uses it
/// again.
#[derive(Debug)]
pub(crate) struct Guarded<T>(RawLock<T>);

impl<T> Guarded<T> {
    super::const_unless_loom! {
        pub(crate) const fn new(value: T) -> Self {
            Self(RawLock::new(value))
        }
    }

    #[inline]
    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        self.0.read(look)
    }

    #[inline]
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        self.0.write(change)
    }
}
