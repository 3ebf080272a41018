//! Settings that can be changed while they are used.
//!
//! They are a [`Published`] record. A decision loads the epoch, the record and the breaker's word. It validates the epoch before it
//! swaps the word.
//!
//! The epoch also says whether outcomes are recorded, in which kind of window, and whether calls are timed, so that the fast path of
//! a call reads little else.
//!
//! A change of the settings swaps no word, so a running cooldown goes on as it began. The breaker of 32 bits has fixed settings.

use super::BreakerConfig;
use super::breaker_state::BreakerState;
use super::settings::{BreakerSettings, Record, RecordWords, WindowSettings};
use super::state_word::Generation;
use super::window::OutcomeWindow;
use crate::sync::{Claim, Published, const_unless_loom};

/// In an epoch whose settings record outcomes in a window.
const RATED: usize = 1;

/// In an epoch whose settings time calls.
const TIMED: usize = 2;

/// In an epoch whose window is a ring.
const RING: usize = 4;

const FLAGS: usize = RATED | TIMED | RING;

/// The flags of a ring where calls are not timed.
const RATED_BY_RING: usize = RATED | RING;

#[derive(Debug)]
pub(super) struct LiveSettings {
    published: Published<Record>,
}

impl LiveSettings {
    const_unless_loom! {
        pub(super) const fn new(config: &BreakerConfig) -> Self {
            let words = RecordWords::new(config);
            Self { published: Published::new(flags_of(&words), [Record::new(words), Record::new(words)], [(), ()]) }
        }
    }

    /// Returns whether a success of a generation leaves the window as it is.
    ///
    /// `false` where that depends on the time that the call took.
    ///
    /// The settings need not be [current](Self::is_current) afterwards: only the window's number is read of the record. While the
    /// record is being replaced, that may be the number of the next window, in which nothing was recorded yet.
    #[inline]
    pub(super) fn is_healthy(&self, state: &BreakerState, window: &OutcomeWindow, generation: Generation) -> bool {
        // loom-tests: breaker_settings::success_in_a_healthy_window_beside_a_change.
        let settings = self.read(state);
        let recorded_as = || settings.record.untimed_window().recorded_as(generation);
        match settings.epoch & FLAGS {
            0 => true,
            RATED => window.has_healthy_register(recorded_as()),
            RATED_BY_RING => window.has_healthy_ring(recorded_as()),
            _ => false,
        }
    }

    /// Returns whether outcomes are recorded in a window.
    #[inline]
    pub(super) fn has_rates(&self) -> bool {
        // This only selects the path, here and below: the record decides.
        self.published.unordered_epoch() & RATED != 0
    }

    /// Returns whether calls are timed.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.published.unordered_epoch() & TIMED != 0
    }

    /// Reads the settings, which are valid only if [`is_current`](Self::is_current) confirms them afterwards.
    #[inline]
    pub(super) fn read<'a>(&'a self, state: &'a BreakerState) -> BreakerSettings<'a> {
        let epoch = self.published.epoch();
        BreakerSettings { epoch, record: self.published.record(epoch), state }
    }

    /// Returns whether these are still the settings in force.
    ///
    /// Call it after reading all inputs of a decision.
    #[inline]
    pub(super) fn is_current(&self, settings: &BreakerSettings<'_>) -> bool {
        self.published.is_current(settings.epoch)
    }

    /// Returns the part of the settings in force that the window needs.
    #[inline]
    pub(super) fn window(&self, state: &BreakerState) -> WindowSettings {
        loop {
            let settings = self.read(state);
            let window = settings.record.window();
            if self.is_current(&settings) {
                return window;
            }
        }
    }

    /// Puts the settings of `words` in force at `now`. The caller holds the [claim](Self::claim).
    pub(super) fn publish(&self, claim: &Claim<'_>, words: RecordWords, now: u64) {
        let old = self.published.record(self.published.unordered_epoch());
        let words = words.following(&old.window_of_any_kind(old.rates()), now);
        self.published.publish(claim, flags_of(&words), |record, ()| record.store(words));
    }

    /// Claims the right to change the settings, unless another thread has it.
    pub(super) fn claim(&self) -> Option<Claim<'_>> {
        self.published.claim()
    }
}

const fn flags_of(words: &RecordWords) -> usize {
    if !words.has_rates() {
        return 0;
    }
    RATED | (if words.is_timed() { TIMED } else { 0 }) | (if words.has_ring() { RING } else { 0 })
}
