//! The latencies of recent calls, and a percentile of them.

use crate::sync::{AtomicU32, AtomicU64, IS_MODEL, Ordering};
use alloc::boxed::Box;
use core::array;

/// The number of slices of time, and the length of one in microseconds.
const SLICES: usize = 10;
const SLICE: u64 = 3_000_000;

/// How long a percentile is used before it is recomputed, in microseconds.
const REFRESH: u64 = 250_000;

/// The part of the calls that exceed the median, in millionths.
const HALF: u64 = 500_000;

/// The cells of an octave. Each is at most 5 % wide.
const CELLS_PER_OCTAVE: u64 = 20;

/// The octaves from a millisecond to more than an hour.
const OCTAVES: u64 = if IS_MODEL { 1 } else { 22 };
const SHORTEST: u64 = 1_000;

/// One more cell for shorter latencies, and one for longer ones.
const CELLS: usize = (CELLS_PER_OCTAVE * OCTAVES) as usize + 2;

/// The fewest calls for a percentile.
const FEWEST: u64 = if IS_MODEL { 3 } else { 200 };

/// A lock-free histogram of the latencies of the last 27 to 30 s.
///
/// Each call increments a cell of its slice of time.
///
/// A thread that is descheduled between finding its slice and incrementing may increment the slice that replaces it 30
/// s later. Latencies recorded while another thread clears a slice are dropped. Both affect single calls among
/// hundreds.
#[derive(Debug)]
pub(super) struct Latencies {
    slices: Box<[LatencySlice; SLICES]>,
    /// The last computed percentile, in microseconds, or 0 before the first.
    percentile: AtomicU64,
    /// The median computed with it.
    median: AtomicU64,
    /// The time of that computation: the clock's microseconds divided by `REFRESH`, plus 1.
    refreshed: AtomicU64,
}

#[derive(Debug)]
struct LatencySlice {
    /// The number of the slice of time, shifted left by one, and a bit that is set while it is cleared.
    epoch: AtomicU64,
    cells: [AtomicU32; CELLS],
}

const CLEARING: u64 = 1;

impl Latencies {
    pub(super) fn new() -> Self {
        // The epoch of an unused slice, which matches no time.
        let slice =
            |_| LatencySlice { epoch: AtomicU64::new(u64::MAX - 1), cells: array::from_fn(|_| AtomicU32::new(0)) };
        Self {
            slices: Box::new(array::from_fn(slice)),
            percentile: AtomicU64::new(0),
            median: AtomicU64::new(0),
            refreshed: AtomicU64::new(0),
        }
    }

    /// Records a latency at `now`, both in microseconds.
    pub(super) fn record(&self, now: u64, latency: u64) {
        let number = now / SLICE;
        let slice = &self.slices[(number % SLICES as u64) as usize];
        if slice.is_of(number) {
            // ORDERING: Relaxed, as the counter publishes nothing. loom-tests: hedge::every_latency_is_counted.
            slice.cells[cell_of(latency)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the latency that `exceeding` millionths of the calls exceed, in microseconds.
    ///
    /// It is rounded up to its cell, and 0 if there were too few calls.
    #[inline]
    pub(super) fn percentile(&self, now: u64, exceeding: u64) -> u64 {
        let due = now / REFRESH + 1;
        // ORDERING: Relaxed, here and below, as each number is a complete value and a stale one is harmless.
        let refreshed = self.refreshed.load(Ordering::Relaxed);
        if refreshed != due {
            self.refresh(now, exceeding, refreshed, due);
        }
        self.percentile.load(Ordering::Relaxed)
    }

    /// Computes the percentile and the median again, unless another thread does.
    #[cold]
    fn refresh(&self, now: u64, exceeding: u64, refreshed: u64, due: u64) {
        if self.refreshed.compare_exchange(refreshed, due, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let [percentile, median] = self.compute(now / SLICE, [exceeding, HALF]);
            self.percentile.store(percentile, Ordering::Relaxed);
            self.median.store(median, Ordering::Relaxed);
        }
    }

    /// Returns the median, in microseconds, when the percentile was last asked for.
    ///
    /// It is 0 if there were too few calls.
    pub(super) fn median(&self) -> u64 {
        self.median.load(Ordering::Relaxed)
    }

    fn compute<const N: usize>(&self, number: u64, exceeding: [u64; N]) -> [u64; N] {
        let is_recent = |slice: &&LatencySlice| {
            // ORDERING: Acquire pairs with the Release in `is_of`, which hides the counts from before the clearing.
            let epoch = slice.epoch.load(Ordering::Acquire);
            epoch & CLEARING == 0 && number.wrapping_sub(epoch >> 1) < SLICES as u64
        };
        let mut counts = [0u64; CELLS];
        for slice in self.slices.iter().filter(is_recent) {
            for (count, cell) in counts.iter_mut().zip(&slice.cells) {
                *count += u64::from(cell.load(Ordering::Relaxed));
            }
        }
        let calls: u64 = counts.iter().sum();
        if calls < FEWEST {
            return [0; N];
        }
        exceeding.map(|exceeding| {
            // The number of calls that may be longer, rounded down.
            let mut longer = calls * exceeding / 1_000_000;
            for (cell, count) in counts.iter().enumerate().rev() {
                match longer.checked_sub(*count) {
                    Some(left) => longer = left,
                    None => return upper_edge(cell),
                }
            }
            upper_edge(0)
        })
    }
}

impl LatencySlice {
    /// Whether this slice has the number, after clearing it if it is older.
    fn is_of(&self, number: u64) -> bool {
        // ORDERING: Acquire pairs with the Release below, so this thread's increment follows the clearing.
        let epoch = self.epoch.load(Ordering::Acquire);
        if epoch == number << 1 {
            return true;
        }
        // A slice far ahead is unused, or is from before the clock stepped back. A slice a little ahead belongs to a
        // thread whose clock is ahead.
        let ahead = (epoch >> 1).wrapping_sub(number) as i64;
        let is_older = ahead < 0 || ahead >= SLICES as i64;
        if epoch & CLEARING != 0 || !is_older {
            return false;
        }
        // ORDERING: Relaxed, as the Release below publishes the cleared cells. Only the thread that claims a slice
        // clears it.
        // loom-tests: hedge::old_latencies_are_cleared.
        let claimed = number << 1 | CLEARING;
        if self.epoch.compare_exchange(epoch, claimed, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        for cell in &self.cells {
            cell.store(0, Ordering::Relaxed);
        }
        // ORDERING: Release pairs with the Acquire in `compute`, and publishes the cleared cells.
        self.epoch.store(number << 1, Ordering::Release);
        true
    }
}

/// Returns the cell of a latency in microseconds.
const fn cell_of(latency: u64) -> usize {
    if latency < SHORTEST {
        return 0;
    }
    let octave = (latency / SHORTEST).ilog2() as u64;
    if octave >= OCTAVES {
        return CELLS - 1;
    }
    let start = SHORTEST << octave;
    (octave * CELLS_PER_OCTAVE + (latency - start) * CELLS_PER_OCTAVE / start) as usize + 1
}

/// Returns the shortest latency above a cell, in microseconds.
const fn upper_edge(cell: usize) -> u64 {
    let cell = cell as u64;
    let (octave, part) = (cell / CELLS_PER_OCTAVE, cell % CELLS_PER_OCTAVE);
    let start = SHORTEST << octave;
    start + (start * part).div_ceil(CELLS_PER_OCTAVE)
}

#[cfg(test)]
mod tests {
    use super::{CELLS, SHORTEST, cell_of, upper_edge};

    /// Every latency is below its cell's upper edge, by at most 5 %.
    #[test]
    fn cells_are_narrow() {
        let mut latency = SHORTEST;
        while cell_of(latency) < CELLS - 1 {
            let edge = upper_edge(cell_of(latency));
            assert!(latency < edge && (edge - latency) * 20 <= latency, "{latency} in a cell up to {edge}");
            assert_eq!(cell_of(edge), cell_of(latency) + 1);
            latency += latency / 997 + 1;
        }
        assert_eq!((cell_of(0), cell_of(SHORTEST - 1), upper_edge(0), cell_of(u64::MAX)), (0, 0, SHORTEST, CELLS - 1));
    }
}
