//! The alignment of windows in time.

use super::Quota;
use crate::time::Clock;
use core::time::Duration;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// The most ticks between a [`Timeline`](super::Timeline)'s start and a reading of its clock.
const MOST_TICKS: u128 = (1 << 63) - 1;

/// The instants at which the windows of a window algorithm begin.
///
/// A limiter aligns its windows once, at its first use. From then on the limiter counts windows on its own clock. The
/// wall clock may drift away from that clock. If the window is not a whole number of the clock's ticks, the instants
/// are accurate to a tick.
///
/// A change of the window's length stretches or shortens the rest of the current window too. The next window begins at
/// the changed end of the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Alignment {
    /// The first window begins with the first use of the limiter. Reading its usage does not count as use.
    #[default]
    FirstRequest,
    /// Windows begin at multiples of their length after tick 0 of the limiter's clock.
    ClockOrigin,
    /// Windows begin at multiples of their length since the Unix epoch.
    ///
    /// So windows of a day begin at midnight UTC.
    ///
    /// The duration is the time from the epoch to tick 0 of the limiter's clock. The program has to know this time.
    OriginAt(Duration),
    /// Windows begin at multiples of their length since the Unix epoch, by the system's clock.
    ///
    /// So windows of a day begin at midnight UTC.
    #[cfg(feature = "std")]
    WallClock,
}

impl Alignment {
    /// Returns the tick at which the window containing `now` begins.
    pub(super) fn boundary(self, quota: &Quota, clock: &impl Clock, now: u64) -> u64 {
        let frequency = u128::from(clock.frequency());
        let window = u128::from(quota.window_nanos());
        if frequency == 0 || window == 0 {
            return now;
        }
        // All times here are ticks times 10^9, so that only the result is rounded. The length of a window is then below
        // 2^128, because its nanoseconds and the frequency are below 2^64 each. Times are reduced to remainders before
        // they are added, because the sum of the whole times may not fit.
        let window_ticks = window * frequency;
        let elapsed_by_clock = u128::from(now) * NANOS_PER_SECOND % window_ticks;
        let elapsed = match self {
            Self::FirstRequest => 0,
            Self::ClockOrigin => elapsed_by_clock,
            Self::OriginAt(origin) => {
                let elapsed_at_origin = origin.as_nanos() % window * frequency;
                let left = window_ticks - elapsed_at_origin;
                if elapsed_by_clock < left { elapsed_by_clock + elapsed_at_origin } else { elapsed_by_clock - left }
            }
            #[cfg(feature = "std")]
            Self::WallClock => {
                let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
                since.as_nanos() % window * frequency
            }
        };
        // Ticks are compared by their signed difference. So a window that began 2^63 ticks ago or earlier would seem to
        // begin in the future. Therefore such a window counts as begun 2^63 - 1 ticks ago.
        let ticks = (elapsed / NANOS_PER_SECOND).min(MOST_TICKS);
        now.wrapping_sub(ticks as u64)
    }
}
