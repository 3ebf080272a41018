//! The breaker's word: a tagged union in one `AtomicU64`.
//!
//! ```text
//!  63   61 60          44 43                                   0
//! | STATE | GENERATION   | PAYLOAD                              |
//! | 0 closed             | FAILURES                          44 |
//! | 1 open               | UNTIL                             44 |
//! | 2 half-open          | SPARE 24 | SUCCESSES 10 | PROBES   10 |
//! ```
//!
//! | field | unit | meaning |
//! |---|---|---|
//! | GENERATION | transitions | bumped whenever the state changes, wraps after 131,072 |
//! | FAILURES | calls | failures in a row |
//! | UNTIL | µs | when the cooldown ends, on the clock; wraps after 203 days |
//! | PROBES | calls | probes in flight |
//! | SUCCESSES | calls | probes that succeeded |
//!
//! Every change is a compare-and-swap of the whole word, made from a snapshot in which state and generation were
//! looked at: adding to a payload in place would corrupt whatever the payload has become meanwhile.

use crate::atomic::{AtomicU64, Field, Ordering, const_unless_loom};
use core::fmt;

const PAYLOAD: Field = Field::lowest(44);
const GENERATION: Field = PAYLOAD.then(17);
const STATE: Field = GENERATION.then(3);
const _: () = assert!(STATE.end() == u64::BITS, "fields must tile the word");

const PROBES: Field = Field::lowest(10);
const SUCCESSES: Field = PROBES.then(10);
const SPARE: Field = SUCCESSES.then(24);
const _: () = assert!(SPARE.end() == PAYLOAD.end(), "so must those of the payload");

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;

/// The most probes, and successes, that the word can count.
pub(super) const MAX_PROBES: u32 = PROBES.max() as u32;

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Calls pass, failures are counted.
    Closed,
    /// Calls are refused until the cooldown is over.
    Open,
    /// A limited number of calls pass as probes; their outcome decides.
    HalfOpen,
}

impl fmt::Display for State {
    /// `closed`, `open` or `half-open`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        })
    }
}

/// A state with what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Closed { failures: u64 },
    Open { until: Instant },
    HalfOpen { probes: u32, successes: u32 },
}

/// A moment in microseconds, as far as the word keeps it: they wrap, only nearby ones can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant(u64);

impl Instant {
    pub(super) const fn from_micros(micros: u64) -> Self {
        Self(micros & PAYLOAD.max())
    }

    pub(super) const fn after(self, micros: u64) -> Self {
        Self::from_micros(self.0.wrapping_add(micros))
    }

    /// The microseconds from `earlier` to this moment; what lies in the past appears as very far ahead.
    pub(super) const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & PAYLOAD.max()
    }
}

/// What the word held at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) generation: Generation,
    pub(super) phase: Phase,
}

/// The number of a state's turn; wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u64);

impl Snapshot {
    /// The same turn of the same state, with another payload.
    #[must_use]
    pub(super) const fn with(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    /// The next state.
    #[must_use]
    pub(super) const fn transition_to(self, phase: Phase) -> Self {
        Self { generation: Generation((self.generation.0 + 1) & GENERATION.max()), phase }
    }

    const fn unpack(word: u64) -> Self {
        let payload = PAYLOAD.get(word);
        let phase = match STATE.get(word) {
            CLOSED => Phase::Closed { failures: payload },
            OPEN => Phase::Open { until: Instant(payload) },
            _ => Phase::HalfOpen { probes: PROBES.get(payload) as u32, successes: SUCCESSES.get(payload) as u32 },
        };
        Self { generation: Generation(GENERATION.get(word)), phase }
    }

    const fn pack(self) -> u64 {
        let (state, payload) = match self.phase {
            Phase::Closed { failures } => (CLOSED, failures),
            Phase::Open { until } => (OPEN, until.0),
            Phase::HalfOpen { probes, successes } => {
                (HALF_OPEN, PROBES.put(probes as u64) | SUCCESSES.put(successes as u64))
            }
        };
        STATE.put(state) | GENERATION.put(self.generation.0) | PAYLOAD.put(payload)
    }
}

/// The word itself.
#[derive(Debug)]
pub(super) struct StateWord(AtomicU64);

impl StateWord {
    const_unless_loom! {
        /// Closed, with no failures, in the first generation.
        pub(super) const fn closed() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Snapshot {
        // ORDERING: Relaxed, here and below. The word is the whole state and nothing else is published through it, so
        // the modification order of this one location is all that the exchange needs.
        // loom-tests: breaker::probes_are_limited, breaker::a_late_result_changes_nothing.
        Snapshot::unpack(self.0.load(Ordering::Relaxed))
    }

    /// Puts `new` in the place of `old`, if that is still there.
    #[inline]
    #[must_use]
    pub(super) fn replace(&self, old: Snapshot, new: Snapshot) -> bool {
        // ORDERING: Relaxed, as in `load`; on failure the value read is dropped.
        self.0.compare_exchange_weak(old.pack(), new.pack(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Generation, Instant, Phase, Snapshot};
    use proptest::prelude::*;

    fn phases() -> impl Strategy<Value = Phase> {
        prop_oneof![
            (0..1u64 << 44).prop_map(|failures| Phase::Closed { failures }),
            any::<u64>().prop_map(|micros| Phase::Open { until: Instant::from_micros(micros) }),
            (0..1024u32, 0..1024u32).prop_map(|(probes, successes)| Phase::HalfOpen { probes, successes }),
        ]
    }

    proptest! {
        #[test]
        fn a_snapshot_survives_packing(phase in phases(), generation in 0..1u64 << 17) {
            let snapshot = Snapshot { generation: Generation(generation), phase };
            prop_assert_eq!(Snapshot::unpack(snapshot.pack()), snapshot);
        }

        #[test]
        fn moments_wrap(micros in any::<u64>(), wait in 0..1u64 << 44) {
            let now = Instant::from_micros(micros);
            prop_assert_eq!(now.after(wait).since(now), wait);
        }
    }

    #[test]
    fn generations_wrap() {
        let last = Snapshot { generation: Generation((1 << 17) - 1), phase: Phase::Closed { failures: 0 } };
        assert_eq!(last.transition_to(Phase::Closed { failures: 0 }).generation, Generation(0));
    }
}
