//! A slow model of `FastSeed`: it keeps every number, and computes from them by the definition.

use damper::time::Seed;
use std::hash::{BuildHasher, Hasher};

/// 2^61 - 1.
const PRIME: u128 = (1 << 61) - 1;
const DIGIT: u128 = 1 << 59;

#[derive(Clone, Debug)]
pub(crate) struct FastSeedModel {
    /// The ten words that SipHash-1-3 makes of the seed.
    words: [u64; 10],
    numbers: Vec<u128>,
}

impl FastSeedModel {
    pub(crate) fn new(first: u64, second: u64) -> Self {
        let seed = Seed::new(first, second);
        Self { words: std::array::from_fn(|index| seed.hash_one(index as u64)), numbers: Vec::new() }
    }

    fn wide(&self, index: usize) -> u128 {
        u128::from(self.words[index]) + (u128::from(self.words[index + 1]) << 64)
    }

    /// The digits of all numbers but the last, in base 2^59. Each but the last of a number is 2^59 more.
    pub(crate) fn digits(&self) -> Vec<u128> {
        let mut digits = Vec::new();
        for mut number in self.numbers.iter().rev().skip(1).rev().copied() {
            while number >= DIGIT {
                digits.push(number % DIGIT + DIGIT);
                number /= DIGIT;
            }
            digits.push(number);
        }
        digits
    }

    fn polynomial(&self) -> u128 {
        let point = u128::from(self.words[8] >> 4);
        let power = |exponent| (0..exponent).fold(1, |power, _| power * point % PRIME);
        let terms = self.digits().into_iter().rev().enumerate();
        terms.fold(0, |sum, (exponent, digit)| (sum + (digit + 1) * power(exponent) % PRIME) % PRIME)
    }
}

impl Hasher for FastSeedModel {
    fn finish(&self) -> u64 {
        let (last, polynomial) = match self.numbers.last() {
            Some(last) => (*last, self.polynomial()),
            None => (0, PRIME),
        };
        let sum = [(0, last % (1 << 64)), (2, 1), (4, last >> 64), (6, polynomial)]
            .into_iter()
            .fold(0u128, |sum, (index, factor)| sum.wrapping_add(product(self.wide(index), factor)));
        let mut hash = (sum >> 64) as u64;
        hash ^= hash >> 32;
        hash = product(hash.into(), (self.words[9] | 1).into()) as u64;
        hash ^ hash >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number * 256 + u128::from(*byte));
        let rest = bytes.len() % 7;
        let (words, rest) = bytes.split_at(bytes.len() - rest);
        self.numbers.extend(words.chunks(7).map(number));
        self.numbers.push(number(rest) + (rest.len() as u128 + 1) * (1 << 56));
    }

    fn write_u8(&mut self, number: u8) {
        self.numbers.push(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.numbers.push(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.numbers.push(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.numbers.push(number.into());
    }

    fn write_u128(&mut self, number: u128) {
        self.numbers.push(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.numbers.push(number as u128);
    }
}

/// Multiplies modulo 2^128, bit by bit.
fn product(one: u128, other: u128) -> u128 {
    (0..128).filter(|bit| one >> bit & 1 == 1).fold(0, |sum: u128, bit| sum.wrapping_add(other << bit))
}
