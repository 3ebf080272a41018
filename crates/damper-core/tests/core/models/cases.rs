//! How many cases the long property tests try.

use proptest::prelude::ProptestConfig;

/// Returns the configuration of a property test that tries `some` cases by default.
///
/// The environment variable `DAMPER_CASES` multiplies them. `.ci/run` sets it to 5.
pub(crate) fn cases(some: u32) -> ProptestConfig {
    ProptestConfig::with_cases(some.saturating_mul(times()))
}

/// Returns the environment variable `DAMPER_CASES`, 1 by default.
pub(crate) fn times() -> u32 {
    match std::env::var("DAMPER_CASES") {
        Ok(times) => {
            times.parse().unwrap_or_else(|_| panic!("DAMPER_CASES is {times:?}, it must be a number below 2^32"))
        }
        Err(_) => 1,
    }
}
