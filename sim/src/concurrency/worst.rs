//! The worst of several figures. None at all, or one that is not a number, has no worst: the result is not a number either.

/// Returns the lowest figure.
#[must_use]
pub fn lowest(figures: &[f64]) -> f64 {
    worst(figures, f64::min)
}

/// Returns the highest figure.
#[must_use]
pub fn highest(figures: &[f64]) -> f64 {
    worst(figures, f64::max)
}

/// `f64::min` and `f64::max` alone would leave out what is not a number.
fn worst(figures: &[f64], worse: fn(f64, f64) -> f64) -> f64 {
    if figures.iter().any(|figure| figure.is_nan()) {
        return f64::NAN;
    }
    figures.iter().copied().reduce(worse).unwrap_or(f64::NAN)
}
