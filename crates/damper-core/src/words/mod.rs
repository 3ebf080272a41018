//! Limits on words that the program owns, shared by processes, cores and languages.
//!
//! The state of these limits lies in atomic words that the *program* places: in a mapping that pre-forked workers share, in memory that two
//! cores of a microcontroller see, in a table of its own. The library maps nothing, allocates nothing and takes no lock. The values below only
//! borrow a word, so each process makes its own, and everything that they share is in the words.
//!
//! | type | words | state |
//! |---|---|---|
//! | [`WordLimiter`] | 1 | a token bucket under a [`Plan`](crate::Plan) |
//! | [`WordBulkhead`] | 1 | the calls in flight of up to eight processes, with a way to [reclaim](WordBulkhead::reclaim) those of a dead one |
//! | [`WordBreaker`] | 1 | a circuit breaker: consecutive failures, or a rate of the last 48 calls |
//! | [`WordTable`] | 8, and one for each slot | a token bucket for each key, under one plan |
//! | [`Header`] | 8 | the version of the layout, the plans, the boot, the clock and the seed of the hash |
//!
//! Every change is one compare-and-swap, and no process waits for another. So a process can be killed at any step: the words stay valid, and
//! the others go on. The guide's page on words says what a kill, a stop, an update of the program and a reboot do.
//!
//! # Clocks
//!
//! All users of a word read the same clock. With the feature `rustix`, `HostMonotonic` reads `CLOCK_MONOTONIC`
//! in nanoseconds, which is the same in all processes of a host. The default clock of other limiters is not: `Monotonic`
//! is calibrated by each process, and calibrations that differ by 2.5 parts in a million differ by 21 s after 100 days. Nor is
//! `StdClock`, which starts at 0 in each process.
//!
//! # Examples
//!
//! ```
//! # extern crate damper_core as damper;
//! use damper::time::Seed;
//! use damper::words::{AtomicU64, Contents, Header, Seat, WordBulkhead, WordLimiter};
//! use damper::{ManualClock, Plan, Quota};
//!
//! // The program maps the words, for instance by the crate `damper-shm`. They are 0 at first.
//! let words = [const { AtomicU64::new(0) }; 64];
//! # let clock = ManualClock::new();
//! let plan = Plan::new(Quota::per_second(1_000).burst(50))?;
//! let contents = Contents::version(1).plan(&plan).number(200);
//!
//! // The supervisor, before it starts the workers:
//! Header::create(&words[..8], &contents, Seed::new(1, 2), &clock)?; // a random seed
//!
//! // Each worker:
//! Header::attach(&words[..8], &contents, &clock)?;
//! let all = WordLimiter::new(&words[8], plan, &clock);
//! let calls = WordBulkhead::new(&words[9], 200, Seat::new(3)?);
//! all.check()?;
//! let permit = calls.enter()?;
//! drop(permit);
//!
//! // The supervisor, after the worker of seat 3 has died:
//! WordBulkhead::reclaim(&words[9], Seat::new(3)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// | file | idea |
// |---|---|
// | `limiter` | `WordLimiter`: a token bucket |
// | `breaker` | `WordBreaker`: a circuit breaker |
// | `bulkhead` | `WordBulkhead` and its permits |
// | `table` | `WordTable`: a token bucket for each key |
// | `seat` | `Seat`: the number of a process |
// | `header` | `Header`: what the words hold, written once |
// | `contents` | `Contents`: plans and settings as a hash |
// | `header_error` | `HeaderError`: what differs |

mod breaker;
mod bulkhead;
mod contents;
mod header;
mod header_error;
mod limiter;
mod seat;
mod table;

pub use breaker::WordBreaker;
pub use bulkhead::{WordBulkhead, WordPermit};
pub use contents::Contents;
pub use header::Header;
pub use header_error::HeaderError;
pub use limiter::WordLimiter;
pub use seat::Seat;
#[cfg(loom)]
pub(crate) use table::Nonces;
pub use table::WordTable;

/// The word of 64 bits that the program places: `core`'s, unless a model checker replaces it.
#[doc(no_inline)]
pub use crate::sync::AtomicU64;
