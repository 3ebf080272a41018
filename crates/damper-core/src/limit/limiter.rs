//! [`Limiter`], the trait of all limiters without keys.

use super::{Denied, Usage};
use crate::gate::Forecast;

/// Decides on tokens at once, without a key.
///
/// All limiters of damper without keys implement this trait, and so do sets of limits. Limiters of your own can
/// implement it too.
///
/// Take `impl Limiter` in code that works with any limiter, or keep a `Box<dyn Limiter + Send + Sync>` if the limiter
/// is chosen at run time. References, `Box`es and `Arc`s of limiters are limiters.
///
/// This trait has the operations that all limiters support. The limiters also have methods of their own that return
/// more. For example, [`check`](crate::RateLimiter::check) also returns how many tokens remain, and a
/// [`LimitSet`](crate::LimitSet) says which of its limits refused. The trait's methods have other names than these, so
/// importing the trait does not change the meaning of a call of `check`.
///
/// # Implementing
///
/// `try_acquire` takes all of `n` tokens or none, and never waits. An `n` of 0 is always allowed. Any thread may call it.
/// [`Denied::after`] makes a refusal.
///
/// # Examples
///
/// Middleware that works with any limiter:
///
/// ```
/// # extern crate damper_core as damper;
/// use damper::{Denied, LimitSet, Limiter, ManualClock, Quota, RateLimiter};
///
/// struct Uploads<L> {
///     bytes: L,
/// }
///
/// impl<L: Limiter> Uploads<L> {
///     fn accept(&self, file: &[u8]) -> Result<(), Denied> {
///         self.bytes.try_acquire(u32::try_from(file.len()).unwrap_or(u32::MAX))
///         // then store it
///     }
/// }
///
/// let clock = ManualClock::new();
/// let bytes = RateLimiter::with_clock(Quota::per_second(1_000), &clock);
/// assert!(Uploads { bytes: &bytes }.accept(&[0; 900]).is_ok());
///
/// let bytes = LimitSet::with_clock([Quota::per_second(1_000), Quota::per_hour(50_000)], &clock);
/// assert!(Uploads { bytes }.accept(&[0; 1_001]).is_err());
/// ```
///
/// A limiter that is chosen at run time:
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "alloc")] {
/// use damper::{Limiter, ManualClock, Quota, RateLimiter, SlidingLog};
///
/// fn limiter(algorithm: &str, quota: Quota) -> Result<Box<dyn Limiter + Send + Sync>, Box<dyn std::error::Error>> {
///     let clock = ManualClock::new();
///     Ok(match algorithm {
///         "bucket" => Box::new(RateLimiter::with_clock(quota, clock)),
///         "log" => Box::new(RateLimiter::with_algorithm(SlidingLog::new(quota)?, clock)),
///         _ => return Err("the algorithm must be bucket or log".into()),
///     })
/// }
///
/// let limiter = limiter("log", Quota::per_minute(2))?;
/// assert!(limiter.try_acquire(2).is_ok());
/// assert_eq!(limiter.usage().remaining(), 0);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A limiter of your own around another one, which counts refusals:
///
/// ```
/// # extern crate damper_core as damper;
/// use core::sync::atomic::{AtomicUsize, Ordering};
/// use damper::{Denied, Limiter, ManualClock, Quota, RateLimiter, Usage};
///
/// struct Counted<L> {
///     limiter: L,
///     refused: AtomicUsize,
/// }
///
/// impl<L: Limiter> Limiter for Counted<L> {
///     fn try_acquire(&self, n: u32) -> Result<(), Denied> {
///         self.limiter.try_acquire(n).inspect_err(|_| _ = self.refused.fetch_add(1, Ordering::Relaxed))
///     }
///
///     fn usage(&self) -> Usage {
///         self.limiter.usage()
///     }
/// }
///
/// let limiter = RateLimiter::with_clock(Quota::per_second(10), ManualClock::new());
/// let counted = Counted { limiter, refused: AtomicUsize::new(0) };
/// assert!(counted.try_acquire(10).is_ok());
/// assert!(counted.try_acquire(1).is_err());
/// assert_eq!(counted.refused.into_inner(), 1);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a limiter that decides without a key",
    note = "`RateLimiter`, `RateLimiter32`, `Striped`, `LimitSet`, `Pausable`, and references, `Box`es and `Arc`s of them are",
    note = "a `KeyedLimiter` decides for a key, and a `Lease` for the one thread that holds it"
)]
pub trait Limiter {
    /// Takes `n` tokens if all of them are available, else none. Never waits.
    ///
    /// # Errors
    ///
    /// [`Denied`], which says when to retry, or that `n` exceeds the burst.
    fn try_acquire(&self, n: u32) -> Result<(), Denied>;

    /// Returns how much of the limit is used, and takes nothing.
    ///
    /// For several limits it describes the one with the fewest tokens left.
    fn usage(&self) -> Usage;

    /// Returns the answer that a call of `n` tokens would get now, and takes nothing.
    ///
    /// Default: [`Forecast::Unknown`].
    fn forecast(&self, n: u32) -> Forecast<Denied> {
        _ = n;
        Forecast::Unknown
    }
}

/// Implements [`Limiter`] for a pointer to a limiter, such as `&L` or `Box<L>`.
macro_rules! limiter_by_pointer {
    ($(#[$attribute:meta])* $pointer:ty) => {
        $(#[$attribute])*
        impl<L: Limiter + ?Sized> Limiter for $pointer {
            #[inline]
            fn try_acquire(&self, n: u32) -> Result<(), Denied> {
                (**self).try_acquire(n)
            }

            #[inline]
            fn usage(&self) -> Usage {
                (**self).usage()
            }

            fn forecast(&self, n: u32) -> Forecast<Denied> {
                (**self).forecast(n)
            }
        }
    };
}

limiter_by_pointer!(&L);
limiter_by_pointer!(
    #[cfg(feature = "alloc")]
    alloc::boxed::Box<L>
);
limiter_by_pointer!(
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    alloc::sync::Arc<L>
);
