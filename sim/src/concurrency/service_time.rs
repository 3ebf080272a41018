//! The duration of a call on an otherwise idle server.

use crate::random::Random;

/// A distribution of service times.
#[derive(Clone, Copy, Debug)]
pub struct ServiceTime {
    /// The mean, in seconds.
    pub mean: f64,
    /// The shape of the distribution.
    pub shape: Shape,
}

/// The shape of a distribution of service times.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Every call takes the mean.
    Constant,
    /// The exponential distribution.
    Exponential,
    /// A log-normal distribution with this deviation of the logarithm.
    LogNormal(f64),
    /// A share of the calls takes `ratio` times as long as the others.
    TwoModes {
        /// The share of slow calls.
        slow: f64,
        /// The time of a slow call relative to a fast one.
        ratio: f64,
    },
}

/// The quantiles in the tables.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// The standard normal distribution at these quantiles.
const NORMAL: [f64; 3] = [0.0, 1.281_551_565_544_600_4, 2.326_347_874_040_841];

impl ServiceTime {
    /// Creates a distribution.
    #[must_use]
    pub const fn new(shape: Shape, mean: f64) -> Self {
        Self { mean, shape }
    }

    /// Draws one service time, in seconds.
    pub fn draw(&self, random: &mut Random) -> f64 {
        match self.shape {
            Shape::Constant => self.mean,
            Shape::Exponential => random.exponential(self.mean),
            Shape::LogNormal(sigma) => (self.log_median(sigma) + sigma * random.normal()).exp(),
            Shape::TwoModes { slow, ratio } => {
                self.fast(slow, ratio) * if random.uniform() < slow { ratio } else { 1.0 }
            }
        }
    }

    /// Returns the [`QUANTILES`] in seconds: the latencies of an unloaded server.
    #[must_use]
    pub fn quantiles(&self) -> [f64; 3] {
        [0, 1, 2].map(|i| match self.shape {
            Shape::Constant => self.mean,
            Shape::Exponential => -self.mean * (1.0 - QUANTILES[i]).ln(),
            Shape::LogNormal(sigma) => (self.log_median(sigma) + sigma * NORMAL[i]).exp(),
            Shape::TwoModes { slow, ratio } => {
                self.fast(slow, ratio) * if QUANTILES[i] > 1.0 - slow { ratio } else { 1.0 }
            }
        })
    }

    fn log_median(&self, sigma: f64) -> f64 {
        self.mean.ln() - sigma * sigma / 2.0
    }

    fn fast(&self, slow: f64, ratio: f64) -> f64 {
        self.mean / (1.0 - slow + slow * ratio)
    }
}
