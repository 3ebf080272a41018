//! Items for damper's other crates only.
//!
//! They are public because `damper-http`, `damper-io`, `damper-log`, `damper-mesh`, `damper-redis`, `damper-tonic` and `damper-tower` are
//! crates of their own. It is no part of the semver promise: any of it may change or
//! go in any release, so these crates are released together with this one.

pub use crate::deadline::usual_latency::GENEROUS_TIME;
pub use crate::gate::refusal::refusal_in;
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use crate::gate::refusal::{boxed_refusal, shared_refusal};
pub use crate::gate::wait_for::WaitFor;
#[cfg(feature = "alloc")]
pub use crate::gate::waits::Patient;
pub use crate::gate::waits_with::Keepable;
pub use crate::keyed::key_look::{KeyLook, KeyTake};
pub use crate::keyed::table::Receipt;
pub use crate::limit::expiring_lease::{ExpiringLease, Report, Spent};
pub use crate::limit::per_key::PerKey as TableAlgorithm;
pub use crate::retry::attempts_future::{AttemptsFuture, MakeAttempts, Next};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use crate::retry::hedge::HedgedCall;
pub use crate::shadow::counts::ShadowCounts;
pub use crate::sync::Tally;
pub use crate::throttle::pacing::{PacedCalls, PacedFuture, PacedOperation, SeenPause};
pub use crate::time::human::Human;

#[cfg(feature = "std")]
use crate::breaker::{BreakerConfig, BreakerTemplate, CircuitBreaker, KeyedCircuitBreaker};
use crate::deadline::{Deadline, DeadlineExceeded};
#[cfg(feature = "alloc")]
use crate::decision_log::DecisionLog;
use crate::keyed::KeyedLimiter;
#[cfg(feature = "alloc")]
use crate::keyed::{TreeAllowed, TreeDenied};
use crate::limit::{
    Allowed, Denied, KeyedAlgorithm, LimitSet, LimitSetDenied, LimiterRef, Limits, RateLimiter, Reservation,
    TokenBucket, Usage,
};
#[cfg(feature = "alloc")]
use crate::quota::Plan;
use crate::quota::Quota;
use crate::retry::{Retry, Unlimited};
#[cfg(feature = "std")]
use crate::store::BoundedStore;
use crate::throttle::PacedRetry;
#[cfg(feature = "std")]
use crate::time::Monotonic;
use crate::time::{Clock, Frequency, Ticks};
use core::error::Error;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

/// The nonces of a process, for a model of their word.
#[cfg(loom)]
#[derive(Debug)]
pub struct WordNonces<'a>(crate::words::Nonces<'a>);

#[cfg(loom)]
impl<'a> WordNonces<'a> {
    /// Creates the nonces of a process, on the counter of a table.
    #[must_use]
    pub fn new(blocks: &'a crate::words::AtomicU64) -> Self {
        Self(crate::words::Nonces::new(blocks))
    }

    /// Returns a nonce.
    #[must_use]
    pub fn draw(&self) -> u64 {
        self.0.draw()
    }
}

/// Implements `Debug` of errors as their message.
///
/// `main` prints the `Debug` of the error that it returns, and so do `unwrap` and `expect`. A user who meets an error there
/// reads what went wrong, not the fields of a struct. `with sources` adds the messages of an error's sources, for errors whose
/// own message leaves them to a report of the chain.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug_by_display {
    ($error:ty) => {
        impl core::fmt::Debug for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    };
    ($error:ty, with sources) => {
        impl core::fmt::Debug for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $crate::internal::write_chain(self, f)
            }
        }
    };
}

pub use crate::__debug_by_display as debug_by_display;

/// Writes the messages of an error and of its sources.
///
/// # Errors
///
/// The formatter's.
pub fn write_chain(error: &(dyn Error + 'static), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    // `source_of` would also find errors whose messages are those of their wrappers, and write them twice.
    core::iter::successors(error.source(), |&error| error.source()).try_for_each(|source| write!(f, ": {source}"))
}

/// Returns the error that an error wraps.
///
/// That of an I/O error is what it was made of, which `Error::source` skips.
#[must_use]
pub fn source_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    crate::breaker::source_of(error)
}

/// Returns the deepest debt of a quota in tokens: its burst and its `max_debt`.
#[must_use]
pub const fn deepest_debt(quota: &Quota) -> u64 {
    quota.deepest_debt()
}

/// Returns the deepest debt of a plan in tokens: its burst and the debt below it that a plan can have.
#[cfg(feature = "alloc")]
#[must_use]
pub const fn deepest_debt_of_plan(plan: &Plan) -> u64 {
    plan.deepest_debt()
}

/// Returns the permission of a call on a tree that is kept elsewhere: that of its tightest limit.
#[cfg(feature = "alloc")]
#[must_use]
pub const fn tree_allowed(allowed: Option<Allowed>, place: (usize, usize)) -> TreeAllowed {
    TreeAllowed::new(allowed, place, false)
}

/// Returns the refusal of a call on a tree that is kept elsewhere.
///
/// `place` has the numbers of the level and of the dimension, and `names` their names.
#[cfg(feature = "alloc")]
#[must_use]
pub fn tree_denied(denied: Denied, quota: Quota, place: (usize, usize), names: [&'static str; 2]) -> TreeDenied {
    TreeDenied::new(denied, quota, place, names, false)
}

/// Returns the usage of a bucket that is kept elsewhere, with `remaining` tokens or `debt` below empty.
pub fn usage_elsewhere(quota: Quota, remaining: u32, debt: u32, resets_in: Option<Duration>) -> Usage {
    Usage::of(quota, remaining, resets_in).with_debt(debt)
}

/// Takes `n` tokens now by any reference that a reservation can hold, to be used when they are there.
///
/// # Errors
///
/// [`Denied`], as of [`RateLimiter::reserve`](crate::RateLimiter::reserve).
pub fn reserve<L: LimiterRef<Algorithm = TokenBucket>>(limiter: L, n: u32) -> Result<Reservation<L>, Denied> {
    Reservation::new(limiter, n, None)
}

/// Returns the time on the clock of a limiter, which starts anywhere and may wrap.
#[must_use]
pub fn time_of<C: Clock>(limiter: &RateLimiter<TokenBucket, C>) -> Duration {
    let clock = limiter.clock();
    let nanos = u128::from(clock.now()) * 1_000_000_000 / u128::from(clock.frequency().max(1));
    Duration::from_nanos(nanos as u64)
}

/// Creates breakers of this configuration in an empty store.
#[cfg(feature = "std")]
#[must_use]
pub fn keyed_breakers<K: Hash + Eq>(
    store: BoundedStore<K, CircuitBreaker>,
    config: BreakerConfig,
) -> KeyedCircuitBreaker<K> {
    KeyedCircuitBreaker::in_store(store, BreakerTemplate::new(config, Monotonic))
}

/// Returns the error of work that cannot end by `deadline`, which may have some time left.
#[must_use]
pub fn exceeded<C: Clock>(deadline: &Deadline<C>) -> DeadlineExceeded {
    deadline.exceeded()
}

/// Returns the error of work that was given `specified` and whose time was over after `elapsed`.
#[must_use]
pub fn exceeded_after(specified: Duration, elapsed: Duration) -> DeadlineExceeded {
    DeadlineExceeded::new(specified, elapsed)
}

/// Returns the quota of a tier, if there is one; `None` where quotas come with the calls, as plans.
pub fn quota_in_table<K: ?Sized, C: Clock, S, A: TableAlgorithm>(
    limiter: &KeyedLimiter<K, C, S, A>,
    tier: usize,
) -> Option<Quota> {
    limiter.quota_in_table(tier)
}

/// Returns whether a budget was set for a policy.
pub const fn has_budget<C, B, V>(retry: &Retry<C, B, V>) -> bool {
    retry.has_budget()
}

/// Returns the budget of a policy.
pub fn budget_of<C, B, V>(retry: &Retry<C, B, V>) -> &B {
    retry.budget_ref()
}

/// Takes the budget out of a policy, so that each call can have another one.
pub fn split_budget<C, B, V>(retry: Retry<C, B, V>) -> (Retry<C, Unlimited, V>, B) {
    retry.split_budget()
}

/// Takes the budget out of the policy of a paced call, so that each call can have another one.
pub fn split_paced_budget<B>(retry: PacedRetry<B>) -> (PacedRetry, B) {
    retry.split_budget()
}

/// As [`KeyedLimiter::check_n`]; what was taken can be given back by [`revoke`].
///
/// # Errors
///
/// [`Denied`], and nothing was taken.
#[inline]
pub fn take_revocably<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limiter: &KeyedLimiter<K, C, S, A>,
    key: &K,
    n: u32,
) -> Result<(Allowed, Receipt), Denied> {
    limiter.take(key, n)
}

/// Gives back `n` tokens that this key took, less what has been refilled since.
#[inline]
pub fn revoke<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limiter: &KeyedLimiter<K, C, S, A>,
    key: &K,
    n: u32,
    receipt: Receipt,
) {
    limiter.roll_back(key, n, receipt);
}

/// Looks at the limit of a key, for a decision of several limits. Read the clock afterwards.
#[inline]
pub fn look<'a, K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limiter: &'a KeyedLimiter<K, C, S, A>,
    key: &K,
) -> KeyLook<'a> {
    limiter.look(key)
}

/// Decides about `n` tokens of a key by a look and a reading of the clock after it, and takes nothing.
///
/// # Errors
///
/// [`Denied`], by what the look found.
#[inline]
pub fn judge<'a, K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limiter: &'a KeyedLimiter<K, C, S, A>,
    key: &K,
    n: u32,
    look: KeyLook<'a>,
    now: u64,
) -> Result<KeyTake<'a>, Denied> {
    limiter.judge(key, n, look, now)
}

/// Takes the `n` tokens that a key had at the look. [`revoke`] can give them back.
///
/// # Errors
///
/// [`Denied`] if another call took them meanwhile, and nothing was taken.
#[inline]
pub fn take_judged<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limiter: &KeyedLimiter<K, C, S, A>,
    key: &K,
    n: u32,
    take: KeyTake<'_>,
) -> Result<(Allowed, Receipt), Denied> {
    limiter.take_judged(key, n, take)
}

/// As [`KeyedLimiter::check_n`], and writes the decision into `log`.
///
/// # Errors
///
/// [`Denied`], and nothing was taken.
#[cfg(feature = "alloc")]
#[inline]
pub fn check_logged<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm, D: Clock>(
    limiter: &KeyedLimiter<K, C, S, A>,
    key: &K,
    n: u32,
    log: &DecisionLog<D>,
) -> Result<Allowed, Denied> {
    limiter.check_logged(key, n, log)
}

/// Writes the answer to a call of `n` tokens of this key into `log`.
#[cfg(feature = "alloc")]
pub fn log_decision<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm, D: Clock, T, E>(
    limiter: &KeyedLimiter<K, C, S, A>,
    key: &K,
    n: u32,
    answer: &Result<T, E>,
    log: &DecisionLog<D>,
) {
    limiter.log_decision(key, n, answer, log);
}

/// Returns the refusal that [`KeyedLimiter::check_n`] would answer, and takes nothing.
///
/// `None` where it would be allowed.
#[inline]
pub fn refusal<K: Hash + ?Sized, C: Clock, S: BuildHasher, A: KeyedAlgorithm>(
    limiter: &KeyedLimiter<K, C, S, A>,
    key: &K,
    n: u32,
) -> Option<Denied> {
    limiter.refusal(key, n)
}

/// Returns the refusal that [`LimitSet::check_n`](crate::limit::LimitSet::check_n) would answer, and takes nothing.
pub fn set_refusal<L: Limits, C: Clock>(limits: &LimitSet<L, C>, n: u32) -> Option<LimitSetDenied> {
    limits.refusal(&|_| n)
}

/// Returns whether a caller waits longer because of one refusal than because of another.
///
/// Requests over the burst outlast quotas that never refill, and those every wait.
#[must_use]
pub fn outlasts(denied: &Denied, other: &Denied) -> bool {
    denied.outlasts(other)
}

/// Returns the answer to a call that was allowed, by a level that was computed elsewhere.
///
/// `resets_in` is in ticks of `clock`.
#[inline]
#[must_use]
pub fn allowed_on(clock: &impl Clock, remaining: u32, resets_in: u64) -> Allowed {
    Allowed::counted_by(Frequency::from_hertz(clock.frequency()), remaining, Ticks::new(resets_in))
}

/// The ticks in which the times of an answer are counted: a clock's frequency, as answers keep it.
#[derive(Clone, Copy, Debug)]
pub struct AnswerTicks(Frequency);

impl AnswerTicks {
    /// Returns the ticks of `clock`.
    #[must_use]
    pub fn of(clock: &impl Clock) -> Self {
        Self(Frequency::from_hertz(clock.frequency()))
    }

    /// As [`allowed_on`], without asking the clock.
    #[inline]
    #[must_use]
    pub fn allowed(self, remaining: u32, resets_in: u64) -> Allowed {
        Allowed::counted_by(self.0, remaining, Ticks::new(resets_in))
    }
}

/// Returns the answer to a call that was denied, by a level that was computed elsewhere.
///
/// Times are in ticks of `clock`, and `None` is a time that never comes. A `wait` of 0 says that the call asked for more than
/// the burst.
#[must_use]
pub fn denied_on(clock: &impl Clock, remaining: u32, resets_in: Option<u64>, wait: Option<u64>) -> Denied {
    let ticks = |time: Option<u64>| time.map_or(Ticks::NEVER, Ticks::new);
    Denied::counted_by(Frequency::from_hertz(clock.frequency()), remaining, ticks(resets_in), ticks(wait))
}
