//! Shadow mode: a candidate decides on the same calls as the limit in force, and changes nothing.

// | file | idea |
// |---|---|
// | `shadowed` | a limiter or a breaker in force, and a candidate beside it |
// | `limits` | limiters in shadow mode, with keys and without |
// | `breakers` | breakers in shadow mode |
// | `admissions` | admissions in shadow mode |
// | `gates` | all gates in shadow mode |
// | `counts` | how often the two disagree |

#[cfg(feature = "alloc")]
mod admissions;
mod breakers;
mod counts;
mod gates;
mod limits;
mod shadowed;

#[cfg(feature = "alloc")]
pub use admissions::ShadowedAdmissionPermit;
pub use counts::{ShadowCounts, ShadowReport};
pub use gates::{WaitWithCandidate, WithCandidate};
pub use shadowed::Shadowed;
