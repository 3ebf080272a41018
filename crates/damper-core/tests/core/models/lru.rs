//! An exact LRU cache, and keys to test it with.

use std::collections::{BTreeMap, HashMap};

/// splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Returns a number from 0 to 1.
    fn share(&mut self) -> f64 {
        f64::from((self.next() >> 32) as u32) / f64::from(2.0_f32.powi(32))
    }
}

/// Keys by Zipf's law: the k-th most frequent key is k^exponent times rarer than the first.
pub(crate) fn zipf(keys: u32, exponent: f64, calls: usize) -> impl Iterator<Item = u32> {
    let mut sum = 0.0;
    let up_to: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += f64::from(rank).powf(-exponent);
            sum
        })
        .collect();
    let mut random = Random(7);
    (0..calls).map(move |_| {
        let share = random.share() * sum;
        up_to.partition_point(|&bound| bound < share) as u32
    })
}

/// Returns the hits of a cache that always evicts the least recently used entry.
pub(crate) fn hits_of_exact_lru(capacity: usize, keys: impl Iterator<Item = u32>) -> usize {
    let (mut last_used, mut by_age) = (HashMap::new(), BTreeMap::new());
    let mut hits = 0;
    for (now, key) in keys.enumerate() {
        if let Some(before) = last_used.insert(key, now) {
            by_age.remove(&before);
            hits += 1;
        } else if by_age.len() == capacity {
            let (_, oldest) = by_age.pop_first().unwrap();
            last_used.remove(&oldest);
        }
        by_age.insert(now, key);
    }
    hits
}
