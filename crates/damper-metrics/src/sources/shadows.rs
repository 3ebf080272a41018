//! Primitives in shadow mode.

use crate::{NamedSource, Readings, Source};
use damper_core::shadow::Shadowed;

/// Reads the primitive in force, and the refusals of both.
impl<T: Source, S> Source for Shadowed<T, S> {
    fn read(&self, readings: &Readings<'_>) {
        self.in_force().read(readings);
        readings.record_shadow(self.report());
    }
}

/// The name of the primitive in force.
impl<T: NamedSource, S> NamedSource for Shadowed<T, S> {
    fn name(&self) -> &str {
        self.in_force().name()
    }
}
