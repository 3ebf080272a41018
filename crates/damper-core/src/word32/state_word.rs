//! The breaker's word: a tagged union in 32 bits.
//!
//! ```text
//!  31   29 28      24 23     21 20                                    0
//! | STATE | GENERATION | REOPENS | PAYLOAD                              |
//! | 0 closed                     | FAILURES                          21 |
//! | 1 open                       | UNTIL                             21 |
//! | 2 half-open                  | DEADLINE 11 | SUCCESSES 5 | PROBES 5 |
//! | 3 forced open                | 0                                    |
//! | 4 forced closed              | 0                                    |
//! ```
//!
//! | field | unit | meaning |
//! |---|---|---|
//! | GENERATION | transitions | bumped whenever the state changes, wraps after 32 |
//! | REOPENS | transitions | from half-open to open since it was closed; stays at 7 |
//! | FAILURES | calls | consecutive failures |
//! | UNTIL | 2^-19 of the longest cooldown, or less | when the cooldown ends, on the clock; wraps |
//! | PROBES | calls | probes in flight |
//! | SUCCESSES | calls | probes that succeeded |
//! | DEADLINE | 2^-9 of the longest time half-open, or less | when that is over; wraps |

use crate::sync::{AtomicU32, Field, Ordering, const_unless_loom};

const PAYLOAD: Field = Field::lowest(21);
const REOPENS: Field = PAYLOAD.then(3);
const GENERATION: Field = REOPENS.then(5);
const STATE: Field = GENERATION.then(3);
const _: () = assert!(STATE.end() == u32::BITS, "fields must tile the word");

const PROBES: Field = Field::lowest(5);
const SUCCESSES: Field = PROBES.then(5);
const DEADLINE: Field = SUCCESSES.then(11);
const _: () = assert!(DEADLINE.end() == PAYLOAD.end(), "so must those of the payload");

pub(super) const UNTIL_BITS: u32 = PAYLOAD.bits();
pub(super) const DEADLINE_BITS: u32 = DEADLINE.bits();
pub(super) const MOST_FAILURES: u32 = PAYLOAD.max() as u32;
pub(super) const MOST_PROBES: u32 = PROBES.max() as u32;

/// How many cooldowns there can be: the first, and one for each time that probes failed.
pub(super) const COOLDOWNS: usize = REOPENS.max() as usize + 1;

/// A loaded value of the word, still packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Snapshot32(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase32 {
    Closed { failures: u32 },
    Open { until: u32 },
    HalfOpen(Probes32),
    ForcedOpen,
    ForcedClosed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probes32 {
    pub(super) in_flight: u32,
    pub(super) succeeded: u32,
    pub(super) deadline: u32,
}

impl Snapshot32 {
    pub(super) const fn phase(self) -> Phase32 {
        let payload = PAYLOAD.get(self.0 as u64);
        match STATE.get(self.0 as u64) {
            0 => Phase32::Closed { failures: payload as u32 },
            1 => Phase32::Open { until: payload as u32 },
            2 => Phase32::HalfOpen(Probes32 {
                in_flight: PROBES.get(payload) as u32,
                succeeded: SUCCESSES.get(payload) as u32,
                deadline: DEADLINE.get(payload) as u32,
            }),
            3 => Phase32::ForcedOpen,
            _ => Phase32::ForcedClosed,
        }
    }

    #[inline]
    pub(super) const fn generation(self) -> u32 {
        GENERATION.get(self.0 as u64) as u32
    }

    #[inline]
    pub(super) const fn is_closed(self) -> bool {
        STATE.get(self.0 as u64) == 0
    }

    /// Whether it is closed in that generation, without a failure.
    #[inline]
    pub(super) const fn is_closed_without_failure(self, generation: u32) -> bool {
        // Closed is 0, and a closed breaker has no reopens.
        self.0 == GENERATION.put(generation as u64) as u32
    }

    pub(super) const fn reopens(self) -> usize {
        REOPENS.get(self.0 as u64) as usize
    }

    /// The same state and generation with another payload.
    #[must_use]
    pub(super) const fn with(self, phase: Phase32) -> Self {
        Self::pack(self.generation(), self.reopens(), phase)
    }

    /// The next state, after so many reopenings, up to the most that the word can count.
    #[must_use]
    pub(super) const fn next(self, reopens: usize, phase: Phase32) -> Self {
        let most = COOLDOWNS - 1;
        Self::pack(self.generation() + 1, if reopens < most { reopens } else { most }, phase)
    }

    const fn pack(generation: u32, reopens: usize, phase: Phase32) -> Self {
        let (state, payload) = match phase {
            Phase32::Closed { failures } => (0, failures as u64),
            Phase32::Open { until } => (1, until as u64),
            Phase32::HalfOpen(Probes32 { in_flight, succeeded, deadline }) => {
                (2, PROBES.put(in_flight as u64) | SUCCESSES.put(succeeded as u64) | DEADLINE.put(deadline as u64))
            }
            Phase32::ForcedOpen => (3, 0),
            Phase32::ForcedClosed => (4, 0),
        };
        let fields = STATE.put(state) | GENERATION.put(generation as u64) | REOPENS.put(reopens as u64);
        Self((fields | PAYLOAD.put(payload)) as u32)
    }
}

/// The word itself.
#[derive(Debug)]
pub(super) struct StateWord32(AtomicU32);

impl StateWord32 {
    const_unless_loom! {
        /// Closed, with no failures, in the first generation.
        pub(super) const fn closed() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Snapshot32 {
        // ORDERING: Relaxed, here and below. The word is the whole state and nothing else is published through it.
        // loom-tests: word32::probes_are_limited, word32::late_result_is_discarded.
        Snapshot32(self.0.load(Ordering::Relaxed))
    }

    /// Swaps `old` for `new`, unless the word has changed.
    #[must_use]
    pub(super) fn replace(&self, old: Snapshot32, new: Snapshot32) -> bool {
        self.0.compare_exchange_weak(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
