//! Sizes of tables: from the keys of a minute to a capacity, and when to raise it.
//!
//! # From keys to a capacity
//!
//! A key needs a slot while it is *busy*: from its first call until its bucket is full again. So the busy keys are the different keys of a
//! minute, times the minutes in which a key's bucket refills what the key used. Take the busiest minute, and this number as the
//! [`capacity`](crate::keyed::KeyedLimiterBuilder::capacity). A key that uses its whole burst is the worst case, and
//! [`refill_window`](crate::Quota::refill_window) is its time:
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{KeyedLimiter, Quota};
//! use std::net::IpAddr;
//!
//! let quota = Quota::per_minute(60).burst(30);
//! let keys_a_minute = 40_000.0; // different clients in the busiest minute
//! let refill = quota.refill_window().expect("the quota refills").as_secs_f64() / 60.0;
//! let capacity = (keys_a_minute * refill) as usize;
//! assert_eq!(capacity, 20_000);
//! let limits = KeyedLimiter::<IpAddr>::builder(quota).capacity(capacity).build()?;
//! # let _ = limits;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | different keys a minute | refilled in 2 s: 50/s burst 100 | in a minute: 60/min | in an hour: 20/h |
//! |---|---|---|---|
//! | 1,000 | the default, 8,192 (0.4 MB) | the default | 60,000 (3.1 MB) |
//! | 10,000 | the default | 10,000 (0.5 MB) | 600,000 (31 MB) |
//! | 100,000 | the default | 100,000 (5.1 MB) | 6,000,000 (306 MB) |
//! | 1,000,000 | 34,000 (1.7 MB) | 1,000,000 (51 MB) | 60,000,000 (3.1 GB) |
//!
//! A column that is too large says that the quota remembers for too long. Keys of a prefix instead of an address, or a quota of the same rate with a
//! smaller burst, refill sooner. A key that makes one call of 20/h is busy for three minutes and not for an hour.
//!
//! # Beyond the capacity
//!
//! A table for twice the busy keys has room to spare, and one for half of them still serves nearly all, because it has two slots and two shared
//! words for each key of its capacity. Clients that came once and stayed within their quota, at 20/h and a capacity of 8,192:
//!
//! | busy keys, beside the capacity | crowding | refused of clients that make 1 call | 10 calls | 20 calls |
//! |---|---|---|---|---|
//! | 100 % | 0.00 | 0 | 0 | 0 |
//! | 150 % | 0.05 | 0 | 0 | 0.004 % |
//! | 175 % | 0.11 | 0 | 0 | 0.006 % |
//! | 200 % | 0.20 | 0 | 0.002 % | 0.02 % |
//! | 250 % | 0.46 | 0 | 0.14 % | 0.5 % |
//! | 300 % | 0.76 | 2.1 % | 2.0 % | 3.3 % |
//!
//! `cargo run --release -p damper-sim -- sizing` in a checkout prints it. [`full_table`](super::full_table) has the other policies.
//!
//! # When to raise it
//!
//! [`crowding`](crate::KeyedLimiter::crowding) is the early warning: it rises before anyone is refused.
//!
//! | crowding, over 15 minutes | meaning | do |
//! |---|---|---|
//! | below 0.1 | at most 1.75 times the capacity is busy | nothing |
//! | 0.1 to 0.4 | the room beyond the capacity is used | plan a larger capacity |
//! | 0.4 | more than twice the capacity is busy: the alert `DamperLimitTableCrowded` | raise it with the next deployment |
//! | 0.5 and more | polite clients are refused | raise it now; if new keys come in a flood, see [`full_table`](super::full_table) |
//!
//! With the feature `metrics` it is the ratio of two counters:
//!
//! ```text
//! rate(damper_limit_shared_words_busy_total[15m]) / rate(damper_limit_shared_words_seen_total[15m])
//! ```
//!
//! [`len`](crate::KeyedLimiter::len) beside [`capacity`](crate::KeyedLimiter::capacity) says how many keys are busy now. The capacity is fixed
//! at construction, so that memory is too. To change it, build another limiter; all buckets of the new one are full.
