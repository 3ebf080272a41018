//! A clock that stands still, at the cost of one load; and a hasher without chance.

use damper::time::{FastSeed, Seed};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

static NOW: AtomicU64 = AtomicU64::new(0);

/// Once, so that the compiler does not take it for a constant.
pub(crate) fn set() {
    NOW.store(black_box(1), Ordering::Relaxed);
}

/// Lets a nanosecond pass, for calls that take time.
pub(crate) fn pass() {
    NOW.store(now() + 1, Ordering::Relaxed);
}

/// A nanosecond after the origin of each, unless time was made to pass.
pub(crate) fn now() -> u64 {
    NOW.load(Ordering::Relaxed)
}

/// A clock for one row, of a type of its own.
///
/// Code that decides by it is compiled for that row alone, and inlined into it as far as into the one caller that most
/// limiters have. If rows shared it, one more of them would change the others; and if it were generic, less of it would
/// be inlined than of the clocks that programs have.
macro_rules! still {
    () => {{
        #[derive(Clone, Copy, Debug)]
        struct Still;

        impl damper::Clock for Still {
            fn now(&self) -> u64 {
                crate::still::now()
            }

            fn frequency(&self) -> u64 {
                <Self as damper::time::FixedFrequency>::HERTZ
            }
        }

        impl damper::time::FixedFrequency for Still {
            const HERTZ: u64 = 1_000_000_000;
        }

        Still
    }};
}
pub(crate) use still;

/// The same in every run.
pub(crate) const SEED: Seed = Seed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);

/// The same in every run.
pub(crate) const FAST_SEED: FastSeed = FastSeed::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
