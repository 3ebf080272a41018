//! The word of a breaker that the program places.
//!
//! ```text
//!  63  61 60      53 52     50 49      0
//! | STATE | GENERATION | REOPENS | PAYLOAD |
//! ```
//!
//! | field | bits | |
//! |---|---|---|
//! | PAYLOAD | 50 | closed: the consecutive failures, or the outcomes of the last 48 calls; open: when the cooldown ends, in 31 bits; half-open: 10 bits each for the probes in flight and those that succeeded, and 30 for the end of the state |
//! | REOPENS | 3 | from half-open to open since it was closed; stays at the most |
//! | GENERATION | 8 | bumped whenever the state changes, wraps |
//! | STATE | 3 | as in every breaker; 0 is closed |

use super::super::AtomicU64;
use crate::breaker::state_word::{Layout, Word};
use crate::sync::{Field, Ordering};
use core::marker::PhantomData;

/// The word of a breaker that the program places.
const PAYLOAD: Field = Field::lowest(50);
const REOPENS: Field = PAYLOAD.then(3);
const GENERATION: Field = REOPENS.then(8);
const STATE: Field = GENERATION.then(3);
const _: () = assert!(STATE.end() == u64::BITS, "fields must tile the word");

/// The bits of the end of a cooldown.
pub(super) const UNTIL_BITS: u32 = 31;

/// The bits of the end of a half-open state.
pub(super) const DEADLINE_BITS: u32 = 30;

/// The value of a word that the program places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedWord<'a>(u64, PhantomData<&'a AtomicU64>);

impl<'a> Word for PlacedWord<'a> {
    const LAYOUT: Layout = Layout {
        payload: PAYLOAD,
        until: Field::at(0, UNTIL_BITS),
        reopens: REOPENS,
        generation: GENERATION,
        state: STATE,
        probes: Field::at(0, 10),
        successes: Field::at(10, 10),
        failed: None,
        deadline: Some(Field::at(20, DEADLINE_BITS)),
        disabled: None,
        returning: None,
    };

    type Atomic = &'a AtomicU64;

    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self(bits, PhantomData)
    }

    #[inline]
    fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    fn load(atomic: &&'a AtomicU64) -> Self {
        // ORDERING: Relaxed: the word is the whole state. loom-tests: words::breaker_limits_its_probes.
        Self::from_bits(atomic.load(Ordering::Relaxed))
    }

    #[inline]
    fn replace(atomic: &&'a AtomicU64, old: Self, new: Self) -> bool {
        // ORDERING: Relaxed, as in `load`. On failure the value read is dropped. loom-tests: words::breaker_limits_its_probes.
        atomic.compare_exchange_weak(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
