//! Limits of log calls, with exact counts of what they suppress.
//!
//! An error that repeats a thousand times a second fills disks and hides other lines. A limit lets some of these lines pass and
//! counts the others, and the count is reported: no line is lost unseen.
//!
//! The crate [`damper`](https://docs.rs/damper) re-exports all of it as `damper::logs`.
//!
//! # One call site
//!
//! A macro of the logging facade limits one call. The count goes to the next line that passes, as the field `suppressed`:
//!
//! ```
//! # extern crate damper_log as logs;
//! # #[cfg(all(feature = "std", feature = "tracing"))] {
//! use logs::{Quota, tracing_limited};
//! use tracing::warn;
//!
//! # let disk = "sda";
//! // WARN disk full suppressed=1204 disk="sda"
//! tracing_limited!(Quota::per_second(1).burst(5), warn!(disk, "disk full"));
//! # }
//! ```
//!
//! | facade | macro | count |
//! |---|---|---|
//! | `tracing` | `tracing_limited!` | the field `suppressed` |
//! | `log` | `log_limited!` | the pair `suppressed` if the call has pairs, or else a suffix: `disk full (1204 suppressed)` |
//! | `defmt` | `defmt_limited!` | the suffix |
//! | any other | [`LogLimit::check`] | [`SuppressedCount`], a suffix and a number |
//!
//! [`LogLimit`] is the limit itself, for several call sites that share one, for firmware, and for other facades.
//!
//! # All call sites
//!
//! With the feature `layer`, a `LimitedLayer` of `tracing` has a limit per call site, or per call site and value of a field, in
//! bounded memory. It reports what it suppressed every ten seconds while a flood lasts. The last part comes with the program's next
//! event, by `LogReports::tick`, or when the `LogReports` are dropped.
//!
//! ```
//! # extern crate damper_log as logs;
//! # #[cfg(feature = "layer")] {
//! use logs::{LimitedLayer, Quota};
//! use tracing_subscriber::{fmt, prelude::*, registry};
//!
//! let (layer, _reports) = LimitedLayer::builder(Quota::per_second(1).burst(10)).build(fmt::layer())?;
//! registry().with(layer).init();
//! // WARN damper: suppressed 1204 events in 10 s suppressed=1204 elapsed_ms=10000 origin="app::disk" file="src/disk.rs" line=42
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! All are additive; without any the crate needs neither `std` nor `alloc`.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `std` | yes | the default clock, and by it limits of a quota alone, which macros create for each call site |
//! | `log` | | `log_limited!` |
//! | `tracing` | | `tracing_limited!` |
//! | `defmt` | | `defmt_limited!` |
//! | `layer` | | `LimitedLayer` (with `std` and `tracing`) |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(clippy::std_instead_of_core)]

#[cfg(feature = "layer")]
extern crate alloc;
#[cfg(any(feature = "layer", test, doctest))]
extern crate std;

#[cfg(feature = "layer")]
mod layer;
mod log_limit;
mod macros;
mod suppressed_count;

pub use damper_core::quota::Quota;
#[cfg(feature = "layer")]
pub use layer::{LimitedLayer, LimitedLayerBuilder, LogReports};
pub use log_limit::LogLimit;
pub use suppressed_count::SuppressedCount;

/// Items that the macros name in the crates of their users.
///
/// They are no part of the semver promise.
#[doc(hidden)]
pub mod __facades {
    #[cfg(feature = "defmt")]
    pub use crate::macros::defmt::DefmtMessage;
    #[cfg(feature = "log")]
    pub use log;
    #[cfg(feature = "tracing")]
    pub use tracing;
}
