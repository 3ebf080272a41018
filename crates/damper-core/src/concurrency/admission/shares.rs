//! The counters of the tenants of one class, and the calls of each that wait.
//!
//! A share is a tenant's: it is found by a hash of the tenant, in one of four places, so memory is bounded whatever tenants
//! there are. A tenant without a share takes over that of one that has no calls queued, of those in its places the one with the
//! fewest starts, and these starts with it. (If it began with none, tenants that take a share from one another again and
//! again would get two and a half times as much as the others.) Only if more than four tenants with calls queued meet in
//! the same four places, two of them have one share.

use crate::concurrency::bulkhead::list::{Link, List};
use crate::sync::IS_MODEL;
use alloc::boxed::Box;
use core::cmp::Reverse;
use core::iter;

/// How many starts a tenant may be behind the one with the most starts of its class. A tenant that was away is not owed more.
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

    /// The calls queued.
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    /// Finds the share of the tenant with this hash, or gives it one.
    pub(super) fn of(&mut self, tenant: u64) -> u16 {
        let tag = (tenant >> u32::BITS) as u32;
        let first = (tenant % u64::from(SHARES / WAYS)) as u16 * WAYS;
        let ways = first..first + WAYS;
        if let Some(own) = ways.clone().find(|&way| self.share(way).tag == tag) {
            return own;
        }
        // Those without calls come first; of those with calls the one with fewest is shared.
        let least = ways.min_by_key(|&way| (self.share(way).queued, self.share(way).starts)).unwrap_or(first);
        let share = &mut self.table[usize::from(least)];
        if share.queued == 0 {
            share.tag = tag;
        }
        least
    }

    /// Adds a call, the newest, to a share.
    pub(super) fn push(&mut self, share: u16, call: u16, links: &mut [Link]) {
        let of = &mut self.table[usize::from(share)];
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

    /// The call that goes first: the newest of the share with the fewest starts. `age` tells newer calls by higher numbers.
    pub(super) fn next(&self, age: impl Fn(u16) -> u64) -> Option<u16> {
        let newest = self.queued.iter(&self.links).filter_map(|share| Some((share, self.share(share).calls.last()?)));
        newest.min_by_key(|&(share, call)| (self.starts(share), Reverse(age(call)))).map(|(_, call)| call)
    }

    /// The call that gives way: the oldest of the share with most calls queued, beside a newcomer of the share `newcomer`.
    pub(super) fn victim(&self, newcomer: Option<u16>, age: impl Fn(u16) -> u64) -> Option<u16> {
        let oldest = self.queued.iter(&self.links).filter_map(|share| Some((share, self.share(share).calls.first()?)));
        let queued = |share| self.share(share).queued + u32::from(newcomer == Some(share));
        oldest.max_by_key(|&(share, call)| (queued(share), Reverse(age(call)))).map(|(_, call)| call)
    }

    /// The starts of a share, at most [`CREDIT`] behind the most of any.
    fn starts(&self, share: u16) -> u64 {
        self.share(share).starts.max(self.highest.saturating_sub(CREDIT))
    }

    fn share(&self, share: u16) -> &Share {
        &self.table[usize::from(share)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A tenant's hash: one of the first four places, and a tag.
    fn tenant(tag: u64) -> u64 {
        tag << u32::BITS
    }

    #[test]
    fn tenant_keeps_its_share_while_it_has_calls_queued() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 8]);
        let first = shares.of(tenant(1));
        shares.push(first, 0, &mut links);
        let others: Vec<u16> = (2..100).map(|tag| shares.of(tenant(tag))).collect();
        assert!(!others.contains(&first));
        assert_eq!(shares.of(tenant(1)), first);
    }

    #[test]
    fn fifth_tenant_in_the_same_places_shares_that_with_fewest_calls() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 8]);
        let places: Vec<u16> = (1..5)
            .map(|tag| {
                let share = shares.of(tenant(tag));
                shares.push(share, tag as u16, &mut links);
                share
            })
            .collect();
        shares.push(places[0], 5, &mut links);
        shares.push(places[2], 6, &mut links);
        shares.start(places[1]);
        assert_eq!((shares.of(tenant(9)), shares.calls()), (places[3], 6));
    }

    /// Five tenants in the same four places that come one after another have as many starts between them as four others.
    #[test]
    fn tenant_that_takes_over_a_share_gains_nothing() {
        let mut shares = Shares::new();
        for tag in (1..6).cycle().take(1_000) {
            let share = shares.of(tenant(tag));
            shares.start(share);
        }
        let starts: u64 = shares.table.iter().map(|share| share.starts).sum();
        assert_eq!((starts, shares.highest), (1_000, 250));
    }

    #[test]
    fn tenant_that_was_away_is_owed_ten_starts() {
        let (mut shares, mut links) = (Shares::new(), [Link::NONE; 4]);
        let busy = shares.of(tenant(1));
        shares.push(busy, 0, &mut links);
        let idle = shares.of(tenant(2));
        (0..1_000).for_each(|_| shares.start(busy));
        shares.push(idle, 1, &mut links);
        let age = |call| u64::from(10 - call);
        for _ in 0..CREDIT {
            assert_eq!(shares.next(age), Some(1));
            shares.start(idle);
        }
        assert_eq!(shares.next(age), Some(0), "both have as many starts, and the other's call is newer");
    }
}
