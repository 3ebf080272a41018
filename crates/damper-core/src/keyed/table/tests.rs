//! Random histories of tables that are too small for their keys.
//!
//! They check that no key gets more tokens in a tier than the tier's quota allows.
//!
//! The lines of shared words have one to seven words, and the tags one to thirteen bits, so that keys displace and
//! inherit from one another all the time. The model is a list of the calls that were admitted, or charged afterwards,
//! and neither rolled back nor cleared. After each admitted call, the test goes back through the key's earlier calls in
//! the tier. The tokens taken from each of these calls on must be at most what the algorithm promises for that time.

use super::{Check, Fingerprint, Receipt, Table, WhenFull};
use crate::FixedWindow;
use crate::ManualClock;
use crate::limit::{TokenBucket, UnderQuota};
use crate::quota::{Alignment, LiveQuota, Quota};
use std::collections::{HashMap, HashSet};
use std::vec::Vec;

const SECOND: i128 = 1_000_000_000;

/// A generator of random numbers, `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// An algorithm with its promise: how many tokens a key can take in a time.
trait Envelope: UnderQuota {
    /// Whether [`most`](Self::most) also holds when quotas change.
    const HOLDS_FOR_CHANGES: bool;

    fn quota(random: &mut Random) -> Quota;

    /// Returns the most tokens, times `SECOND`, that a key may take from the call `since` until now.
    fn most(tier: &TierModel, since: &AdmittedCall, now: i128) -> i128;
}

impl Envelope for TokenBucket {
    const HOLDS_FOR_CHANGES: bool = true;

    fn quota(random: &mut Random) -> Quota {
        let rate = [1, 2, 5, 50][random.below(4) as usize];
        Quota::per_second(rate).burst(1 + random.below(6) as u32)
    }

    fn most(tier: &TierModel, since: &AdmittedCall, _: i128) -> i128 {
        let quotas = &tier.quotas[since.quota..];
        let most = |of: fn(&Quota) -> u32| i128::from(quotas.iter().map(of).max().unwrap());
        // Rounding may bring the tokens of up to 8 ticks early, anew after each change of the quota.
        let early = 8 * quotas.len() as i128 * most(Quota::limit);
        most(Quota::burst_size) * SECOND + tier.produced - since.produced + early
    }
}

/// Promises the limit in each window of a second.
impl Envelope for FixedWindow {
    const HOLDS_FOR_CHANGES: bool = false;

    fn quota(random: &mut Random) -> Quota {
        Quota::per_second(1 + random.below(6) as u32)
    }

    fn most(tier: &TierModel, since: &AdmittedCall, now: i128) -> i128 {
        (now / SECOND - since.at / SECOND + 1) * tier.rate() * SECOND
    }
}

/// A call that was admitted and not rolled back.
#[derive(Clone, Copy, Debug)]
struct AdmittedCall {
    call: usize,
    n: u32,
    at: i128,
    /// The tokens that the tier had produced before the call, times `SECOND`.
    produced: i128,
    /// How often the tier's quota had changed by then.
    quota: usize,
}

/// The tokens that a tier produced so far, times `SECOND`, and all quotas that it has had.
#[derive(Debug)]
struct TierModel {
    produced: i128,
    quotas: Vec<Quota>,
}

impl TierModel {
    fn rate(&self) -> i128 {
        self.quotas.last().unwrap().limit().into()
    }
}

#[derive(Debug)]
struct Held {
    key: u64,
    tier: usize,
    call: usize,
    n: u32,
    receipt: Receipt,
}

struct History<A: Envelope> {
    random: Random,
    seed: u64,
    keys: u64,
    changes_quotas: bool,
    now: i128,
    clock: ManualClock,
    table: Table<A>,
    tiers: Vec<TierModel>,
    /// The tier that each key is in, or would be in.
    tier_of: HashMap<u64, usize>,
    moved: HashSet<u64>,
    has_new_quota: bool,
    admitted: HashMap<(u64, usize), Vec<AdmittedCall>>,
    held: Vec<Held>,
    calls: usize,
    charged: usize,
}

/// Counts of what happened in some histories, to show that they reach the cases of interest.
#[derive(Debug, Default)]
struct Sum {
    calls: usize,
    charged: usize,
    overflows: u64,
    generations: u64,
}

/// Creates a table with as few slots as there can be.
fn table<A: UnderQuota>(quotas: &[Quota], words: usize, when_full: WhenFull) -> Table<A> {
    let others = (quotas.len() > 1).then(|| &quotas[1..]);
    Table::new(quotas[0], others, A::line_start(Alignment::default()), 1, words, when_full)
}

impl<A: Envelope> History<A> {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let tiers = 1 + random.below(3) as usize;
        let quotas: Vec<Quota> = (0..tiers).map(|_| A::quota(&mut random)).collect();
        let words = [1, 2, 3, 4, 8, 8, 9, 16][random.below(8) as usize];
        let when_full =
            if random.below(4) == 0 && tiers > 1 { WhenFull::EvictLeastIndebted } else { WhenFull::SharedOverflow };
        let mut table = table::<A>(&quotas, words, when_full);
        table.shared.most_tag = (1 << (1 + random.below(13))) - 1;
        let (keys, clock) = (8 + random.below(24), ManualClock::new());
        let changes_quotas = A::HOLDS_FOR_CHANGES && random.below(2) == 0;
        if !changes_quotas {
            // This makes all windows begin now.
            (0..tiers).for_each(|tier| put_in_force::<A>(&table, tier, quotas[tier], &clock));
        }
        let tiers = quotas.into_iter().map(|quota| TierModel { produced: 0, quotas: Vec::from([quota]) }).collect();
        Self {
            seed,
            changes_quotas,
            now: 0,
            random,
            keys,
            clock,
            table,
            tiers,
            tier_of: HashMap::new(),
            moved: HashSet::new(),
            has_new_quota: false,
            admitted: HashMap::new(),
            held: Vec::new(),
            calls: 0,
            charged: 0,
        }
    }

    fn fingerprint(key: u64) -> Fingerprint {
        Fingerprint::of(Random(key).next())
    }

    fn pass(&mut self, nanos: u64) {
        self.clock.advance_ticks(nanos);
        self.now += i128::from(nanos);
        for tier in &mut self.tiers {
            tier.produced += i128::from(nanos) * tier.rate();
        }
    }

    fn own_tier(&mut self, key: u64) -> usize {
        *self.tier_of.entry(key).or_insert_with(|| self.random.below(self.tiers.len() as u64) as usize)
    }

    /// Adds a call to the model.
    fn count(&mut self, key: u64, tier: usize, n: u32) {
        let model = &self.tiers[tier];
        let quota = model.quotas.len() - 1;
        let admitted = self.admitted.entry((key, tier)).or_default();
        admitted.push(AdmittedCall { call: self.calls, n, at: self.now, produced: model.produced, quota });
    }

    fn check(&mut self, key: u64, n: u32) {
        let own = self.own_tier(key);
        let fingerprint = Self::fingerprint(key);
        let taken = loop {
            let taken = self.table.take(fingerprint, Check { n }, &self.clock);
            if let Some(taken) =
                taken.or_else(|| self.table.first_sight(fingerprint, Check { n }, &self.clock, || Some(own)))
            {
                break taken;
            }
        };
        self.calls += 1;
        let Ok((_, receipt)) = taken else { return };
        let tier = usize::from(receipt.tier);
        self.held.push(Held { key, tier, call: self.calls, n, receipt });
        self.count(key, tier, n);
        // Two cases are not checked. Under eviction a key may have a second burst in a slot that owes nothing. A move
        // to another tier keeps a debt as a time, and if a quota changes before the key moves back, that time is
        // another number of tokens.
        if self.table.when_full == WhenFull::EvictLeastIndebted || self.has_new_quota && self.moved.contains(&key) {
            return;
        }
        let (model, admitted) = (&self.tiers[tier], &self.admitted[&(key, tier)]);
        let mut sum = 0;
        for since in admitted.iter().rev() {
            sum += i128::from(since.n) * SECOND;
            let allowed = A::most(model, since, self.now);
            assert!(sum <= allowed, "seed {}: key {key} in tier {tier}: {sum} of {allowed}, {admitted:?}", self.seed);
        }
    }

    /// Charges a key for `n` tokens after the fact, and adds what the table booked to the model.
    fn charge(&mut self, key: u64, n: u32) {
        let own = self.own_tier(key);
        let fingerprint = Self::fingerprint(key);
        let (booked, tier) = loop {
            let tier = self.table.slots.slot_of(fingerprint).map_or(own, |(_, word)| word.tier());
            let booked = self.table.charge_in_slot(fingerprint, n, &self.clock);
            if let Some(booked) =
                booked.or_else(|| self.table.charge_without_slot(fingerprint, n, &self.clock, || Some(own)))
            {
                break (booked, tier);
            }
        };
        self.calls += 1;
        self.charged += usize::from(booked > 0);
        self.count(key, tier, booked);
    }

    fn step(&mut self) {
        let key = self.random.below(self.keys);
        match self.random.below(21) {
            20 => {
                let n = 1 + self.random.below(8) as u32;
                self.charge(key, n);
            }
            0..13 => {
                let n = 1 + self.random.below(3) as u32;
                self.check(key, n);
            }
            13 => {
                let nanos = self.random.below(300_000_000);
                self.pass(nanos);
            }
            14 => {
                let nanos = self.random.below(2) * self.random.below(3_000_000_000);
                self.pass(nanos);
            }
            15..18 if !self.held.is_empty() => {
                let which = self.random.below(self.held.len() as u64) as usize;
                let Held { key, tier, call, n, receipt } = self.held.swap_remove(which);
                self.table.roll_back(Self::fingerprint(key), n, receipt, &self.clock);
                if let Some(admitted) = self.admitted.get_mut(&(key, tier)) {
                    admitted.retain(|admitted| admitted.call != call);
                }
            }
            18 => {
                let tier = self.random.below(self.tiers.len() as u64) as usize;
                self.moved.insert(key);
                self.tier_of.insert(key, tier);
                self.table.move_to(Self::fingerprint(key), &self.clock, || Some(tier));
            }
            19 if self.changes_quotas && self.random.below(4) == 0 => {
                let tier = self.random.below(self.tiers.len() as u64) as usize;
                let quota = A::quota(&mut self.random);
                put_in_force::<A>(&self.table, tier, quota, &self.clock);
                self.has_new_quota = true;
                self.tiers[tier].quotas.push(quota);
            }
            19 if self.random.below(10) == 0 => {
                self.table.clear();
                self.admitted.clear();
            }
            _ => {}
        }
    }
}

fn put_in_force<A: UnderQuota>(table: &Table<A>, tier: usize, quota: Quota, clock: &ManualClock) {
    let live: &LiveQuota = table.tier(tier).unwrap();
    drop(live.prepare::<A::Line>(quota, clock).unwrap().publish::<A::Line>(clock));
}

fn histories<A: Envelope>(seeds: impl Iterator<Item = u64>) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds {
        let mut history = History::<A>::new(seed);
        (0..120).for_each(|_| history.step());
        sum.calls += history.calls;
        sum.charged += history.charged;
        sum.overflows += history.table.sum(|counts| counts.overflows);
        sum.generations += history.table.sum(|counts| counts.generation.into());
    }
    sum
}

/// Runs 5,000 histories, times the environment variable `DAMPER_CASES`.
///
/// `DAMPER_CASES=400 cargo test --release -p damper-core --lib keyed::table` runs two million.
fn run<A: Envelope>() {
    let times = std::env::var("DAMPER_CASES").map_or(1, |times| times.parse().unwrap());
    let sum = histories::<A>(0..5_000 * times);
    std::println!("{sum:?}");
    assert!(
        sum.charged > sum.calls / 50
            && sum.overflows > sum.calls as u64 / 4
            && sum.generations > sum.calls as u64 / 200,
        "{sum:?}"
    );
}

#[test]
fn keys_without_a_slot_stay_in_their_envelope() {
    run::<TokenBucket>();
}

#[test]
fn keys_without_a_slot_stay_within_the_limit_of_each_window() {
    run::<FixedWindow>();
}

/// The random histories seldom move a key back to a tier in which it owes tokens with other keys.
#[test]
fn key_that_comes_back_to_a_tier_owes_what_it_spent_there_with_others() {
    let (slow, fast) = (Quota::per_second(1).burst(6), Quota::per_second(50).burst(1));
    let clock = ManualClock::new();
    let table = table::<TokenBucket>(&[slow, fast], 1, WhenFull::SharedOverflow);
    let [key, neighbour] = [1, 2].map(|key| Fingerprint::of(Random(key).next()));
    let once = |key, n, tier| {
        table.take(key, Check { n }, &clock).or_else(|| table.first_sight(key, Check { n }, &clock, || Some(tier)))
    };
    // The first use of a tier starts the tier's line, and then the call has to be repeated.
    let take = |key, n, tier| once(key, n, tier).or_else(|| once(key, n, tier)).unwrap().is_ok();
    for guest in 3..3 + table.slots.iter().count() as u64 {
        assert!(take(Fingerprint::of(Random(guest).next()), 1, 1), "each has a slot");
    }
    assert!(take(key, 5, 0) && take(neighbour, 1, 0), "both spend in the only shared word");
    clock.advance_ticks(20_000_000);
    assert!(take(key, 1, 1), "the slots are idle, and one is the key's now");
    table.move_to(key, &clock, || Some(0));
    assert!(!take(key, 1, 0), "five tokens and the neighbour's are owed");
}
