//! How often the two disagree.

use crate::sync::{AtomicU64, Ordering, const_unless_loom};

/// Counts the refusals of what is in force and of a candidate beside it.
///
/// [`Shadowed`](super::Shadowed) has one. A call that both allow writes nothing.
#[derive(Debug)]
pub struct ShadowCounts {
    by_both: AtomicU64,
    only_by_candidate: AtomicU64,
    only_in_force: AtomicU64,
}

/// The refusals so far: by both, by the candidate only, and in force only.
///
/// All other calls were allowed by both.
///
/// Two breakers can be a gate of a layer. The layer refuses some calls by its readiness, without asking the gate. The counts leave
/// these calls out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct ShadowReport {
    /// Calls that both refused.
    pub by_both: u64,
    /// Calls that were allowed, and that the candidate would have refused.
    pub only_by_candidate: u64,
    /// Calls that were refused, and that the candidate would have allowed.
    pub only_in_force: u64,
}

impl ShadowReport {
    /// Returns how many calls the candidate would have refused.
    #[must_use]
    pub const fn by_candidate(&self) -> u64 {
        self.by_both.saturating_add(self.only_by_candidate)
    }

    /// Returns how many calls were refused.
    #[must_use]
    pub const fn in_force(&self) -> u64 {
        self.by_both.saturating_add(self.only_in_force)
    }
}

impl ShadowCounts {
    const_unless_loom! {
        /// Creates counts of no refusals.
        #[must_use]
        pub const fn new() -> Self {
            Self { by_both: AtomicU64::new(0), only_by_candidate: AtomicU64::new(0), only_in_force: AtomicU64::new(0) }
        }
    }

    /// Counts one call by the answers that it got, of which an `Err` is a refusal.
    #[inline]
    pub fn record<T, D, U, E>(&self, in_force: &Result<T, D>, candidate: &Result<U, E>) {
        let count = match (in_force.is_ok(), candidate.is_ok()) {
            (true, true) => return,
            (true, false) => &self.only_by_candidate,
            (false, true) => &self.only_in_force,
            (false, false) => &self.by_both,
        };
        // ORDERING: Relaxed: a count, through which nothing is published.
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    ///
    /// Each is exact, and calls that end meanwhile may be in some and not in others.
    #[must_use]
    pub fn report(&self) -> ShadowReport {
        // ORDERING: Relaxed, as in `record`.
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ShadowReport {
            by_both: read(&self.by_both),
            only_by_candidate: read(&self.only_by_candidate),
            only_in_force: read(&self.only_in_force),
        }
    }
}

impl Default for ShadowCounts {
    fn default() -> Self {
        Self::new()
    }
}
