//! A small random number generator: the same seed gives the same run on every day.

/// xoshiro256++ of Blackman and Vigna, seeded by their `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
    /// The polar method makes two normal numbers at a time.
    spare: Option<f64>,
}

impl Random {
    /// Creates the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mixed = seed;
        let state = [(); 4].map(|()| {
            mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Self { state, spare: None }
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Returns a number between 0 and 1, both excluded.
    pub fn uniform(&mut self) -> f64 {
        // 53 bits fill the mantissa; the half keeps 0 out, whose logarithm is infinite.
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns an exponentially distributed number.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// Returns a normally distributed number of mean 0 and deviation 1, by Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}
