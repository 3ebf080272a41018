//! What happens when the table of a keyed limiter is full.
//!
//! A [`KeyedLimiter`](crate::KeyedLimiter) has two slots for each key of its capacity, and each key may have one of eight. A key
//! is *busy* while its bucket is not full. A bucket that is full needs no slot, so its slot goes to the next newcomer, and
//! nothing is lost. Only when all eight slots of a newcomer are busy does [`WhenFull`](crate::WhenFull) decide.
//!
//! With as many busy keys as the capacity, 35 newcomers in 10,000 meet eight busy slots while keys come and go (3 in 10,000
//! when a table is filled once). With one and a half times as many it is 7 in 100.
//!
//! # The three policies
//!
//! | policy | a newcomer that finds no slot | known keys | each key stays in its envelope |
//! |---|---|---|---|
//! | `SharedOverflow`, the default | spends from a bucket that its hash chooses | keep their slots | yes |
//! | `DenyNew` | is refused, and told when a slot is free | keep their slots | yes |
//! | `EvictLeastIndebted` | takes the slot that is full soonest, with its debt | may lose their slot | no, only all slots together |
//!
//! **`SharedOverflow`.** There are two shared buckets for each key of the capacity
//! ([`shared_buckets`](crate::keyed::KeyedLimiterBuilder::shared_buckets)), 8 bytes each. Two clients that spend from the same
//! shared bucket share one quota. A key that gets a slot later takes along what it may have spent from its shared bucket, so
//! a detour earns no second burst.
//!
//! **`DenyNew`.** New clients pay for a table that is too small. Their `retry_after` is when the first of their slots is free.
//!
//! **`EvictLeastIndebted`.** A newcomer starts with the debt of the key that it evicts, and is refused if that leaves too few
//! tokens. So all slots together admit no more than they hold, and a flood of new keys earns no extra tokens. A single key
//! can exceed its own quota: it is evicted with some of its burst spent, returns through the other of its two sets to a slot
//! that owes nothing, and has a burst again.
//!
//! # Who is refused
//!
//! Percent of calls that are refused, in a simulation on a manual clock with a capacity of 8,192. Every client comes once and
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
//! While an attacker sends calls with new keys, percent of the first calls of other new clients:
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
//! Once the refill time of a burst has passed after a flood, no client is refused its first call. `cargo run --release -p
//! damper-sim` in a checkout prints these tables, for other capacities too.
//!
//! # What to watch
//!
//! [`overflows`](crate::KeyedLimiter::overflows), [`refused_newcomers`](crate::KeyedLimiter::refused_newcomers) and
//! [`evictions`](crate::KeyedLimiter::evictions) count what happened to newcomers; [`len`](crate::KeyedLimiter::len) and
//! [`capacity`](crate::KeyedLimiter::capacity) say how full the table is. If the counts grow without an attack, the capacity
//! is too small: [how large](super::keys#how-large). If attacks are to be expected, more shared buckets are the cheapest
//! remedy: four a key take 16 bytes more.
