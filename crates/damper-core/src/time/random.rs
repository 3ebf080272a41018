//! Random numbers, for seeds of hashes and for jitter.
//!
//! | function | drawn from | with |
//! |---|---|---|
//! | [`draw`] | the operating system, through the keys of std's `RandomState` | `std` |
//! | [`scatter`] | two numbers of the caller's, mixed by the finalizer of splitmix64; not unpredictable | always |
//! | [`ordinal`] | a count of its calls: not random, but another one each time | always |
//! | [`SplitMix`] | a seed: one number after the other; not unpredictable | always |
//! | [`shared_next`] | the same, for threads that share its state | always |
//! | [`below`] | turns any of them into a number below a bound | always |

use crate::sync::{AtomicU64, Ordering};

/// The step of splitmix64's state.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Draws a random number from the operating system, another one each time.
///
/// std's `RandomState` takes its keys from there.
#[cfg(feature = "std")]
pub(crate) fn draw() -> u64 {
    use core::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

/// Returns a number that differs from place to place and from time to time.
///
/// It is spread evenly over all 64 bits.
///
/// It serves where the target has no source of randomness: for jitter, not for secrets.
pub(crate) const fn scatter(place: u64, time: u64) -> u64 {
    // Rotated by half, so that the low bits of the two, which differ most, do not meet.
    mix(place ^ time.rotate_left(32))
}

/// Returns another number each time, for a thread.
///
/// Combined with a [place](scatter) on the stack, it distinguishes values made at the same tick.
#[cfg(feature = "std")]
#[inline]
pub(crate) fn ordinal() -> u64 {
    use core::cell::Cell;
    std::thread_local! {
        static CALLS: Cell<u64> = const { Cell::new(0) };
    }
    CALLS.with(|calls| calls.replace(calls.get().wrapping_add(1)))
}

/// Returns another number each time, for a thread.
///
/// Combined with a [place](scatter) on the stack, it distinguishes values made at the same tick.
#[cfg(not(feature = "std"))]
#[inline]
pub(crate) fn ordinal() -> u64 {
    use crate::sync::{AtomicU32, Ordering};
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // ORDERING: Relaxed: publishes nothing. Threads that read the same number at once run on different stacks.
    let calls = CALLS.load(Ordering::Relaxed);
    CALLS.store(calls.wrapping_add(1), Ordering::Relaxed);
    calls.into()
}

/// The generator splitmix64 (Steele, Lea and Flood, 2014): for jitter, not for secrets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws the next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }
}

/// Draws the next number of a [`SplitMix`] whose state threads share.
pub(crate) fn shared_next(state: &AtomicU64) -> u64 {
    // ORDERING: Relaxed: the numbers of two threads may come in either order.
    mix(state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
}

/// Maps a random number to one below `bound`, evenly; 0 if `bound` is 0.
pub(crate) const fn below(bound: u64, random: u64) -> u64 {
    ((bound as u128 * random as u128) >> 64) as u64
}

/// The finalizer of the generator splitmix64.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::{SplitMix, below, scatter};

    /// The first numbers of splitmix64 from the seed 0.
    #[test]
    fn mixes_as_splitmix64() {
        let mut random = SplitMix::new(0);
        assert!([random.next(), random.next(), random.next()].into_iter().eq([
            0xE220_A839_7B1D_CDAF,
            0x6E78_9E6A_A1B9_65F4,
            0x06C4_5D18_8009_454F
        ]));
    }

    /// Places side by side, a microsecond apart.
    #[test]
    fn neighbours_are_spread_evenly() {
        let mut sixteenths = [0u32; 16];
        for (place, time) in (0..64).flat_map(|place| (0..64).map(move |time| (place, time))) {
            sixteenths[(scatter(0x7FFF_0000_1000 + place * 64, 1_000_000 + time) >> 60) as usize] += 1;
        }
        assert!(sixteenths.iter().all(|count| (192..320).contains(count)), "{sixteenths:?}");
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        for bound in [1, 2, 10, u64::MAX] {
            assert_eq!((below(bound, 0), below(bound, u64::MAX)), (0, bound - 1));
        }
        assert_eq!(below(0, u64::MAX), 0);
    }

    #[cfg(feature = "std")]
    #[test]
    fn draws_differ() {
        assert_ne!(super::draw(), super::draw());
    }
}
