//! Guides for users of other libraries: their names beside damper's, and one program in both.
//!
//! | from | page |
//! |---|---|
//! | governor and `tower_governor` | [`governor`] |
//! | rate-net, throttle-net and better-bucket | [`rate_net`] |
//! | tower-resilience | [`tower_resilience`] |
//! | seatbelt | [`seatbelt`] |
//! | trypema | [`trypema`] |
//! | failsafe and recloser | [`failsafe`] |
//! | Go's `golang.org/x/time/rate` | [`go`] |
//! | Java's resilience4j | [`resilience4j`] |
//! | .NET's Polly | [`polly`] |

// The programs in `before/` are those of other crates. The package `benches/peers` compiles and runs them.

pub mod failsafe;
pub mod go;
pub mod governor;
pub mod polly;
pub mod rate_net;
pub mod resilience4j;
pub mod seatbelt;
pub mod tower_resilience;
pub mod trypema;
