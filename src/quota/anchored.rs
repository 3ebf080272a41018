//! Pins a quota's line to a clock, at first use.
//!
//! The frequency of a clock may be known only at run time, and a limiter has to be a `static`; so the line is
//! computed by whoever comes first. Nobody waits: first users who race compute the same numbers from the same
//! frequency and the same start, and store them over one another.
//!
//! The numbers are kept in four words:
//!
//! | word | bits | meaning |
//! |---|---|---|
//! | first | 64 | one more than the tick at which the line starts; 0 while unset |
//! | mult, pace | 64 each | the multipliers of `Timeline` |
//! | rest | | the fields below; 0 while unset |
//!
//! ```text
//!  63  54 53   53 52   52 51             46 45          39 38     32 31        0
//! | SPARE | READY | ALIGNED | FRACTION BITS | PACE SHIFT | SHIFT   | FREQUENCY |
//! ```

use super::timeline::Pace;
use super::{Quota, Timeline};
use crate::atomic::{AtomicU64, Field, Ordering, const_unless_loom};
use crate::clock::{Clock, Frequency, Scale};

const FREQUENCY: Field = Field::lowest(32);
const SHIFT: Field = FREQUENCY.then(7);
const PACE_SHIFT: Field = SHIFT.then(7);
const FRACTION_BITS: Field = PACE_SHIFT.then(6);
const ALIGNED: Field = FRACTION_BITS.then(1);
const READY: Field = ALIGNED.then(1);
const SPARE: Field = READY.then(10);
const _: () = assert!(SPARE.end() == u64::BITS, "fields must tile the word");

/// A quota, and its line once there was a clock to pin it to.
#[derive(Debug)]
pub(crate) struct Anchored {
    quota: Quota,
    first: AtomicU64,
    mult: AtomicU64,
    pace: AtomicU64,
    rest: AtomicU64,
}

impl Anchored {
    const_unless_loom! {
        pub(crate) const fn new(quota: Quota) -> Self {
            Self {
                quota,
                first: AtomicU64::new(0),
                mult: AtomicU64::new(0),
                pace: AtomicU64::new(0),
                rest: AtomicU64::new(0),
            }
        }
    }

    pub(crate) const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The line on `clock`, which must be the same one at every call.
    #[inline]
    pub(crate) fn timeline(&self, clock: &impl Clock) -> Timeline {
        // ORDERING: Acquire pairs with the Release in `anchor`: who sees the rest sees the other three words.
        // loom-tests: bucket::first_users_agree_on_the_line.
        let rest = self.rest.load(Ordering::Acquire);
        if rest == 0 {
            return self.anchor(clock);
        }
        // ORDERING: Relaxed: ordered by the Acquire above, and never written with other values after it.
        Timeline {
            origin: self.first.load(Ordering::Relaxed).wrapping_sub(1),
            scale: Scale { mult: self.mult.load(Ordering::Relaxed), shift: SHIFT.get(rest) as u32 },
            pace: Pace {
                mult: self.pace.load(Ordering::Relaxed),
                shift: PACE_SHIFT.get(rest) as u32,
                aligned: ALIGNED.get(rest) != 0,
            },
            fraction_bits: FRACTION_BITS.get(rest) as u32,
            frequency: Frequency::from_bits(FREQUENCY.get(rest) as u32),
            burst: self.quota.capacity(),
            deepest_debt: self.quota.deepest_debt(),
        }
    }

    #[cold]
    fn anchor(&self, clock: &impl Clock) -> Timeline {
        let frequency = clock.frequency();
        // Where the clock is just about to wrap, the line starts a tick earlier.
        let first = clock.now().saturating_add(1);
        // ORDERING: Relaxed: the start of the line is decided by this exchange alone; that readers of `rest` see it is the
        // business of the Release below, which every racer does after its own exchange has settled it.
        let first = match self.first.compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => first,
            Err(settled) => settled,
        };
        let line = Timeline::new(&self.quota, frequency, first.wrapping_sub(1));
        let rest = READY.put(1)
            | ALIGNED.put(u64::from(line.pace.aligned))
            | FRACTION_BITS.put(line.fraction_bits.into())
            | PACE_SHIFT.put(line.pace.shift.into())
            | SHIFT.put(line.scale.shift.into())
            | FREQUENCY.put(line.frequency.to_bits().into());
        // ORDERING: Relaxed: published by the Release that follows.
        self.mult.store(line.scale.mult, Ordering::Relaxed);
        self.pace.store(line.pace.mult, Ordering::Relaxed);
        // ORDERING: Release publishes the three words; pairs with the Acquire in `timeline`.
        self.rest.store(rest, Ordering::Release);
        line
    }
}
