//! A record that one thread replaces while others read it.
//!
//! It works like a seqlock whose readers never wait. A reader loads the epoch and the record that the epoch selects,
//! and whatever else its decision needs. Then it loads the epoch again, and starts over if that has changed. A changer
//! writes the idle record and then moves the epoch. So each validated read is of one whole record. A second changer is
//! refused as busy. A changer that stops anywhere blocks only later changers.
//!
//! ```text
//!  63     62    6 5     0
//! | MARK | COUNT | MARKS |
//! ```
//!
//! COUNT is the number of publications; its lowest bit selects the record. The marks describe the record, so that a fast
//! path can choose its way by the epoch alone. On 32 bits COUNT has 25 bits: a thread that is stopped in the middle of a
//! decision for exactly 2^25 publications mistakes the new record for its own.

use super::{AtomicBool, Claim, Epoch, Ordering, const_unless_loom, fence};

/// The mark in the highest bit, which makes an epoch negative as a signed number.
pub(crate) const HIGHEST_MARK: usize = 1 << (usize::BITS - 1);

/// The increment of epochs.
///
/// It is the size of a record, so that an epoch yields its record without a multiplication.
const PUBLICATION: usize = 64;

/// All bits that are marks.
const MARKS: usize = HIGHEST_MARK | (PUBLICATION - 1);

/// A record, and its less needed rest, that change while other threads read them.
///
/// The rests stand apart so that the two records share few cache lines.
#[derive(Debug)]
pub(crate) struct Published<R, S = ()> {
    epoch: Epoch,
    /// Whether a thread is publishing.
    claimed: AtomicBool,
    records: [R; 2],
    rests: [S; 2],
}

impl<R, S> Published<R, S> {
    const_unless_loom! {
        /// Creates it with the epoch 0, except for its `marks`, which selects the first record.
        pub(crate) const fn new(marks: usize, records: [R; 2], rests: [S; 2]) -> Self {
            Self { epoch: Epoch::new(marks), claimed: AtomicBool::new(false), records, rests }
        }
    }

    /// Loads the epoch. Its record counts if [`is_current`](Self::is_current) confirms the epoch afterwards.
    #[inline]
    pub(crate) fn epoch(&self) -> usize {
        // ORDERING: Acquire pairs with the Release in `publish`: a thread that sees the epoch sees its record.
        // loom-tests: bucket::first_users_agree_on_the_line, live_quota::record_is_read_whole,
        // breaker_settings::settings_are_read_whole.
        self.epoch.load(Ordering::Acquire)
    }

    /// Loads the epoch for its marks, or for a holder of the claim, without making its record visible.
    #[inline]
    pub(crate) fn unordered_epoch(&self) -> usize {
        // ORDERING: Relaxed: no record is read by it, except by the thread with the claim. Only that thread moves the epoch
        // and stores records, and taking the claim was an Acquire.
        self.epoch.load(Ordering::Relaxed)
    }

    /// Returns whether this is still the epoch. Call it after reading all inputs of a decision.
    #[inline]
    pub(crate) fn is_current(&self, epoch: usize) -> bool {
        // ORDERING: the Acquire fence pairs with the Release fence in `publish`: a thread that read any word that a changer
        // wrote into this epoch's record sees the later epoch here. It also pairs with the Release that the word of a
        // limiter is swapped with, so that a thread that read a word of a later epoch sees that epoch. loom-tests:
        // live_quota::record_is_read_whole, live_quota::old_record_keeps_legal_debt,
        // breaker_settings::settings_are_read_whole.
        fence(Ordering::Acquire);
        self.epoch.load(Ordering::Relaxed) == epoch
    }

    /// Claims the right to publish, unless another thread has it.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        Claim::of(&self.claimed)
    }

    /// Stores a record by `store` and puts it in force, in an epoch with `marks`, which it returns.
    ///
    /// The caller holds the [claim](Self::claim).
    pub(crate) fn publish(&self, _: &Claim<'_>, marks: usize, store: impl FnOnce(&R, &S)) -> usize {
        let epoch = self.unordered_epoch().wrapping_add(PUBLICATION) & !MARKS | marks;
        // ORDERING: the Release fence pairs with the Acquire fence in `is_current`: a thread that reads one of the words
        // stored below sees the epoch before this one there.
        fence(Ordering::Release);
        store(self.record(epoch), self.rest(epoch));
        // ORDERING: Release publishes the record; pairs with the Acquire in `epoch`.
        self.epoch.store(epoch, Ordering::Release);
        epoch
    }

    /// Returns the record that an epoch selects.
    #[inline]
    pub(crate) const fn record(&self, epoch: usize) -> &R {
        &self.records[Self::index(epoch)]
    }

    /// Returns the rest of the record that an epoch selects.
    #[inline]
    pub(crate) const fn rest(&self, epoch: usize) -> &S {
        &self.rests[Self::index(epoch)]
    }

    #[inline]
    const fn index(epoch: usize) -> usize {
        (epoch / PUBLICATION) & 1
    }
}
