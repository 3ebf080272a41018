//! The worst of several figures, or NaN if there are none or if one is NaN.

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

/// Returns NaN if a figure is NaN, which `f64::min` and `f64::max` would skip.
fn worst(figures: &[f64], worse: fn(f64, f64) -> f64) -> f64 {
    if figures.iter().any(|figure| figure.is_nan()) {
        return f64::NAN;
    }
    figures.iter().copied().reduce(worse).unwrap_or(f64::NAN)
}
