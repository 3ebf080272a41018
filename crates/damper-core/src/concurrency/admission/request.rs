//! The class, the tenant and the deadline of a call.

use super::Criticality;
use crate::Deadline;
use crate::concurrency::queue::Expiry;
use crate::time::{Clock, Seed};
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

/// Spreads tenants over 64 bits.
///
/// Each gate hashes the result again, with a seed of its own, before it chooses a counter: two tenants that share one there share
/// all 64 bits here only by chance.
const SPREAD: Seed = Seed::new(0x6461_6D70_6572_2061, 0x646D_6973_7369_6F6E);

/// The class, the tenant and the deadline of a call that asks to be admitted.
///
/// # Examples
///
/// ```
/// # extern crate damper_core as damper;
/// # #[cfg(feature = "std")] {
/// use core::time::Duration;
/// use damper::Deadline;
/// use damper::concurrency::{AdmissionRequest, Criticality};
///
/// let deadline = Deadline::after(Duration::from_millis(500));
/// let request = AdmissionRequest::new().criticality(Criticality::SheddablePlus).tenant("acme").by(&deadline);
/// # let _ = request;
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg(feature = "alloc")]
pub struct AdmissionRequest {
    criticality: Criticality,
    tenant: u64,
    /// The time until the deadline, at the moment when that was set.
    left: Option<Duration>,
    longest_wait: Option<Duration>,
}

impl AdmissionRequest {
    /// A request of the class [`Critical`](Criticality::Critical), without a tenant and without a deadline.
    #[must_use]
    pub const fn new() -> Self {
        Self { criticality: Criticality::Critical, tenant: 0, left: None, longest_wait: None }
    }

    /// Sets the class of the call. Default: [`Critical`](Criticality::Critical).
    #[must_use]
    pub const fn criticality(mut self, criticality: Criticality) -> Self {
        self.criticality = criticality;
        self
    }

    /// Sets the tenant that makes the call: the name of a customer, a number, an address.
    ///
    /// Default: all calls without a tenant count as those of one tenant.
    #[must_use]
    pub fn tenant<K: Hash + ?Sized>(mut self, tenant: &K) -> Self {
        self.tenant = SPREAD.hash_one(tenant);
        self
    }

    /// Sets the deadline by which the call must have ended. Default: none.
    ///
    /// The time until the deadline is read now. Of several deadlines the earliest counts.
    #[must_use]
    pub fn by<C: Clock>(mut self, deadline: &Deadline<C>) -> Self {
        if !deadline.is_never() {
            let left = deadline.remaining();
            self.left = Some(self.left.map_or(left, |earlier| earlier.min(left)));
        }
        self
    }

    /// Sets the longest wait in the queue. Default: until the call is admitted, displaced or late.
    ///
    /// For calls without a deadline. Unlike a deadline, it does not limit how long the call may take: a call is not refused
    /// because calls take longer than that.
    #[must_use]
    pub const fn wait_at_most(mut self, longest: Duration) -> Self {
        self.longest_wait = Some(longest);
        self
    }

    /// Shortens the longest wait to this one.
    pub(crate) fn waiting_within(self, longest: Duration) -> Self {
        Self { longest_wait: Some(self.longest_wait.map_or(longest, |own| own.min(longest))), ..self }
    }

    /// Returns the request of a call that does not wait: its longest wait is no reason to read the clock.
    #[inline]
    pub(super) const fn at_once(self) -> Self {
        Self { longest_wait: None, ..self }
    }

    /// Returns the request on the clock of a gate.
    #[inline]
    pub(super) fn on(self, clock: &impl Clock) -> Entrant {
        let end = self.left.map(|left| End { at: Expiry::after(left, clock), left });
        let wait_end = self.longest_wait.map(|longest| Expiry::after(longest, clock));
        Entrant { criticality: self.criticality, tenant: self.tenant, end, wait_end }
    }
}

/// A call at the gate.
#[derive(Clone, Copy, Debug)]
pub struct Entrant {
    pub(super) criticality: Criticality,
    pub(super) tenant: u64,
    /// When the call must have ended.
    pub(super) end: Option<End>,
    /// When the call stops waiting.
    pub(super) wait_end: Option<Expiry>,
}

/// A call that was admitted.
#[derive(Clone, Copy, Debug)]
pub struct AdmittedCall {
    /// When it got its permit, in ticks.
    pub(super) began: u64,
    pub(super) end: Option<End>,
}

/// The end of a call's time.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) at: Expiry,
    /// How far ahead the end was when the call arrived.
    pub(super) left: Duration,
}

impl Entrant {
    /// Returns this call, admitted now.
    #[inline]
    pub(super) fn admitted(&self, began: u64) -> AdmittedCall {
        AdmittedCall { began, end: self.end }
    }

    /// Returns whether `needed` ticks from `now` are too many.
    ///
    /// They are if no time was left when the call arrived, even if the clock has stepped back since.
    #[inline]
    pub(super) fn is_late(&self, now: u64, needed: u64) -> bool {
        self.end.is_some_and(|end| end.left.is_zero() || end.at.has_passed(now.wrapping_add(needed)))
    }

    /// Returns whether the call has waited for as long as it may.
    pub(super) fn has_waited(&self, now: u64) -> bool {
        self.wait_end.is_some_and(|end| end.has_passed(now))
    }
}
