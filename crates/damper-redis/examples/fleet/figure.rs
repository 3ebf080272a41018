//! Counts as numbers to divide and to draw.

/// The number as a float: exact below 2^53, and within 2^-53 of it beyond.
#[expect(clippy::cast_precision_loss, reason = "a figure is shown with three digits, or drawn")]
pub(crate) const fn figure(number: u64) -> f64 {
    number as f64
}
