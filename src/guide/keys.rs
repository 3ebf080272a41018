//! One limit per key: how large the table is, and what a key should be.
//!
//! # How large
//!
//! [`capacity`](crate::keyed::KeyedLimiterBuilder::capacity) is the number of keys that are *busy* at the same time,
//! which means that their buckets are not full. A key that was idle for its bucket's refill time needs no slot. So
//! multiply the keys per second by the refill time of a burst. A thousand new clients a second with 50/s and a burst of
//! 100 are 2,000 busy keys.
//!
//! | capacity | memory |
//! |---|---|
//! | 8,192, the default | 404 KiB |
//! | 100,000 | 5.1 MB |
//! | 1,000,000 | 51 MB |
//!
//! That is 51 bytes a key: two slots of 16 bytes, and two shared buckets of 8 bytes for keys without a slot. Every seven buckets share a
//! header of 8 bytes. All of it is allocated at construction, and it never grows. [`sizing`](super::sizing) has a table from the keys of a
//! minute to a capacity.
//!
//! # When it is full
//!
//! By default keys without a slot spend from shared buckets. [What happens when the table is full](super::full_table)
//! shows which clients are refused then, and the other policies.
//!
//! A newcomer costs more than a known key, because it takes a lock: some three times as much in `benches/peers`,
//! whether it finds a slot or not.
//!
//! # Several quotas
//!
//! Keys belong to tiers, each with a quota: free and paying users, or partners. A function says which key is in which tier. It is called when
//! a key is first seen, so it may be slow. All of this changes while the limiter is used:
//!
//! | change | by | what becomes of levels |
//! |---|---|---|
//! | the quotas of tiers | [`set_tier_quota`](crate::KeyedLimiter::set_tier_quota), several together or none by [`set_tier_quotas`](crate::KeyedLimiter::set_tier_quotas) | as by [`set_quota`](crate::RateLimiter::set_quota): what is missing stays missing |
//! | one more tier, 15 in all | [`add_tier`](crate::KeyedLimiter::add_tier) | known keys stay where they are |
//! | what the function answers about a key | [`retier`](crate::KeyedLimiter::retier) | its debt takes as long to be repaid as before |
//! | the tier of a key, whatever the function says | [`set_tier`](crate::KeyedLimiter::set_tier), until [`clear_tier`](crate::KeyedLimiter::clear_tier) | the same |
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{KeyedLimiter, ManualClock, Quota};
//! use std::collections::HashMap;
//! use std::sync::{Arc, RwLock};
//!
//! // The number of each user's tier, as the billing service has it.
//! let plans = Arc::new(RwLock::new(HashMap::from([("bob", 1)])));
//! let tier_of = {
//!     let plans = Arc::clone(&plans);
//!     move |user: &str| plans.read().unwrap().get(user).copied().unwrap_or(0)
//! };
//! let (free, paying) = (Quota::per_minute(60), Quota::per_minute(600));
//! let limits = KeyedLimiter::<str>::builder(free).tiers([paying], tier_of).clock(ManualClock::new()).build()?;
//! assert_eq!((limits.peek("alice").limit(), limits.check("bob")?.remaining()), (60, 599));
//!
//! // Half of both quotas while a data center is down.
//! limits.set_tier_quotas([(0, Quota::per_minute(30)), (1, Quota::per_minute(300))])?;
//!
//! // A new plan, and the first user who takes it.
//! let partner = limits.add_tier(Quota::per_minute(6_000))?;
//! plans.write().unwrap().insert("bob", partner);
//! limits.retier("bob");
//! assert_eq!(limits.peek("bob").limit(), 6_000);
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Without std, without an allocator
//!
//! Then a [`KeyedLimiterBuilder`](crate::keyed::KeyedLimiterBuilder) needs a clock and a hasher, for which there is
//! [`Seed`](crate::time::Seed). Without an allocator, a limiter uses slots that are lent to it, both of them a
//! `static`:
//!
//! ```
//! use damper::keyed::KeyedSlots;
//! use damper::time::Seed;
//! use damper::{CoarseClock, KeyedLimiter, Quota};
//!
//! static TIME: CoarseClock = CoarseClock::new(); // a timer's interrupt advances it
//! static SLOTS: KeyedSlots<32> = KeyedSlots::new(); // 32 sets of 96 bytes, for 64 keys
//! static NODES: KeyedLimiter<u16, &CoarseClock, Seed> =
//!     KeyedLimiter::in_slots(Quota::per_minute(6).burst(2), &SLOTS, &TIME, Seed::new(0x5EED, 0xF00D));
//!
//! assert!(NODES.check(&7).is_ok());
//! ```
//!
//! There a critical section, which the firmware provides, replaces each lock: for new keys, and for all changes of an
//! [`BoundedStore`](crate::BoundedStore). A check of a known key takes none.
//!
//! # Two keys with one fingerprint
//!
//! Keys are not stored, only 64 bits of their hash. Two keys with the same bits share a bucket. Among n busy keys the
//! probability of such a pair is n²/2^65: for 10,000 one in 370 billion, for a million one in 37 million. An attacker
//! cannot construct such a pair, because the hash has a random seed. A hasher of your own should have one too.
//!
//! # A cheaper hash
//!
//! `SipHash` takes 86 instructions for an integer and 101 for an `IpAddr`. [`FastSeed`](crate::time::FastSeed) takes 13
//! and 35. It is for keys that clients cannot choose freely. Its page says which attacks it does not resist.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::time::FastSeed;
//! use damper::{KeyedLimiter, Quota};
//!
//! let tenants = KeyedLimiter::<u64>::builder(Quota::per_second(100)).hasher(FastSeed::random()).build()?;
//! assert!(tenants.check(&7).is_ok());
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Choosing a key
//!
//! Use a key that the client cannot choose freely. Prefer an account to an address. Use a prefix of IPv6 addresses,
//! because a client owns all addresses of it: [`ClientAddress`](crate::ClientAddress) does that.
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use damper::{ClientAddress, KeyedLimiter, ManualClock, Quota, WhenFull};
//! use std::net::IpAddr;
//!
//! let limits = KeyedLimiter::<ClientAddress>::builder(Quota::per_second(1).burst(2))
//!     .capacity(10_000)
//!     .when_full(WhenFull::DenyNew)
//!     .clock(ManualClock::new())
//!     .build()?;
//! let client = |address: &str| address.parse::<IpAddr>().map(ClientAddress::from);
//! let (one, other) = (client("2001:db8::1")?, client("2001:db8::2")?);
//! limits.check(&one)?;
//! limits.check(&other)?;
//! assert!(limits.check(&one).is_err(), "the same client");
//! # }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
