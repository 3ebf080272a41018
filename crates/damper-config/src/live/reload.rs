//! The targets that settings are applied to.

use super::SettingChange;
use crate::plans::Plans;
use crate::settings::{
    AdaptiveLimitSettings, AdmissionSettings, BulkheadSettings, CircuitBreakerSettings, ClientDeadlineSettings,
    ClientRateLimitSettings, HedgeSettings, ROOM, RateLimitSettings, RetryBudgetSettings, RetrySettings,
    ServerDeadlineSettings, ThrottleSettings, TreeSettings,
};
use damper_core::breaker::{CircuitBreaker, KeyedCircuitBreaker, OnStateChange, SetConfigError};
use damper_core::concurrency::{
    AdaptiveLimit, Admission, BoundedRule, Bulkhead, FixedLimit, KeyedAdaptiveLimit, KeyedBulkhead, ProbedGradient,
};
use damper_core::keyed::{KeyedLimiter, TierError};
use damper_core::limit::{
    Algorithm, FixedWindow, KeyedAlgorithm, LeakyBucket, RateLimiter, SlidingCounter, SlidingLog, TokenBucket,
};
use damper_core::quota::SetQuotaError;
use damper_core::retry::{Budget, Hedge, RetryBudget, RetrySchedule};
use damper_core::throttle::{AdaptiveThrottle, KeyedThrottle};
use damper_core::{Clock, Live, Monotonic, Quota};
use std::hash::{BuildHasher, Hash};
use std::iter;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A target that runs by the settings of a section, and takes new ones.
///
/// Limiters, circuit breakers, bulkheads, adaptive limits, gates, throttles, hedges, retry budgets, `Live` settings and stacks implement it. Two targets in a
/// tuple are a target: each of them takes the keys that it has. Implement it for types of your own:
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
/// use damper::config::{BulkheadSettings, Reload, SettingChange};
/// use damper::Bulkhead;
/// use std::sync::{Arc, Mutex};
///
/// struct Reports(Mutex<Arc<Bulkhead>>);
///
/// impl Reload<BulkheadSettings> for Reports {
///     fn takes(&self, _: &SettingChange) -> bool {
///         true // of the next call on
///     }
///
///     fn apply(&self, _: &BulkheadSettings, new: &BulkheadSettings) -> Result<(), String> {
///         *self.0.lock().map_err(|error| error.to_string())? = Arc::new(new.bulkhead());
///         Ok(())
///     }
/// }
/// ```
pub trait Reload<S> {
    /// Returns whether the target takes a change. Default: it takes [live](SettingChange::is_live) changes.
    fn takes(&self, change: &SettingChange) -> bool {
        change.is_live()
    }

    /// Checks whether [`apply`](Self::apply) would accept these settings, without a change. Default: yes.
    ///
    /// `start` are the settings that the target was built with. All targets are checked before any of them changes.
    ///
    /// # Errors
    ///
    /// The reason why it would not, in words.
    fn can_apply(&self, start: &S, new: &S) -> Result<(), String> {
        _ = (start, new);
        Ok(())
    }

    /// Returns whether [`apply`](Self::apply) may refuse settings that `can_apply` accepted. Default: yes.
    ///
    /// Targets that may refuse take new settings before the others, so that a refusal finds the others unchanged. The limits and breakers
    /// of damper refuse only while another thread keeps changing them.
    fn may_refuse(&self) -> bool {
        true
    }

    /// Replaces the settings in force, `old`, by `new`.
    ///
    /// If it or a later target refuses, it is called again with the two in reverse.
    ///
    /// # Errors
    ///
    /// The reason why it did not, in words. It may have applied a part of the settings. The second call reverts that part.
    fn apply(&self, old: &S, new: &S) -> Result<(), String>;
}

/// Returns whether a change is live, and not of this key.
fn is_live_but(change: &SettingChange, key: &str) -> bool {
    change.is_live() && change.key() != key
}

/// Applies a section of a group, if it has changed.
#[cfg(all(feature = "tower", feature = "tokio"))]
pub(crate) fn apply_changed<S: PartialEq>(target: &impl Reload<S>, old: &S, new: &S) -> Result<(), String> {
    if old == new { Ok(()) } else { target.apply(old, new) }
}

/// How long a change waits for another thread that changes the same quota or breakers.
///
/// A change of the breakers of many keys takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes a change, and retries it while another thread is making one.
fn set_patiently<E: ToString>(is_busy: impl Fn(&E) -> bool, set: impl Fn() -> Result<(), E>) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match set() {
            Err(error) if is_busy(&error) && start.elapsed() < PATIENCE => sleep(Duration::from_millis(1)),
            result => return result.map_err(|error| error.to_string()),
        }
    }
}

pub(crate) fn set_quota(set: impl Fn() -> Result<(), SetQuotaError>) -> Result<(), String> {
    set_patiently(|error| *error == SetQuotaError::Busy, set)
}

/// An algorithm from which a limiter can be built to try a quota.
trait Probe: Algorithm + Sized {
    fn of(quota: Quota) -> Result<Self, String>;
}

impl Probe for TokenBucket {
    fn of(quota: Quota) -> Result<Self, String> {
        Ok(Self::new(quota).up_to(ROOM))
    }
}

impl Probe for LeakyBucket {
    fn of(quota: Quota) -> Result<Self, String> {
        Ok(Self::new(quota))
    }
}

impl Probe for FixedWindow {
    fn of(quota: Quota) -> Result<Self, String> {
        Ok(Self::new(quota))
    }
}

impl Probe for SlidingCounter {
    fn of(quota: Quota) -> Result<Self, String> {
        Self::new(quota).map_err(|error| error.to_string())
    }
}

impl Probe for SlidingLog {
    fn of(quota: Quota) -> Result<Self, String> {
        Self::new(quota).map_err(|error| error.to_string())
    }
}

/// Tries a quota on a limiter built in the same way.
fn check_quota<A: Probe>(start: Quota, new: Quota) -> Result<(), String> {
    let probe = RateLimiter::with_algorithm(A::of(start)?, Monotonic);
    probe.set_quota(new).map_err(|error| error.to_string())
}

/// Tries the settings of a section on a keyed limiter built in the same way.
fn check_keyed<A: KeyedAlgorithm>(start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
    let check = |start: Quota, new: Quota| {
        let probe = KeyedLimiter::<str>::builder(start).up_to(ROOM).algorithm::<A>().capacity(1).build();
        let probe = probe.map_err(|error| error.to_string())?;
        probe.set_quota(new).map_err(|error| error.to_string())
    };
    check(start.effective_quota(), new.effective_quota())?;
    let (before, after) = (start.tiers(), new.tiers());
    if before.len() != after.len() {
        return Err(format!("{} tiers instead of {} need a restart", after.len(), before.len()));
    }
    if !before.names().eq(after.names()) {
        // The number of a tier would stand for another name.
        return Err("other names of tiers need a restart".to_owned());
    }
    before.into_iter().zip(after).try_for_each(|(before, after)| check(before, after))
}

/// Puts the quota and the tiers in force, together.
fn apply_keyed<K, C, S, A>(limits: &KeyedLimiter<K, C, S, A>, new: &RateLimitSettings) -> Result<(), String>
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    let is_busy = |error: &TierError| matches!(error, TierError::Quota { error: SetQuotaError::Busy, .. });
    // The first tier is the quota of the section.
    let quotas = || iter::once(new.effective_quota()).chain(new.tiers()).enumerate();
    set_patiently(is_busy, || limits.set_tier_quotas(quotas()))
}

/// Changes the quota of a limiter with any algorithm.
#[allow(private_bounds, reason = "the trait lists the algorithms")]
impl<A: Probe, C: Clock> Reload<RateLimitSettings> for Arc<RateLimiter<A, C>> {
    fn takes(&self, change: &SettingChange) -> bool {
        is_live_but(change, "tiers")
    }

    fn can_apply(&self, start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        check_quota::<A>(start.effective_quota(), new.effective_quota())
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        set_quota(|| self.set_quota(new.effective_quota()))
    }
}

impl<C: Clock> Reload<ClientRateLimitSettings> for Arc<RateLimiter<TokenBucket, C>> {
    fn takes(&self, change: &SettingChange) -> bool {
        is_live_but(change, "max_wait")
    }

    fn can_apply(&self, start: &ClientRateLimitSettings, new: &ClientRateLimitSettings) -> Result<(), String> {
        check_quota::<TokenBucket>(start.effective_quota(), new.effective_quota())
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &ClientRateLimitSettings, new: &ClientRateLimitSettings) -> Result<(), String> {
        set_quota(|| self.set_quota(new.effective_quota()))
    }
}

/// Changes the quota of all keys, and of the [tiers](RateLimitSettings::tiers) if the limiter was built with them.
impl<K, C, S, A> Reload<RateLimitSettings> for Arc<KeyedLimiter<K, C, S, A>>
where
    K: Hash + ?Sized,
    C: Clock,
    S: BuildHasher,
    A: KeyedAlgorithm,
{
    fn can_apply(&self, start: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        check_keyed::<A>(start, new)?;
        let missing = (1..=new.tiers().len()).find(|tier| self.tier_quota(*tier).is_none());
        missing.map_or(Ok(()), |tier| Err(format!("the limiter was built without tier {tier}")))
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &RateLimitSettings, new: &RateLimitSettings) -> Result<(), String> {
        apply_keyed(self, new)
    }
}

/// All plans are replaced at once.
impl<const DIMENSIONS: usize> Reload<TreeSettings> for Arc<Plans<DIMENSIONS>> {
    fn can_apply(&self, _: &TreeSettings, new: &TreeSettings) -> Result<(), String> {
        new.check_dimensions(&self.dimensions()).map_err(|error| error.to_string())
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &TreeSettings, new: &TreeSettings) -> Result<(), String> {
        new.fill(self);
        Ok(())
    }
}

/// Changes the limit and the queue. The longest wait is another target: see [`Live`].
impl<C: Clock> Reload<BulkheadSettings> for Arc<Bulkhead<C>> {
    fn takes(&self, change: &SettingChange) -> bool {
        is_live_but(change, "max_wait")
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &BulkheadSettings, new: &BulkheadSettings) -> Result<(), String> {
        self.set_limit(new.limit());
        self.set_queue(new.places());
        Ok(())
    }
}

/// Makes throttles a target.
macro_rules! throttle {
    ($(#[$attribute:meta])* [$($parameters:tt)*] $throttle:ty) => {
        $(#[$attribute])*
        impl<$($parameters)*> Reload<ThrottleSettings> for Arc<$throttle> {
            fn may_refuse(&self) -> bool {
                false
            }

            fn apply(&self, _: &ThrottleSettings, new: &ThrottleSettings) -> Result<(), String> {
                self.set_multiplier(new.multiplier()).map_err(|error| error.to_string())?;
                self.set_max_refused(new.max_refused()).map_err(|error| error.to_string())
            }
        }
    };
}

throttle! {
    /// Changes the multiplier and the largest share that is refused.
    [C: Clock] AdaptiveThrottle<C>
}

throttle! {
    /// Changes the multiplier and the largest share that is refused of all keys, including later ones.
    [K: Hash + Eq, C: Clock + Clone, S: BuildHasher] KeyedThrottle<K, C, S>
}

/// Changes all settings but the budget.
impl<C: Clock, B: Budget, V> Reload<HedgeSettings> for Arc<Hedge<C, B, V>> {
    fn takes(&self, change: &SettingChange) -> bool {
        change.is_live()
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &HedgeSettings, new: &HedgeSettings) -> Result<(), String> {
        self.set_config(&new.config());
        Ok(())
    }
}

/// Changes the limit and the queue of a fixed gate.
impl<C: Clock> Reload<AdmissionSettings> for Arc<Admission<FixedLimit, C>> {
    fn takes(&self, change: &SettingChange) -> bool {
        ["fixed_limit", "queue"].contains(&change.key())
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &AdmissionSettings, new: &AdmissionSettings) -> Result<(), String> {
        self.set_limit(new.fixed_limit());
        self.set_queue(new.places());
        Ok(())
    }
}

/// Changes the bounds and the queue of an adaptive gate.
impl<C: Clock> Reload<AdmissionSettings> for Arc<Admission<ProbedGradient, C>> {
    fn takes(&self, change: &SettingChange) -> bool {
        ["min_limit", "max_limit", "queue"].contains(&change.key())
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &AdmissionSettings, new: &AdmissionSettings) -> Result<(), String> {
        self.set_bounds(new.bounds());
        self.set_queue(new.places());
        Ok(())
    }
}

/// Changes the limit and the queue of all keys, including later ones.
impl<K, C, S> Reload<BulkheadSettings> for Arc<KeyedBulkhead<K, C, S>>
where
    C: Clock + Clone,
{
    fn takes(&self, change: &SettingChange) -> bool {
        is_live_but(change, "max_wait")
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, old: &BulkheadSettings, new: &BulkheadSettings) -> Result<(), String> {
        // A change of one setting leaves what the program has set for a key of the other.
        if old.limit() != new.limit() {
            self.set_limit(new.limit());
        }
        if old.places() != new.places() {
            self.set_queue(new.places());
        }
        Ok(())
    }
}

impl<R: BoundedRule, C: Clock> Reload<AdaptiveLimitSettings> for Arc<AdaptiveLimit<R, C>> {
    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &AdaptiveLimitSettings, new: &AdaptiveLimitSettings) -> Result<(), String> {
        self.set_bounds(new.bounds());
        Ok(())
    }
}

/// Changes the bounds of all keys, including later ones.
impl<K, R, C, S> Reload<AdaptiveLimitSettings> for Arc<KeyedAdaptiveLimit<K, R, C, S>>
where
    R: BoundedRule,
    C: Clock + Clone,
{
    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &AdaptiveLimitSettings, new: &AdaptiveLimitSettings) -> Result<(), String> {
        self.set_bounds(new.bounds());
        Ok(())
    }
}

impl<C: Clock, L: OnStateChange> Reload<CircuitBreakerSettings> for Arc<CircuitBreaker<C, L>> {
    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &CircuitBreakerSettings, new: &CircuitBreakerSettings) -> Result<(), String> {
        set_patiently(|error| *error == SetConfigError::Busy, || self.set_config(&new.config()))
    }
}

/// Changes the breakers of all keys, including later ones.
impl<K, C, S, L> Reload<CircuitBreakerSettings> for Arc<KeyedCircuitBreaker<K, C, S, L>>
where
    K: Hash + Eq,
    C: Clock + Clone,
    S: BuildHasher,
    L: OnStateChange,
{
    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &CircuitBreakerSettings, new: &CircuitBreakerSettings) -> Result<(), String> {
        set_patiently(|error| *error == SetConfigError::Busy, || self.set_config(&new.config()))
    }
}

/// Makes a [`Live`] a target of the sections that have its setting.
macro_rules! live_setting {
    ($($(#[$attribute:meta])* $section:ty, [$($key:literal),+], $value:ty, |$settings:ident| $new:expr;)*) => {
        $(
            $(#[$attribute])*
            impl Reload<$section> for Arc<Live<$value>> {
                fn takes(&self, change: &SettingChange) -> bool {
                    [$($key),+].contains(&change.key())
                }

                fn may_refuse(&self) -> bool {
                    false
                }

                fn apply(&self, _: &$section, $settings: &$section) -> Result<(), String> {
                    self.set($new);
                    Ok(())
                }
            }
        )*
    };
}

live_setting! {
    /// Changes the attempts and the delays of a policy.
    RetrySettings, ["max_attempts", "base_delay", "max_delay"], RetrySchedule, |settings| settings.schedule();
    /// Changes the timeout of a layer.
    ServerDeadlineSettings, ["timeout"], Duration, |settings| settings.timeout();
    /// Changes the timeout of whole calls.
    ClientDeadlineSettings, ["timeout"], Duration, |settings| settings.timeout();
    /// Changes the longest wait, and nothing else: bind it in a tuple with the bulkhead.
    BulkheadSettings, ["max_wait"], Duration, |settings| settings.max_wait();
    /// Changes the longest wait, and nothing else: bind it in a tuple with the gate.
    AdmissionSettings, ["max_wait"], Duration, |settings| settings.max_wait();
    /// Changes the longest wait, and nothing else: bind it in a tuple with the limiter.
    ClientRateLimitSettings, ["max_wait"], Duration, |settings| settings.max_wait();
}

/// Changes all settings of a budget.
impl<C: Clock> Reload<RetryBudgetSettings> for Arc<RetryBudget<C>> {
    fn can_apply(&self, start: &RetryBudgetSettings, new: &RetryBudgetSettings) -> Result<(), String> {
        start.budget().set_config(new.config()).map_err(|error| error.to_string())
    }

    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &RetryBudgetSettings, new: &RetryBudgetSettings) -> Result<(), String> {
        set_quota(|| self.set_config(new.config()))
    }
}

/// Both targets, of which each takes the keys that it has.
///
/// # Examples
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_config as config; }
/// use damper::Live;
/// use damper::config::{Reloader, Sources};
/// use std::sync::Arc;
///
/// let reloader = Reloader::new(Sources::new().toml("app.toml", "server.http.bulkhead.queue = 10"))?;
/// let settings = reloader.settings().server.http.bulkhead;
/// let pool = Arc::new(settings.bulkhead());
/// let max_wait = Arc::new(Live::new(settings.max_wait()));
/// // ConcurrencyLayer::new(Arc::clone(&pool)).waiting(Arc::clone(&max_wait))
/// let reloader = reloader.bind(|settings| &settings.server.http.bulkhead, (pool, max_wait));
/// # let _ = reloader;
/// # Ok::<(), damper::config::ConfigError>(())
/// ```
impl<S, A: Reload<S>, B: Reload<S>> Reload<S> for (A, B) {
    fn takes(&self, change: &SettingChange) -> bool {
        self.0.takes(change) || self.1.takes(change)
    }

    fn can_apply(&self, start: &S, new: &S) -> Result<(), String> {
        self.0.can_apply(start, new)?;
        self.1.can_apply(start, new)
    }

    fn may_refuse(&self) -> bool {
        self.0.may_refuse() || self.1.may_refuse()
    }

    fn apply(&self, old: &S, new: &S) -> Result<(), String> {
        self.0.apply(old, new)?;
        self.1.apply(old, new)
    }
}

#[cfg(feature = "http")]
impl Reload<CircuitBreakerSettings> for damper_http::Single {
    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &CircuitBreakerSettings, new: &CircuitBreakerSettings) -> Result<(), String> {
        set_patiently(|error| *error == SetConfigError::Busy, || self.set_config(&new.config()))
    }
}

/// Changes the breakers of all hosts, including later ones.
#[cfg(feature = "http")]
impl Reload<CircuitBreakerSettings> for damper_http::PerHost {
    fn may_refuse(&self) -> bool {
        false
    }

    fn apply(&self, _: &CircuitBreakerSettings, new: &CircuitBreakerSettings) -> Result<(), String> {
        set_patiently(|error| *error == SetConfigError::Busy, || self.set_config(&new.config()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn change_waits_for_another_one_that_takes_milliseconds() {
        let (start, tries) = (Instant::now(), Cell::new(0));
        let set = || {
            tries.set(tries.get() + 1);
            if start.elapsed() < Duration::from_millis(30) { Err(SetQuotaError::Busy) } else { Ok(()) }
        };
        assert_eq!(set_quota(set), Ok(()));
        assert!(tries.get() > 1);
    }

    #[test]
    fn change_gives_up_after_a_second() {
        let start = Instant::now();
        assert_eq!(set_quota(|| Err(SetQuotaError::Busy)), Err(SetQuotaError::Busy.to_string()));
        assert!(start.elapsed() >= PATIENCE);
    }
}
