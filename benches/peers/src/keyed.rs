//! One decision of a limiter for one of many keys, chosen at random, and the memory of a key.

use crate::contest::{Contest, Peer, Side, callers_on_threads, calls};
use crate::floor;
use damper::time::{FastSeed, Seed};
use damper::{KeyedLimiter, Monotonic, Quota, SlidingCounter};
use std::hash::BuildHasher;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A row of so many keys on so many threads.
macro_rules! hits {
    ($name:literal, $keys:literal, $threads:literal, $bar:literal) => {
        Contest {
            name: $name,
            damper: || hit($keys, $threads),
            peer: Some(Peer { name: "governor", side: || governor::hit($keys, $threads), bar: Some($bar) }),
        }
    };
}

/// The same on one thread, where governor hashes as damper does.
macro_rules! same_hash {
    ($name:literal, $keys:literal) => {
        Contest {
            name: $name,
            damper: || hit($keys, 1),
            peer: Some(Peer {
                name: "governor",
                side: || governor::hit_hashed_by(Seed::random(), $keys),
                bar: Some(0.7),
            }),
        }
    };
}

/// The same with `FastSeed` on both sides.
macro_rules! fast_hash {
    ($name:literal, $keys:literal) => {
        Contest {
            name: $name,
            damper: || side(filled_by(FastSeed::random(), $keys), $keys, 1, |limiter, key| limiter.check(&key).is_ok()),
            peer: Some(Peer {
                name: "governor",
                side: || governor::hit_hashed_by(FastSeed::random(), $keys),
                bar: None,
            }),
        }
    };
}

/// How close that is to what the processor needs for the same accesses.
macro_rules! floor {
    ($name:literal, $keys:literal, $bar:literal) => {
        Contest {
            name: $name,
            damper: || hit($keys, 1),
            peer: Some(Peer {
                name: "hash + read + CAS",
                side: || floor::hash_and_read_and_cas($keys),
                bar: Some($bar),
            }),
        }
    };
}

pub(crate) const CONTESTS: &[Contest] = &[
    hits!("keyed_hit_1k_1t", 1_000, 1, 0.7),
    hits!("keyed_hit_100k_1t", 100_000, 1, 0.7),
    hits!("keyed_hit_1m_1t", 1_000_000, 1, 0.7),
    same_hash!("keyed_hit_1k_same_hash", 1_000),
    same_hash!("keyed_hit_100k_same_hash", 100_000),
    same_hash!("keyed_hit_1m_same_hash", 1_000_000),
    fast_hash!("keyed_hit_1k_fast_hash", 1_000),
    fast_hash!("keyed_hit_100k_fast_hash", 100_000),
    fast_hash!("keyed_hit_1m_fast_hash", 1_000_000),
    hits!("keyed_hit_1k_2t", 1_000, 2, 0.65),
    hits!("keyed_hit_100k_2t", 100_000, 2, 0.65),
    hits!("keyed_hit_1m_2t", 1_000_000, 2, 0.65),
    // Keys that were never seen before, one after another, in a table of the default size; beside keys that are known
    // to it.
    Contest {
        name: "keyed_flood_idle",
        damper: || flood(Quota::per_second(u32::MAX)),
        peer: Some(Peer { name: "the hit path", side: || hit(8_192, 1), bar: Some(3.0) }),
    },
    Contest {
        name: "keyed_flood_busy",
        damper: || flood(Quota::per_hour(1).burst(5)),
        peer: Some(Peer { name: "the hit path", side: || hit(8_192, 1), bar: Some(3.0) }),
    },
    // Newcomers beside the accesses that a table cannot do without.
    Contest {
        name: "keyed_flood_idle_floor",
        damper: || flood(Quota::per_second(u32::MAX)),
        peer: Some(Peer { name: "raw first sight", side: floor::first_sight, bar: None }),
    },
    // Known keys, beside crates whose keys are bytes, or text.
    Contest {
        name: "keyed_hit_100k_rate_net",
        damper: || hit(100_000, 1),
        peer: Some(Peer { name: "rate-net", side: || rate_net::hit(100_000), bar: None }),
    },
    Contest {
        name: "keyed_hit_100k_throttle_net",
        damper: || hit(100_000, 1),
        peer: Some(Peer { name: "throttle-net", side: || throttle_net::hit(100_000), bar: None }),
    },
    Contest {
        name: "keyed_hit_100k_trypema",
        damper: || sliding_hit(100_000),
        peer: Some(Peer { name: "trypema", side: || trypema::hit(100_000), bar: None }),
    },
    // Keys that were never seen, in tables that were never touched, and in full ones.
    Contest {
        name: "keyed_first_sight_rate_net",
        damper: first_sight,
        peer: Some(Peer { name: "rate-net", side: rate_net::first_sight, bar: None }),
    },
    Contest {
        name: "keyed_first_sight_throttle_net",
        damper: first_sight,
        peer: Some(Peer { name: "throttle-net", side: throttle_net::first_sight, bar: None }),
    },
    Contest {
        name: "keyed_flood_idle_rate_net",
        damper: || flood(Quota::per_second(u32::MAX)),
        peer: Some(Peer { name: "rate-net", side: rate_net::flood, bar: None }),
    },
    Contest {
        name: "keyed_flood_idle_throttle_net",
        damper: || flood(Quota::per_second(u32::MAX)),
        peer: Some(Peer { name: "throttle-net", side: throttle_net::flood, bar: None }),
    },
    // Keys in batches of 64, beside the same keys one by one.
    Contest {
        name: "keyed_many_1k",
        damper: || many(1_000),
        peer: Some(Peer { name: "one by one", side: || hit(1_000, 1), bar: None }),
    },
    Contest {
        name: "keyed_many_1m",
        damper: || many(1_000_000),
        peer: Some(Peer { name: "one by one", side: || hit(1_000_000, 1), bar: None }),
    },
    floor!("keyed_hit_1k_floor", 1_000, 1.5),
    floor!("keyed_hit_100k_floor", 100_000, 1.7),
    floor!("keyed_hit_1m_floor", 1_000_000, 1.7),
];

/// Numbers below `end` by chance, each thread's its own: xorshift, which costs less than a nanosecond.
pub(crate) fn keys_below(end: u64) -> impl FnMut() -> u64 {
    let mut state = u64::from(std::process::id()) << 32 | std::ptr::from_ref(&end).addr() as u64 | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Below `end`: a half of the number scaled to it.
        ((state >> 32) * end) >> 32
    }
}

/// A side of threads that each check keys by chance; all keys have been seen before.
fn side<L: Send + Sync + 'static>(
    limiter: L,
    keys: u64,
    threads: usize,
    check: impl Fn(&L, u64) -> bool + Clone + Send + Sync + 'static,
) -> Side {
    if threads == 1 {
        let mut key = keys_below(keys);
        return calls(move || check(black_box(&limiter), key()));
    }
    let limiter = Arc::new(limiter);
    callers_on_threads(threads, move || {
        let (limiter, check, mut key) = (Arc::clone(&limiter), check.clone(), keys_below(keys));
        move || check(black_box(&limiter), key())
    })
}

fn hit(keys: u64, threads: usize) -> Side {
    side(filled(keys), keys, threads, |limiter, key| limiter.check(&key).is_ok())
}

/// As `hit` on one thread, by `check_many`.
fn many(keys: u64) -> Side {
    const BATCH: usize = 64;
    let (limiter, mut key) = (filled(keys), keys_below(keys));
    Box::new(move |n| {
        let batches = n.div_ceil(BATCH as u64);
        let started = Instant::now();
        for _ in 0..batches {
            let batch: [u64; BATCH] = std::array::from_fn(|_| key());
            assert!(black_box(&limiter).check_many(&batch).all(|(_, answer)| answer.is_ok()), "every key has tokens");
        }
        // So that it counts for `n` calls.
        started.elapsed().mul_f64(n as f64 / (batches * BATCH as u64) as f64)
    })
}

/// Ten million keys in turn, so that none is known when its turn comes again.
///
/// Where no key owes anything a newcomer gets a slot. Where all do, it is decided by the bucket that keys without a
/// slot share.
fn flood(quota: Quota) -> Side {
    let limiter = KeyedLimiter::<u64>::builder(quota).build().expect("the default capacity");
    let mut key = 0;
    calls(move || {
        key = (key + 1) % 10_000_000;
        black_box(black_box(&limiter).check(&key).is_ok());
        true
    })
}

/// Makes keys that are text.
fn texts(keys: u64) -> Vec<String> {
    (0..keys).map(|key| format!("user:{key}")).collect()
}

/// More calls of a key than a benchmark makes in a second. A sliding counter counts no more.
const A_MILLION: u32 = 1_000_000;

/// Checks keys that are text by a sliding counter, on one thread.
fn sliding_hit(keys: u64) -> Side {
    let limiter = KeyedLimiter::<str>::builder(Quota::per_second(A_MILLION)).capacity(keys as usize);
    let limiter = limiter.algorithm::<SlidingCounter>().build().expect("a capacity in its range");
    let texts = texts(keys);
    assert!(texts.iter().all(|key| limiter.check(key.as_str()).is_ok()));
    side(limiter, keys, 1, move |limiter, key| limiter.check(texts[key as usize].as_str()).is_ok())
}

/// How many keys a table has room for that is filled from nothing.
const FRESH: u64 = 1 << 18;

/// Checks keys of which none was seen, in tables that were never touched.
///
/// The time is without the construction of the tables.
fn first_sights<L>(table: impl Fn() -> L + 'static, check: impl Fn(&L, u64) -> bool + 'static) -> Side {
    Box::new(move |n| {
        let (mut time, mut left) = (Duration::ZERO, n);
        while left > 0 {
            let turn = left.min(FRESH / 2);
            let table = table();
            let started = Instant::now();
            let good = (0..turn).filter(|&key| check(black_box(&table), key)).count();
            time += started.elapsed();
            assert_eq!(good as u64, turn, "a newcomer was refused");
            left -= turn;
        }
        time
    })
}

fn first_sight() -> Side {
    let table = || KeyedLimiter::<u64>::builder(Quota::per_second(u32::MAX)).capacity(FRESH as usize).build();
    first_sights(move || table().expect("a capacity in its range"), |limiter, key| limiter.check(&key).is_ok())
}

/// A limiter that has seen so many keys.
pub(crate) fn filled(keys: u64) -> KeyedLimiter<u64> {
    filled_by(Seed::random(), keys)
}

fn filled_by<S: BuildHasher>(hasher: S, keys: u64) -> KeyedLimiter<u64, Monotonic, S> {
    let quota = Quota::per_second(u32::MAX);
    let builder = KeyedLimiter::<u64>::builder(quota).capacity(keys as usize).hasher(hasher);
    let limiter = builder.build().expect("a capacity in its range");
    assert!((0..keys).all(|key| limiter.check(&key).is_ok()));
    limiter
}

/// governor's keyed limiter on a dashmap, on its default clock.
pub(crate) mod governor {
    use super::{Side, side};
    use governor::clock::DefaultClock;
    use governor::middleware::NoOpMiddleware;
    use governor::state::keyed::DashMapStateStore;
    use governor::{Quota, RateLimiter};
    use std::hash::{BuildHasher, RandomState};
    use std::num::NonZeroU32;

    type Keyed<S> = RateLimiter<u64, DashMapStateStore<u64, S>, DefaultClock, NoOpMiddleware>;

    pub(super) fn hit(keys: u64, threads: usize) -> Side {
        side(filled(keys), keys, threads, |limiter, key| limiter.check_key(&key).is_ok())
    }

    /// As `hit` on one thread, by a hasher of damper's.
    pub(super) fn hit_hashed_by<S: BuildHasher + Clone + Default + Send + Sync + 'static>(
        hasher: S,
        keys: u64,
    ) -> Side {
        let limiter = RateLimiter::dashmap_with_clock_and_hasher(plenty(), DefaultClock::default(), hasher);
        side(seen(limiter, keys), keys, 1, |limiter, key| limiter.check_key(&key).is_ok())
    }

    /// By governor's default hasher, which is std's: SipHash-1-3, as damper's.
    pub(crate) fn filled(keys: u64) -> Keyed<RandomState> {
        seen(RateLimiter::dashmap(plenty()), keys)
    }

    fn plenty() -> Quota {
        let a_nanosecond_each = NonZeroU32::new(1_000_000_000).expect("not zero");
        Quota::per_second(a_nanosecond_each).allow_burst(NonZeroU32::MAX)
    }

    /// The limiter after it has seen so many keys.
    fn seen<S: BuildHasher + Clone>(limiter: Keyed<S>, keys: u64) -> Keyed<S> {
        assert!((0..keys).all(|key| limiter.check_key(&key).is_ok()));
        limiter
    }
}

/// rate-net's limiter, on std's clock and its default hasher.
pub(crate) mod rate_net {
    use super::{FRESH, Side, first_sights, side};
    use crate::contest::calls;
    use rate_net::{Eviction, RateLimiter};
    use std::hint::black_box;

    fn limiter(keys: u64) -> RateLimiter {
        RateLimiter::per_second(u32::MAX).with_eviction(Eviction::capacity(keys as usize))
    }

    pub(super) fn hit(keys: u64) -> Side {
        side(filled(keys), keys, 1, |limiter, key| limiter.check(key).is_allow())
    }

    pub(crate) fn filled(keys: u64) -> RateLimiter {
        let limiter = limiter(keys);
        assert!((0..keys).all(|key| limiter.check(key).is_allow()));
        limiter
    }

    pub(super) fn first_sight() -> Side {
        first_sights(|| limiter(FRESH), |limiter, key| limiter.check(key).is_allow())
    }

    /// In a table of as many keys as damper's by default.
    pub(super) fn flood() -> Side {
        let limiter = limiter(8_192);
        let mut key = 0;
        calls(move || {
            key = (key + 1) % 10_000_000;
            black_box(black_box(&limiter).check(key).is_allow());
            true
        })
    }
}

/// throttle-net's limiter per key, on std's clock and its default hasher.
mod throttle_net {
    use super::{FRESH, Side, first_sights, side};
    use crate::contest::calls;
    use std::hint::black_box;
    use throttle_net::{Eviction, PerKey};

    fn limiter(keys: u64) -> PerKey<u64> {
        PerKey::per_second(u32::MAX).with_eviction(Eviction::capacity(keys as usize))
    }

    pub(super) fn hit(keys: u64) -> Side {
        let limiter = limiter(keys);
        assert!((0..keys).all(|key| limiter.try_acquire(&key)));
        side(limiter, keys, 1, |limiter, key| limiter.try_acquire(&key))
    }

    pub(super) fn first_sight() -> Side {
        first_sights(|| limiter(FRESH), |limiter, key| limiter.try_acquire(&key))
    }

    pub(super) fn flood() -> Side {
        let limiter = limiter(8_192);
        let mut key = 0;
        calls(move || {
            key = (key + 1) % 10_000_000;
            black_box(black_box(&limiter).try_acquire(&key));
            true
        })
    }
}

/// trypema's absolute limits, in this process: a sliding window of ten buckets.
mod trypema {
    use super::{A_MILLION, Side, side, texts};
    use trypema::local::LocalRateLimiterProvider;
    use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

    pub(super) fn hit(keys: u64) -> Side {
        let provider = LocalRateLimiterProvider::builder()
            .window_size(WindowSize::seconds_or_panic(1))
            .bucket_size(BucketSize::milliseconds_or_panic(100))
            .disable_cleanup()
            .build()
            .expect("buckets shorter than the window");
        let (rate, texts) = (RateLimit::per_second_or_panic(A_MILLION.into()), texts(keys));
        let is_allowed = move |key: &str| matches!(provider.absolute().inc(key, &rate, 1), RateLimitDecision::Allowed);
        assert!(texts.iter().all(|key| is_allowed(key)));
        side((is_allowed, texts), keys, 1, |(is_allowed, texts), key| is_allowed(&texts[key as usize]))
    }
}
