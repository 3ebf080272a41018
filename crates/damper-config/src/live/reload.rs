//! The targets that settings are applied to.

use crate::section::{Change, Key};
use crate::settings::{AdmissionSettings, BulkheadSettings, ClientRateLimitSettings, RateLimitSettings};
use damper_core::Quota;
use damper_core::concurrency::{Admission, Bulkhead, FixedLimit};
use damper_core::keyed::{KeyedLimiter, TierError};
use damper_core::limit::RateLimiter;
use damper_core::quota::SetQuotaError;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Something that runs by the settings of a section, and takes new ones.
///
/// Limiters, bulkheads and gates of a fixed limit do. Implement it for what is yours:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
/// use damper::config::{Key, Reload, RetrySettings};
/// use damper::Retry;
/// use std::sync::{Arc, Mutex};
///
/// struct Retries(Arc<Mutex<Retry>>);
///
/// impl Reload<RetrySettings> for Retries {
///     fn takes(&self, _: &Key) -> bool {
///         true // of the next call on
///     }
///
///     fn apply(&self, new: &RetrySettings) -> Result<(), String> {
///         *self.0.lock().map_err(|error| error.to_string())? = new.retry();
///         Ok(())
///     }
/// }
/// ```
pub trait Reload<S> {
    /// Returns whether it takes a change of this key. Default: of the keys whose change is [live](Change::Live).
    fn takes(&self, key: &Key) -> bool {
        key.change() == Change::Live
    }

    /// Says whether [`apply`](Self::apply) would take these settings, and changes nothing; `start` is what it was built with. All are
    /// asked before any changes. Default: it would.
    ///
    /// # Errors
    ///
    /// Why it would not, in words.
    fn can_apply(&self, start: &S, new: &S) -> Result<(), String> {
        _ = (start, new);
        Ok(())
    }

    /// Takes the settings. It is also called with those of before, when another refuses its own after all.
    ///
    /// # Errors
    ///
    /// Why it did not, in words. It has changed nothing then.
    fn apply(&self, new: &S) -> Result<(), String>;
}

/// How often a change is tried while another thread changes the same quota.
const TRIES: u32 = 100;

/// Changes a quota; a change by another thread takes less than a microsecond.
fn set_patiently<E: ToString>(is_busy: impl Fn(&E) -> bool, set: impl Fn() -> Result<(), E>) -> Result<(), String> {
    for _ in 1..TRIES {
        match set() {
            Err(error) if is_busy(&error) => std::thread::yield_now(),
            result => return result.map_err(|error| error.to_string()),
        }
    }
    set().map_err(|error| error.to_string())
}

pub(crate) fn set_quota(set: impl Fn() -> Result<(), SetQuotaError>) -> Result<(), String> {
    set_patiently(|error| *error == SetQuotaError::Busy, set)
}

/// Tries a quota on a limiter that was built in the same way.
pub(crate) fn check_quota(start: Quota, new: Quota) -> Result<(), String> {
    RateLimiter::new(start).set_quota(new).map_err(|error| error.to_string())
}

/// Tries a section on a limiter per key that was built in the same way.
fn check_keyed(start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
    check_quota(start.effective_quota(), new.effective_quota())?;
    let (before, after) = (start.tiers(), new.tiers());
    if before.len() != after.len() {
        return Err(format!("{} tiers instead of {} need a restart", after.len(), before.len()));
    }
    before.into_iter().zip(after).try_for_each(|(before, after)| check_quota(before, after))
}

/// Puts quota and tiers in force.
fn apply_keyed<K: Hash + ?Sized, C, S>(limits: &KeyedLimiter<K, C, S>, new: &RateLimitSettings) -> Result<(), String>
where
    C: damper_core::Clock,
    S: BuildHasher,
{
    set_quota(|| limits.set_quota(new.effective_quota()))?;
    for (index, quota) in new.tiers().into_iter().enumerate() {
        let is_busy = |error: &TierError| *error == TierError::Quota(SetQuotaError::Busy);
        // The first tier is the quota of the section.
        set_patiently(is_busy, || limits.set_tier_quota(index + 1, quota))?;
    }
    Ok(())
}

impl<C: damper_core::Clock> Reload<RateLimitSettings> for Arc<RateLimiter<damper_core::TokenBucket, C>> {
    fn takes(&self, key: &Key) -> bool {
        key.change() == Change::Live && key.name() != "tiers"
    }

    fn can_apply(&self, start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        check_quota(start.effective_quota(), new.effective_quota())
    }

    fn apply(&self, new: &RateLimitSettings) -> Result<(), String> {
        set_quota(|| self.set_quota(new.effective_quota()))
    }
}

impl<C: damper_core::Clock> Reload<ClientRateLimitSettings> for Arc<RateLimiter<damper_core::TokenBucket, C>> {
    fn can_apply(&self, start: &ClientRateLimitSettings, new: &ClientRateLimitSettings) -> Result<(), String> {
        check_quota(start.effective_quota(), new.effective_quota())
    }

    fn apply(&self, new: &ClientRateLimitSettings) -> Result<(), String> {
        set_quota(|| self.set_quota(new.effective_quota()))
    }
}

/// The quota of each key, and of its [tiers](RateLimitSettings::tiers) if the limiter was built with them.
impl<K: Hash + ?Sized, C: damper_core::Clock, S: BuildHasher> Reload<RateLimitSettings> for Arc<KeyedLimiter<K, C, S>> {
    fn can_apply(&self, start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        check_keyed(start, new)?;
        let missing = (1..=new.tiers().len()).find(|tier| self.tier_quota(*tier).is_none());
        missing.map_or(Ok(()), |tier| Err(format!("the limiter was built without tier {tier}")))
    }

    fn apply(&self, new: &RateLimitSettings) -> Result<(), String> {
        apply_keyed(self, new)
    }
}

impl<C: damper_core::Clock> Reload<BulkheadSettings> for Arc<Bulkhead<C>> {
    fn apply(&self, new: &BulkheadSettings) -> Result<(), String> {
        self.set_limit(new.limit());
        Ok(())
    }
}

impl<C: damper_core::Clock> Reload<AdmissionSettings> for Arc<Admission<FixedLimit, C>> {
    fn apply(&self, new: &AdmissionSettings) -> Result<(), String> {
        self.set_limit(new.fixed_limit());
        Ok(())
    }
}
