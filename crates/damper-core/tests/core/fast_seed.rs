//! The hasher `FastSeed`: against a slow model, and its statistics beside those of `SipHash`.

use crate::models::cases::times;
use crate::models::fast_seed::FastSeedModel;
use crate::models::part_of::part_of;
use crate::models::seed::seed;
use damper::time::{FastSeed, Seed};
use damper::{KeyedLimiter, ManualClock, Quota};
use proptest::prelude::*;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Clone, Debug)]
enum Write {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    Usize(usize),
    I8(i8),
    I64(i64),
    I128(i128),
    Bytes(Vec<u8>),
}

impl Write {
    fn to(&self, hasher: &mut impl Hasher) {
        match self {
            Self::U8(number) => hasher.write_u8(*number),
            Self::U16(number) => hasher.write_u16(*number),
            Self::U32(number) => hasher.write_u32(*number),
            Self::U64(number) => hasher.write_u64(*number),
            Self::U128(number) => hasher.write_u128(*number),
            Self::Usize(number) => hasher.write_usize(*number),
            Self::I8(number) => hasher.write_i8(*number),
            Self::I64(number) => hasher.write_i64(*number),
            Self::I128(number) => hasher.write_i128(*number),
            Self::Bytes(bytes) => hasher.write(bytes),
        }
    }
}

/// Numbers near 0, near the ends of digits, and any others.
fn number() -> impl Strategy<Value = u128> {
    let near = (0..=128u32, -2..=2i128)
        .prop_map(|(bits, more)| 1u128.checked_shl(bits).unwrap_or(0).wrapping_add_signed(more));
    prop_oneof![near, any::<u128>()]
}

fn write() -> impl Strategy<Value = Write> {
    let bytes = prop_oneof![any::<u8>(), Just(0), Just(0xFF)];
    prop_oneof![
        number().prop_map(|number| Write::U8(number as u8)),
        number().prop_map(|number| Write::U16(number as u16)),
        number().prop_map(|number| Write::U32(number as u32)),
        number().prop_map(|number| Write::U64(number as u64)),
        number().prop_map(Write::U128),
        number().prop_map(|number| Write::Usize(number as usize)),
        number().prop_map(|number| Write::I8(number as i8)),
        number().prop_map(|number| Write::I64(number as i64)),
        number().prop_map(|number| Write::I128(number as i128)),
        proptest::collection::vec(bytes, 0..40).prop_map(Write::Bytes),
    ]
}

proptest! {
    #[test]
    fn hash_is_that_of_a_slow_model(
        first in any::<u64>(),
        second in any::<u64>(),
        writes in proptest::collection::vec(write(), 0..12),
    ) {
        let mut hasher = FastSeed::new(first, second).build_hasher();
        let mut model = FastSeedModel::new(first, second);
        for write in &writes {
            write.to(&mut hasher);
            write.to(&mut model);
            prop_assert_eq!(hasher.finish(), model.finish());
        }
    }
}

/// The longest polynomial of the greatest digits, whose sums come nearest to an overflow.
#[test]
fn hash_of_a_long_key_is_that_of_a_slow_model() {
    for (first, second) in (0..20).map(|number| (seed(), number)) {
        let mut hasher = FastSeed::new(first, second).build_hasher();
        let mut model = FastSeedModel::new(first, second);
        for _ in 0..100 {
            hasher.write_u128(u128::MAX);
            model.write_u128(u128::MAX);
        }
        assert_eq!(hasher.finish(), model.finish());
    }
}

/// A key of no number, keys of zeros, and slices of any length have different hashes.
#[test]
fn keys_of_different_lengths_have_different_hashes() {
    let seed = FastSeed::new(seed(), 0);
    let hash = |writes: &[Write]| {
        let mut hasher = seed.build_hasher();
        for write in writes {
            write.to(&mut hasher);
        }
        hasher.finish()
    };
    let zeros = (0..50).map(|length| vec![Write::U64(0); length]);
    let slices = (0..50).map(|length| vec![Write::Bytes(vec![0; length])]);
    let others = [b"a".as_slice(), b"a\0", b"a\0\0", b"\0a", b"ab"].map(|bytes| vec![Write::Bytes(bytes.to_vec())]);
    let mut keys = HashMap::new();
    for writes in zeros.chain(slices).chain(others) {
        let same = keys.insert(hash(&writes), writes.clone());
        assert!(same.is_none(), "{same:?} and {writes:?}");
    }
    assert_ne!(seed.hash_one("a"), seed.hash_one("a\0"));
    assert_ne!(seed.hash_one(("a", "")), seed.hash_one(("", "a")));
}

#[test]
fn equal_keys_have_equal_hashes() {
    #[derive(Hash)]
    struct Account(u64);
    let seed = FastSeed::new(seed(), 0);
    assert_eq!(seed.hash_one(Account(7)), seed.hash_one(7u64));
    assert_eq!(seed.hash_one(String::from("user-7")), seed.hash_one("user-7"));
    assert_eq!(seed.hash_one(vec![1u8, 2, 3]), seed.hash_one([1u8, 2, 3].as_slice()));
    assert_eq!(seed.hash_one(7u64), FastSeed::clone(&seed).hash_one(7u64));
}

/// std writes these keys as so many digits before the last number: one more than the bound's roots.
#[test]
fn keys_of_the_documented_bounds_have_few_digits() {
    let digits = |key: &dyn Fn(&mut FastSeedModel)| {
        let mut model = FastSeedModel::new(1, 2);
        key(&mut model);
        model.digits().len()
    };
    let most = (u64::MAX, u128::MAX, IpAddr::from([0xFF; 4]), IpAddr::from([0xFF; 16]));
    let end = |port| SocketAddr::from((most.3, port));
    assert_eq!(digits(&|model| most.0.hash(model)), 0);
    assert_eq!(digits(&|model| most.1.hash(model)), 0);
    assert_eq!(digits(&|model| most.2.hash(model)), 1);
    assert_eq!(digits(&|model| most.3.hash(model)), 1);
    assert_eq!(digits(&|model| (most.0, most.0).hash(model)), 2);
    assert_eq!(digits(&|model| SocketAddr::from((most.2, u16::MAX)).hash(model)), 2);
    assert_eq!(digits(&|model| end(u16::MAX).hash(model)), 6);
    for length in 0..30 {
        let text = "a".repeat(length);
        assert_eq!(digits(&|model| text.hash(model)), length / 7 + 1);
        assert_eq!(digits(&|model| text.as_bytes().hash(model)), length / 7 + 1);
    }
}

#[test]
fn a_seed_takes_80_bytes() {
    assert_eq!(size_of::<FastSeed>(), 80);
}

#[test]
fn seeds_differ_and_stay_hidden() {
    let hash = |seed: FastSeed| seed.hash_one(7u64);
    assert_ne!(hash(FastSeed::random()), hash(FastSeed::default()));
    assert_ne!(hash(FastSeed::new(1, 0)), hash(FastSeed::new(0, 1)));
    let seed = FastSeed::new(1, 2);
    assert_eq!(format!("{seed:?} {:?}", seed.build_hasher()), "FastSeed(..) FastSeedHasher(..)");
}

/// Gives the hashes of the keys 0, 1, .. of a pattern to a function that counts them.
type Pattern = (&'static str, fn(&FastSeed, u64) -> u64);

/// Regular keys, as clients have them.
const PATTERNS: [Pattern; 10] = [
    ("consecutive", |seed, key| seed.hash_one(key)),
    ("multiples of 2^20", |seed, key| seed.hash_one(key << 20)),
    ("multiples of 2^47", |seed, key| seed.hash_one(key << 47)),
    ("multiples of 10^9", |seed, key| seed.hash_one(key * 1_000_000_000)),
    ("addresses", |seed, key| seed.hash_one(IpAddr::from(Ipv4Addr::from_bits(0x0A00_0000 + key as u32)))),
    ("addresses in networks", |seed, key| seed.hash_one(IpAddr::from(Ipv4Addr::from_bits((key as u32 + 1) << 8)))),
    ("IPv6 networks", |seed, key| {
        seed.hash_one(IpAddr::from(Ipv6Addr::from_bits(0x2001_0DB8 << 96 | u128::from(key) << 64)))
    }),
    ("ports", |seed, key| {
        seed.hash_one(SocketAddr::from((Ipv4Addr::from_bits(0x0A00_0000 + (key >> 8) as u32), key as u16 & 0xFF)))
    }),
    ("pairs", |seed, key| seed.hash_one((key % 300, key / 300))),
    ("names", |seed, key| seed.hash_one(format!("user-{key}"))),
];

fn seeds(count: u64) -> impl Iterator<Item = FastSeed> {
    (0..count).map(|number| FastSeed::new(seed(), number))
}

/// How many of the sorted hashes are equal to the one before, by the part of them that is compared.
fn equal_neighbours(sorted: &[u64], part: impl Fn(u64) -> u64) -> usize {
    sorted.windows(2).filter(|pair| part(pair[0]) == part(pair[1])).count()
}

/// No two of 100,000 keys share 64 bits, and as many of them share 32 bits as by chance.
///
/// It takes two seeds, times the environment variable `DAMPER_CASES`.
#[test]
fn hashes_and_their_halves_collide_as_by_chance() {
    const KEYS: u32 = 100_000;
    let [mut upper, mut lower] = [0; 2];
    let count = 2 * times();
    for (name, hash) in PATTERNS {
        for seed in seeds(count.into()) {
            let mut hashes: Vec<u64> = (0..KEYS.into()).map(|key| hash(&seed, key)).collect();
            hashes.sort_unstable();
            assert_eq!(equal_neighbours(&hashes, |hash| hash), 0, "{name}");
            upper += equal_neighbours(&hashes, |hash| hash >> 32);
            hashes.sort_unstable_by_key(|hash| *hash as u32);
            lower += equal_neighbours(&hashes, |hash| hash & 0xFFFF_FFFF);
        }
    }
    // 1.16 are expected of each seed and pattern, by Poisson's law. The bounds are five standard deviations away.
    let expected = f64::from(KEYS).powi(2) / 2_f64.powi(33) * f64::from(count * PATTERNS.len() as u32);
    println!("{upper} equal upper halves, {lower} equal lower halves, {expected:.0} expected");
    for found in [upper, lower] {
        assert!((f64::from(found as u32) - expected).abs() < 5.0 * expected.sqrt(), "{found}, expected {expected:.0}");
    }
}

/// The sets and the shared bucket of a hash, of `count` each, as the table computes them.
fn places(hash: u64, count: u64) -> [usize; 3] {
    let scaled = |half: u64| ((half * count) >> 32) as usize;
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let other = hash.wrapping_mul(0xAF25_1AF3_B0F0_25B5);
    [scaled(mixed >> 32), scaled((mixed ^ mixed >> 32) & 0xFFFF_FFFF), scaled(other >> 32)]
}

/// How far chi-squared of the keys per place is from its mean, in its standard deviations.
fn unevenness(keys: u32, count: u32, hash: impl Fn(u64) -> u64) -> [f64; 3] {
    let mut found = vec![[0u32; 3]; count as usize];
    for key in 0..keys {
        let places = places(hash(key.into()), count.into());
        (0..3).for_each(|choice| found[places[choice]][choice] += 1);
    }
    let (expected, freedom) = (f64::from(keys) / f64::from(count), f64::from(count) - 1.0);
    [0, 1, 2].map(|choice| {
        let squared: f64 = found.iter().map(|found| (f64::from(found[choice]) - expected).powi(2)).sum();
        (squared / expected - freedom) / (2.0 * freedom).sqrt()
    })
}

/// Regular keys fill sets and shared buckets as random numbers would, under each of 100 seeds.
#[test]
fn regular_keys_spread_over_a_table_as_by_chance() {
    let (keys, sets, rounds) = (10_000, 5_000, 100u32);
    for (name, hash) in PATTERNS {
        let mut sums = [0.0; 3];
        for seed in seeds(rounds.into()) {
            let found = unevenness(keys, sets, |key| hash(&seed, key));
            assert!(found.iter().all(|distance| distance.abs() < 7.0), "{name}: {found:?}");
            (0..3).for_each(|choice| sums[choice] += found[choice]);
        }
        let means = sums.map(|sum| sum / f64::from(rounds));
        println!("{name}: {means:.2?} standard deviations from the mean");
        // The mean of 100 has a standard deviation of 0.1.
        assert!(means.iter().all(|mean| mean.abs() < 0.6), "{name}: {means:?}");
    }
}

/// The same measure finds an uneven hash: multiples of an odd number, which have equal distances.
#[test]
fn equal_distances_are_found_uneven() {
    let found = unevenness(10_000, 5_000, |key| key.wrapping_mul(0xD1B5_4A32_D192_ED03));
    assert!(found[0].abs() > 30.0, "{found:?}");
}

/// Asserts that each of the bits flips each bit of the hash under half of the seeds.
fn assert_avalanche(bits: std::ops::Range<u32>, hash: impl Fn(&FastSeed, u128) -> u64) {
    const SEEDS: u32 = 40_000;
    let key = u128::from(seed()) << 64 | u128::from(seed().rotate_left(17));
    let mut flips = vec![[0u32; 64]; bits.len()];
    for seed in seeds(SEEDS.into()) {
        let of_key = hash(&seed, key);
        for (bit, flips) in bits.clone().zip(&mut flips) {
            let mut flipped = of_key ^ hash(&seed, key ^ 1 << bit);
            while flipped != 0 {
                flips[flipped.trailing_zeros() as usize] += 1;
                flipped &= flipped - 1;
            }
        }
    }
    for (bit, flips) in bits.zip(flips) {
        for (of_hash, flips) in flips.into_iter().enumerate() {
            let share = f64::from(flips) / f64::from(SEEDS);
            // Eight standard deviations.
            assert!((0.48..0.52).contains(&share), "bit {bit} flips bit {of_hash} of the hash with {share}");
        }
    }
}

#[test]
fn each_bit_of_a_number_flips_half_of_the_hash() {
    assert_avalanche(0..64, |seed, key| seed.hash_one(key as u64));
}

/// The other bits are as those of a number of 64.
#[test]
fn each_upper_bit_of_an_address_flips_half_of_the_hash() {
    assert_avalanche(96..128, |seed, key| seed.hash_one(IpAddr::from(Ipv6Addr::from_bits(key))));
}

#[test]
fn each_bit_before_the_last_number_flips_half_of_the_hash() {
    assert_avalanche(30..64, |seed, key| seed.hash_one((key as u64, 7u64)));
}

/// Keys that found no slot, and keys that lost one, in tables filled by so many keys.
fn without_a_slot<K: Hash, S: BuildHasher>(
    keys: u32,
    capacity: u32,
    hasher: impl Fn(u64) -> S,
    key: impl Fn(u32) -> K,
) -> f64 {
    let tables = (0..3).map(|table| {
        let limits = KeyedLimiter::<K>::builder(Quota::per_hour(1).burst(1_000_000))
            .capacity(capacity as usize)
            .clock(ManualClock::new())
            .hasher(hasher(table))
            .build()
            .unwrap();
        (0..keys).for_each(|number| _ = limits.check(&key(number)));
        assert_eq!(limits.len() as u64 + limits.overflows(), u64::from(keys));
        f64::from(u32::try_from(limits.overflows()).unwrap())
    });
    tables.sum()
}

/// At capacity hardly a key finds no slot. At two fifths of it a fifth finds none.
#[test]
fn tables_fill_as_with_siphash() {
    let address = |number| IpAddr::from(Ipv4Addr::from_bits(0x0A00_0000 + number));
    let (sip, fast) = (|table| Seed::new(seed(), table), |table| FastSeed::new(seed(), table));
    let keys = part_of(100_000);
    for capacity in [keys, keys / 5 * 2] {
        let of_sip = [without_a_slot(keys, capacity, sip, u64::from), without_a_slot(keys, capacity, sip, address)];
        let of_fast = [without_a_slot(keys, capacity, fast, u64::from), without_a_slot(keys, capacity, fast, address)];
        println!("capacity {capacity}: {of_sip:?} keys without a slot with SipHash, {of_fast:?} with FastSeed");
        for (sip, fast) in of_sip.into_iter().zip(of_fast) {
            assert!(fast > 0.0 && (sip - fast).abs() < 6.0 * (sip + fast).sqrt(), "{sip} and {fast}");
        }
    }
}
