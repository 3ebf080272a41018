//! The fixed window: a count that starts anew with every window.
//!
//! ```text
//!  63          32 31     0
//! | WINDOW NUMBER | COUNT |
//! ```
//!
//! | field | bits | unit | |
//! |---|---|---|---|
//! | COUNT | 32 | tokens | taken in that window |
//! | WINDOW NUMBER | 32 | windows | of the quota's line; wraps, see `standing` |

use super::algorithm::{Algorithm, Taken, sealed};
use super::one_word::OneWord;
use super::per_key::LEVEL_BITS;
use super::standing::Standing;
use super::windows::{self, Windowed, part_of};
use super::{Allowed, Denied, Usage};
use crate::quota::{Alignment, Measure, Quota, SetQuotaError, Timeline};
use crate::sync::{Field, const_unless_loom};
use crate::time::{Clock, Ticks};

/// Of a word, and of what the keyed table keeps of one.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    count: Field,
    number: Field,
}

impl Layout {
    const fn of_bits(bits: u32) -> Self {
        let count = Field::lowest(32);
        Self { count, number: count.then(bits - 32) }
    }
}

const WORD: Layout = Layout::of_bits(u64::BITS);

/// The fixed window: at most the quota's limit in each of its windows, which follow one another without a gap.
///
/// What people know best and what costs least to explain, with a flaw that is inherent: the limit at the end of one
/// window and again at the beginning of the next are twice the limit in next to no time. A
/// [`SlidingCounter`](super::SlidingCounter) or a [`TokenBucket`](super::TokenBucket) has no such bursts.
///
/// What counts is the quota's limit; its burst means nothing here, and "more than the burst" is said of a call that
/// asks for more than the limit. Where windows begin is chosen with [`aligned_to`](FixedWindow::aligned_to).
/// `resets_in` is the time until the window ends, or zero while nothing is taken.
///
/// Beside the quota its whole state is one word of 8 bytes: 32 bits for the number of the window, and 32 for the count.
/// The number wraps: a limiter that nobody used for 2^31 windows or more may for two windows count what was taken then.
/// A clock that steps back by more than it should opens no window a second time; it locks nobody out for longer than
/// two windows. A change of the quota keeps the count, and the window that is under way ends sooner or later as the new
/// windows are shorter or longer.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::{Alignment, FixedWindow, ManualClock, Quota, RateLimiter};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(59));
/// let windows = FixedWindow::new(Quota::per_minute(100)).aligned_to(Alignment::ClockOrigin);
/// let limiter = RateLimiter::with_algorithm(windows, &clock);
/// assert!(limiter.check_n(100).is_ok());
/// assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_secs(1)));
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check_n(100).is_ok(), "200 in a second: the burst at a boundary");
/// ```
#[derive(Debug)]
pub struct FixedWindow(OneWord);

#[derive(Clone, Copy)]
pub(super) struct View {
    standing: Standing,
    count: u64,
}

impl windows::Layout for Layout {
    type View = View;

    #[inline]
    fn number(self) -> Field {
        self.number
    }

    #[inline]
    fn current(self) -> Field {
        self.count
    }

    #[inline]
    fn view(self, line: &Timeline, word: u64, at: u64, clock: &impl Clock) -> View {
        let standing = Standing::of(line, at, self.number.get(word), self.number, clock);
        View { standing, count: if standing.passed == 0 { self.count.get(word) } else { 0 } }
    }

    #[inline]
    fn put(self, view: &View) -> u64 {
        self.number.put(view.standing.number) | self.count.put(view.count)
    }
}

impl windows::View for View {
    #[inline]
    fn standing(&self) -> Standing {
        self.standing
    }

    #[inline]
    fn and(self, n: u32) -> Self {
        Self { count: self.count + u64::from(n), ..self }
    }

    #[inline]
    fn left(&self, line: &Timeline) -> u32 {
        line.limit().saturating_sub(self.count as u32)
    }

    #[inline]
    fn resets_in(&self, line: &Timeline) -> Ticks {
        if self.count == 0 { Ticks::ZERO } else { line.wait(self.standing.ends_in) }
    }

    #[inline]
    fn wait(&self, line: &Timeline, _: u32) -> Ticks {
        line.wait(self.standing.ends_in)
    }
}

impl FixedWindow {
    const_unless_loom! {
        /// Nothing is taken yet; the first window begins with the first use.
        #[must_use]
        pub const fn new(quota: Quota) -> Self {
            Self(OneWord::new(quota, Measure::Windows(Alignment::FirstRequest), 0))
        }

        /// Sets where windows begin. Default: with the first use.
        #[must_use]
        pub const fn aligned_to(self, alignment: Alignment) -> Self {
            Self(self.0.measured_in(Measure::Windows(alignment)))
        }
    }
}

impl sealed::Sealed for FixedWindow {}

impl Algorithm for FixedWindow {
    #[inline]
    fn take_revocably(&self, n: u32, clock: &impl Clock) -> Result<(Allowed, Taken), Denied> {
        windows::check(&self.0, WORD, n, clock)
    }

    fn roll_back(&self, n: u32, taken: Taken, clock: &impl Clock) {
        windows::roll_back(&self.0, WORD, n, taken, clock);
    }

    fn refusal(&self, n: u32, clock: &impl Clock) -> Option<Denied> {
        windows::refusal(&self.0, WORD, n, clock)
    }

    fn usage(&self, clock: &impl Clock) -> Usage {
        windows::usage(&self.0, WORD, clock)
    }

    fn quota(&self) -> Quota {
        self.0.quota().quota()
    }

    fn set_quota(&self, quota: Quota, clock: &impl Clock) -> Result<(), SetQuotaError> {
        self.0.quota().set(quota, clock)
    }
}

impl Windowed for FixedWindow {
    type Layout = Layout;

    const LEVEL: Layout = Layout::of_bits(LEVEL_BITS);

    const LARGEST_LIMIT: u32 = u32::MAX - 1;

    const COUNTS_FOR: u64 = 1;

    fn weight(view: &View, line: &Timeline) -> u64 {
        part_of(view.standing.ends_in, view.count, line.limit())
    }
}
