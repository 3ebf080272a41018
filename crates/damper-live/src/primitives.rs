//! The primitives that controls change.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::hash::{BuildHasher, Hash};
use damper_core::breaker::{CircuitBreaker, KeyedCircuitBreaker, OnStateChange, RecentChanges};
use damper_core::decision_log::Logged;
use damper_core::keyed::KeyedLimiter;
use damper_core::limit::{Algorithm, KeyedAlgorithm, RateLimiter, Striped};
use damper_core::quota::{Quota, SetQuotaError};
use damper_core::shadow::Shadowed;
use damper_core::time::Clock;
use damper_http::{PerHost, Single};

/// A limit whose quota the page may change.
///
/// damper's limiters are such, and references, `Box`es and `Arc`s of them.
///
/// # Implementing
///
/// A limit of your own delegates to the limiter inside. A [`LivePage`](super::LivePage) needs it to be a
/// [`Source`](damper_metrics::Source) too.
///
/// ```
/// # mod damper { pub use damper_core::*; pub extern crate damper_http as http; pub extern crate damper_live as live; }
/// use damper::live::ChangeQuota;
/// use damper::quota::SetQuotaError;
/// use damper::{Quota, RateLimiter};
///
/// struct Uploads {
///     limiter: RateLimiter,
/// }
///
/// impl ChangeQuota for Uploads {
///     fn quota(&self) -> Quota {
///         self.limiter.quota()
///     }
///
///     fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
///         self.limiter.set_quota(quota)
///     }
/// }
/// ```
pub trait ChangeQuota {
    /// Returns the quota in force.
    fn quota(&self) -> Quota;

    /// Puts another quota in force.
    ///
    /// # Errors
    ///
    /// [`SetQuotaError`], and the quota stays.
    fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError>;
}

impl<A: Algorithm, C: Clock> ChangeQuota for RateLimiter<A, C> {
    fn quota(&self) -> Quota {
        self.quota()
    }

    fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.set_quota(quota)
    }
}

impl<C: Clock> ChangeQuota for Striped<C> {
    fn quota(&self) -> Quota {
        self.quota()
    }

    fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.set_quota(quota)
    }
}

/// The quota of keys without a tier of their own.
impl<K: ?Sized, C: Clock, S, A: KeyedAlgorithm> ChangeQuota for KeyedLimiter<K, C, S, A> {
    fn quota(&self) -> Quota {
        self.quota()
    }

    fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.set_quota(quota)
    }
}

/// The quota in force.
impl<T: ChangeQuota, S> ChangeQuota for Shadowed<T, S> {
    fn quota(&self) -> Quota {
        self.in_force().quota()
    }

    fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.in_force().change_quota(quota)
    }
}

/// The quota of the limiter.
impl<L: ChangeQuota, G> ChangeQuota for Logged<L, G> {
    fn quota(&self) -> Quota {
        self.limiter().quota()
    }

    fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
        self.limiter().change_quota(quota)
    }
}

/// A breaker that the page may trip and reset.
///
/// damper's breakers are such, and references, `Box`es and `Arc`s of them.
pub trait SwitchBreaker {
    /// Opens the breaker for its cooldown.
    fn trip(&self);

    /// Closes the breaker, and forgets its failures.
    fn reset(&self);

    /// Calls `each` with the recent changes of each of its breakers. Default: it has none to show.
    ///
    /// Without them, the page shows the states that it samples, and not when a breaker changed.
    fn visit_changes(&self, each: &mut dyn FnMut(&RecentChanges)) {
        _ = each;
    }
}

impl<C: Clock, L: OnStateChange> SwitchBreaker for CircuitBreaker<C, L> {
    fn trip(&self) {
        self.trip();
    }

    fn reset(&self) {
        self.reset();
    }

    fn visit_changes(&self, each: &mut dyn FnMut(&RecentChanges)) {
        each(&self.recent_changes());
    }
}

/// All breakers that there are.
impl<K: Hash + Eq, C: Clock + Clone, S: BuildHasher, L: OnStateChange> SwitchBreaker
    for KeyedCircuitBreaker<K, C, S, L>
{
    fn trip(&self) {
        self.store().for_each(CircuitBreaker::trip);
    }

    fn reset(&self) {
        self.store().for_each(CircuitBreaker::reset);
    }

    fn visit_changes(&self, each: &mut dyn FnMut(&RecentChanges)) {
        self.store().for_each(|breaker| each(&breaker.recent_changes()));
    }
}

/// The breaker in force.
impl<T: SwitchBreaker, S> SwitchBreaker for Shadowed<T, S> {
    fn trip(&self) {
        self.in_force().trip();
    }

    fn reset(&self) {
        self.in_force().reset();
    }

    fn visit_changes(&self, each: &mut dyn FnMut(&RecentChanges)) {
        self.in_force().visit_changes(each);
    }
}

/// Implements the traits for a pointer.
macro_rules! behind {
    ($($pointer:ty),*) => {$(
        impl<T: ChangeQuota + ?Sized> ChangeQuota for $pointer {
            fn quota(&self) -> Quota {
                (**self).quota()
            }

            fn change_quota(&self, quota: Quota) -> Result<(), SetQuotaError> {
                (**self).change_quota(quota)
            }
        }

        impl<T: SwitchBreaker + ?Sized> SwitchBreaker for $pointer {
            fn trip(&self) {
                (**self).trip();
            }

            fn reset(&self) {
                (**self).reset();
            }

            fn visit_changes(&self, each: &mut dyn FnMut(&RecentChanges)) {
                (**self).visit_changes(each);
            }
        }
    )*};
}

behind!(&T, Arc<T>, Box<T>);

/// Its breaker.
impl SwitchBreaker for Single {
    fn trip(&self) {
        self.breaker().trip();
    }

    fn reset(&self) {
        SwitchBreaker::reset(self.breaker());
    }

    fn visit_changes(&self, each: &mut dyn FnMut(&RecentChanges)) {
        self.breaker().visit_changes(each);
    }
}

/// The breakers of all hosts.
impl SwitchBreaker for PerHost {
    fn trip(&self) {
        self.breakers().trip();
    }

    fn reset(&self) {
        SwitchBreaker::reset(self.breakers());
    }

    fn visit_changes(&self, each: &mut dyn FnMut(&RecentChanges)) {
        self.breakers().visit_changes(each);
    }
}
