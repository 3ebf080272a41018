//! The order of classes, and of tenants within a class.
//!
//! An admission is the word of a bulkhead with a queue in this order. A free slot goes to the highest class with waiting calls, in
//! it to the tenant with the fewest calls started, and of that tenant to the newest call. If a smaller limit has no place for some of
//! the calls, calls of the lowest class are refused first. The queue grants slots and refuses calls in the same swap that changes
//! the word.
//!
//! Each class has 1,024 counters of starts, and a tenant may have one of four of them. A tenant without a counter takes over the one
//! of a tenant without queued calls, together with its count: otherwise tenants that take turns would get more than their share.

use super::Criticality;
use super::shares::Shares;
use crate::concurrency::queue::{Discipline, Link};

/// The waiting calls by class and tenant.
#[derive(Debug)]
pub(in crate::concurrency) struct Classes([Shares; Criticality::ALL.len()]);

/// A call that may join the queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::concurrency) struct Newcomer {
    rank: Rank,
    /// A keyed hash of the tenant.
    tenant: u64,
}

/// The class of a call, and the share of its tenant in it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::concurrency) struct Rank {
    share: u16,
    criticality: Criticality,
}

impl Classes {
    pub(in crate::concurrency) fn new() -> Self {
        Self(Criticality::ALL.map(|_| Shares::new()))
    }

    /// Returns how many calls of this class wait.
    pub(super) fn queued(&self, criticality: Criticality) -> u32 {
        self.class(criticality).calls()
    }

    /// Returns a call of a tenant, which is given by a keyed hash.
    ///
    /// Its share belongs to the tenant once the call joins.
    pub(in crate::concurrency) fn newcomer(&self, criticality: Criticality, tenant: u64) -> Newcomer {
        Newcomer { rank: Rank { share: self.class(criticality).of(tenant), criticality }, tenant }
    }

    /// Returns the lowest class with waiting calls.
    fn lowest(&self) -> Option<Criticality> {
        Criticality::ALL.into_iter().rev().find(|criticality| self.queued(*criticality) > 0)
    }

    fn class(&self, criticality: Criticality) -> &Shares {
        &self.0[usize::from(criticality.class())]
    }

    fn class_mut(&mut self, criticality: Criticality) -> &mut Shares {
        &mut self.0[usize::from(criticality.class())]
    }
}

impl Discipline for Classes {
    type Newcomer = Newcomer;
    type Rank = Rank;

    const IS_WITHIN_LIMIT: bool = true;
    const PLACES_PER_CALL: u16 = 2;

    fn push(&mut self, Newcomer { rank, tenant }: Newcomer, call: u16, links: &mut [Link]) -> Rank {
        self.class_mut(rank.criticality).push(rank.share, tenant, call, links);
        rank
    }

    fn remove(&mut self, rank: Rank, call: u16, links: &mut [Link]) {
        self.class_mut(rank.criticality).remove(rank.share, call, links);
    }

    fn start(&mut self, rank: Rank) {
        self.class_mut(rank.criticality).start(rank.share);
    }

    /// Returns the call that gets the next slot, from the highest class.
    fn next(&self, ticket: impl Fn(u16) -> u64) -> Option<u16> {
        self.0.iter().find_map(|class| class.next(&ticket))
    }

    /// Returns a call of the lowest class. Those of higher classes than the newcomer's do not give way.
    fn victim(&self, newcomer: Option<Newcomer>, ticket: impl Fn(u16) -> u64) -> Option<u16> {
        let lowest = self.lowest()?;
        let newcomer = newcomer.map(|newcomer| newcomer.rank);
        if newcomer.is_some_and(|rank| rank.criticality > lowest) {
            return None;
        }
        let share = newcomer.filter(|rank| rank.criticality == lowest).map(|rank| rank.share);
        self.class(lowest).victim(share, ticket)
    }
}
