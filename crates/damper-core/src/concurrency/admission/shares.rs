//! The starts that the tenants of one class were given, and the calls of each that wait.
//!
//! A share belongs to a tenant: it is found by a hash of the tenant, in one of four places, so memory is bounded however many
//! tenants there are. A tenant without a share takes over that of a tenant without queued calls: of those in its places, the one
//! with the fewest starts, and these starts with it. (If it began with no starts, tenants that keep taking a share from one
//! another would get two and a half times as much as the others.) It does so when its first call is queued, so calls that are
//! refused at once change no share. Only if more than four tenants with queued calls meet in the same four places, two of them
//! have one share.

use crate::concurrency::queue::{Link, List};
use crate::sync::IS_MODEL;
use alloc::boxed::Box;
use core::cmp::Reverse;
use core::iter;

/// The most starts by which a tenant may be behind the highest tenant of its class.
///
/// A tenant that was away is not owed more.
pub(super) const CREDIT: u64 = 10;

/// The shares of a class.
const SHARES: u16 = if IS_MODEL { 4 } else { 1_024 };

/// The places in which a tenant's share may be.
const WAYS: u16 = 4;

/// A tenant's share of its class.
#[derive(Debug)]
struct Share {
    /// The part of the tenant's hash that does not choose the places.
    tag: u32,
    /// The tenant's calls in the queue.
    queued: u32,
    starts: u64,
    /// These calls, the oldest first.
    calls: List,
}

/// The tenants of a class.
#[derive(Debug)]
pub(super) struct Shares {
    table: Box<[Share]>,
    links: Box<[Link]>,
    /// The shares with calls queued.
    queued: List,
    /// The most starts of any tenant.
    highest: u64,
    calls: u32,
}

impl Shares {
    pub(super) fn new() -> Self {
        let share = || Share { tag: 0, queued: 0, starts: 0, calls: List::EMPTY };
        Self {
            table: iter::repeat_with(share).take(usize::from(SHARES)).collect(),
            links: iter::repeat_n(Link::NONE, usize::from(SHARES)).collect(),
            queued: List::EMPTY,
            highest: 0,
            calls: 0,
        }
    }

    /// Returns the number of queued calls.
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    /// Finds the share of the tenant with this hash, or the one that it takes over with its next call.
    pub(super) fn of(&self, tenant: u64) -> u16 {
        let tag = tag(tenant);
        let first = (tenant % u64::from(SHARES / WAYS)) as u16 * WAYS;
        let ways = first..first + WAYS;
        if let Some(own) = ways.clone().find(|&way| self.share(way).tag == tag) {
            return own;
        }
        // A share without calls comes first. If all have calls, the one with fewest is shared.
        ways.min_by_key(|&way| (self.share(way).queued, self.share(way).starts)).unwrap_or(first)
    }

    /// Adds a call of a tenant, the newest, to the share that [`of`](Self::of) has found.
    pub(super) fn push(&mut self, share: u16, tenant: u64, call: u16, links: &mut [Link]) {
        let of = &mut self.table[usize::from(share)];
        if of.queued == 0 {
            of.tag = tag(tenant);
        }
        of.calls.push(links, call);
        of.queued += 1;
        self.calls += 1;
        if of.queued == 1 {
            self.queued.push(&mut self.links, share);
        }
    }

    /// Removes a call from the share that it is in.
    pub(super) fn remove(&mut self, share: u16, call: u16, links: &mut [Link]) {
        let of = &mut self.table[usize::from(share)];
        of.calls.remove(links, call);
        of.queued -= 1;
        self.calls -= 1;
        if of.queued == 0 {
            self.queued.remove(&mut self.links, share);
        }
    }

    /// Counts a start.
    pub(super) fn start(&mut self, share: u16) {
        let starts = self.starts(share) + 1;
        self.table[usize::from(share)].starts = starts;
        self.highest = self.highest.max(starts);
    }

    /// Returns the call that goes first: the newest of the share with the fewest starts.
    ///
    /// `age` gives newer calls higher numbers.
    pub(super) fn next(&self, age: impl Fn(u16) -> u64) -> Option<u16> {
        let newest = self.queued.iter(&self.links).filter_map(|share| Some((share, self.share(share).calls.last()?)));
        newest.min_by_key(|&(share, call)| (self.starts(share), Reverse(age(call)))).map(|(_, call)| call)
    }

    /// Returns the call that gives way: the oldest of the share with most calls queued.
    ///
    /// The call of a newcomer with the share `newcomer` counts as queued.
    ///
    /// Calls in flight are not counted, because they need no place. Counting them too would need a count for each tenant beside
    /// the word, which every permit changes: a lock, or a second shared cache line, for calls that find a slot free.
    pub(super) fn victim(&self, newcomer: Option<u16>, age: impl Fn(u16) -> u64) -> Option<u16> {
        let oldest = self.queued.iter(&self.links).filter_map(|share| Some((share, self.share(share).calls.first()?)));
        let queued = |share| self.share(share).queued + u32::from(newcomer == Some(share));
        oldest.max_by_key(|&(share, call)| (queued(share), Reverse(age(call)))).map(|(_, call)| call)
    }

    /// Returns the starts of a share, at most [`CREDIT`] behind the highest.
    fn starts(&self, share: u16) -> u64 {
        self.share(share).starts.max(self.highest.saturating_sub(CREDIT))
    }

    fn share(&self, share: u16) -> &Share {
        &self.table[usize::from(share)]
    }
}

/// Returns the part of a tenant's hash that does not choose the places.
const fn tag(tenant: u64) -> u32 {
    (tenant >> u32::BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Returns a tenant's hash: one of the first four places, and a tag.
    fn tenant(tag: u64) -> u64 {
        tag << u32::BITS
    }

    #[test]
    fn tenant_keeps_its_share_while_it_has_calls_queued() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 8]);
        let first = shares.of(tenant(1));
        shares.push(first, tenant(1), 0, &mut links);
        let others: Vec<u16> = (2..100).map(|tag| shares.of(tenant(tag))).collect();
        assert!(!others.contains(&first));
        assert_eq!(shares.of(tenant(1)), first);
    }

    /// Otherwise a client that chooses its tenant's name could take others' shares by refused calls.
    #[test]
    fn newcomers_that_are_refused_take_no_share() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 8]);
        let own = shares.of(tenant(1));
        shares.push(own, tenant(1), 0, &mut links);
        shares.remove(own, 0, &mut links);
        assert!((2..100).all(|newcomer| shares.of(tenant(newcomer)) == own), "it has as few starts as any");
        assert_eq!(shares.share(own).tag, tag(tenant(1)));
    }

    #[test]
    fn fifth_tenant_in_the_same_places_shares_that_with_fewest_calls() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 8]);
        let places: Vec<u16> = (1..5)
            .map(|tag| {
                let share = shares.of(tenant(tag));
                shares.push(share, tenant(tag), tag as u16, &mut links);
                share
            })
            .collect();
        shares.push(places[0], tenant(1), 5, &mut links);
        shares.push(places[2], tenant(3), 6, &mut links);
        shares.start(places[1]);
        assert_eq!((shares.of(tenant(9)), shares.calls()), (places[3], 6));
    }

    /// Five tenants that alternate in the same four places have as many starts together as four others.
    #[test]
    fn tenant_that_takes_over_a_share_gains_nothing() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 1]);
        for tag in (1..6).cycle().take(1_000) {
            let share = shares.of(tenant(tag));
            shares.push(share, tenant(tag), 0, &mut links);
            shares.start(share);
            shares.remove(share, 0, &mut links);
        }
        let starts: u64 = shares.table.iter().map(|share| share.starts).sum();
        assert_eq!((starts, shares.highest), (1_000, 250));
    }

    #[test]
    fn tenant_that_was_away_is_owed_ten_starts() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 4]);
        let busy = shares.of(tenant(1));
        shares.push(busy, tenant(1), 0, &mut links);
        let idle = shares.of(tenant(2));
        (0..1_000).for_each(|_| shares.start(busy));
        shares.push(idle, tenant(2), 1, &mut links);
        let age = |call| u64::from(10 - call);
        for _ in 0..CREDIT {
            assert_eq!(shares.next(age), Some(1));
            shares.start(idle);
        }
        assert_eq!(shares.next(age), Some(0), "both have as many starts, and the other's call is newer");
    }
}
