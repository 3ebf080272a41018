//! Items for `damper-http` and `damper-tonic`. Do not use this module.
//!
//! It is public only because those crates are separate. It is excluded from the semver promise: any release may change or remove it, so
//! they are released together with this crate.

#[cfg(feature = "hyper")]
pub use crate::hyper_service::HyperService;
pub use crate::judge::ending_of_error;
pub use crate::side::{Judged, Side, Stand};
pub use crate::unwinding::Unwinding;
