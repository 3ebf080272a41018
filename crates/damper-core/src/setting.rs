//! Settings that change while calls are made: [`Live`], and [`Setting`], which is a constant or a live one.
//!
//! Layers and policies take timeouts, waits and the attempts of retries as `impl Into<Setting<…>>`: a plain value is a constant, and a
//! reference to a [`Live`] in a `static`, or an `Arc` of one, can be changed. Each call reads it once, when it begins, and keeps what it
//! read.
//!
//! Limits have setters of their own, because a change of them acts on calls in flight: `set_quota`, `set_limit`, `set_bounds`,
//! `set_queue`, `set_config`.

use crate::sync::{AtomicU64, Ordering, const_unless_loom};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;
use core::fmt;
use core::num::NonZeroU64;
use core::time::Duration;
use sealed::LiveValue;

pub(crate) mod sealed {
    use core::fmt;
    use core::num::NonZeroU64;

    /// A value that fits one atomic word, as a [`Live`](super::Live) needs it.
    ///
    /// It is a `Duration`, or the [`RetrySchedule`](crate::retry::RetrySchedule) of a retry policy.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot change while calls are made",
        note = "the values of a `Live` are `Duration` and `damper::retry::RetrySchedule`"
    )]
    pub trait LiveValue: Copy + fmt::Debug + 'static {
        fn to_word(self) -> NonZeroU64;

        fn of_word(word: NonZeroU64) -> Self;
    }
}

/// At most 584 years. A longer one counts as that.
impl LiveValue for Duration {
    #[inline]
    fn to_word(self) -> NonZeroU64 {
        let nanos = u64::try_from(self.as_nanos()).unwrap_or(u64::MAX);
        NonZeroU64::MIN.saturating_add(nanos)
    }

    #[inline]
    fn of_word(word: NonZeroU64) -> Self {
        Self::from_nanos(word.get() - 1)
    }
}

/// A setting that changes while calls are made.
///
/// Pass a reference to it, or an `Arc` of it, where a layer or a policy takes a [`Setting`], and [`set`](Self::set) it later. The change
/// applies to all calls that begin afterwards. A call that has begun keeps its value.
///
/// A read is one load of an atomic word, on any number of threads. Nothing waits and nothing is allocated.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::retry::RetrySchedule;
/// use damper::{Live, Retry};
///
/// static ATTEMPTS: Live<RetrySchedule> = Live::new(RetrySchedule::new(3));
///
/// let retry = Retry::new(3).schedule(&ATTEMPTS);
/// ATTEMPTS.set(RetrySchedule::new(1)); // in an incident: no retries
/// assert_eq!(retry.max_attempts(), 1);
/// # }
/// ```
pub struct Live<T> {
    initial: T,
    /// The last value that was set. 0: none was.
    word: AtomicU64,
}

impl<T> Live<T> {
    const_unless_loom! {
        /// Creates a setting with this value.
        #[must_use]
        pub const fn new(value: T) -> Self {
            Self { initial: value, word: AtomicU64::new(0) }
        }
    }
}

impl<T: LiveValue> Live<T> {
    /// Returns the value in force.
    #[inline]
    #[must_use]
    pub fn get(&self) -> T {
        // ORDERING: Relaxed, here and below: the word is the whole value and publishes nothing.
        self.of_word(self.word.load(Ordering::Relaxed))
    }

    #[inline]
    fn of_word(&self, word: u64) -> T {
        NonZeroU64::new(word).map_or(self.initial, T::of_word)
    }

    /// Replaces the value, for calls that begin from now on.
    pub fn set(&self, value: T) {
        self.word.store(value.to_word().get(), Ordering::Relaxed);
    }

    /// Changes a part of the value, and keeps what other threads change meanwhile.
    ///
    /// An error changes nothing.
    pub(crate) fn update<E>(&self, change: impl Fn(T) -> Result<T, E>) -> Result<(), E> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let changed = change(self.of_word(word))?.to_word().get();
            match self.word.compare_exchange_weak(word, changed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(present) => word = present,
            }
        }
    }
}

impl<T: LiveValue> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.get()).finish()
    }
}

/// A setting of a layer or a policy: a constant, or a [`Live`] one.
///
/// Functions take `impl Into<Setting<T>>`, so you seldom name it. Take it in a layer of your own, and read it once for each call.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::Live;
/// use damper::setting::Setting;
/// use std::sync::Arc;
///
/// struct Reports {
///     timeout: Setting<Duration>,
/// }
///
/// impl Reports {
///     fn new(timeout: impl Into<Setting<Duration>>) -> Self {
///         Self { timeout: timeout.into() }
///     }
/// }
///
/// let fixed = Reports::new(Duration::from_secs(2));
/// let timeout = Arc::new(Live::new(Duration::from_secs(2)));
/// let live = Reports::new(Arc::clone(&timeout));
/// timeout.set(Duration::from_secs(1));
/// assert_eq!((fixed.timeout.get(), live.timeout.get()), (Duration::from_secs(2), Duration::from_secs(1)));
/// # }
/// ```
#[derive(Clone)]
pub struct Setting<T: 'static>(Source<T>);

#[derive(Clone)]
enum Source<T: 'static> {
    Constant(T),
    Static(&'static Live<T>),
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    Shared(Arc<Live<T>>),
}

impl<T: LiveValue> Setting<T> {
    /// Creates a setting that does not change.
    #[must_use]
    pub const fn constant(value: T) -> Self {
        Self(Source::Constant(value))
    }

    /// Returns the value in force.
    #[inline]
    #[must_use]
    pub fn get(&self) -> T {
        match &self.0 {
            Source::Constant(value) => *value,
            Source::Static(live) => live.get(),
            #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
            Source::Shared(live) => live.get(),
        }
    }
}

/// A constant.
impl<T: LiveValue> From<T> for Setting<T> {
    fn from(value: T) -> Self {
        Self::constant(value)
    }
}

impl<T: LiveValue> From<&'static Live<T>> for Setting<T> {
    fn from(live: &'static Live<T>) -> Self {
        Self(Source::Static(live))
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<T: LiveValue> From<Arc<Live<T>>> for Setting<T> {
    fn from(live: Arc<Live<T>>) -> Self {
        Self(Source::Shared(live))
    }
}

/// Shows the value in force.
impl<T: LiveValue> fmt::Debug for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::sealed::LiveValue;
    use super::*;

    #[test]
    fn durations_of_any_length_have_a_word() {
        for duration in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(86_400 * 365 * 500)] {
            assert_eq!(Duration::of_word(duration.to_word()), duration);
        }
        assert!(Duration::of_word(Duration::MAX.to_word()) > Duration::from_secs(86_400 * 365 * 584));
    }

    #[test]
    fn zero_is_a_value_like_any_other() {
        let live = Live::new(Duration::from_secs(1));
        live.set(Duration::ZERO);
        assert_eq!(live.get(), Duration::ZERO);
    }
}
