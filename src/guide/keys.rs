//! One limit per key: how large the table is, and what a key should be.
//!
//! # How large
//!
//! [`capacity`](crate::keyed::KeyedLimiterBuilder::capacity) is the number of keys that are *busy* at the same time:
//! whose bucket is not full. A key that was away for as long as its bucket takes to be refilled needs no slot. So: keys
//! per second, times the time in which a burst is refilled. A thousand new clients a second with 50/s and a burst of
//! 100 are 2,000 busy keys.
//!
//! | capacity | memory |
//! |---|---|
//! | 8,192, the default | 384 KiB |
//! | 100,000 | 4.8 MB |
//! | 1,000,000 | 48 MB |
//!
//! That is 48 bytes a key: two slots of 16 bytes, and two shared buckets of 8 for keys without a slot. All of it is allocated
//! at construction, and there is never more, whatever the keys.
//!
//! # When it is full
//!
//! By default keys without a slot spend from buckets that they share: [what happens when the table is
//! full](super::full_table) says who is refused then, and what the other policies do.
//!
//! A newcomer costs more than a known key, because it takes a lock: in `benches/peers` some three times as much, whether it
//! finds a slot or not.
//!
//! # Without std, without an allocator
//!
//! A [`KeyedLimiterBuilder`](crate::keyed::KeyedLimiterBuilder) is made with a clock and a hasher then, for which there
//! is [`Seed`](crate::time::Seed). Where there is no allocator either, a limiter works in slots that are lent to it,
//! both of them a `static`:
//!
//! ```
//! use damper::keyed::KeyedSlots;
//! use damper::time::Seed;
//! use damper::{CoarseClock, KeyedLimiter, Quota};
//!
//! static TIME: CoarseClock = CoarseClock::new(); // a timer's interrupt counts it up
//! static SLOTS: KeyedSlots<32> = KeyedSlots::new(); // 32 sets of 96 bytes, for 64 keys
//! static NODES: KeyedLimiter<u16, &CoarseClock, Seed> =
//!     KeyedLimiter::in_slots(Quota::per_minute(6).burst(2), &SLOTS, &TIME, Seed::new(0x5EED, 0xF00D));
//!
//! assert!(NODES.check(&7).is_ok());
//! ```
//!
//! What takes a lock elsewhere runs in a critical section there, which the firmware has to provide: first sights, and
//! all that changes an [`LruStore`](crate::LruStore). A check of a key that is known does not.
//!
//! # Two keys with one fingerprint
//!
//! Keys are not stored, only 64 bits of their hash. Two keys with the same ones share a bucket. Among n busy keys the
//! chance that any two do is n²/2^65: for 10,000 one in 370 billion, for a million one in 37 million. Nobody can aim
//! for it, because the hash has a random seed; a hasher of your own should have one too.
//!
//! # What a key should be
//!
//! What the other side cannot choose freely. An account rather than an address where there is one. Of IPv6 a prefix,
//! because a client has all addresses of it: [`ClientAddress`](crate::ClientAddress) does that.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```text")]
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
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
