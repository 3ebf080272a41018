//! Log calls that repeat: limits that count what they suppress, and when they report it.
//!
//! A failure that repeats a thousand times a second fills disks, costs money by the line, and hides other failures. A limit lets a few
//! lines pass. But a line that is dropped in silence is worse than a flood, because the log no longer says how often the failure came. So these limits
//! count exactly what they suppress, and each count is reported once.
//!
//! # Choosing a limit
//!
//! | you want to limit | take |
//! |---|---|
//! | one call that you know to repeat | a macro: `tracing_limited!`, `log_limited!`, `defmt_limited!` |
//! | several calls together | a `static` [`LogLimit`](crate::logs::LogLimit), and a macro with a reference to it |
//! | every call of the program and its dependencies | a `LimitedLayer` around the layer that writes |
//! | a call for each peer, tenant or disk | a `LimitedLayer` with `per_value_of("peer")` |
//! | calls of a facade of your own | [`LogLimit::check`](crate::logs::LogLimit::check) |
//!
//! # One call site
//!
//! The call stays as it is, and the macro goes around it. The quota is a constant, and the limit is a `static` of this call site:
//!
//! ```
//! # #[cfg(feature = "logs-tracing")] {
//! use damper::logs::{Quota, tracing_limited};
//! use tracing::warn;
//!
//! # let peer = "192.0.2.7";
//! // WARN connection reset suppressed=1204 peer="192.0.2.7"
//! tracing_limited!(Quota::per_second(1).burst(5), warn!(peer, "connection reset"));
//! # }
//! ```
//!
//! The line that passes says how many were suppressed before it. In `tracing` this is the field `suppressed`, in `log` a pair if the call has
//! pairs, and otherwise a suffix: `connection reset (1204 suppressed)`. An event that no subscriber or logger wants takes no token and is not
//! counted.
//!
//! After the last line that passes, what was suppressed is known only to the limit. If no line may come for hours, give the limit a name, and
//! report the rest yourself when the trouble is over:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::logs::{LogLimit, Quota, log_limited};
//! use log::{info, warn};
//!
//! static DISK: LogLimit = LogLimit::new(Quota::per_second(1));
//!
//! for block in 0..100 {
//!     log_limited!(&DISK, warn!("disk full at block {block}"));
//! }
//! info!("the disk is back{}", DISK.take_suppressed());
//! # }
//! ```
//!
//! # All call sites
//!
//! A `LimitedLayer` has a limit for each call site in a table of fixed capacity, and reports by itself:
//!
//! ```
//! # #[cfg(feature = "logs-tracing")] {
//! use damper::logs::{LimitedLayer, Quota};
//! use tracing_subscriber::{filter::LevelFilter, fmt, prelude::*, registry};
//!
//! let (layer, reports) = LimitedLayer::builder(Quota::per_second(1).burst(10)).build(fmt::layer())?;
//! registry().with(layer.with_filter(LevelFilter::INFO)).init();
//! // WARN damper: suppressed 1204 events in 10 s suppressed=1204 elapsed_ms=10000 origin="app::disk" file="src/disk.rs" line=42
//! # drop(reports);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It has no thread. The first event ten seconds after the last reports makes them, whichever call site it is from. So a flood costs one line
//! more in ten seconds, and its end is reported with the program's next line. A program that may log nothing for long calls
//! `reports.tick()` from a timer, and dropping `reports` at the end of `main` reports the rest. Only the layer inside gets the reports, and
//! only what it would have got is limited: other layers, such as one that exports metrics or traces, get every event.
//! Put a layer that others look up beside it, such as that of tracing-opentelemetry: inside, it is not found.
//!
//! The table has room for 1,024 call sites or values, unless you set another capacity. If it is full, a limit that was not used lately makes
//! room and comes back full. Limits with something to report go last, and what they counted is reported all the same.
//!
//! # Choosing a quota
//!
//! The burst is how many lines it takes to understand a failure: 5 to 10. The rate is how fast lines may come while it lasts: one a second
//! is 86,400 lines a day. Do not limit lines that each matter, such as those of an audit log. Keep them out of the
//! layer by a filter on their target, and write them by a layer of their own.
//!
//! # Names elsewhere
//!
//! | elsewhere | here |
//! |---|---|
//! | `printk_ratelimited` of Linux, `LOG_EVERY_T` of glog | a macro; the count is a part of the line that passes |
//! | the sampling core of zap, `internal_log_rate_limit` of Vector, tracing-throttle | a `LimitedLayer`; `per_value_of` stands for a field such as `component_id` |
//! | one line of every hundred | not here: the share of a sample says nothing about how many lines a flood writes |
//!
//! # In firmware
//!
//! The crate `damper-log` needs neither `std` nor an allocator. A [`LogLimit`](crate::logs::LogLimit) of a
//! [`RateLimiter32`](crate::RateLimiter32) is lock-free on a Cortex-M3 or larger, and works in interrupts. `firmware/src/bin/logs.rs` is a
//! program with one, and with the feature `defmt` a call of `defmt` has `defmt_limited!`. Mind the range of words of 32 bits: after a long idle time such a
//! limit may suppress a burst that it should pass, which it counts.
//!
//! # Costs
//!
//! A suppressed event costs a check of the limiter, which is mostly the reading of the clock, and an addition. It locks and allocates nothing,
//! and computes none of the event's values. On targets of 64 bits a `LogLimit` takes 368 bytes, with a `RateLimiter32` 80. A `LimitedLayer` also
//! looks its limit up, under the shared lock of a part of the table; it is called after the event's values were computed.
//!
//! damper's own logs of refusals are limited by these limits too.
