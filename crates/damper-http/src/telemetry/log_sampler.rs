//! Which of many similar events are logged.
//!
//! A flood of refused requests must not become a flood of log lines. So a layer logs the first refusals, and then some of them, each with
//! the number of those that it left out. Metrics count all of them.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;
use damper_core::keyed::KeyedLimiter;
use damper_core::quota::Quota;
use damper_log::{LogLimit, SuppressedCount};
use std::sync::OnceLock;

/// The events of a layer.
const ALL: Quota = Quota::per_second(5).burst(20);

/// Of these, the events of one key.
const EACH_KEY: Quota = Quota::per_minute(6).burst(1);

/// For how many keys that are refused at the same time the table is sized.
const KEYS: usize = 128;

/// Lets some of many similar events pass.
///
/// At most 20 at once and 5 a second, and of those with a key one of each in 10 seconds.
#[derive(Debug)]
pub(super) struct LogSampler {
    all: LogLimit,
    /// Allocated at the first event with a key. `None` if it could not be built.
    keys: OnceLock<Option<Box<KeyedLimiter<str>>>>,
}

/// An event to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// The text of the key, if the event has one.
    pub(super) key: Option<String>,
    /// The similar events that were left out since the last one that was logged; `None` without any.
    pub(super) suppressed: Option<u64>,
}

impl Default for LogSampler {
    fn default() -> Self {
        Self { all: LogLimit::new(ALL), keys: OnceLock::new() }
    }
}

impl LogSampler {
    /// Returns the event if it is to be logged.
    pub(super) fn sample(&self) -> Option<Sample> {
        self.all.check().map(|suppressed| Sample::new(None, suppressed))
    }

    /// Returns the event of a key if it is to be logged. The text of the key is made only if it may be.
    pub(super) fn sample_key(&self, key: impl FnOnce() -> Option<String>) -> Option<Sample> {
        let mut made = None;
        let suppressed = self.all.check_with(|all| {
            if all.peek().remaining() == 0 {
                return false;
            }
            made = key();
            match (&made, self.keys()) {
                (Some(key), Some(keys)) => keys.check_n_with(key.as_str(), 1, all).is_ok(),
                _ => all.check().is_ok(),
            }
        })?;
        Some(Sample::new(made, suppressed))
    }

    fn keys(&self) -> Option<&KeyedLimiter<str>> {
        let build = || KeyedLimiter::builder(EACH_KEY).capacity(KEYS).build().ok().map(Box::new);
        self.keys.get_or_init(build).as_deref()
    }
}

impl Sample {
    fn new(key: Option<String>, suppressed: SuppressedCount) -> Self {
        Self { key, suppressed: suppressed.get() }
    }
}

/// Returns a time in milliseconds for a field of a log, rounded up.
#[must_use]
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    /// How many more events a slow machine may log: one for each fifth of a second that a test takes.
    const SLACK: usize = 5;

    #[test]
    fn flood_is_logged_a_few_times_and_counted() {
        let sampler = LogSampler::default();
        let logged = (0..10_000).filter_map(|_| sampler.sample()).count();
        assert!((20..=20 + SLACK).contains(&logged), "{logged}");
        assert_eq!(sampler.all.take_suppressed().get(), Some(10_000 - logged as u64));
    }

    #[test]
    fn key_is_logged_once() {
        let sampler = LogSampler::default();
        let key = || Some("10.0.0.1".to_string());
        assert_eq!(sampler.sample_key(key), Some(Sample { key: key(), suppressed: None }));
        assert!((0..1_000).all(|_| sampler.sample_key(key).is_none()));
        let other = sampler.sample_key(|| Some("10.0.0.2".to_string()));
        assert_eq!(other.map(|sample| sample.suppressed), Some(Some(1_000)), "another key is logged all the same");
    }

    #[test]
    fn flood_of_keys_is_logged_a_few_times() {
        let sampler = LogSampler::default();
        let logged = (0..10_000).filter_map(|key| sampler.sample_key(|| Some(format!("{key}")))).count();
        assert!((20..=20 + SLACK).contains(&logged), "{logged}");
    }

    #[test]
    fn exhausted_sampler_makes_no_key() {
        let sampler = LogSampler::default();
        while sampler.sample().is_some() {}
        assert_eq!(sampler.sample_key(|| unreachable!("the text of the key is made")), None);
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        for (time, expected) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(2), 2_000),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(millis(time), expected);
        }
    }
}
