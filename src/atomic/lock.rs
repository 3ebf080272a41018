//! A lock: that of `parking_lot`, or of loom.

/// Runs one at a time. Nothing is guarded by it but what its owner says.
#[derive(Debug)]
pub(crate) struct Lock(super::RawLock);

impl Lock {
    pub(crate) fn new() -> Self {
        Self(super::RawLock::new(()))
    }

    pub(crate) fn while_held<T>(&self, run: impl FnOnce() -> T) -> T {
        let _guard = super::held(&self.0);
        run()
    }
}
