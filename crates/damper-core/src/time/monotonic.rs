//! The processor's own counter, through quanta.

use super::{Clock, Frequency};
use std::sync::OnceLock;

/// The processor's counter where it is invariant, else the system's monotonic clock.
///
/// The counter is read without a system call.
///
/// Takes no room and is the default clock with the feature `std`.
///
/// The first use in a process calibrates the counter against the system's clock, which takes up to 200 ms and which
/// other first users wait for; [`Monotonic::calibrate`] does it at a moment of your choosing. It is never calibrated
/// again, so over days it drifts from the system's clock as the counter does (parts per million).
#[derive(Clone, Copy, Debug, Default)]
#[cfg(feature = "std")]
pub struct Monotonic;

impl Monotonic {
    /// Calibrates the counter now, which takes up to 200 ms.
    ///
    /// The first check would otherwise take that time.
    pub fn calibrate() {
        source();
    }
}

/// quanta has no frequency, only how many nanoseconds a number of ticks are.
///
/// So many ticks take minutes, and the nanosecond that the answer is rounded to is 10^-11 of them.
const SPAN: u64 = 1 << 40;

/// quanta's clock and its frequency, which are the same for the whole process.
static SOURCE: OnceLock<(quanta::Clock, u64)> = OnceLock::new();

#[inline]
fn source() -> &'static (quanta::Clock, u64) {
    SOURCE.get_or_init(|| {
        let clock = quanta::Clock::new();
        let nanos = u128::from(clock.delta_as_nanos(0, SPAN)).max(1);
        let frequency = (u128::from(SPAN) * 1_000_000_000 + nanos / 2) / nanos;
        // To the bits that travel with an answer, so that waits are exact. The calibration is no better than that.
        (clock, Frequency::nearest(frequency as u64).hertz())
    })
}

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> u64 {
        source().0.raw()
    }

    #[inline]
    fn frequency(&self) -> u64 {
        source().1
    }

    /// 1 ms: counters of different sockets were seen to differ by microseconds.
    #[inline]
    fn max_step_back(&self) -> u64 {
        source().1 / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Monotonic};
    use core::time::Duration;
    use std::time::Instant;

    #[test]
    fn frequency_agrees_with_the_systems_clock() {
        Monotonic::calibrate();
        let (instant, ticks) = (Instant::now(), Monotonic.now());
        std::thread::sleep(Duration::from_millis(50));
        let (elapsed, ticks) = (instant.elapsed().as_nanos(), Monotonic.now() - ticks);
        let by_ticks = u128::from(ticks) * 1_000_000_000 / u128::from(Monotonic.frequency());
        // A thread that is stopped between the two readings shifts them against one another, by less than this.
        assert!(by_ticks.abs_diff(elapsed) < elapsed / 4, "{by_ticks} ns by ticks, {elapsed} ns by the system");
    }
}
