//! Small keyed tables.
//!
//! They are the smallest there are, one set of four slots, which are filled up to one or two beforehand, with keys that owe all
//! they can: sets of one and of two ways.

use crate::{Flaw, Stopped};
use damper_core::internal::{revoke, take_revocably};
use damper_core::sync::with_flaw;
use damper_core::{KeyedLimiter, Quota, WhenFull};
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes a `u64` to itself: executions of a model must be alike.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64 here")
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// The branches that a first sight needs, more than loom allows an execution by itself.
///
/// It looks at eight slots and the quota of each.
pub fn builder(preemptions: usize) -> Builder {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder
}

/// As [`check_flawed`](crate::check_flawed).
pub fn check_flawed(flaw: Flaw, model: impl Fn() + Send + Sync + 'static) {
    with_flaw(flaw, || builder(3).check(model));
}

pub type Limits = Arc<KeyedLimiter<u64, Stopped, BuildHasherDefault<Identity>>>;

/// Keys with a lock each, where there are three groups of shared words.
pub const A: u64 = 1;
pub const B: u64 = 2;
pub const C: u64 = 3;

/// A burst of so many, of which nothing is refilled while a model runs.
pub fn quota(burst: u32) -> Quota {
    Quota::per_hour(1).burst(burst).max_debt(0)
}

/// The words of three groups of shared words, with their fixed words for two tiers.
const THREE_GROUPS: usize = 3 * (32 + 2);

/// A table with a set of so many ways; all have `quota`, but those in tier 1 twice as much.
pub fn ways(ways: u64, when_full: WhenFull, quota: Quota) -> Limits {
    sharing(THREE_GROUPS, ways, when_full, quota)
}

/// The same with so many shared words.
pub fn sharing(words: usize, ways: u64, when_full: WhenFull, quota: Quota) -> Limits {
    let twice = Quota::per_hour(2).burst(2 * quota.burst_size()).max_debt(0);
    let limits = KeyedLimiter::<u64>::builder(quota)
        .tiers([twice], |_| 0)
        .capacity(1)
        .shared_buckets(words)
        .when_full(when_full)
        .clock(Stopped(7))
        .hasher(BuildHasherDefault::default())
        .build()
        .unwrap();
    for other in ways..4 {
        limits.check_n(&(100 + other), quota.burst_size()).unwrap();
    }
    Arc::new(limits)
}

/// Takes `n` tokens of a key, if they are there, and gives them back.
pub fn taken_and_given_back(limits: &Limits, key: u64, n: u32) {
    if let Ok((_, receipt)) = take_revocably(limits, &key, n) {
        revoke(limits, &key, n, receipt);
    }
}

/// Lets `rival` run beside what follows.
pub fn beside<T: 'static>(limits: &Limits, rival: impl FnOnce(&Limits) -> T + 'static) -> thread::JoinHandle<T> {
    let limits = Arc::clone(limits);
    thread::spawn(move || rival(&limits))
}
