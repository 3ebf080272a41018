//! Limiters whose decisions are logged.

use super::DecisionLog;
use crate::gate::Forecast;
use crate::keyed::KeyedLimiter;
use crate::limit::{Algorithm, Allowed, Denied, KeyedAlgorithm, Limiter, RateLimiter, Usage};
use crate::sync::const_unless_loom;
use crate::time::Clock;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::ops::Deref;

/// A limiter whose decisions are written into a [`DecisionLog`].
///
/// Its answers are the limiter's. `G` is a pointer to the log: a reference to a `static`, or an `Arc`. The limiter is used through this
/// one for decisions, and directly for everything else. Waits, reservations and charges are not logged.
///
/// The time of an entry is read from the log's clock, right after the decision.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use damper::decision_log::{DecisionLog, Logged};
/// use damper::{Quota, RateLimiter};
///
/// static LOG: DecisionLog = DecisionLog::new(65_536);
/// static LOGINS: Logged<RateLimiter> = Logged::new(RateLimiter::new(Quota::per_minute(30).burst(5)), &LOG);
///
/// match LOGINS.check() {
///     Ok(allowed) => println!("{} left", allowed.remaining()),
///     Err(denied) => println!("{denied}"),
/// }
/// assert_eq!(LOG.written(), 1);
/// # }
/// ```
pub struct Logged<L, G = &'static DecisionLog> {
    limiter: L,
    log: G,
}

impl<L, G> Logged<L, G> {
    const_unless_loom! {
        /// Creates a limiter that decides as `limiter` does, and writes every decision into `log`.
        #[must_use]
        pub const fn new(limiter: L, log: G) -> Self {
            Self { limiter, log }
        }
    }

    /// The limiter. Decisions on it are not logged.
    #[must_use]
    pub const fn limiter(&self) -> &L {
        &self.limiter
    }

    /// The pointer to the log.
    #[must_use]
    pub const fn log(&self) -> &G {
        &self.log
    }
}

impl<A: Algorithm, C: Clock, D: Clock, G: Deref<Target = DecisionLog<D>>> Logged<RateLimiter<A, C>, G> {
    /// Takes one token if there is one, as [`RateLimiter::check`] does.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter.
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `n` tokens if all of them are there, as [`RateLimiter::check_n`] does.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter.
    #[inline]
    pub fn check_n(&self, n: u32) -> Result<Allowed, Denied> {
        let answer = self.limiter.check_n(n);
        self.log.record(0, n, &answer);
        answer
    }
}

impl<L: Limiter, D: Clock, G: Deref<Target = DecisionLog<D>>> Limiter for Logged<L, G> {
    #[inline]
    fn try_acquire(&self, n: u32) -> Result<(), Denied> {
        let answer = self.limiter.try_acquire(n);
        self.log.record(0, n, &answer);
        answer
    }

    #[inline]
    fn usage(&self) -> Usage {
        self.limiter.usage()
    }

    fn forecast(&self, n: u32) -> Forecast<Denied> {
        self.limiter.forecast(n)
    }
}

impl<K, C, S, A, D, G> Logged<KeyedLimiter<K, C, S, A>, G>
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
    D: Clock,
    G: Deref<Target = DecisionLog<D>>,
{
    /// Takes one token of this key's bucket if there is one, as [`KeyedLimiter::check`] does.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter.
    #[inline]
    pub fn check(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `n` tokens of this key's bucket if all of them are there, as [`KeyedLimiter::check_n`] does.
    ///
    /// The key is hashed once, for the limiter and the log.
    ///
    /// # Errors
    ///
    /// [`Denied`] by the limiter.
    #[inline]
    pub fn check_n(&self, key: &K, n: u32) -> Result<Allowed, Denied> {
        self.limiter.check_logged(key, n, &self.log)
    }
}

/// Clones of a pointer to a limiter share the limiter.
impl<L: Clone, G: Clone> Clone for Logged<L, G> {
    fn clone(&self) -> Self {
        Self { limiter: self.limiter.clone(), log: self.log.clone() }
    }
}

impl<L: fmt::Debug, G> fmt::Debug for Logged<L, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logged").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
