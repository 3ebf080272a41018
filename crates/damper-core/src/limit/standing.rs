//! Where a clock's reading stands to the window that a word counts.
//!
//! The number of a window is the whole part of a position on a line of windows, cut off to the bits that the word has
//! for it (or that the position has): numbers wrap, and which of two is later is told by their signed difference.
//!
//! | the reading lies | window that counts | why |
//! |---|---|---|
//! | in the word's window | that | |
//! | in a later one | the reading's, and the word's is so many windows past | |
//! | in an earlier one | the word's | a clock that lags behind another thread's opens no second window for the same time |
//! | in an earlier one, with more than a whole window between, and more than the clock may step back | the one after the reading's, with what the word counts | the clock stepped back, or nobody looked for half a circle of the numbers |
//!
//! The last is sound because it opens no window: what is counted stays, and the next window opens only after more than
//! a whole window of forward motion. (To put the count into the reading's own window would allow it twice to a clock
//! that steps back and forth over the end of it.) And it locks nobody out for longer than two windows.

use crate::quota::Timeline;
use crate::sync::{Field, signed};
use crate::time::Clock;

/// Which window counts at a reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Its number, in the bits of the field.
    pub(super) number: u64,
    /// How many windows it comes after the word's; 0 where the word's count is to be continued.
    pub(super) passed: u64,
    /// From the reading to its end; more than a window where it has yet to begin.
    pub(super) ends_in: u64,
}

impl Standing {
    /// That of a reading at the position `at` to a word which counts the window `number`, stored in `field`.
    #[inline]
    pub(super) fn of(line: &Timeline, at: u64, number: u64, field: Field, clock: &impl Clock) -> Self {
        let window = line.window();
        let here = at >> line.fraction_bits();
        let rest = window - (at & (window - 1));
        // At least 4 bits, because there are at most 60 of the fraction.
        let bits = field.bits().min(u64::BITS - line.fraction_bits());
        let passed = signed(here.wrapping_sub(number), bits);
        if passed >= 0 {
            return Self { number: here & field.max(), passed: passed as u64, ends_in: rest };
        }
        // At most half a circle of 2^64 units, and a window of at most 2^60.
        let begins_in = rest + (passed.unsigned_abs() - 1) * window;
        if passed < -1 && line.is_beyond_next_window(begins_in, clock) {
            return Self { number: here.wrapping_add(1) & field.max(), passed: 0, ends_in: rest + window };
        }
        Self { number, passed: 0, ends_in: begins_in + window }
    }
}
