//! The request of a call: its class, tenant and deadline.

use super::Criticality;
use crate::Deadline;
use crate::concurrency::bulkhead::expiry::Expiry;
use crate::time::{Clock, Seed};
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

/// Spreads tenants over 64 bits. Each gate hashes the result again, with a seed of its own, before it chooses a counter:
/// two tenants that share one there share all 64 bits here only by chance.
const SPREAD: Seed = Seed::new(0x6461_6D70_6572_2061, 0x646D_6973_7369_6F6E);

/// A request for admission: how much the call counts, whose it is, and by when it must have ended.
///
/// # Examples
///
#[cfg_attr(feature = "std", doc = "```")]
#[cfg_attr(not(feature = "std"), doc = "```text")]
/// # extern crate damper_core as damper;
/// use core::time::Duration;
/// use damper::Deadline;
/// use damper::concurrency::{AdmissionRequest, Criticality};
///
/// let deadline = Deadline::after(Duration::from_millis(500));
/// let request = AdmissionRequest::new().criticality(Criticality::SheddablePlus).tenant("acme").by(&deadline);
/// # let _ = request;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionRequest {
    criticality: Criticality,
    tenant: u64,
    /// The time that was left of it.
    left: Option<Duration>,
}

impl AdmissionRequest {
    /// A request of the class [`Critical`](Criticality::Critical), without a tenant and without a deadline.
    #[must_use]
    pub const fn new() -> Self {
        Self { criticality: Criticality::Critical, tenant: 0, left: None }
    }

    /// Sets how much the call counts. Default: [`Critical`](Criticality::Critical).
    #[must_use]
    pub const fn criticality(mut self, criticality: Criticality) -> Self {
        self.criticality = criticality;
        self
    }

    /// Sets whose call it is: the name of a customer, a number, an address.
    ///
    /// Default: all calls without a tenant count as one tenant's.
    #[must_use]
    pub fn tenant<K: Hash + ?Sized>(mut self, tenant: &K) -> Self {
        self.tenant = SPREAD.hash_one(tenant);
        self
    }

    /// Sets the deadline by which the call must have ended. Default: none.
    ///
    /// The time that is left of it is read now. Of several deadlines the earliest counts.
    #[must_use]
    pub fn by<C: Clock>(mut self, deadline: &Deadline<C>) -> Self {
        if !deadline.is_never() {
            let left = deadline.remaining();
            self.left = Some(self.left.map_or(left, |earlier| earlier.min(left)));
        }
        self
    }

    /// The request on the clock of a gate.
    #[inline]
    pub(super) fn on(self, clock: &impl Clock) -> Entrant {
        let end = self.left.map(|left| End { at: Expiry::after(left, clock), left });
        Entrant { criticality: self.criticality, tenant: self.tenant, end }
    }
}

/// A call at the gate.
#[derive(Clone, Copy, Debug)]
pub struct Entrant {
    pub(super) criticality: Criticality,
    pub(super) tenant: u64,
    /// By when it must have ended.
    pub(super) end: Option<End>,
}

/// The end of a call's time.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub(super) at: Expiry,
    /// How far ahead it was when the call came.
    pub(super) left: Duration,
}

impl Entrant {
    /// Whether so many ticks from `now` are too many.
    #[inline]
    pub(super) fn is_late(&self, now: u64, needed: u64) -> bool {
        self.end.is_some_and(|end| end.at.has_passed(now.wrapping_add(needed)))
    }
}
