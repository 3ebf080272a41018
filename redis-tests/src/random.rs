//! Numbers by chance, the same for the same seed.

/// A generator of numbers from a seed: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// A number of at most 48 bits, of any order of magnitude.
    pub fn bits(&mut self) -> u64 {
        let bits = self.below(49);
        self.below(1 << bits)
    }

    /// Whether one of so many chances came.
    pub fn once_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
