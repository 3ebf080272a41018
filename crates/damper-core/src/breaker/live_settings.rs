//! Settings that can be changed while they are used: two records and an epoch, as [`quota::live`](crate::quota) has them.
//!
//! A reader loads the epoch, the record that the epoch points at and the breaker's word. Before it swaps the word it checks that
//! the epoch is still the same; if not, it starts over. A changer writes the idle record and moves the epoch. So no reader ever
//! waits, and a validated reader has read one record, whole. A changer that stops anywhere blocks only later changers.
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
use crate::sync::{AtomicBool, AtomicUsize, Claim, Ordering, const_unless_loom, fence};
use core::mem::size_of;

/// In an epoch whose settings record outcomes in a window.
const RATED: usize = 1;

/// In an epoch whose settings time calls.
const TIMED: usize = 2;

/// In an epoch whose window is a ring.
const RING: usize = 4;

const FLAGS: usize = RATED | TIMED | RING;

/// The flags of a ring where calls are not timed.
const RATED_BY_RING: usize = RATED | RING;

/// The increment of epochs: the size of a record.
///
/// So an epoch yields its record without a multiplication.
const PUBLICATION: usize = 64;
const _: () = assert!(size_of::<RecordWords>() == PUBLICATION, "the size of a record");

#[derive(Debug)]
pub(super) struct LiveSettings {
    /// Counts publications, in steps of `PUBLICATION`, above the flags; selects the record in force.
    ///
    /// On 32 bits it wraps after 2^26 publications: a thread that is stopped in the middle of a decision for exactly that many
    /// changes takes the record for the same.
    epoch: AtomicUsize,
    /// Whether a thread is publishing.
    claimed: AtomicBool,
    records: [Record; 2],
}

impl LiveSettings {
    const_unless_loom! {
        pub(super) const fn new(config: &BreakerConfig) -> Self {
            let words = RecordWords::new(config);
            Self {
                epoch: AtomicUsize::new(flags_of(&words)),
                claimed: AtomicBool::new(false),
                records: [Record::new(words), Record::new(words)],
            }
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
        // ORDERING: Relaxed, here and below: it only selects the path, and the record decides.
        self.epoch.load(Ordering::Relaxed) & RATED != 0
    }

    /// Returns whether calls are timed.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) & TIMED != 0
    }

    /// Reads the settings, which are valid only if [`is_current`](Self::is_current) confirms them afterwards.
    #[inline]
    pub(super) fn read<'a>(&'a self, state: &'a BreakerState) -> BreakerSettings<'a> {
        // ORDERING: Acquire pairs with the Release in `publish`: a thread that sees the epoch sees its record.
        // loom-tests: breaker_settings::settings_are_read_whole.
        let epoch = self.epoch.load(Ordering::Acquire);
        BreakerSettings { epoch, record: &self.records[Self::index(epoch)], state }
    }

    /// Returns whether these are still the settings in force.
    ///
    /// Call it after reading all inputs of a decision.
    #[inline]
    pub(super) fn is_current(&self, settings: &BreakerSettings<'_>) -> bool {
        // ORDERING: the Acquire fence pairs with the Release fence in `publish`: a thread that read any word that a changer wrote
        // into this epoch's record sees the later epoch here. loom-tests: breaker_settings::settings_are_read_whole.
        fence(Ordering::Acquire);
        self.epoch.load(Ordering::Relaxed) == settings.epoch
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
    pub(super) fn publish(&self, _: &Claim<'_>, words: RecordWords, now: u64) {
        // ORDERING: Relaxed: only the thread that holds the claim moves the epoch and stores records, and taking the claim was an
        // Acquire.
        let last = self.epoch.load(Ordering::Relaxed);
        let old = &self.records[Self::index(last)];
        let words = words.following(&old.window_of_any_kind(old.rates()), now);
        let epoch = (last & !(PUBLICATION - 1)).wrapping_add(PUBLICATION) | flags_of(&words);
        // ORDERING: the Release fence pairs with the Acquire fence in `is_current`: a thread that reads one of the words stored
        // below sees the epoch before this one there.
        fence(Ordering::Release);
        self.records[Self::index(epoch)].store(words);
        // ORDERING: Release publishes the record; pairs with the Acquire in `read`.
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Claims the right to change the settings, unless another thread has it.
    pub(super) fn claim(&self) -> Option<Claim<'_>> {
        Claim::of(&self.claimed)
    }

    /// Returns the index of the record in force.
    #[inline]
    const fn index(epoch: usize) -> usize {
        (epoch / PUBLICATION) & 1
    }
}

const fn flags_of(words: &RecordWords) -> usize {
    if !words.has_rates() {
        return 0;
    }
    RATED | (if words.is_timed() { TIMED } else { 0 }) | (if words.has_ring() { RING } else { 0 })
}
