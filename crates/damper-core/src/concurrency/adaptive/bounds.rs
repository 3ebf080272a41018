//! The bounds of an adaptive limit.

use crate::out_of_range::{OutOfRange, check};

/// The bounds of an adaptive limit, and where it starts.
///
/// Rules measure the unloaded service below the lowest limit if they have to, for some hundred calls.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::concurrency::LimitBounds;
///
/// let bounds = LimitBounds::new(5, 400)?.starting_at(50)?;
/// assert_eq!((bounds.min(), bounds.max(), bounds.start()), (5, 400, 50));
/// assert_eq!(LimitBounds::new(0, 400).unwrap_err().to_string(), "min is 0, it must be 1 to 1000000");
/// # Ok::<(), damper::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LimitBounds {
    min: u32,
    max: u32,
    start: u32,
}

impl LimitBounds {
    /// The limit is from 1 to 1,000,000 and starts at 20.
    pub const DEFAULT: Self = Self { min: 1, max: Self::HIGHEST, start: Self::START };

    /// The highest possible limit.
    pub const HIGHEST: u32 = 1_000_000;

    /// The default start of a limit, if its bounds allow it.
    ///
    /// High enough that a window of calls ends soon, low enough for most services.
    const START: u32 = 20;

    /// Returns the bounds from `min` to `max`, starting at 20 or at the nearest bound.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`], unless 1 ≤ `min` ≤ `max` ≤ 1,000,000.
    pub const fn new(min: u32, max: u32) -> Result<Self, OutOfRange> {
        check!(check_count("min", min as u64, 1..=Self::HIGHEST as u64));
        check!(check_count("max", max as u64, min as u64..=Self::HIGHEST as u64), "(at least the lowest limit)");
        let start = if Self::START < min {
            min
        } else if Self::START > max {
            max
        } else {
            Self::START
        };
        Ok(Self { min, max, start })
    }

    /// Sets where the limit starts.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] if that is out of the bounds.
    pub const fn starting_at(mut self, start: u32) -> Result<Self, OutOfRange> {
        check!(check_count("start", start as u64, self.min as u64..=self.max as u64), "(the bounds)");
        self.start = start;
        Ok(self)
    }

    /// Returns the lowest limit.
    #[must_use]
    pub const fn min(&self) -> u32 {
        self.min
    }

    /// Returns the highest limit.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// Returns the limit to start with.
    #[must_use]
    pub const fn start(&self) -> u32 {
        self.start
    }

    /// Moves a limit into the bounds.
    pub(in crate::concurrency) const fn hold(&self, limit: f64) -> f64 {
        limit.clamp(self.min as f64, self.max as f64)
    }
}

impl Default for LimitBounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}
