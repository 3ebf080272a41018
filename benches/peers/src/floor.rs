//! The least cost of a decision: an access to its word and a reading of the clock.

use crate::contest::{Contest, Side, calls};
use crate::keyed::keys_below;
use crossbeam_utils::CachePadded;
use damper::time::Seed;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::RwLock;
use quanta::Clock;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const CONTESTS: &[Contest] = &[
    Contest { name: "floor_cas", damper: cas, peer: None },
    Contest { name: "floor_clock", damper: read, peer: None },
    Contest { name: "floor_arc", damper: count, peer: None },
    Contest { name: "floor_headers", damper: two_headers, peer: None },
];

/// A load and a compare-and-swap on a word without contention.
fn cas() -> Side {
    let word = AtomicU64::new(0);
    calls(move || exchange(black_box(&word), 1))
}

/// A reading of the processor's counter, by the crate behind both default clocks.
fn read() -> Side {
    let clock = Clock::new();
    calls(move || black_box(&clock).raw() != 0)
}

/// A reference counted up and down: what a service behind a layer does when it is cloned for a call.
fn count() -> Side {
    let shared = Arc::new(());
    calls(move || Arc::strong_count(&black_box(Arc::clone(black_box(&shared)))) > 1)
}

/// Two headers in a map of their own, made and dropped: the least cost of stating a limit.
///
/// One has a value that is the same each time, the other one two numbers that differ.
pub(crate) fn two_headers() -> Side {
    const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
    const LEFT: HeaderName = HeaderName::from_static("ratelimit");
    let policy = HeaderValue::try_from(String::from(r#""default";q=100;w=60"#)).expect("printable");
    calls(move || {
        let mut headers = HeaderMap::new();
        headers.reserve(2);
        headers.append(POLICY, black_box(&policy).clone());
        let (mut remaining, mut seconds) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (remaining, seconds) = (remaining.format(black_box(50_u64)), seconds.format(black_box(30_u64)));
        let left = [black_box(r#""default""#), ";r=", remaining, ";t=", seconds].concat();
        headers.append(LEFT, HeaderValue::try_from(left).expect("printable"));
        black_box(&headers).len() == 2
    })
}

/// The accesses of an allowed decision to its word and its clock.
pub(crate) fn read_and_cas() -> Side {
    let (word, clock) = (AtomicU64::new(0), Clock::new());
    calls(move || exchange(black_box(&word), black_box(&clock).raw()))
}

/// The accesses of a refused decision to its word and its clock.
pub(crate) fn read_and_load() -> Side {
    let (word, clock) = (AtomicU64::new(0), Clock::new());
    calls(move || black_box(&word).load(Ordering::Relaxed) <= black_box(&clock).raw())
}

/// The accesses of an allowed decision for one of `keys`.
///
/// It hashes the key as the table does, reads the clock, and swaps the word in the key's cache line, in as many lines
/// as the table has.
pub(crate) fn hash_and_read_and_cas(keys: u64) -> Side {
    let lines: Vec<Line> = (0..keys / 2).map(|_| Line::default()).collect();
    let (hasher, clock, mut key) = (Seed::random(), Clock::new(), keys_below(keys));
    calls(move || {
        let hash = hasher.hash_one(key());
        let line = &black_box(&lines)[(((hash >> 32) * lines.len() as u64) >> 32) as usize];
        exchange(&line.0[(hash % 4) as usize], black_box(&clock).raw())
    })
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 4]);

/// The accesses of a decision to its word and a clock that a thread advances.
pub(crate) fn coarse_read_and_cas() -> Side {
    static TIME: AtomicU64 = AtomicU64::new(1);
    let word = AtomicU64::new(0);
    calls(move || exchange(black_box(&word), black_box(&TIME).load(Ordering::Relaxed)))
}

/// The accesses of the first sight of a key in a table of 8,192 keys.
///
/// It looks for the key's hash in two cache lines, locks a part of the keys, reads the bucket of keys without a slot and the clock,
/// looks at the two lines again for the smallest word, claims its slot, and writes the slot. It decides nothing.
pub(crate) fn first_sight() -> Side {
    let slots = || (AtomicU64::new(1), AtomicU64::new(0));
    let sets: Vec<_> = (0..4_096).map(|_| Set([slots(), slots(), slots(), slots()])).collect();
    let shared: Vec<_> = (0..16_384).map(|_| AtomicU64::new(0)).collect();
    let locks: Vec<_> = (0..64).map(|_| CachePadded::new(RwLock::new(0_u64))).collect();
    let (hasher, clock, mut key) = (Seed::random(), Clock::new(), 0_u64);
    calls(move || {
        key += 1;
        let hash = hasher.hash_one(key);
        let [first, second] = [16, 32].map(|bits: u32| &black_box(&sets)[scaled(hash.rotate_left(bits), sets.len())]);
        let is_there = |set: &Set| set.0.iter().any(|(owner, _)| owner.load(Ordering::Relaxed) == hash);
        if is_there(first) || is_there(second) {
            return false;
        }
        let bucket = scaled(hash, shared.len());
        let mut count = black_box(&locks)[bucket % locks.len()].write();
        let debt = black_box(&shared)[bucket].load(Ordering::Relaxed);
        let now = black_box(&clock).raw() + debt;
        let mut least = None;
        for (owner, word) in first.0.iter().chain(&second.0) {
            let (seen, owned) = (word.load(Ordering::Acquire), owner.load(Ordering::Relaxed) != hash);
            let debt = seen.saturating_sub(now);
            if owned && least.is_none_or(|(_, _, _, least)| debt < least) {
                // A branch, which the processor predicts. A choice of values would wait for all eight loads.
                black_box(());
                least = Some((owner, word, seen, debt));
            }
        }
        let Some((owner, word, seen, _)) = least else { return false };
        if word.compare_exchange(seen, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        owner.store(hash, Ordering::Release);
        word.store(now, Ordering::Release);
        *count += 1;
        true
    })
}

/// A hash, scaled to a number below `count`.
fn scaled(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// Four slots of an owner and a word.
#[repr(align(64))]
struct Set([(AtomicU64, AtomicU64); 4]);

/// The retry loop around a compare-and-swap, as if other threads wrote the word too.
fn exchange(word: &AtomicU64, add: u64) -> bool {
    let mut old = word.load(Ordering::Relaxed);
    while let Err(newer) = word.compare_exchange_weak(old, old.wrapping_add(add), Ordering::Relaxed, Ordering::Relaxed)
    {
        old = newer;
    }
    true
}
