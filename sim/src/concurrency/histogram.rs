//! A histogram of latencies in cells of 1.6 %.

/// The cells per octave, as a power of two: the number of bits of the mantissa.
const BITS: u32 = 6;
const OCTAVES: u64 = 32;
/// The exponent of the lowest octave, 2^-12.
const LOWEST: u64 = (1023 - 12) << BITS;
const CELLS: usize = (OCTAVES << BITS) as usize;

/// Counts positive numbers from 2^-12 to 2^20. Others count in the nearest cell.
#[derive(Clone, Debug)]
pub struct Histogram {
    cells: Vec<u32>,
    count: u64,
}

impl Histogram {
    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self { cells: vec![0; CELLS], count: 0 }
    }

    /// Counts a number.
    pub fn add(&mut self, value: f64) {
        // The upper bits of a positive float are its exponent and the leading bits of its mantissa.
        let cell = (value.to_bits() >> (52 - BITS)).saturating_sub(LOWEST) as usize;
        self.cells[cell.min(CELLS - 1)] += 1;
        self.count += 1;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (cell, count) in self.cells.iter_mut().zip(&other.cells) {
            *cell += count;
        }
        self.count += other.count;
    }

    /// Returns how many numbers were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number below which this share lies, to within its cell.
    ///
    /// It is NaN if nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let mut below = share * self.count as f64;
        for (cell, &count) in self.cells.iter().enumerate() {
            let count = f64::from(count);
            if count > 0.0 && below <= count {
                let edge = |cell: u64| f64::from_bits((LOWEST + cell) << (52 - BITS));
                let (from, to) = (edge(cell as u64), edge(cell as u64 + 1));
                return from + (to - from) * below / count;
            }
            below -= count;
        }
        f64::NAN
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}
