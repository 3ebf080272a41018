//! The breaker's word: a tagged union in one `AtomicU64`.
//!
//! ```text
//!  63   61 60        48 47     44 43                                      0
//! | STATE | GENERATION | REOPENS | PAYLOAD                                 |
//! | 0 closed                     | FAILURES                             44 |
//! | 1 open                       | UNTIL                                44 |
//! | 2 half-open                  | DEADLINE 14 | FAILED 10 | SUCCESSES 10 | PROBES 10 |
//! | 3 forced open                | 0                                       |
//! | 4 forced closed              | 0                                       |
//! | 5 disabled                   | FAILURES                             44 |
//! ```
//!
//! | field | unit | meaning |
//! |---|---|---|
//! | GENERATION | transitions | bumped whenever the state changes, wraps after 8,192 |
//! | REOPENS | transitions | from half-open to open since it was closed; stays at 15 |
//! | FAILURES | calls | consecutive failures; stays at the most |
//! | UNTIL | µs | when the cooldown ends, on the clock; wraps after 203 days |
//! | PROBES | calls | probes in flight |
//! | SUCCESSES | calls | probes that succeeded |
//! | FAILED | calls | probes that failed, where a rate of them decides |
//! | DEADLINE | 1/4096 of the longest time half-open | when that is over; wraps after four times as long |
//!
//! Every change is a compare-and-swap of the whole word, made from a snapshot whose state and generation were
//! checked. Adding to a payload in place would corrupt the payload of whichever state came meanwhile.

use crate::sync::{AtomicU64, Field, Ordering, const_unless_loom};
use core::fmt;

const PAYLOAD: Field = Field::lowest(44);
const REOPENS: Field = PAYLOAD.then(4);
const GENERATION: Field = REOPENS.then(13);
const STATE: Field = GENERATION.then(3);
const _: () = assert!(STATE.end() == u64::BITS, "fields must tile the word");

const PROBES: Field = Field::lowest(10);
const SUCCESSES: Field = PROBES.then(10);
const FAILED: Field = SUCCESSES.then(10);
const DEADLINE: Field = FAILED.then(14);
const _: () = assert!(DEADLINE.end() == PAYLOAD.end(), "so must those of the payload");

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;
const FORCED_OPEN: u64 = 3;
const FORCED_CLOSED: u64 = 4;
const DISABLED: u64 = 5;

/// The most probes, and successes, that the word can count.
pub(super) const MAX_PROBES: u32 = PROBES.max() as u32;

/// The most consecutive failures that it can count.
pub(super) const MAX_FAILURES: u64 = PAYLOAD.max();

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State {
    /// Calls pass, failures are counted.
    Closed,
    /// Calls are refused until the cooldown is over.
    Open,
    /// A limited number of calls pass as probes; their outcome decides.
    HalfOpen,
    /// Calls are refused until somebody [resets](super::CircuitBreaker::reset) it.
    ForcedOpen,
    /// Calls pass and nothing is counted, until somebody resets it.
    ForcedClosed,
    /// Calls pass and are counted, and nothing comes of it, until somebody resets it.
    Disabled,
}

impl fmt::Display for State {
    /// `closed`, `open`, `half-open`, `forced open`, `forced closed` or `disabled`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
            Self::ForcedOpen => "forced open",
            Self::ForcedClosed => "forced closed",
            Self::Disabled => "disabled",
        })
    }
}

/// A state with its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Closed { failures: u64 },
    Open { until: WrappingMicros },
    HalfOpen(Probes),
    ForcedOpen,
    ForcedClosed,
    Disabled { failures: u64 },
}

impl Phase {
    pub(super) const fn state(self) -> State {
        match self {
            Self::Closed { .. } => State::Closed,
            Self::Open { .. } => State::Open,
            Self::HalfOpen(_) => State::HalfOpen,
            Self::ForcedOpen => State::ForcedOpen,
            Self::ForcedClosed => State::ForcedClosed,
            Self::Disabled { .. } => State::Disabled,
        }
    }
}

/// The counts of the probes, and when the half-open state ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probes {
    pub(super) in_flight: u32,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    pub(super) deadline: HalfOpenDeadline,
}

/// When the half-open state ends, counted in fractions of `max_half_open`; wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HalfOpenDeadline(u64);

impl HalfOpenDeadline {
    /// Into how many parts `max_half_open` is divided.
    pub(super) const PARTS: u64 = 4_096;

    /// The beginning of that part.
    pub(super) const fn at(part: u64) -> Self {
        Self(part & DEADLINE.max())
    }

    /// Whether it has passed in the part `now`. One that lies further ahead than so many parts has passed long ago;
    /// half the circle is as far as it can lie.
    pub(super) const fn has_passed(self, now: u64, farthest: u64) -> bool {
        let ahead = self.0.wrapping_sub(now) & DEADLINE.max();
        ahead == 0 || ahead > farthest || ahead > DEADLINE.max() / 2
    }
}

/// A time in microseconds as the word keeps it: it wraps, so only times close to each other can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrappingMicros(u64);

impl WrappingMicros {
    /// How far ahead a time can lie, in microseconds: half the range.
    pub(super) const FARTHEST: u64 = PAYLOAD.max() / 2;

    pub(super) const fn from_micros(micros: u64) -> Self {
        Self(micros & PAYLOAD.max())
    }

    pub(super) const fn after(self, micros: u64) -> Self {
        Self::from_micros(self.0.wrapping_add(micros))
    }

    /// The microseconds since `earlier`; a time in the past appears as very far ahead.
    pub(super) const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0) & PAYLOAD.max()
    }
}

/// What the word held when it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    pub(super) generation: Generation,
    /// Transitions from half-open to open since the breaker was last closed.
    pub(super) reopens: u32,
    pub(super) phase: Phase,
}

/// Counts state transitions; wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u64);

impl Generation {
    pub(super) const BITS: u32 = GENERATION.bits();

    /// The generation of no state: an outcome recorded with it is discarded.
    pub(super) const NONE: Self = Self(u64::MAX);

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits & GENERATION.max())
    }

    pub(super) const fn to_bits(self) -> u64 {
        self.0
    }

    const fn next(self) -> Self {
        Self::from_bits(self.0 + 1)
    }
}

impl Snapshot {
    /// The same state and generation with another payload.
    #[must_use]
    pub(super) const fn with(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    /// The next state, which keeps the number of reopenings.
    #[must_use]
    pub(super) const fn transition_to(self, phase: Phase) -> Self {
        Self { generation: self.generation.next(), phase, ..self }
    }

    /// The next state, open again after its probes failed.
    #[must_use]
    pub(super) const fn reopened(self, until: WrappingMicros) -> Self {
        let reopens = if self.reopens as u64 == REOPENS.max() { self.reopens } else { self.reopens + 1 };
        Self { reopens, ..self.transition_to(Phase::Open { until }) }
    }

    /// The next state, with everything reset.
    #[must_use]
    pub(super) const fn start_over(self, phase: Phase) -> Self {
        Self { reopens: 0, ..self.transition_to(phase) }
    }

    const fn unpack(word: u64) -> Self {
        let payload = PAYLOAD.get(word);
        let phase = match STATE.get(word) {
            CLOSED => Phase::Closed { failures: payload },
            OPEN => Phase::Open { until: WrappingMicros(payload) },
            HALF_OPEN => Phase::HalfOpen(Probes {
                in_flight: PROBES.get(payload) as u32,
                succeeded: SUCCESSES.get(payload) as u32,
                failed: FAILED.get(payload) as u32,
                deadline: HalfOpenDeadline(DEADLINE.get(payload)),
            }),
            FORCED_OPEN => Phase::ForcedOpen,
            FORCED_CLOSED => Phase::ForcedClosed,
            _ => Phase::Disabled { failures: payload },
        };
        Self { generation: Generation(GENERATION.get(word)), reopens: REOPENS.get(word) as u32, phase }
    }

    const fn pack(self) -> u64 {
        let (state, payload) = match self.phase {
            Phase::Closed { failures } => (CLOSED, failures),
            Phase::Open { until } => (OPEN, until.0),
            Phase::HalfOpen(Probes { in_flight, succeeded, failed, deadline }) => (
                HALF_OPEN,
                PROBES.put(in_flight as u64)
                    | SUCCESSES.put(succeeded as u64)
                    | FAILED.put(failed as u64)
                    | DEADLINE.put(deadline.0),
            ),
            Phase::ForcedOpen => (FORCED_OPEN, 0),
            Phase::ForcedClosed => (FORCED_CLOSED, 0),
            Phase::Disabled { failures } => (DISABLED, failures),
        };
        STATE.put(state) | GENERATION.put(self.generation.0) | REOPENS.put(self.reopens as u64) | PAYLOAD.put(payload)
    }
}

/// A snapshot as it stands in the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed(u64);

impl Packed {
    pub(super) const fn unpack(self) -> Snapshot {
        Snapshot::unpack(self.0)
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
        // the modification order of this one location is all that the compare-and-swap needs.
        // loom-tests: breaker::probes_are_limited, breaker::late_result_is_discarded.
        Snapshot::unpack(self.0.load(Ordering::Relaxed))
    }

    /// The generation, if the breaker is closed, for the fast path of a call; otherwise the packed word.
    #[inline]
    pub(super) fn closed_generation(&self) -> Result<Generation, Packed> {
        // ORDERING: Relaxed, as in `load`.
        let word = self.0.load(Ordering::Relaxed);
        if STATE.get(word) == CLOSED { Ok(Generation(GENERATION.get(word))) } else { Err(Packed(word)) }
    }

    /// Whether it is closed in that generation, without a failure: then a success has nothing to write.
    #[inline]
    pub(super) fn is_closed_without_failure(&self, generation: Generation) -> bool {
        // ORDERING: Relaxed, as in `load`. A closed breaker has no reopens.
        self.0.load(Ordering::Relaxed) == STATE.put(CLOSED) | GENERATION.put(generation.0)
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
    use super::{Generation, HalfOpenDeadline, Phase, Probes, Snapshot, WrappingMicros};
    use proptest::prelude::*;

    fn phases() -> impl Strategy<Value = Phase> {
        prop_oneof![
            (0..1u64 << 44).prop_map(|failures| Phase::Closed { failures }),
            any::<u64>().prop_map(|micros| Phase::Open { until: WrappingMicros::from_micros(micros) }),
            (0..1024u32, 0..1024u32, 0..1024u32, any::<u64>()).prop_map(|(in_flight, succeeded, failed, part)| {
                Phase::HalfOpen(Probes { in_flight, succeeded, failed, deadline: HalfOpenDeadline::at(part) })
            }),
            Just(Phase::ForcedOpen),
            Just(Phase::ForcedClosed),
            (0..1u64 << 44).prop_map(|failures| Phase::Disabled { failures }),
        ]
    }

    proptest! {
        #[test]
        fn snapshot_survives_packing(phase in phases(), generation: u64, reopens in 0..16u32) {
            let snapshot = Snapshot { generation: Generation::from_bits(generation), reopens, phase };
            prop_assert_eq!(Snapshot::unpack(snapshot.pack()), snapshot);
        }

        #[test]
        fn times_wrap(micros in any::<u64>(), wait in 0..1u64 << 44) {
            let now = WrappingMicros::from_micros(micros);
            prop_assert_eq!(now.after(wait).since(now), wait);
        }

        #[test]
        fn half_open_ends_when_its_part_begins(
            now in 0..u64::MAX / 2,
            ahead in 0..=4_097u64,
            parts in 0..16_384u64,
        ) {
            let has_passed = HalfOpenDeadline::at(now + ahead).has_passed(now + parts, ahead);
            prop_assert_eq!(has_passed, parts >= ahead);
        }
    }

    #[test]
    fn generations_wrap() {
        let last = Generation::from_bits(u64::MAX);
        assert_eq!(last.next(), Generation::from_bits(0));
    }

    #[test]
    fn reopens_saturate() {
        let mut snapshot =
            Snapshot { generation: Generation::from_bits(0), reopens: 0, phase: Phase::Closed { failures: 0 } };
        for reopens in 1..40 {
            snapshot = snapshot.reopened(WrappingMicros::from_micros(7));
            assert_eq!(snapshot.reopens, reopens.min(15));
        }
        assert_eq!(snapshot.start_over(Phase::Closed { failures: 0 }).reopens, 0);
    }
}
