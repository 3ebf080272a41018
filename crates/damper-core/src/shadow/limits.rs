//! Limiters in shadow mode, with keys and without.

use super::Shadowed;
use crate::gate::Forecast;
use crate::keyed::KeyedLimiter;
use crate::limit::{Algorithm, Allowed, Denied, KeyedAlgorithm, Limiter, RateLimiter, Usage};
use crate::time::Clock;
use core::hash::{BuildHasher, Hash};

impl<A: Algorithm, C: Clock, S: Limiter> Shadowed<RateLimiter<A, C>, S> {
    /// Takes one token of the limiter in force if there is one, as [`RateLimiter::check`] does.
    ///
    /// The candidate decides beside it.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter in force.
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens of the limiter in force, as [`RateLimiter::check_n`] does.
    ///
    /// The candidate decides beside it.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter in force.
    #[inline]
    pub fn check_n(&self, n: u32) -> Result<Allowed, Denied> {
        let answer = self.in_force.check_n(n);
        self.counts.record(&answer, &self.candidate.try_acquire(n));
        answer
    }
}

impl<L: Limiter, S: Limiter> Limiter for Shadowed<L, S> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        let answer = self.in_force.try_acquire(n);
        self.counts.record(&answer, &self.candidate.try_acquire(n));
        answer
    }

    /// Returns how much of the limit in force is used.
    #[inline]
    fn usage(&self) -> Usage {
        self.in_force.usage()
    }

    fn forecast(&self, n: u32) -> Forecast<Denied> {
        self.in_force.forecast(n)
    }
}

impl<K, C, H, A, D, I, B> Shadowed<KeyedLimiter<K, C, H, A>, KeyedLimiter<K, D, I, B>>
where
    K: Hash + ?Sized,
    C: Clock,
    H: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    I: BuildHasher,
    B: KeyedAlgorithm,
{
    /// Takes one token of this key's bucket in force, as [`KeyedLimiter::check`] does.
    ///
    /// The candidate decides beside it.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter in force.
    #[inline]
    pub fn check(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens of this key's bucket in force, as [`KeyedLimiter::check_n`] does.
    ///
    /// The candidate decides beside it.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter in force.
    #[inline]
    pub fn check_n(&self, key: &K, n: u32) -> Result<Allowed, Denied> {
        let answer = self.in_force.check_n(key, n);
        self.counts.record(&answer, &self.candidate.check_n(key, n));
        answer
    }
}
