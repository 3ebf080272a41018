//! Chance that is the same for every server of a round.

/// The generator `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from 0 to 1, without 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        f64::from((self.next() >> 32) as u32) / 4_294_967_296.0
    }

    /// Exponentially, with this mean: the time between two arrivals that know nothing of each other.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }

    /// One of so many.
    pub(crate) fn below(&mut self, count: u32) -> u32 {
        (self.fraction() * f64::from(count)) as u32
    }
}
