//! `BoundedStore` through its public API.

use crate::models::lru::{Random, hits_of_exact_lru, zipf};
use crate::models::second_chance::SecondChanceModel;
use crate::models::seed::seed;
use damper::retry::{Budget, RetryBudgetConfig};
use damper::time::Seed;
use damper::{BoundedStore, BreakerConfig, KeyedCircuitBreaker, RetryBudget};
use proptest::prelude::*;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Weak};

/// Below this capacity there is one shard, so evictions are predictable.
const ONE_SHARD: usize = 127;

/// Counts the values created and dropped.
#[derive(Debug, Default)]
struct Census {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Census {
    fn living(&self) -> usize {
        self.made.load(Ordering::SeqCst) - self.dropped.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Counted(Arc<Census>);

impl Counted {
    fn new(census: &Arc<Census>) -> Self {
        census.made.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(census))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn each_key_has_one_value() {
    let store = BoundedStore::<String, usize>::new(10).unwrap();
    assert!(store.is_empty());
    assert_eq!(*store.get_or_insert_with("one", || 1), 1);
    assert!(!store.is_empty());
    assert_eq!(*store.get_or_insert_with("two", || 2), 2);
    assert_eq!(*store.get_or_insert_with("one", || unreachable!("the value exists")), 1);
    assert_eq!(store.get("two").as_deref(), Some(&2));
    assert_eq!(store.get("three"), None);
    assert_eq!((store.len(), store.capacity(), store.evictions()), (2, 10, 0));

    assert_eq!(store.remove("one").as_deref(), Some(&1));
    assert_eq!((store.remove("one"), store.get("one"), store.len()), (None, None, 1));
    assert_eq!(*store.get_or_insert_with("one", || 3), 3);

    store.clear();
    assert!(store.is_empty() && store.get("one").is_none());
    assert_eq!(*store.get_or_insert_with("one", || 4), 4);
    assert_eq!((store.len(), store.evictions()), (1, 0));
}

#[test]
fn keys_are_found_by_their_borrowed_forms() {
    let owned = BoundedStore::<String, u8>::new(2).unwrap();
    owned.get_or_insert_with("a", || 1);
    assert!(owned.get(&String::from("a")).is_some() && owned.get("a").is_some());
    let bytes = BoundedStore::<Vec<u8>, u8>::new(2).unwrap();
    bytes.get_or_insert_with(&b"a"[..], || 1);
    assert!(bytes.get(&vec![b'a']).is_some());
    let addresses = BoundedStore::<IpAddr, u8>::new(2).unwrap();
    addresses.get_or_insert_with(&IpAddr::from([192, 0, 2, 7]), || 1);
    let pairs = BoundedStore::<(u32, String), u8>::new(2).unwrap();
    pairs.get_or_insert_with(&(7, "a".into()), || 1);
    assert!(pairs.get(&(7, "b".into())).is_none());
    let unit = BoundedStore::<(), u8>::new(1).unwrap();
    unit.get_or_insert_with(&(), || 1);
    assert_eq!((unit.len(), unit.capacity()), (1, 1));
    assert_eq!(BoundedStore::<u32, u8>::default().capacity(), 1_024);
}

#[test]
fn capacity_out_of_range_is_an_error() {
    for capacity in [0, (1 << 28) + 1, usize::MAX] {
        for error in [
            BoundedStore::<u32, u32>::new(capacity).unwrap_err(),
            BoundedStore::<u32, u32, _>::with_hasher(capacity, Seed::new(1, 2)).unwrap_err(),
            KeyedCircuitBreaker::<u32>::new(BreakerConfig::DEFAULT, capacity).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), format!("capacity is {capacity}, it must be 1 to 268435456"));
        }
    }
}

/// Keys of 1 TiB, so that 2^28 of them exceed one allocation.
#[test]
fn capacity_is_bounded_by_the_size_of_keys() {
    let error = BoundedStore::<Huge, ()>::new(1 << 28).unwrap_err();
    assert_eq!(error.to_string(), "capacity is 268435456, it must be 1 to 8388607");
}

#[derive(PartialEq, Eq, Hash)]
struct Huge([[u8; 1 << 20]; 1 << 20]);

#[test]
fn hit_copies_no_key() {
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct Key(u8);
    static COPIES: AtomicUsize = AtomicUsize::new(0);
    impl Clone for Key {
        fn clone(&self) -> Self {
            COPIES.fetch_add(1, Ordering::SeqCst);
            Self(self.0)
        }
    }
    let store = BoundedStore::<Key, ()>::new(4).unwrap();
    for _ in 0..10 {
        store.get_or_insert_with(&Key(1), || ());
        store.get(&Key(1));
    }
    assert_eq!(COPIES.load(Ordering::SeqCst), 1);
}

#[test]
fn evicted_value_stays_with_its_holder() {
    let store = BoundedStore::<u8, u8>::new(1).unwrap();
    let first = store.get_or_insert_with(&1, || 1);
    store.get_or_insert_with(&2, || 2);
    assert!(store.get(&1).is_none(), "the entry was evicted");
    assert_eq!(*first, 1);
    let second = store.get_or_insert_with(&1, || 11);
    assert!(!Arc::ptr_eq(&first, &second) && *second == 11);
    assert_eq!(store.evictions(), 2);
}

#[test]
fn keys_with_equal_hashes_stay_apart() {
    #[derive(Clone, Copy, Default)]
    struct Same;

    impl Hasher for Same {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _: &[u8]) {}
    }

    let store = BoundedStore::<u32, u32, _>::with_hasher(20, BuildHasherDefault::<Same>::default()).unwrap();
    for key in 0..15 {
        assert_eq!(*store.get_or_insert_with(&key, || key), key);
    }
    assert!((0..15).all(|key| store.get(&key).is_some_and(|value| *value == key)));
    assert_eq!(store.remove(&3).as_deref(), Some(&3));
    assert_eq!((store.get(&3), store.len()), (None, 14));
}

#[test]
fn used_entry_survives_a_scan() {
    let store = BoundedStore::<u32, ()>::new(ONE_SHARD).unwrap();
    for newcomer in 0..10_000 {
        store.get_or_insert_with(&u32::MAX, || ());
        store.get_or_insert_with(&newcomer, || ());
        if newcomer > 0 {
            assert!(store.get(&u32::MAX).is_some());
        }
    }
    assert_eq!(store.evictions(), 10_001 - ONE_SHARD as u64);
}

#[test]
fn kept_entries_are_evicted_last() {
    let store = BoundedStore::<u32, u32>::new(50).unwrap().keep_if(|value| value % 10 == 0);
    for key in 0..1_000 {
        store.get_or_insert_with(&key, || key.min(49));
    }
    let mut kept: Vec<_> = store.iter().map(|(key, _)| key).filter(|key| *key < 50).collect();
    kept.sort_unstable();
    assert_eq!(kept, [0, 10, 20, 30, 40]);

    // If all entries are kept, the oldest is evicted, so memory stays bounded.
    let all = BoundedStore::<u32, u32>::new(50).unwrap().keep_if(|_| true);
    for key in 0..1_000 {
        all.get_or_insert_with(&key, || key);
        assert!(all.len() <= 50 && all.get(&key).is_some());
    }
}

/// The predicate runs at every eviction, so its result may change.
#[test]
fn entry_no_longer_kept_is_evicted() {
    let store = BoundedStore::<u32, AtomicUsize>::new(10).unwrap().keep_if(|value| value.load(Ordering::SeqCst) > 0);
    let first = store.get_or_insert_with(&0, || AtomicUsize::new(1));
    for key in 1..100 {
        store.get_or_insert_with(&key, AtomicUsize::default);
    }
    assert!(store.get(&0).is_some());
    first.store(0, Ordering::SeqCst);
    for key in 100..200 {
        store.get_or_insert_with(&key, AtomicUsize::default);
    }
    assert!(store.get(&0).is_none());
}

#[test]
fn unwinding_callback_leaves_the_store_unchanged() {
    let store = BoundedStore::<u32, u32>::new(2).unwrap().keep_if(|value| {
        assert!(*value != 2, "the predicate unwinds");
        false
    });
    let outcome = catch_unwind(AssertUnwindSafe(|| store.get_or_insert_with(&1, || panic!("the closure unwinds"))));
    assert!(outcome.is_err() && store.is_empty());
    assert_eq!(*store.get_or_insert_with(&1, || 1), 1);

    assert_eq!(*store.get_or_insert_with(&1, || unreachable!()), 1);
    store.get_or_insert_with(&2, || 2);
    // The first entry was used, so the hand reaches the second.
    let outcome = catch_unwind(AssertUnwindSafe(|| store.get_or_insert_with(&3, || 3)));
    assert!(outcome.is_err() && store.get(&3).is_none());
    assert_eq!((store.len(), store.evictions()), (2, 0));
    store.remove(&2);
    assert_eq!(*store.get_or_insert_with(&3, || 3), 3);
}

#[test]
fn closure_may_use_the_store() {
    let store = BoundedStore::<u32, u32>::new(2).unwrap();
    let outer = store.get_or_insert_with(&1, || {
        assert_eq!(*store.get_or_insert_with(&2, || 2), 2);
        store.clear();
        // This holds even for the same key. The inner value wins.
        *store.get_or_insert_with(&1, || 10) + 1
    });
    assert_eq!((*outer, store.len()), (10, 1));
}

/// Every operation drops values outside the locks.
#[test]
fn dropped_value_may_use_the_store() {
    struct Nosy(Weak<BoundedStore<u32, Nosy>>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            if let Some(store) = self.0.upgrade() {
                store.remove(&1_000);
                store.get_or_insert_with(&2_000, || Nosy(Weak::new()));
            }
        }
    }
    let store = Arc::new(BoundedStore::new(2).unwrap());
    let insert = |key: u32| store.get_or_insert_with(&key, || Nosy(Arc::downgrade(&store)));
    for key in 0..10 {
        insert(key);
    }
    let held = insert(10);
    store.remove(&10);
    drop(held);
    insert(11);
    store.clear();
    assert_eq!(store.iter().map(|(key, _)| key).collect::<Vec<_>>(), [2_000]);
}

#[test]
fn iterator_holds_no_lock_and_counts_no_use() {
    let store = BoundedStore::<u32, u32>::new(3).unwrap();
    for key in 0..3 {
        store.get_or_insert_with(&key, || key);
    }
    let mut seen = Vec::new();
    for (key, value) in store.iter() {
        assert_eq!(*value, key);
        seen.push(key);
        store.remove(&key);
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
    assert!(store.is_empty());

    for key in 0..3 {
        store.get_or_insert_with(&key, || key);
    }
    assert_eq!(store.iter().count(), 3);
    store.get_or_insert_with(&3, || 3);
    assert!(store.get(&0).is_none(), "iteration does not count as a use");

    // Over many shards each entry is seen once.
    let store = BoundedStore::<u32, u32, _>::with_hasher(100_000, Seed::new(seed(), 0)).unwrap();
    for key in 0..10_000 {
        store.get_or_insert_with(&key, || key);
    }
    let mut keys: Vec<_> = store.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..10_000));
}

#[test]
fn racing_inserts_get_the_same_value() {
    const RACERS: usize = 8;
    let (store, census) = (BoundedStore::<usize, Counted>::new(10_000).unwrap(), Arc::default());
    let start = Barrier::new(RACERS);
    let values: Vec<Vec<_>> = std::thread::scope(|scope| {
        let race = || {
            (0..200)
                .map(|key| {
                    start.wait();
                    store.get_or_insert_with(&key, || Counted::new(&census))
                })
                .collect()
        };
        let racers: Vec<_> = (0..RACERS).map(|_| scope.spawn(race)).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    for others in &values[1..] {
        assert!(values[0].iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other)));
    }
    assert_eq!((store.len(), census.living()), (200, 200), "the losers' values are dropped");
}

#[test]
fn racing_calls_stay_bounded_and_drop_each_value_once() {
    const THREADS: u64 = 8;
    for capacity in [1, 100, 1_000] {
        let census = Arc::<Census>::default();
        let store = BoundedStore::<u64, Counted, _>::with_hasher(capacity, Seed::new(seed(), 0))
            .unwrap()
            .keep_if(|value| Arc::strong_count(&value.0) % 2 == 0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, census, seed) = (&store, &census, seed());
                scope.spawn(move || {
                    let mut random = Random(seed.wrapping_add(thread));
                    for call in 0..10_000_u64 {
                        let key = random.next() % (10 * capacity as u64);
                        match call % 16 {
                            0 => drop(store.remove(&key)),
                            1 => drop(store.get(&key)),
                            2 if call % 1_024 == 2 => store.clear(),
                            3 if call % 64 == 3 => assert!(store.iter().count() <= capacity),
                            4 => assert!(store.len() <= capacity),
                            _ => drop(store.get_or_insert_with(&key, || Counted::new(census))),
                        }
                    }
                });
            }
        });
        assert!(store.len() <= capacity);
        assert_eq!(census.living(), store.len());
        drop(store);
        assert_eq!(census.living(), 0);
    }
}

/// Reproduces the figures in the documentation, on a trace of the same length.
#[test]
fn hits_more_often_than_an_exact_lru() {
    const CALLS: usize = 300_000;
    const CAPACITY: usize = 1_000;
    for (exponent, exact, ours) in [(0.8, 43.5, 46.3), (1.0, 67.3, 69.5)] {
        let store =
            BoundedStore::<u32, (), _>::with_hasher(CAPACITY, BuildHasherDefault::<DefaultHasher>::default()).unwrap();
        let trace = || zipf(10 * CAPACITY as u32, exponent, CALLS);
        let missed = AtomicUsize::new(0);
        for key in trace() {
            store.get_or_insert_with(&key, || _ = missed.fetch_add(1, Ordering::Relaxed));
        }
        let percent = |hits: usize| f64::from(hits as u32) * 100.0 / f64::from(CALLS as u32);
        let of_exact = percent(hits_of_exact_lru(CAPACITY, trace()));
        let of_ours = percent(CALLS - missed.into_inner());
        println!("Zipf {exponent}: exact LRU {of_exact:.2} %, BoundedStore {of_ours:.2} %");
        assert!((of_exact - exact).abs() < 0.5 && (of_ours - ours).abs() < 0.5, "{of_exact} {of_ours}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Get(u8),
    GetOrInsert(u8),
    Remove(u8),
    Clear,
}

fn call() -> impl Strategy<Value = Call> {
    // Low keys are more frequent, so some are used repeatedly.
    let key = || (0..=u8::MAX, 0..=u8::MAX).prop_map(|(one, other)| one.min(other));
    prop_oneof![
        400 => key().prop_map(Call::Get),
        2_000 => key().prop_map(Call::GetOrInsert),
        200 => key().prop_map(Call::Remove),
        1 => Just(Call::Clear),
    ]
}

proptest! {
    #[test]
    fn shard_matches_the_second_chance_model(
        capacity in prop_oneof![1..8_usize, 1..=ONE_SHARD],
        divisor in prop_oneof![Just(1_u32), Just(2), Just(7), Just(u32::MAX)],
        calls in proptest::collection::vec(call(), 1..1_500),
    ) {
        // No entry is kept, some are, or all are.
        let is_kept: fn(u32) -> bool = match divisor {
            1 => |_| true,
            2 => |value| value % 2 == 0,
            7 => |value| value % 7 == 0,
            _ => |_| false,
        };
        let store = BoundedStore::<u8, u32>::new(capacity).unwrap().keep_if(move |value| is_kept(*value));
        let mut model = SecondChanceModel::new(capacity);
        for (number, call) in (0..).zip(calls) {
            match call {
                Call::Get(key) => prop_assert_eq!(store.get(&key).as_deref().copied(), model.get(key)),
                Call::GetOrInsert(key) => prop_assert_eq!(
                    *store.get_or_insert_with(&key, || number),
                    model.get_or_insert(key, number, is_kept)
                ),
                Call::Remove(key) => prop_assert_eq!(store.remove(&key).as_deref().copied(), model.remove(key)),
                Call::Clear => {
                    store.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(store.len(), model.entries.len());
            prop_assert_eq!((store.evictions(), store.kept_evictions()), (model.evictions, model.kept_evictions));
        }
        let left: Vec<_> = store.iter().map(|(key, value)| (key, *value)).collect();
        prop_assert_eq!(left, model.entries.iter().map(|entry| (entry.key, entry.value)).collect::<Vec<_>>());
    }
}

#[test]
fn every_key_has_its_own_retry_budget() {
    let config = RetryBudgetConfig::builder().floor(0).reserve(2).build().unwrap();
    let budgets = BoundedStore::<String, RetryBudget>::new(ONE_SHARD).unwrap();
    let budget = |host: &str| budgets.get_or_insert_with(host, || RetryBudget::new(config));
    for host in ["one", "two"] {
        let withdrawn = [(); 3].map(|()| budget(host).try_withdraw());
        assert_eq!(withdrawn, [true, true, false], "{host}");
    }
    let held = budget("one");
    for number in 0..10 * ONE_SHARD {
        budget(&number.to_string());
    }
    assert_eq!(budgets.len(), ONE_SHARD);
    assert!(!held.try_withdraw() && budget("one").try_withdraw(), "an evicted budget comes back whole");
}

#[test]
fn value_is_created_from_the_key() {
    let lengths = BoundedStore::<String, usize>::new(ONE_SHARD).unwrap();
    assert_eq!(*lengths.get_or_insert_with_key("four", String::len), 4);
    assert_eq!(*lengths.get_or_insert_with_key("four", |_| unreachable!("the value exists")), 4);
    assert!(
        catch_unwind(|| BoundedStore::<String, ()>::new(1).unwrap().get_or_insert_with_key("no", |_| panic!("no")))
            .is_err()
    );
}
