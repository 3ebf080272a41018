//! A hasher for keys that are numbers, several times cheaper than SipHash-1-3.
//!
//! A key is a sequence of numbers, as its `Hash` writes them. The last number enters a multiply-shift. A polynomial
//! over the prime 2^61 - 1 reduces all numbers before it to one, which enters the multiply-shift too:
//!
//! ```text
//! d_1, .. d_m = the digits of 59 bits of all numbers but the last
//! polynomial  = (d_1 + 1) * point^(m-1) + .. + (d_m + 1) * point^0                          mod 2^61 - 1
//! sum         = lower * (last mod 2^64) + upper * (last / 2^64) + before * polynomial + offset  mod 2^128
//! hash        = scattered(sum / 2^64)
//! ```
//!
//! Why two keys rarely collide:
//!
//! - Two different sequences differ in the last number or in the digits before it: see [`FastSeedHasher::push_last`]
//!   and its [`write`](FastSeedHasher::write).
//! - Every coefficient of the polynomial is 1 to 2^60. So different digits are different polynomials, also if there are
//!   more of them. Two such polynomials agree at no more than m - 1 points, and `point` is one of 2^60.
//! - If two keys differ in the polynomial or in the last number, the upper halves of their sums are independent, and
//!   each value is equally probable. The multiply-shift for vectors has this property, called strong universality, if
//!   its words have at least 64 + 64 - 1 bits (Dietzfelbinger, 1996; Thorup, 2015).
//! - `scattered` is a bijection, so the property holds for hashes too.

#[cfg(feature = "std")]
use super::random;
use core::fmt;
use core::hash::{BuildHasher, Hasher};

/// 2^61 - 1, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// The bits of a digit. With a mark and 1 added, a digit is at most 2^60, which is less than the prime.
const DIGIT_BITS: u32 = 59;

/// Marks a digit after which the same number has others.
const MORE: u64 = 1 << DIGIT_BITS;

/// Bytes of a slice that make one number. Their bits leave room in a digit for the length of the rest.
const WORD_BYTES: usize = 7;

/// Hashes keys that are integers or addresses, at a fraction of the cost of [`Seed`](super::Seed).
///
/// It is opt-in. Use it for keys that clients cannot choose freely, such as accounts, tenants and devices, or if
/// clients cannot see when others are refused. Keep the default, [`Seed`](super::Seed), in all other cases: see
/// [Security](#security).
///
/// Integers, addresses, newtypes of them and small tuples are fast. Keys of every other type are hashed correctly too.
/// Strings and slices cost a multiplication for every seven bytes. A seed takes 80 bytes.
///
/// # Collisions
///
/// Two given keys of one type have the same hash with at most this probability over random seeds:
///
/// | keys | probability |
/// |---|---|
/// | integers, `IpAddr`, newtypes of them | 2^-64, as for a random function |
/// | pairs of integers of up to 64 bits, `SocketAddr`s of IPv4 | 2^-60 + 2^-64 |
/// | `SocketAddr`s of IPv6 | 5 / 2^60 + 2^-64 |
/// | strings and slices of up to n bytes | ⌊n / 7⌋ / 2^60 + 2^-64 |
///
/// For keys of the first row, each pair of hashes is equally probable. So two keys of a table share a set of slots as
/// often as two random numbers do, however regular the keys are.
///
/// The algorithm is universal hashing (Carter and Wegman, 1979): a polynomial over the prime 2^61 - 1, and a
/// multiply-shift in words of 128 bits (Dietzfelbinger, 1996; Thorup, "High Speed Hashing for Integers and Strings",
/// 2015). SipHash-1-3 expands the 128 bits of the seed to the ten words that it needs. The bounds assume that these
/// words cannot be distinguished from random ones.
///
/// # Security
///
/// The bounds hold for keys that were chosen without knowledge of the seed. [`Seed`](super::Seed) also resists a client
/// that adapts its keys to the answers. `FastSeed` does not.
///
/// A client learns that two keys share a slot or a bucket if one is refused for the debt of the other, if one evicts
/// the other, or from the time that an answer takes. Each such pair is an equation about the seed. A client with enough
/// equations can choose keys that collide. With them it can spend the tokens of a victim whose key it knows, or crowd
/// other clients out of the table.
///
/// As for [`Seed`](super::Seed), a client must not know the seed itself.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::hash::BuildHasher;
/// use core::net::IpAddr;
/// use damper::time::FastSeed;
///
/// let seed = FastSeed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
/// let address = IpAddr::from([192, 0, 2, 7]);
/// assert_eq!(seed.hash_one(address), seed.hash_one(address));
/// assert_ne!(seed.hash_one(address), seed.hash_one(IpAddr::from([192, 0, 2, 8])));
/// ```
///
/// A limiter for clients of a network whose addresses you assign:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::keyed::KeyedLimiter;
/// use damper::quota::Quota;
/// use damper::time::FastSeed;
/// use std::net::IpAddr;
///
/// let limits = KeyedLimiter::<IpAddr>::builder(Quota::per_hour(1)).hasher(FastSeed::random()).build()?;
/// let client = IpAddr::from([192, 168, 7, 4]);
/// assert!(limits.check(&client).is_ok());
/// assert!(limits.check(&client).is_err());
/// # }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct FastSeed {
    /// Multiplies the lower 64 bits of the last number.
    lower: u128,
    offset: u128,
    /// Multiplies the upper 64 bits of the last number.
    upper: u128,
    /// Multiplies the polynomial, which all numbers before the last make.
    before: u128,
    /// Where the polynomial is evaluated. Less than 2^60.
    point: u64,
    /// An odd multiplier, which scatters the sum's upper half.
    scatter: u64,
}

impl FastSeed {
    /// Creates a seed of 128 bits.
    #[must_use]
    pub const fn new(first: u64, second: u64) -> Self {
        Self {
            lower: wide(first, second, 0),
            offset: wide(first, second, 2),
            upper: wide(first, second, 4),
            before: wide(first, second, 6),
            point: siphash13(first, second, 8) >> 4,
            scatter: siphash13(first, second, 9) | 1,
        }
    }

    /// Draws a random seed, another one each time, from the source of std's maps.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn random() -> Self {
        Self::new(random::draw(), random::draw())
    }

    /// Mixes the bits by a bijection.
    ///
    /// The sums of consecutive keys have equal distances. Without this step they fill the sets of a table very unevenly
    /// under some seeds, although each pair of keys is as far apart as by chance.
    #[inline]
    fn scattered(&self, upper_half: u64) -> u64 {
        let mixed = (upper_half ^ upper_half >> 32).wrapping_mul(self.scatter);
        mixed ^ mixed >> 32
    }
}

/// A random seed, as [`FastSeed::random`] draws it.
#[cfg(feature = "std")]
impl Default for FastSeed {
    fn default() -> Self {
        Self::random()
    }
}

impl BuildHasher for FastSeed {
    type Hasher = FastSeedHasher;

    #[inline]
    fn build_hasher(&self) -> FastSeedHasher {
        FastSeedHasher { seed: *self, polynomial: 0, last: None }
    }
}

/// Hashes one key: made by a [`FastSeed`].
#[derive(Clone, Copy)]
pub struct FastSeedHasher {
    seed: FastSeed,
    /// The polynomial of all numbers but the last. At most 2^62, so not always less than the prime.
    polynomial: u64,
    last: Option<u128>,
}

impl FastSeedHasher {
    #[inline]
    fn number(&mut self, number: u128) {
        self.push_last();
        self.last = Some(number);
    }

    /// Appends the digits of the last number to the polynomial.
    ///
    /// All digits of a number but its last one have a mark, so that no two sequences of numbers have the same digits.
    #[inline]
    fn push_last(&mut self) {
        let Some(mut rest) = self.last else { return };
        while rest >> DIGIT_BITS != 0 {
            self.push(rest as u64 & (MORE - 1) | MORE);
            rest >>= DIGIT_BITS;
        }
        self.push(rest as u64);
    }

    /// Appends a digit, which is less than 2^60.
    #[inline]
    fn push(&mut self, digit: u64) {
        let sum = u128::from(self.polynomial) * u128::from(self.seed.point) + u128::from(digit + 1);
        // 2^61 is 1 modulo the prime. The point is less than 2^60, so the result is at most 2^62 again.
        self.polynomial = (sum as u64 & PRIME) + (sum >> 61) as u64;
    }
}

impl Hasher for FastSeedHasher {
    #[inline]
    fn finish(&self) -> u64 {
        let Self { seed, polynomial, last } = self;
        // The prime is the polynomial of no digits, so that a key without numbers is another one than the number 0.
        let (last, polynomial) = last.map_or((0, PRIME), |last| (last, polynomial % PRIME));
        let sum = (seed.lower.wrapping_mul(last & u128::from(u64::MAX)))
            .wrapping_add(seed.upper.wrapping_mul(last >> 64))
            .wrapping_add(seed.before.wrapping_mul(u128::from(polynomial)))
            .wrapping_add(seed.offset);
        seed.scattered((sum >> 64) as u64)
    }

    // Seven bytes are a number below 2^56. The rest and its length are a number above, which ends the slice. So slices
    // of different lengths are different sequences of numbers.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.push_last();
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        for [first @ .., a, b, c] in words {
            self.push(u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes([*a, *b, *c, 0])) << 32);
        }
        let number = rest.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte));
        self.last = Some(number | (rest.len() as u128 + 1) << (8 * WORD_BYTES));
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.number(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.number(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.number(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.number(number.into());
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.number(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.number(number as u128);
    }
}

/// Keeps the seed to itself.
impl fmt::Debug for FastSeedHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FastSeedHasher(..)")
    }
}

/// Keeps it to itself.
impl fmt::Debug for FastSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FastSeed(..)")
    }
}

/// The words `index` and `index + 1` of a seed, the lower one first.
const fn wide(first: u64, second: u64, index: u64) -> u128 {
    siphash13(first, second, index) as u128 | (siphash13(first, second, index + 1) as u128) << 64
}

/// SipHash-1-3 of the eight bytes of `message`, as [`Seed`](super::Seed) hashes a `u64`: in a `const` context.
const fn siphash13(first: u64, second: u64, message: u64) -> u64 {
    let state = [
        first ^ 0x736F_6D65_7073_6575,
        second ^ 0x646F_7261_6E64_6F6D,
        first ^ 0x6C79_6765_6E65_7261,
        second ^ 0x7465_6462_7974_6573,
    ];
    let state = compressed(state, message);
    // The last word is the length of the message in its upper byte.
    let [v0, v1, v2, v3] = compressed(state, 8 << 56);
    let [v0, v1, v2, v3] = sip_round(sip_round(sip_round([v0, v1, v2 ^ 0xFF, v3])));
    v0 ^ v1 ^ v2 ^ v3
}

const fn compressed([v0, v1, v2, v3]: [u64; 4], word: u64) -> [u64; 4] {
    let [v0, v1, v2, v3] = sip_round([v0, v1, v2, v3 ^ word]);
    [v0 ^ word, v1, v2, v3]
}

const fn sip_round([mut v0, mut v1, mut v2, mut v3]: [u64; 4]) -> [u64; 4] {
    v0 = v0.wrapping_add(v1);
    v1 = v1.rotate_left(13) ^ v0;
    v0 = v0.rotate_left(32);
    v2 = v2.wrapping_add(v3);
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.wrapping_add(v3);
    v3 = v3.rotate_left(21) ^ v0;
    v2 = v2.wrapping_add(v1);
    v1 = v1.rotate_left(17) ^ v2;
    v2 = v2.rotate_left(32);
    [v0, v1, v2, v3]
}
