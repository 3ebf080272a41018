//! One decision of a limiter for one of many keys, and one value of a store.

use crate::still::{FAST_SEED, SEED, still};
use crate::{Call, Row, prepared, rows};
use damper::keyed::{KeyedLimiterBuilder, QuotaTreeBuilder};
use damper::{BoundedStore, BreakerConfig, Clock, KeyedCircuitBreaker, KeyedLimiter, Plan, Quota};
use std::hash::{BuildHasher, Hash};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

pub(crate) const ROWS: &[Row] = rows![
    keyed_allowed,
    keyed_fast_allowed,
    keyed_denied,
    keyed_first_sight,
    keyed_flood,
    planned_keyed_allowed,
    planned_keyed_denied,
    tree_of_three_allowed,
    tree_of_six_settled,
    sip_hash_number - no_hash,
    sip_hash_address - no_hash,
    fast_hash_number - no_hash,
    fast_hash_address - no_hash,
    lru_hit,
    lru_breaker_success,
];

/// Whose hash is a little longer than a number's.
const HOST: &str = "api.example.com";

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

fn limiter<C: Clock>(quota: Quota, capacity: usize, clock: C) -> KeyedLimiter<u64, C> {
    KeyedLimiterBuilder::new(quota, clock, SEED).capacity(capacity).build().expect("a capacity in range")
}

fn keyed_allowed() -> Call {
    let limiter = limiter(Quota::per_hour(1).burst(1_000_000), 1_024, still!());
    Box::new(move || limiter.check(&7).is_ok())
}

/// The same with the hasher for keys that are numbers.
fn keyed_fast_allowed() -> Call {
    let builder = KeyedLimiterBuilder::<u64, _, _>::new(Quota::per_hour(1).burst(1_000_000), still!(), FAST_SEED);
    let limiter = builder.capacity(1_024).build().expect("a capacity in range");
    Box::new(move || limiter.check(&7).is_ok())
}

fn keyed_denied() -> Call {
    let limiter = limiter(Quota::per_hour(1), 1_024, still!());
    prepared(Box::new(move || limiter.check(&7).is_err()))
}

fn plan(quota: Quota) -> Plan {
    Plan::new(quota).expect("a quota in range")
}

/// Does what `keyed_allowed` does, with the quota in the call.
fn planned_keyed_allowed() -> Call {
    let limiter = KeyedLimiterBuilder::<u64, _, _, _>::by_plan(still!(), SEED).capacity(1_024).build();
    let (limiter, plan) = (limiter.expect("a capacity in range"), plan(Quota::per_second(1_000_000)));
    Box::new(move || limiter.check_with(&7, &plan, 1).is_ok())
}

fn planned_keyed_denied() -> Call {
    let limiter = KeyedLimiterBuilder::<u64, _, _, _>::by_plan(still!(), SEED).capacity(1_024).build();
    let (limiter, plan) = (limiter.expect("a capacity in range"), plan(Quota::per_hour(1)));
    prepared(Box::new(move || limiter.check_with(&7, &plan, 1).is_err()))
}

/// A decision on three words: a user's, a team's and an organisation's.
fn tree_of_three_allowed() -> Call {
    let builder = QuotaTreeBuilder::<u64, 3, 1, _, _>::new(["user", "team", "all"], ["requests"], still!(), SEED);
    let tree = builder.capacities([1_024; 3]).build().expect("capacities in range");
    let plan = plan(Quota::per_second(1_000_000));
    Box::new(move || tree.check(&[(&7, [&plan]), (&8, [&plan]), (&9, [&plan])], [1]).is_ok())
}

/// Takes from two dimensions of that tree, by an estimate that is twice what is used.
fn tree_of_six_settled() -> Call {
    let builder =
        QuotaTreeBuilder::<u64, 3, 2, _, _>::new(["user", "team", "all"], ["requests", "tokens"], still!(), SEED);
    let tree = builder.capacities([1_024; 3]).build().expect("capacities in range");
    let (requests, tokens) = (plan(Quota::per_second(1_000_000)), plan(Quota::per_second(1_000_000)));
    Box::new(move || {
        let both = [&requests, &tokens];
        let call = tree.reserve(&[(&7, both), (&8, both), (&9, both)], [1, 2]).expect("a million of them");
        call.settle([1, 1]);
        true
    })
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

/// Of a key and a seed in memory, as a limiter has them.
fn hash(key: impl Hash + 'static, seed: impl BuildHasher + 'static) -> Call {
    let both = black_box(Box::new((key, seed)));
    Box::new(move || black_box(both.1.hash_one(&both.0)) != 0)
}

/// The same without hashing.
fn no_hash() -> Call {
    let both = black_box(Box::new((7u64, SEED)));
    Box::new(move || black_box(both.0) != 0)
}

fn sip_hash_number() -> Call {
    hash(7u64, SEED)
}

fn sip_hash_address() -> Call {
    hash(ADDRESS, SEED)
}

fn fast_hash_number() -> Call {
    hash(7u64, FAST_SEED)
}

fn fast_hash_address() -> Call {
    hash(ADDRESS, FAST_SEED)
}

/// In one shard, as there is below 128: how many there are above depends on the machine.
fn lru_hit() -> Call {
    let store = BoundedStore::<String, u64, _>::with_hasher(100, SEED).unwrap();
    store.get_or_insert_with(HOST, || 1);
    Box::new(move || store.get(HOST).is_some_and(|value| *value == 1))
}

fn lru_breaker_success() -> Call {
    let breakers =
        KeyedCircuitBreaker::<String, _, _>::with_clock_and_hasher(BreakerConfig::default(), 100, still!(), SEED)
            .unwrap();
    Box::new(move || breakers.call(HOST, || Ok::<_, ()>(())).is_ok())
}
