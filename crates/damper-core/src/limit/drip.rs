//! What refunds add to a line: the drip.
//!
//! A refund moves the line of tokens forward instead of the word back. So waiters come earlier, a newcomer sees it too,
//! and nobody overtakes. The position at a reading of the clock is `line(now) + offset`; the offset only grows.
//!
//! - A decision reads the word, then the clock, then the offset. With an offset older than the word, a legal debt would
//!   look like one from before a clock stepped back, and be healed. With one older than the reading of the clock,
//!   refunds from before that reading would widen the envelope.
//! - A refund reads the offset, then the word, then the clock, and swaps the offset if it is still the same. It adds no
//!   more than the distance from the position to the word, so that no bucket is filled beyond full.
//! - A roll-back lowers the word, and measures what was repaid since on the line without the offset: a refund between
//!   the two repaid other tokens.
//! - The line bends without the offset when the quota changes.
//!
//! In any interval the tokens taken are at most the burst, what the line brings, and what was refunded between the
//! first call's reading of the clock and the last one's reading of the offset.

use crate::sync::{AtomicU64, Ordering, const_unless_loom};

/// What moves a line forward besides time.
pub(super) trait Lead {
    /// How far ahead of its clock the line is, in units. Read after the Acquire fence of `LiveQuota::is_current`.
    fn offset(&self) -> u64;
}

/// Nothing: the line of an algorithm without refunds.
impl Lead for () {
    #[inline]
    fn offset(&self) -> u64 {
        0
    }
}

/// What all refunds added, in units; wraps as positions do.
#[derive(Debug)]
pub(super) struct Drip {
    offset: AtomicU64,
}

impl Drip {
    const_unless_loom! {
        pub(super) const fn new() -> Self {
            Self { offset: AtomicU64::new(0) }
        }
    }

    /// The offset that a refund starts from, read before the word.
    pub(super) fn before_refund(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `advance`: a refund that sees the offset of another also sees the
        // word which that one saw, and does not take the difference for a full bucket. loom-tests:
        // bucket::refunds_lose_no_token.
        self.offset.load(Ordering::Acquire)
    }

    /// Adds `units` to the offset if it is still `old`.
    pub(super) fn advance(&self, old: u64, units: u64) -> bool {
        // ORDERING: Release pairs with the Acquire in `before_refund`. Relaxed on failure: the value is dropped.
        // loom-tests: bucket::refunds_fill_no_bucket_twice, bucket::refunds_lose_no_token.
        self.offset.compare_exchange_weak(old, old.wrapping_add(units), Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

impl Lead for Drip {
    #[inline]
    fn offset(&self) -> u64 {
        // ORDERING: Relaxed, because the Acquire fence in `is_current` comes between the word and this. It pairs with
        // the Release of `OneWord::replace`: whoever reads a word sees no older offset than the thread that wrote it.
        // loom-tests: bucket::an_old_offset_heals_nothing.
        self.offset.load(Ordering::Relaxed)
    }
}
