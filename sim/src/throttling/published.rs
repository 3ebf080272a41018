//! The published figures.

/// The row of a strategy: retries in percent, longest sleep, deviation, and seconds to clear.
pub type Row = (&'static str, [f64; 4]);

/// The rows, which have no seeds and no spread.
pub const ROWS: [Row; 5] = [
    ("1 backoff, 2.0", [60.08, 854.89, 387.82, 74.23]),
    ("1 backoff, 1.2", [80.41, 46.72, 147.84, 74.33]),
    ("2 gradual", [40.56, 139.91, 867.73, 115.54]),
    ("3 proportional", [3.66, 17.31, 101.94, 551.10]),
    ("4 remaining", [3.07, 17.32, 78.44, 84.23]),
];

/// Two published figures have an order if they differ by more than this factor.
pub const APART: f64 = 1.4;

/// Returns the figures of a strategy, if they were published.
#[must_use]
pub fn figures(name: &str) -> Option<[f64; 4]> {
    ROWS.iter().find(|(row, _)| *row == name).map(|(_, figures)| *figures)
}
