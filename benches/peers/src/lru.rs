//! One value of a bounded store, found by its key.

use crate::contest::{Contest, Peer, Side, calls};
use ::quick_cache::DefaultHashBuilder;
use damper::BoundedStore;
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const CONTESTS: &[Contest] = &[
    // A key that is there, any as likely as another. Both with quick_cache's default hasher, foldhash, which makes them
    // fastest; with std's, the default of damper's, either takes some 20 ns more.
    Contest {
        name: "lru_hit",
        damper: hit,
        peer: Some(Peer { name: "quick_cache", side: quick_cache::hit, bar: Some(1.0) }),
    },
    // The same, by the same hasher.
    Contest { name: "lru_hit_moka", damper: hit, peer: Some(Peer { name: "moka", side: moka::hit, bar: None }) },
];

const KEYS: usize = 10_000;

/// So that no shard is too small for the keys that it gets.
const CAPACITY: usize = KEYS + KEYS / 5;

/// Of a breaker's size.
type Value = [u64; 16];

fn value() -> Value {
    [1; 16]
}

fn hit() -> Side {
    let store = BoundedStore::<String, Value, _>::with_hasher(CAPACITY, DefaultHashBuilder::default())
        .expect("the capacity is allowed");
    for key in keys() {
        store.get_or_insert_with(&key, value);
    }
    hits(move |key| store.get(key))
}

fn keys() -> Vec<String> {
    (0..KEYS).map(|key| format!("host-{key:05}.example.com")).collect()
}

/// Gets values in an order that the processor cannot guess.
fn hits(get: impl Fn(&str) -> Option<Arc<Value>> + 'static) -> Side {
    let keys = keys();
    let mut random = 1_u64;
    calls(move || {
        // The multiplier is that of Knuth's MMIX; of its numbers the high half is random enough to choose by.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = ((random >> 32) as usize * KEYS) >> 32;
        get(black_box(&keys[key])).is_some_and(|value| value[0] == 1)
    })
}

mod quick_cache {
    use super::{CAPACITY, Side, hits, keys, value};
    use quick_cache::sync::Cache;
    use std::sync::Arc;

    pub(super) fn hit() -> Side {
        let cache = Cache::new(CAPACITY);
        for key in keys() {
            cache.insert(key, Arc::new(value()));
        }
        hits(move |key| cache.get(key))
    }
}

/// moka's `sync::Cache`, with no expiry.
///
/// A hit is recorded for its policy, which none of its settings turns off.
mod moka {
    use super::{CAPACITY, DefaultHashBuilder, Side, hits, keys, value};
    use moka::sync::Cache;
    use std::sync::Arc;

    pub(super) fn hit() -> Side {
        let cache = Cache::builder().max_capacity(CAPACITY as u64).build_with_hasher(DefaultHashBuilder::default());
        for key in keys() {
            cache.insert(key, Arc::new(value()));
        }
        // The inserted keys are counted before anything is measured.
        cache.run_pending_tasks();
        hits(move |key| cache.get(key))
    }
}
