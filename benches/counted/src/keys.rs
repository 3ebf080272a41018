//! One decision of a limiter for one of many keys, and one value of a store.

use crate::still::{SEED, still};
use crate::{Call, Row, prepared, rows};
use damper::keyed::KeyedLimiterBuilder;
use damper::{BreakerConfig, Clock, KeyedCircuitBreaker, KeyedLimiter, LruStore, Quota};

pub(crate) const ROWS: &[Row] =
    rows![keyed_allowed, keyed_fast_allowed, keyed_fast_address_allowed, keyed_denied, keyed_first_sight, keyed_flood, fast_hash_number, fast_hash_v4, fast_hash_v6, fast_hash_pair, fast_hash_text, sip_hash_number, sip_hash_v4, sip_hash_v6, sip_hash_pair, sip_hash_text, lru_hit, lru_breaker_success,];

/// Whose hash is a little longer than a number's.
const HOST: &str = "api.example.com";

fn limiter<C: Clock>(quota: Quota, capacity: usize, clock: C) -> KeyedLimiter<u64, C> {
    KeyedLimiterBuilder::new(quota, clock, SEED).capacity(capacity).build().expect("a capacity in range")
}

fn keyed_allowed() -> Call {
    let limiter = limiter(Quota::per_hour(1).burst(1_000_000), 1_024, still!());
    Box::new(move || limiter.check(&7).is_ok())
}

fn keyed_denied() -> Call {
    let limiter = limiter(Quota::per_hour(1), 1_024, still!());
    prepared(Box::new(move || limiter.check(&7).is_err()))
}

/// Another key each time, in a table with room for all of them.
fn keyed_first_sight() -> Call {
    let limiter = limiter(Quota::per_hour(1), 65_536, still!());
    let mut key = 0;
    Box::new(move || {
        key += 1;
        limiter.check(&key).is_ok()
    })
}

/// Another key each time, where all slots have owners that owe and the bucket of all others is empty.
fn keyed_flood() -> Call {
    let limiter = limiter(Quota::per_hour(1), 16, still!());
    let mut key = 0;
    // Of the first thousand some get a slot.
    prepared(Box::new(move || {
        key += 1;
        limiter.check(&key).is_err() && key > 1_000
    }))
}

/// In one shard, as there is below 128: how many there are above depends on the machine.
fn lru_hit() -> Call {
    let store = LruStore::<String, u64, _>::with_hasher(100, SEED).unwrap();
    store.get_or_insert_with(HOST, || 1);
    Box::new(move || store.get(HOST).is_some_and(|value| *value == 1))
}

fn lru_breaker_success() -> Call {
    let breakers =
        KeyedCircuitBreaker::<String, _, _>::with_clock_and_hasher(BreakerConfig::default(), 100, still!(), SEED)
            .unwrap();
    Box::new(move || breakers.call(HOST, || Ok::<_, ()>(())).is_ok())
}

fn hashed<K: std::hash::Hash + 'static, S: std::hash::BuildHasher + 'static>(key: K, seed: S) -> Call {
    let state = std::hint::black_box(Box::new((key, seed)));
    Box::new(move || state.1.hash_one(&state.0) != 0)
}
fn keyed_fast_allowed() -> Call {
    let limiter = KeyedLimiterBuilder::new(Quota::per_hour(1).burst(1_000_000), still!(), FAST).capacity(1_024).build().expect("a capacity in range");
    Box::new(move || limiter.check(&7u64).is_ok())
}
fn keyed_fast_address_allowed() -> Call {
    let limiter = KeyedLimiterBuilder::new(Quota::per_hour(1).burst(1_000_000), still!(), FAST).capacity(1_024).build().expect("a capacity in range");
    let key = std::hint::black_box(V4);
    Box::new(move || limiter.check(&key).is_ok())
}
const FAST: damper::time::FastSeed = damper::time::FastSeed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
const V4: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));
const V6: std::net::IpAddr = std::net::IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0xffff, 4, 5, 6, 7));
fn fast_hash_number() -> Call { hashed(7u64, FAST) }
fn fast_hash_v4() -> Call { hashed(V4, FAST) }
fn fast_hash_v6() -> Call { hashed(V6, FAST) }
fn fast_hash_pair() -> Call { hashed((u64::MAX, 7u64), FAST) }
fn fast_hash_text() -> Call { hashed(HOST, FAST) }
fn sip_hash_number() -> Call { hashed(7u64, SEED) }
fn sip_hash_v4() -> Call { hashed(V4, SEED) }
fn sip_hash_v6() -> Call { hashed(V6, SEED) }
fn sip_hash_pair() -> Call { hashed((u64::MAX, 7u64), SEED) }
fn sip_hash_text() -> Call { hashed(HOST, SEED) }
