//! The thresholds of warnings.

use std::borrow::Cow;

/// The thresholds at which a response warns that little of a limit is left.
///
/// If several are reached, the lowest applies.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_mesh as mesh; }
/// use damper::mesh::Warnings;
///
/// let warnings = Warnings::default(); // at 10 % left, and at 2 %
/// assert_eq!(warnings.text(50, 1_000), Some("Approaching rate limit"));
/// assert_eq!(warnings.text(15, 1_000), Some("Rate limit nearly exhausted"));
/// assert_eq!(warnings.text(101, 1_000), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warnings {
    /// The thresholds, lowest percentage first.
    thresholds: Vec<(u32, Cow<'static, str>)>,
}

impl Warnings {
    /// Returns thresholds that never warn.
    #[must_use]
    pub const fn none() -> Self {
        Self { thresholds: Vec::new() }
    }

    /// Warns with this text when at most this percentage of a limit is left.
    #[must_use]
    pub fn at(mut self, percent_left: u32, text: impl Into<Cow<'static, str>>) -> Self {
        let place = self.thresholds.partition_point(|(other, _)| *other < percent_left);
        self.thresholds.insert(place, (percent_left, text.into()));
        self
    }

    /// Returns the warning for this many remaining tokens.
    #[must_use]
    pub fn text(&self, remaining: u64, limit: u64) -> Option<&str> {
        let reached = |percent: u32| u128::from(remaining) * 100 <= u128::from(limit) * u128::from(percent);
        self.thresholds.iter().find(|(percent, _)| reached(*percent)).map(|(_, text)| &**text)
    }
}

impl Default for Warnings {
    fn default() -> Self {
        Self::none().at(10, "Approaching rate limit").at(2, "Rate limit nearly exhausted")
    }
}
