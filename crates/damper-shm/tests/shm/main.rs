//! Tests of the public API, with real processes: this binary starts itself as their children.
#![cfg(all(target_os = "linux", target_has_atomic = "64"))]

mod children;
mod inherit;
mod seals;
mod socket;
mod workers;
