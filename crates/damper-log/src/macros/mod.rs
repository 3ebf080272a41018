//! Macros that limit one log call.
//!
//! Each takes the call apart: its level, the arguments before the message (such as `target:`), and the rest, to which it adds
//! the count. The message stays as the user wrote it.

// | file | facade |
// |---|---|
// | `tracing` | `tracing_limited!` |
// | `log` | `log_limited!` |
// | `defmt` | `defmt_limited!`, and the message as one value |

#[cfg(feature = "defmt")]
pub(crate) mod defmt;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "tracing")]
mod tracing;
