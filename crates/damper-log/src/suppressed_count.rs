//! The number of suppressed events.

use core::fmt;

/// How many events a limit suppressed before one that passes.
///
/// Its text is a suffix of a message: ` (1204 suppressed)`, or nothing if no event was suppressed.
///
/// # Examples
///
/// ```
/// # extern crate damper_log as logs;
/// # #[cfg(feature = "std")] {
/// use logs::{LogLimit, Quota};
///
/// static DISK_FULL: LogLimit = LogLimit::new(Quota::per_minute(1));
///
/// let passed = DISK_FULL.check().expect("the first event passes");
/// assert_eq!(format!("disk full{passed}"), "disk full");
/// assert!(DISK_FULL.check().is_none());
/// assert_eq!(format!("disk full{}", DISK_FULL.take_suppressed()), "disk full (1 suppressed)");
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SuppressedCount(u64);

impl SuppressedCount {
    pub(crate) const fn new(count: u64) -> Self {
        Self(count)
    }

    /// Returns the number, or `None` if no event was suppressed.
    ///
    /// `tracing` leaves out a field whose value is `None`.
    #[must_use]
    pub const fn get(self) -> Option<u64> {
        if self.0 == 0 { None } else { Some(self.0) }
    }
}

impl fmt::Display for SuppressedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(count) => write!(f, " ({count} suppressed)"),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for SuppressedCount {
    fn format(&self, f: defmt::Formatter<'_>) {
        if let Some(count) = self.get() {
            defmt::write!(f, " ({=u64} suppressed)", count);
        }
    }
}
