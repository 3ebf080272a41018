//! The store against a model.
//!
//! A store of one ring is compared with a model of that ring, and a store of several with a map of everything ever
//! inserted.

use crate::models::second_chance::SecondChanceModel;
use arbitrary::Arbitrary;
use damper::BoundedStore;
use damper::time::Seed;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Below this capacity there is one shard, so evictions are predictable.
const ONE_SHARD: usize = 127;

const MOST_CALLS: usize = 4_000;

/// A store and its calls.
#[derive(Arbitrary, Debug)]
pub struct StoreInput {
    is_one_ring: bool,
    capacity: u16,
    kept: Kept,
    calls: Vec<Call>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Kept {
    None,
    Some,
    Half,
    All,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Call {
    Get(u16),
    GetOrInsert(u16),
    /// This many consecutive keys from the first one on.
    Inserts(u16, u8),
    Remove(u16),
    Iterate,
    Clear,
}

/// Compares the store with the ring or the map.
pub fn store(input: StoreInput) {
    if input.is_one_ring { one_ring(&input) } else { several_rings(&input) }
}

impl StoreInput {
    fn is_kept(&self) -> fn(u32) -> bool {
        match self.kept {
            Kept::None => |_| false,
            Kept::Some => |value| value % 7 == 0,
            Kept::Half => |value| value % 2 == 0,
            Kept::All => |_| true,
        }
    }

    /// Each call has a number, which is the value that it inserts.
    fn calls(&self) -> impl Iterator<Item = (u32, Call)> {
        let calls = self.calls.iter().flat_map(|&call| match call {
            Call::Inserts(first, keys) => {
                (0..=u16::from(keys)).map(|key| Call::GetOrInsert(first.wrapping_add(key))).collect()
            }
            call => vec![call],
        });
        (0..).zip(calls.take(MOST_CALLS))
    }
}

fn one_ring(input: &StoreInput) {
    let (capacity, is_kept) = (usize::from(input.capacity) % ONE_SHARD + 1, input.is_kept());
    let store = BoundedStore::<u8, u32, _>::with_hasher(capacity, Seed::new(5, 6))
        .expect("the capacity is allowed")
        .keep_if(move |value| is_kept(*value));
    let mut model = SecondChanceModel::new(capacity);
    // Both kinds of store use the same keys, of which this one needs fewer.
    let key = |key: u16| key.to_be_bytes()[1];
    for (number, call) in input.calls() {
        match call {
            Call::Get(of) => assert_eq!(store.get(&key(of)).as_deref().copied(), model.get(key(of))),
            Call::GetOrInsert(of) | Call::Inserts(of, _) => {
                let found = *store.get_or_insert_with(&key(of), || number);
                assert_eq!(found, model.get_or_insert(key(of), number, is_kept));
            }
            Call::Remove(of) => assert_eq!(store.remove(&key(of)).as_deref().copied(), model.remove(key(of))),
            Call::Iterate => {
                let entries: Vec<_> = store.iter().map(|(key, value)| (key, *value)).collect();
                assert_eq!(entries, model.entries.iter().map(|entry| (entry.key, entry.value)).collect::<Vec<_>>());
            }
            Call::Clear => {
                store.clear();
                model.clear();
            }
        }
        assert_eq!((store.len(), store.evictions()), (model.entries.len(), model.evictions));
        assert_eq!(store.kept_evictions(), model.kept_evictions);
    }
}

/// A value that is counted while it exists.
struct Counted {
    number: u32,
    _alive: Arc<()>,
}

fn several_rings(input: &StoreInput) {
    let (capacity, is_kept) = (usize::from(input.capacity) % 1_000 + 1, input.is_kept());
    let alive = Arc::new(());
    let store = BoundedStore::<u16, Counted, _>::with_hasher(capacity, Seed::new(7, 8))
        .expect("the capacity is allowed")
        .keep_if(move |value| is_kept(value.number));
    assert_eq!(store.capacity(), capacity);
    // All keys inserted and not removed. Those missing from the store were evicted.
    let mut known = HashMap::new();
    let (mut inserted, mut removed) = (0, 0);
    for (number, call) in input.calls() {
        match call {
            Call::Get(key) => {
                let found = store.get(&key).map(|value| value.number);
                assert!(found.is_none() || found == known.get(&key).copied(), "{found:?} of {key}");
            }
            Call::GetOrInsert(key) | Call::Inserts(key, _) => {
                let mut was_made = false;
                let found = store.get_or_insert_with(&key, || {
                    was_made = true;
                    Counted { number, _alive: Arc::clone(&alive) }
                });
                if was_made {
                    inserted += 1;
                    known.insert(key, number);
                }
                assert_eq!(Some(&found.number), known.get(&key));
                assert!(store.get(&key).is_some_and(|again| Arc::ptr_eq(&again, &found)), "an inserted value is found");
            }
            Call::Remove(key) => {
                let found = store.remove(&key).map(|value| value.number);
                let before = known.remove(&key);
                assert!(found.is_none() || found == before);
                removed += usize::from(found.is_some());
                assert!(store.get(&key).is_none() && store.remove(&key).is_none());
            }
            Call::Iterate => {
                let entries: Vec<_> = store.iter().map(|(key, value)| (key, value.number)).collect();
                assert_eq!(entries.len(), store.len());
                assert_eq!(entries.iter().map(|(key, _)| key).collect::<HashSet<_>>().len(), entries.len(), "twice");
                assert!(entries.iter().all(|(key, number)| known.get(key) == Some(number)));
            }
            Call::Clear => {
                removed += store.len();
                store.clear();
                assert!(store.is_empty());
                known.clear();
            }
        }
        let evicted = usize::try_from(store.evictions()).expect("no more than inserted");
        assert!(store.len() <= capacity, "{} of {capacity}", store.len());
        assert_eq!(store.len() + removed + evicted, inserted, "an entry is lost or duplicated");
        assert_eq!(Arc::strong_count(&alive), store.len() + 1, "values live as long as their entries");
    }
}
