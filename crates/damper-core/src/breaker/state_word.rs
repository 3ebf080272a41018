//! The breaker's word: a tagged union of 64 or 32 bits.
//!
//! ```text
//! bits of 64  3       13           4         44
//! of 32       3       5            3         21
//!             | STATE | GENERATION | REOPENS | PAYLOAD                                   |
//!             | 0 closed                     | FAILURES                                  |
//!             | 1 open                       | UNTIL                                     |
//!             | 2 half-open                  | DEADLINE | FAILED | SUCCESSES   | PROBES  |
//! bits of 64                                   0 (14 spare) 10     10            10
//! of 32                                        11         0        5             5
//!             | 3 forced open                | 0                                         |
//!             | 4 forced closed              | 0                                         |
//!             | 5 disabled                   | FAILURES                                  |
//! only of 64  | 6 returning                  | FAILURES                                  |
//! ```
//!
//! | field | unit | meaning |
//! |---|---|---|
//! | GENERATION | transitions | bumped whenever the state changes, wraps |
//! | REOPENS | transitions | from half-open or returning to open since it was closed; stays at the most |
//! | FAILURES | calls | consecutive failures |
//! | UNTIL | the settings' | when the cooldown ends, on the clock; wraps |
//! | PROBES | calls | probes in flight |
//! | SUCCESSES | calls | probes that succeeded |
//! | FAILED | calls | probes that failed, where a rate of them decides |
//! | DEADLINE | the settings' | when the half-open state is over; wraps. That of 64 bits has its time [beside the word](super::breaker_state), because the unit of so few bits would change with the settings |
//!
//! Every change is a compare-and-swap of the whole word, made from a snapshot whose state and generation were checked. Adding to
//! a payload in place could corrupt the payload of a later state. The result of a call that began in an older generation is
//! discarded.
//!
//! [`state_machine`](super::state_machine) has the rules and [`transitions`](super::transitions) the loops around the swap. Both
//! are generic over the width: `word32` only adds a layout, with settings that are fixed.

use crate::sync::{AtomicU32, AtomicU64, Field, Ordering, const_unless_loom};
use core::fmt;

const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN: u64 = 2;
const FORCED_OPEN: u64 = 3;
const FORCED_CLOSED: u64 = 4;
const DISABLED: u64 = 5;
const RETURNING: u64 = 6;

/// The positions of the fields in a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) payload: Field,
    /// The end of a cooldown, in the payload.
    pub(crate) until: Field,
    pub(crate) reopens: Field,
    pub(crate) generation: Field,
    pub(crate) state: Field,
    pub(crate) probes: Field,
    pub(crate) successes: Field,
    /// `None` where no rate of failed probes decides.
    pub(crate) failed: Option<Field>,
    /// `None` where the end of the half-open state is not in the word.
    pub(crate) deadline: Option<Field>,
    /// The state that counts calls and never trips, where there is one.
    pub(crate) disabled: Option<u64>,
    /// The state in which a growing share of the calls passes, where there is one.
    pub(crate) returning: Option<u64>,
}

impl Layout {
    const OF_64: Self = {
        // A breaker of 64 bits.
        let payload = Field::lowest(44);
        let reopens = payload.then(4);
        let generation = reopens.then(13);
        let state = generation.then(3);
        assert!(state.end() == u64::BITS, "fields must tile the word");
        // The PAYLOAD of 64 bits in the half-open state.
        let probes = Field::lowest(10);
        let successes = probes.then(10);
        let failed = successes.then(10);
        let spare = failed.then(14);
        assert!(spare.end() == payload.end(), "so must those of the payload");
        Self {
            payload,
            until: payload,
            reopens,
            generation,
            state,
            probes,
            successes,
            failed: Some(failed),
            deadline: None,
            disabled: Some(DISABLED),
            returning: Some(RETURNING),
        }
    };

    const OF_32: Self = {
        // A breaker of 32 bits.
        let payload = Field::lowest(21);
        let reopens = payload.then(3);
        let generation = reopens.then(5);
        let state = generation.then(3);
        assert!(state.end() == u32::BITS, "fields must tile the word");
        // The PAYLOAD of 32 bits in the half-open state.
        let probes = Field::lowest(5);
        let successes = probes.then(5);
        let deadline = successes.then(11);
        assert!(deadline.end() == payload.end(), "so must those of the payload");
        Self {
            payload,
            until: payload,
            reopens,
            generation,
            state,
            probes,
            successes,
            failed: None,
            deadline: Some(deadline),
            disabled: None,
            returning: None,
        }
    };

    /// Returns the most probes, and successes, that the word can count.
    pub(crate) const fn max_probes(self) -> u32 {
        self.probes.max() as u32
    }

    /// Returns the most consecutive failures that the word can count.
    pub(crate) const fn max_failures(self) -> u32 {
        if self.payload.max() > u32::MAX as u64 { u32::MAX } else { self.payload.max() as u32 }
    }

    /// Returns the most reopenings that the word can count.
    pub(crate) const fn max_reopens(self) -> u32 {
        self.reopens.max() as u32
    }

    /// Returns the number of bits of a cooldown's end.
    pub(crate) const fn until_bits(self) -> u32 {
        self.until.bits()
    }

    /// Returns the number of bits of a half-open state's end.
    pub(crate) const fn deadline_bits(self) -> u32 {
        match self.deadline {
            Some(deadline) => deadline.bits(),
            None => 0,
        }
    }
}

/// An integer that holds a breaker's state.
pub(crate) trait Word: Copy + Eq + fmt::Debug {
    const LAYOUT: Layout;

    /// The integer that threads share.
    type Atomic: fmt::Debug;

    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn load(atomic: &Self::Atomic) -> Self;
    fn replace(atomic: &Self::Atomic, old: Self, new: Self) -> bool;
}

macro_rules! word {
    ($word:ty, $atomic:ident, $layout:expr, $replaced:expr) => {
        impl Word for $word {
            const LAYOUT: Layout = $layout;
            type Atomic = $atomic;

            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }

            #[inline]
            fn bits(self) -> u64 {
                self.into()
            }

            #[inline]
            fn load(atomic: &$atomic) -> Self {
                // ORDERING: Relaxed. The word is the whole state, so the compare-and-swap needs only the modification order of
                // this one location.
                // loom-tests: breaker::probes_are_limited, breaker::late_result_is_discarded,
                // word32::probes_are_limited, word32::late_result_is_discarded.
                atomic.load(Ordering::Relaxed)
            }

            #[inline]
            fn replace(atomic: &$atomic, old: Self, new: Self) -> bool {
                // ORDERING: that of the word's width, below. On failure the value read is dropped.
                atomic.compare_exchange_weak(old, new, $replaced, Ordering::Relaxed).is_ok()
            }
        }

        impl StateWord<$word> {
            const_unless_loom! {
                /// Returns the closed state with no failures, in the first generation.
                pub(crate) const fn closed() -> Self {
                    Self($atomic::new(0))
                }
            }
        }
    };
}

// ORDERING: Release pairs with the Acquire fence in `BreakerState::longest_cooldown`, called after an open state was loaded.
word!(u64, AtomicU64, Layout::OF_64, Ordering::Release);
// ORDERING: Relaxed: the word is the whole state.
word!(u32, AtomicU32, Layout::OF_32, Ordering::Relaxed);

/// The state of a breaker. The list is final, so a `match` on it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State {
    /// Calls pass, and failures are counted.
    Closed,
    /// Calls are refused until the cooldown is over.
    Open,
    /// A limited number of calls pass as probes; their outcome decides.
    HalfOpen,
    /// A growing share of the calls passes, after the probes, where the breaker has a [ramp](super::BreakerConfigBuilder::ramp).
    Returning,
    /// Calls are refused until the breaker is [reset](super::CircuitBreaker::reset).
    ForcedOpen,
    /// Calls pass uncounted until the breaker is reset.
    ForcedClosed,
    /// Calls pass and are counted, and the breaker does not trip until it is reset.
    Disabled,
}

impl fmt::Display for State {
    /// Writes `closed`, `open`, `half-open`, `returning`, `forced open`, `forced closed` or `disabled`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
            Self::Returning => "returning",
            Self::ForcedOpen => "forced open",
            Self::ForcedClosed => "forced closed",
            Self::Disabled => "disabled",
        })
    }
}

/// A state with its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Closed { failures: u32 },
    Open { until: u64 },
    HalfOpen(Probes),
    Returning { failures: u32 },
    ForcedOpen,
    ForcedClosed,
    Disabled { failures: u32 },
}

impl Phase {
    pub(crate) const fn state(self) -> State {
        match self {
            Self::Closed { .. } => State::Closed,
            Self::Open { .. } => State::Open,
            Self::HalfOpen(_) => State::HalfOpen,
            Self::Returning { .. } => State::Returning,
            Self::ForcedOpen => State::ForcedOpen,
            Self::ForcedClosed => State::ForcedClosed,
            Self::Disabled { .. } => State::Disabled,
        }
    }
}

/// The counts of the probes, and when the half-open state ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probes {
    pub(crate) in_flight: u32,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
    pub(crate) deadline: u32,
}

/// Counts state transitions; wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u32);

impl Generation {
    /// The number of bits of a generation in the widest word.
    pub(crate) const BITS: u32 = Layout::OF_64.generation.bits();

    /// The generation of no state: an outcome recorded with it is discarded.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Creates a generation from the lowest [`BITS`](Self::BITS) of `bits`.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }

    pub(crate) const fn to_bits(self) -> u32 {
        self.0
    }
}

/// The value of the word when it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot<W>(W);

impl<W: Word> Snapshot<W> {
    #[inline]
    pub(crate) fn phase(self) -> Phase {
        let Layout { until, state, probes, successes, failed, deadline, disabled, returning, .. } = W::LAYOUT;
        let payload = self.payload();
        match state.get(self.0.bits()) {
            CLOSED => Phase::Closed { failures: payload as u32 },
            OPEN => Phase::Open { until: until.get(payload) },
            HALF_OPEN => Phase::HalfOpen(Probes {
                in_flight: probes.get(payload) as u32,
                succeeded: successes.get(payload) as u32,
                failed: failed.map_or(0, |failed| failed.get(payload) as u32),
                deadline: deadline.map_or(0, |deadline| deadline.get(payload) as u32),
            }),
            FORCED_OPEN => Phase::ForcedOpen,
            state if disabled == Some(state) => Phase::Disabled { failures: payload as u32 },
            state if returning == Some(state) => Phase::Returning { failures: payload as u32 },
            _ => Phase::ForcedClosed,
        }
    }

    /// Returns the payload, whatever the state.
    #[inline]
    pub(crate) fn payload(self) -> u64 {
        W::LAYOUT.payload.get(self.0.bits())
    }

    /// Returns the same state with another payload.
    #[cfg(target_has_atomic = "64")]
    #[inline]
    pub(crate) fn with_payload(self, payload: u64) -> Self {
        let field = W::LAYOUT.payload;
        Self(W::from_bits(self.0.bits() & !field.mask() | field.put(payload)))
    }

    #[inline]
    pub(crate) fn generation(self) -> Generation {
        Generation(W::LAYOUT.generation.get(self.0.bits()) as u32)
    }

    /// Returns how often the breaker has opened again since it was last closed.
    #[inline]
    pub(crate) fn reopens(self) -> u32 {
        W::LAYOUT.reopens.get(self.0.bits()) as u32
    }

    #[inline]
    pub(crate) fn is_closed(self) -> bool {
        W::LAYOUT.state.get(self.0.bits()) == CLOSED
    }

    /// Returns whether it is closed in this generation with no failures, so that a success writes nothing.
    #[inline]
    pub(crate) fn is_closed_without_failure(self, generation: Generation) -> bool {
        // In the closed state the count of reopenings is 0.
        self.0 == W::from_bits(W::LAYOUT.state.put(CLOSED) | W::LAYOUT.generation.put(generation.0.into()))
    }

    /// Returns the same state and generation with another payload.
    #[inline]
    #[must_use]
    pub(crate) fn with(self, phase: Phase) -> Self {
        Self::packed(self.generation().0, self.reopens(), phase)
    }

    /// Returns the next state after `reopens` reopenings, limited to the most that the word can count.
    #[inline]
    #[must_use]
    pub(crate) fn transition_to(self, reopens: u32, phase: Phase) -> Self {
        Self::packed(self.generation().0 + 1, reopens.min(W::LAYOUT.max_reopens()), phase)
    }

    fn packed(generation: u32, reopens: u32, phase: Phase) -> Self {
        let layout = W::LAYOUT;
        let (state, payload) = match phase {
            Phase::Closed { failures } => (CLOSED, failures.into()),
            Phase::Open { until } => (OPEN, until),
            Phase::HalfOpen(Probes { in_flight, succeeded, failed, deadline }) => (
                HALF_OPEN,
                layout.probes.put(in_flight.into())
                    | layout.successes.put(succeeded.into())
                    | layout.failed.map_or(0, |bits| bits.put(failed.into()))
                    | layout.deadline.map_or(0, |bits| bits.put(deadline.into())),
            ),
            Phase::Returning { failures } => (RETURNING, failures.into()),
            Phase::ForcedOpen => (FORCED_OPEN, 0),
            Phase::ForcedClosed => (FORCED_CLOSED, 0),
            Phase::Disabled { failures } => (DISABLED, failures.into()),
        };
        let (state, payload) = (layout.state.put(state), layout.payload.put(payload));
        let (generation, reopens) = (layout.generation.put(generation.into()), layout.reopens.put(reopens.into()));
        Self(W::from_bits(state | generation | reopens | payload))
    }
}

/// The word itself.
#[derive(Debug)]
pub(crate) struct StateWord<W: Word>(W::Atomic);

impl<W: Word> StateWord<W> {
    /// Creates the word of an atomic that is somewhere else.
    #[cfg(target_has_atomic = "64")]
    pub(crate) const fn of(atomic: W::Atomic) -> Self {
        Self(atomic)
    }

    #[inline]
    pub(crate) fn load(&self) -> Snapshot<W> {
        Snapshot(W::load(&self.0))
    }

    /// Swaps `old` for `new`, unless the word has changed.
    #[inline]
    #[must_use]
    pub(crate) fn replace(&self, old: Snapshot<W>, new: Snapshot<W>) -> bool {
        W::replace(&self.0, old.0, new.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Generation, Layout, Phase, Probes, Snapshot, Word};
    use proptest::prelude::*;

    /// Phases whose fields may be all ones.
    fn phases(
        Layout { payload, probes, failed, deadline, disabled, returning, .. }: Layout,
    ) -> impl Strategy<Value = Phase> {
        let counts = 0..=probes.max() as u32;
        let failed = 0..=failed.map_or(0, |failed| failed.max() as u32);
        let deadline = 0..=deadline.map_or(0, |deadline| deadline.max() as u32);
        let (until, failures) = (0..=payload.max(), 0..=u32::try_from(payload.max()).unwrap_or(u32::MAX));
        prop_oneof![
            failures.clone().prop_map(|failures| Phase::Closed { failures }),
            until.prop_map(|until| Phase::Open { until }),
            (counts.clone(), counts, failed, deadline).prop_map(|(in_flight, succeeded, failed, deadline)| {
                Phase::HalfOpen(Probes { in_flight, succeeded, failed, deadline })
            }),
            Just(Phase::ForcedOpen),
            Just(Phase::ForcedClosed),
            failures.clone().prop_map(move |failures| match returning {
                Some(_) => Phase::Returning { failures },
                None => Phase::Closed { failures },
            }),
            failures.prop_map(move |failures| match disabled {
                Some(_) => Phase::Disabled { failures },
                None => Phase::Closed { failures },
            }),
        ]
    }

    /// Checks that a snapshot returns its inputs, and that no field leaks into another.
    fn survives_packing<W: Word>(generation: u32, reopens: u32, phase: Phase) {
        let (generation, reopens) = (generation & W::LAYOUT.generation.max() as u32, reopens & W::LAYOUT.max_reopens());
        let snapshot = Snapshot::<W>::packed(generation, reopens, phase);
        assert_eq!(
            (snapshot.generation(), snapshot.reopens(), snapshot.phase()),
            (Generation(generation), reopens, phase)
        );
        let is_empty = (phase, reopens) == (Phase::Closed { failures: 0 }, 0);
        assert_eq!(snapshot.is_closed_without_failure(Generation(generation)), is_empty);
        assert_eq!(snapshot.with(Phase::ForcedOpen).with(phase), snapshot);
    }

    proptest! {
        #[test]
        fn snapshot_survives_packing(
            of_64 in phases(Layout::OF_64),
            of_32 in phases(Layout::OF_32),
            generation: u32,
            reopens: u32,
        ) {
            survives_packing::<u64>(generation, reopens, of_64);
            survives_packing::<u32>(generation, reopens, of_32);
        }
    }

    fn generations_wrap_and_reopens_saturate_in<W: Word>() {
        let last = W::LAYOUT.generation.max() as u32;
        let mut snapshot = Snapshot::<W>::packed(last, 0, Phase::Closed { failures: 0 });
        for reopens in 1..40 {
            snapshot = snapshot.transition_to(snapshot.reopens() + 1, Phase::Open { until: 7 });
            assert_eq!(snapshot.generation(), Generation((reopens - 1) & last));
            assert_eq!(snapshot.reopens(), reopens.min(W::LAYOUT.max_reopens()));
        }
    }

    #[test]
    fn generations_wrap_and_reopens_saturate() {
        generations_wrap_and_reopens_saturate_in::<u64>();
        generations_wrap_and_reopens_saturate_in::<u32>();
    }
}
