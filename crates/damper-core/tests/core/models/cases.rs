//! How much the long tests try.

use proptest::prelude::ProptestConfig;

/// Returns the configuration of a property test that tries `some` cases by default.
///
/// The environment variable `DAMPER_CASES` multiplies them. `.ci/run` sets it to 5.
pub(crate) fn cases(some: u32) -> ProptestConfig {
    ProptestConfig::with_cases(some.saturating_mul(times()))
}

/// Returns the size of a long simulation: a fifth of `all` by default, and all of it in `.ci/run`.
pub(crate) fn part_of(all: u32) -> u32 {
    all / 5 * times().min(5)
}

fn times() -> u32 {
    match std::env::var("DAMPER_CASES") {
        Ok(times) => {
            times.parse().unwrap_or_else(|_| panic!("DAMPER_CASES is {times:?}, it must be a number below 2^32"))
        }
        Err(_) => 1,
    }
}
