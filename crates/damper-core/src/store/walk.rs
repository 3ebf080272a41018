//! Goes through the values of a store, one after another.

use super::bounded_store::Shard;
use alloc::sync::Arc;

/// Calls a function with each value, outside the locks.
///
/// It holds one value at a time. It meets each value that stays in the store. A value that is inserted or removed
/// meanwhile may be met or not. If the function panics, the walk meets the remaining values while the thread unwinds.
/// If it panics again then, the process aborts.
pub(super) struct Walk<'a, K, V, F: FnMut(&V)> {
    /// The shard that the walk is in, and the shards after it.
    shards: &'a [Shard<K, V>],
    /// How many entries of the shard are ahead; `None` before the first.
    ///
    /// The walk goes backwards. A removal moves the last entry to another index, and in this order the walk has met it already.
    ahead: Option<usize>,
    meet: F,
}

impl<'a, K, V, F: FnMut(&V)> Walk<'a, K, V, F> {
    pub(super) fn new(shards: &'a [Shard<K, V>], meet: F) -> Self {
        Self { shards, ahead: None, meet }
    }

    /// Walks to the end.
    pub(super) fn finish(mut self) {
        self.go_on();
    }

    fn go_on(&mut self) {
        while let Some(value) = self.next() {
            (self.meet)(&value);
        }
    }

    fn next(&mut self) -> Option<Arc<V>> {
        while let Some((shard, rest)) = self.shards.split_first() {
            let next = shard.read(|ring| {
                let entries = ring.entries();
                let ahead = self.ahead.unwrap_or(entries.len()).min(entries.len());
                ahead.checked_sub(1).map(|index| (index, Arc::clone(entries[index].value())))
            });
            if let Some((index, value)) = next {
                self.ahead = Some(index);
                return Some(value);
            }
            (self.shards, self.ahead) = (rest, None);
        }
        None
    }
}

/// Walks through the remaining values. There are none after `finish` has come to the end.
impl<K, V, F: FnMut(&V)> Drop for Walk<'_, K, V, F> {
    fn drop(&mut self) {
        self.go_on();
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use crate::store::BoundedStore;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;

    fn store(entries: u32) -> BoundedStore<u32, u32> {
        let store = BoundedStore::new(1_000).unwrap();
        for key in 0..entries {
            store.get_or_insert_with(&key, || key);
        }
        store
    }

    #[test]
    fn every_value_is_met_once_and_held_alone() {
        let store = store(500);
        let mut met = Vec::new();
        store.for_each(|&value| {
            let held = (0..500).filter(|key| Arc::strong_count(&store.get(key).unwrap()) > 2);
            assert!(held.eq([value]));
            met.push(value);
        });
        met.sort_unstable();
        assert!(met.into_iter().eq(0..500));
    }

    #[test]
    fn removals_hide_no_value_that_stays() {
        for removed in 0..50 {
            let store = store(50);
            let mut met = Vec::new();
            store.for_each(|&value| {
                met.push(value);
                store.remove(&removed);
                store.remove(&((removed + 25) % 50));
            });
            assert!(store.iter().all(|(key, _)| met.contains(&key)), "{removed}: {met:?}");
        }
    }

    #[test]
    fn panic_leaves_no_value_out() {
        let store = store(500);
        let mut met = Vec::new();
        let walk = AssertUnwindSafe(|| {
            store.for_each(|&value| {
                met.push(value);
                assert!(met.len() != 3, "the third");
            });
        });
        assert!(catch_unwind(walk).is_err());
        assert_eq!(met.len(), 500);
    }
}
