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
//! | `SharedOverflow`, the default | spends from a word of its line, which its hash chooses | keep their slots | yes |
//! | `DenyNew` | is refused, with the wait until a slot is free | keep their slots | yes |
//! | `EvictLeastIndebted` | takes the slot of its tier that is full soonest, with its debt | may lose their slot | no, only all slots together |
//!
//! **`SharedOverflow`.** There are two shared words for each key of the capacity
//! ([`shared_buckets`](crate::keyed::KeyedLimiterBuilder::shared_buckets)), of 8 bytes each, in lines of eight: a header and seven
//! words in which keys spend. A key takes any idle word of its line, so two clients share one quota only if their line is full. A
//! key that gets a slot later inherits what it may have spent in its line, so it gains no second burst. If it is moved to another
//! tier while it has no slot, and its line was full, it may have a burst of the other tier too.
//!
//! Keys of all tiers use the same lines. A newcomer inherits debts of other keys only of its own tier, so that a flood of free
//! clients leaves paying ones alone, and a tier that no key is in costs nothing.
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
//! | quota | calls of a client | policy | busy: 100 % of the capacity | 150 % | 200 % | 250 % | 300 % | 400 % |
//! |---|---|---|---|---|---|---|---|---|
//! | 20/h | 1 | `SharedOverflow` | 0.0 | 0.0 | 0.0 | 0.0 | 2.1 | 28.5 |
//! | | | `DenyNew` | 0.4 | 7.1 | 20.1 | 31.7 | 40.9 | 53.9 |
//! | | | `EvictLeastIndebted` | 0.0 | 0.0 | 0.0 | 0.0 | 12.8 | 35.0 |
//! | 20/h | 20, its burst | `SharedOverflow` | 0.0 | 0.0 | 0.02 | 0.5 | 3.5 | 19.5 |
//! | | | `DenyNew` | 0.4 | 7.2 | 20.2 | 31.7 | 40.7 | 53.5 |
//! | | | `EvictLeastIndebted` | 0.05 | 2.0 | 10.2 | 22.5 | 33.9 | 50.0 |
//! | 5/min burst 5 | 5, its burst | `SharedOverflow` | 0.0 | 0.01 | 0.02 | 0.5 | 3.3 | 17.6 |
//! | | | `DenyNew` | 0.4 | 7.2 | 20.2 | 31.7 | 40.7 | 53.5 |
//! | | | `EvictLeastIndebted` | 0.1 | 3.0 | 12.5 | 23.9 | 34.5 | 50.1 |
//! | 50/s burst 100 | 100, its burst | `SharedOverflow` | 0.0 | 0.0 | 0.02 | 0.5 | 3.5 | 20.1 |
//! | | | `DenyNew` | 0.4 | 7.2 | 20.2 | 31.7 | 40.7 | 53.5 |
//! | | | `EvictLeastIndebted` | 0.04 | 1.7 | 9.6 | 22.1 | 33.8 | 50.0 |
//!
//! Percent of refused first calls of new clients, while an attacker sends calls with new keys:
//!
//! | policy | 100 keys/s at 20/h | 200 keys/s at 20/h | 10,000 keys/s at 30/min |
//! |---|---|---|---|
//! | `SharedOverflow` | 0.0 | 49.1 | 0.0 |
//! | `DenyNew` | 24.8 | 57.6 | 31.9 |
//! | `EvictLeastIndebted` | 0.0 | 55.4 | 0.0 |
//! | `SharedOverflow` with one shared word a key | 39.9 | 78.2 | 61.1 |
//! | with four a key | 0.0 | 0.1 | 0.0 |
//! | with a single one | 97.6 | 98.9 | 98.6 |
//!
//! One refill time of a burst after a flood, no client's first call is refused. `cargo run --release -p damper-sim --
//! crowd` in a checkout prints these tables, also for other capacities.
//!
//! Beside a flood of 91 new free keys a second at 20/h, twice the capacity, no call of a paying client is refused, under
//! `SharedOverflow` and `EvictLeastIndebted` alike (`-- tiers`).
//!
//! # Metrics to watch
//!
//! [`crowding`](crate::KeyedLimiter::crowding) is the share of shared words that newcomers find busy. Alert at 0.4, and enlarge the
//! capacity at 0.5, before clients are refused. [`overflows`](crate::KeyedLimiter::overflows), [`refused_newcomers`](crate::KeyedLimiter::refused_newcomers) and
//! [`evictions`](crate::KeyedLimiter::evictions) count the decisions about newcomers. [`len`](crate::KeyedLimiter::len)
//! and [`capacity`](crate::KeyedLimiter::capacity) show how full the table is. If the counts grow without an attack,
//! the capacity is too small: [how large](super::keys#how-large). If you expect attacks, more shared words are the
//! cheapest remedy: four a key take 16 bytes more.
