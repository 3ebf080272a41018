//! A full table of a keyed limiter: the policies, and the clients that each refuses.
//!
//! A [`KeyedLimiter`](crate::KeyedLimiter) has two slots for each key of its capacity, and each key can use one of
//! eight. A key is *busy* while its bucket is not full. A full bucket needs no slot, so its slot goes to the next
//! newcomer, and nothing is lost. [`WhenFull`](crate::WhenFull) decides only when all eight slots of a newcomer are
//! busy.
//!
//! With as many busy keys as the capacity, 35 in 10,000 newcomers meet eight busy slots under churn (3 in 10,000 when a
//! table is filled once). With one and a half times as many it is 7 in 100.
//!
//! # The three policies
//!
//! | policy | a newcomer that finds no slot | known keys | each key stays in its envelope |
//! |---|---|---|---|
//! | `SharedOverflow`, the default | spends from a bucket that its hash chooses | keep their slots | yes |
//! | `DenyNew` | is refused, with the wait until a slot is free | keep their slots | yes |
//! | `EvictLeastIndebted` | takes the slot that is full soonest, with its debt | may lose their slot | no, only all slots together |
//!
//! **`SharedOverflow`.** There are two shared buckets for each key of the capacity
//! ([`shared_buckets`](crate::keyed::KeyedLimiterBuilder::shared_buckets)), of 8 bytes each. Two clients with the same
//! shared bucket share one quota. A key that gets a slot later inherits what it may have spent from its shared bucket,
//! so it gains no second burst.
//!
//! **`DenyNew`.** New clients suffer from a table that is too small. Their `retry_after` is the time until the first of
//! their slots is free.
//!
//! **`EvictLeastIndebted`.** A newcomer starts with the debt of the evicted key, and is refused if that leaves too few
//! tokens. So all slots together admit no more than they hold, and a flood of new keys earns no extra tokens. A single
//! key can exceed its own quota: it is evicted with some of its burst spent, returns through the other of its two sets
//! to a slot without debt, and has a burst again.
//!
//! # Refused clients
//!
//! Percent of calls refused, in a simulation on a manual clock with a capacity of 8,192. Every client comes once and
//! stays within its quota, so 0 would be fair.
//!
//! | quota | calls of a client | policy | busy: 100 % of the capacity | 150 % | 200 % |
//! |---|---|---|---|---|---|
//! | 20/h | 1 | `SharedOverflow` | 0.0 | 0.0 | 0.0 |
//! | | | `DenyNew` | 0.4 | 7.1 | 20.1 |
//! | | | `EvictLeastIndebted` | 0.0 | 0.0 | 0.0 |
//! | 20/h | 20, its burst | `SharedOverflow` | 0.01 | 0.5 | 3.6 |
//! | | | `DenyNew` | 0.4 | 7.2 | 20.3 |
//! | | | `EvictLeastIndebted` | 0.06 | 2.0 | 10.2 |
//! | 5/min burst 5 | 5, its burst | `SharedOverflow` | 0.01 | 0.5 | 3.6 |
//! | | | `DenyNew` | 0.4 | 7.2 | 20.3 |
//! | | | `EvictLeastIndebted` | 0.1 | 3.0 | 12.5 |
//! | 50/s burst 100 | 100, its burst | `SharedOverflow` | 0.01 | 0.5 | 3.6 |
//! | | | `DenyNew` | 0.4 | 7.2 | 20.3 |
//! | | | `EvictLeastIndebted` | 0.05 | 1.7 | 9.6 |
//!
//! Percent of refused first calls of new clients, while an attacker sends calls with new keys:
//!
//! | policy | 100 keys/s at 20/h | 200 keys/s at 20/h | 10,000 keys/s at 30/min |
//! |---|---|---|---|
//! | `SharedOverflow` | 0.0 | 48.6 | 0.0 |
//! | `DenyNew` | 25.5 | 57.3 | 31.7 |
//! | `EvictLeastIndebted` | 0.0 | 54.9 | 0.0 |
//! | `SharedOverflow` with one shared bucket a key | 35.5 | 74.7 | 54.4 |
//! | with four a key | 0.0 | 0.0 | 0.0 |
//! | with a single one | 97.2 | 98.8 | 98.4 |
//!
//! One refill time of a burst after a flood, no client's first call is refused. `cargo run --release -p damper-sim --
//! crowd` in a checkout prints these tables, also for other capacities.
//!
//! # Metrics to watch
//!
//! [`overflows`](crate::KeyedLimiter::overflows), [`refused_newcomers`](crate::KeyedLimiter::refused_newcomers) and
//! [`evictions`](crate::KeyedLimiter::evictions) count the decisions about newcomers. [`len`](crate::KeyedLimiter::len)
//! and [`capacity`](crate::KeyedLimiter::capacity) show how full the table is. If the counts grow without an attack,
//! the capacity is too small: [how large](super::keys#how-large). If you expect attacks, more shared buckets are the
//! cheapest remedy: four a key take 16 bytes more.
