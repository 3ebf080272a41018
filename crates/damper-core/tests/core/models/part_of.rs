//! How long the long simulations are.

use crate::models::cases::times;

/// Returns the size of a long simulation: a fifth of `all` by default, and all of it in `.ci/run`.
pub(crate) fn part_of(all: u32) -> u32 {
    all / 5 * times().min(5)
}
