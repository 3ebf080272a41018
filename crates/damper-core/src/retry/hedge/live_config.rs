//! The settings of a hedge in use.

use super::HedgeConfig;
use crate::sync::{AtomicU64, Field, Ordering};
use core::fmt;
use core::time::Duration;

/// The settings of a hedge, without its delays.
///
/// ```text
///  63   34    33    32      30 29       10 9     0
/// | SPARE | REPEATS | ATTEMPTS | EXCEEDING | EXTRA |
/// ```
const EXTRA: Field = Field::lowest(10);
const EXCEEDING: Field = EXTRA.then(20);
const ATTEMPTS: Field = EXCEEDING.then(3);
const REPEATS: Field = ATTEMPTS.then(1);
const SPARE: Field = REPEATS.then(30);
const _: () = assert!(SPARE.end() == u64::BITS, "fields must tile the word");

/// Stands for a delay that is not fixed.
const MEASURED: u64 = u64::MAX;

/// The settings of a hedge, which change while calls are made.
///
/// Each word is read by itself. A call beside a change may take its delay from one configuration and its attempts from the other, and
/// both were allowed.
pub(super) struct LiveConfig {
    counts: AtomicU64,
    /// The shortest delay, in nanoseconds.
    min_delay: AtomicU64,
    /// The fixed delay, in nanoseconds, or [`MEASURED`].
    fixed_delay: AtomicU64,
}

impl LiveConfig {
    pub(super) fn new(config: &HedgeConfig) -> Self {
        let live =
            Self { counts: AtomicU64::new(0), min_delay: AtomicU64::new(0), fixed_delay: AtomicU64::new(MEASURED) };
        live.set(config);
        live
    }

    pub(super) fn set(&self, config: &HedgeConfig) {
        let HedgeConfig { max_extra, exceeding, repeats_failures, max_attempts, min_delay, fixed_delay } = *config;
        let counts = EXTRA.put(max_extra.into())
            | EXCEEDING.put(exceeding.into())
            | ATTEMPTS.put(max_attempts.into())
            | REPEATS.put(repeats_failures.into());
        // ORDERING: Relaxed, here and below: a word is all that there is of its settings, and publishes nothing. A histogram that
        // is there sooner or later than its setting changes no promise.
        self.counts.store(counts, Ordering::Relaxed);
        self.min_delay.store(nanos(min_delay), Ordering::Relaxed);
        self.fixed_delay.store(fixed_delay.map_or(MEASURED, nanos), Ordering::Relaxed);
    }

    /// Returns the settings without the delays, which are zero and none.
    #[inline]
    pub(super) fn counts(&self) -> HedgeConfig {
        let counts = self.counts.load(Ordering::Relaxed);
        HedgeConfig {
            max_extra: EXTRA.get(counts) as u32,
            exceeding: EXCEEDING.get(counts) as u32,
            repeats_failures: REPEATS.get(counts) != 0,
            max_attempts: ATTEMPTS.get(counts) as u32,
            min_delay: Duration::ZERO,
            fixed_delay: None,
        }
    }

    #[inline]
    pub(super) fn min_delay(&self) -> Duration {
        Duration::from_nanos(self.min_delay.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn fixed_delay(&self) -> Option<Duration> {
        let nanos = self.fixed_delay.load(Ordering::Relaxed);
        (nanos != MEASURED).then(|| Duration::from_nanos(nanos))
    }

    /// Returns all settings.
    pub(super) fn get(&self) -> HedgeConfig {
        HedgeConfig { min_delay: self.min_delay(), fixed_delay: self.fixed_delay(), ..self.counts() }
    }
}

/// Returns a delay in nanoseconds; the longest are cut to 584 years.
fn nanos(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(MEASURED).min(MEASURED - 1)
}

impl fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
