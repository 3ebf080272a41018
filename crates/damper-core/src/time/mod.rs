//! Where time comes from: ticks that count up, and how many of them make a second.
//!
//! | clock | ticks | for |
//! |---|---|---|
//! | [`Monotonic`] | the processor's counter, read directly | the default with the feature `std` |
//! | [`StdClock`] | nanoseconds of the standard library's `Instant` | what must keep pace with the system's clock (`std`) |
//! | `HostMonotonic` | nanoseconds since the boot of the machine, the same in all processes | [words](crate::words) that processes share (`rustix`) |
//! | [`CoarseClock`] | nanoseconds, refreshed now and then by a [`CoarseTicker`] (`std`) or a timer of yours | the cheapest reading |
//! | [`ExtendedTimer`] | those of a [`Timer`] of 32 bits or fewer, which wraps | firmware |
//! | [`ManualClock`] | moved by hand | tests, simulations |
//! | `TokioClock` | nanoseconds of tokio's time, which a test can pause | tests that wait (`tokio`) |
//! | your own [`Clock`] | what you have | the rest |
//!
//! No clock has hidden global state: threads share a value that you own. The one exception is [`Monotonic`], whose
//! calibration is quanta's and holds for the process.
//!
//! # A clock from outside
//!
//! A module of WebAssembly without `std` has no clock: its host lends one. (The folder `wasm/` of the repository has a whole module, and
//! a host that runs it.)
//!
//! ```
//! # extern crate damper_core as damper;
//! use damper::{Clock, Quota, RateLimiter, TokenBucket};
//!
//! # /*
//! #[link(wasm_import_module = "host")]
//! # */
//! unsafe extern "C" {
//!     /// `performance.now()`: milliseconds that never step back, with fractions.
//!     safe fn performance_now() -> f64;
//! }
//! # mod host { #[unsafe(no_mangle)] extern "C" fn performance_now() -> f64 { 3.25 } }
//!
//! /// The host's time, in microseconds.
//! #[derive(Clone, Copy, Debug)]
//! struct HostClock;
//!
//! impl Clock for HostClock {
//!     fn now(&self) -> u64 {
//!         (performance_now() * 1_000.0) as u64
//!     }
//!
//!     fn frequency(&self) -> u64 {
//!         1_000_000
//!     }
//! }
//!
//! static CALLS: RateLimiter<TokenBucket, HostClock> = RateLimiter::with_clock(Quota::per_second(10).burst(5), HostClock);
//! assert!(CALLS.check().is_ok());
//! ```

// | file | type |
// |---|---|
// | `clock` | `Clock`, `FixedFrequency`, and which clock is the default |
// | `monotonic`, `std_clock`, `coarse_clock`, `host_monotonic`, `extended_timer`, `manual_clock`, `tokio_clock` | a clock each |
// | `coarse_ticker` | `CoarseTicker`: the thread that refreshes a coarse clock |
// | `frequency` | `Frequency`: ticks per second in 32 bits |
// | `ticks` | `Ticks`: a wait in ticks |
// | `scale` | `Scale`: converts ticks to units of a rate; `Inverse` |
// | `micros` | `LazyMicros`: reads a clock in microseconds; `Micros`, the conversion |
// | `sleep` | `Sleep`: how a future sleeps |
// | `random` | random numbers, for seeds and jitter |
// | `seed` | `Seed`: how keys are hashed |
// | `fast_seed` | `FastSeed`: how keys that are numbers are hashed, if asked for |
// | `human` | `Human`: durations as a person reads them |

mod clock;
mod coarse_clock;
#[cfg(feature = "std")]
mod coarse_ticker;
mod extended_timer;
mod fast_seed;
mod frequency;
#[cfg(all(feature = "rustix", unix))]
mod host_monotonic;
pub(crate) mod human;
mod manual_clock;
mod micros;
#[cfg(feature = "std")]
mod monotonic;
pub(crate) mod random;
mod scale;
mod seed;
mod sleep;
#[cfg(feature = "std")]
mod std_clock;
mod ticks;
#[cfg(feature = "tokio")]
mod tokio_clock;

#[cfg(not(feature = "std"))]
pub use clock::NoClock;
pub use clock::{Clock, DefaultClock, FixedFrequency};
pub use coarse_clock::CoarseClock;
#[cfg(feature = "std")]
pub use coarse_ticker::CoarseTicker;
pub use extended_timer::{ExtendedTimer, Timer};
pub use fast_seed::FastSeed;
#[cfg(all(feature = "rustix", unix))]
pub use host_monotonic::HostMonotonic;
pub use manual_clock::ManualClock;
#[cfg(feature = "std")]
pub use monotonic::Monotonic;
pub use seed::Seed;
pub use sleep::Sleep;
#[cfg(feature = "tokio")]
pub use sleep::TokioSleep;
#[cfg(feature = "std")]
pub use std_clock::StdClock;
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;

pub(crate) use frequency::Frequency;
pub(crate) use human::Human;
pub(crate) use micros::{LazyMicros, Micros, MicrosReading};
pub(crate) use scale::Scale;
pub(crate) use ticks::Ticks;
