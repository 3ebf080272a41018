//! How much is used, by the server's count.

use crate::script::{Level, Reply, Terms};
use damper_core::internal::usage_elsewhere;
use damper_core::{Quota, Usage};

/// Returns the usage of the limit that has the fewest tokens left.
///
/// The tokens that this process has leased count as left, and those that others have as used.
pub(crate) fn of(reply: &Reply, terms: &[Terms], quotas: &[Quota], leased: u32) -> Usage {
    let limits = reply.levels.iter().zip(terms).zip(quotas);
    let usages = limits.map(|((level, terms), quota)| of_limit(level, terms, *quota, reply.now, leased));
    // Without a limit there is no reply.
    usages.min_by_key(Usage::remaining).unwrap_or_else(|| usage_elsewhere(Quota::UNLIMITED, u32::MAX, 0, None))
}

fn of_limit(level: &Level, terms: &Terms, quota: Quota, now: u64, leased: u32) -> Usage {
    let remaining = level.remaining(terms).saturating_add(leased);
    let debt = level.owed.saturating_sub(terms.burst.into());
    let resets_in = level.resets_in(terms, now);
    usage_elsewhere(quota, remaining, u32::try_from(debt).unwrap_or(u32::MAX), resets_in)
}
