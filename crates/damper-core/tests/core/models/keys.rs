//! A model of the keyed limiter: a map of slow buckets.
//!
//! Each key's debt is a whole number, in a map that never forgets.
//!
//! Debts are in 4096ths of an eighth of a token. The rates are powers of two, so a tick repays a whole number of parts,
//! and a debt moved between tiers stays a whole number.

use damper::Quota;
use std::collections::HashMap;

/// Ticks of the clock per tick of the model.
pub(crate) const CLOCK_TICKS: u64 = 1 << 20;
/// The clock's frequency. A tick of the model is a millisecond.
pub(crate) const FREQUENCY: u64 = 1_000 * CLOCK_TICKS;
const TOKEN: i64 = 8 * PART;
const PART: i64 = 4096;
/// The most tiers.
pub(crate) const TIERS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Eighths of a token per tick, as a power of two. There are at most 64.
    pub(crate) rate_log2: u32,
    pub(crate) burst: u32,
    pub(crate) max_debt: u32,
}

impl Settings {
    pub(crate) fn quota(self) -> Quota {
        Quota::per_second((1_000 << self.rate_log2) / 8).burst(self.burst).max_debt(self.max_debt)
    }

    fn rate(self) -> i64 {
        PART << self.rate_log2
    }

    fn full(self) -> i64 {
        i64::from(self.burst) * TOKEN
    }

    fn deepest(self) -> i64 {
        i64::from(self.burst + self.max_debt) * TOKEN
    }
}

/// The amount missing from a full bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Debt(i64);

impl Debt {
    fn less(self, parts: i64) -> Self {
        Self((self.0 - parts).max(0))
    }

    /// Moves the debt to another tier, where it takes as long to repay.
    fn moved(self, old: Settings, new: Settings) -> Self {
        Self(self.0 * new.rate() / old.rate())
    }
}

#[derive(Clone, Copy, Debug)]
struct Key {
    tier: usize,
    debt: Debt,
    is_moved: bool,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Allowed {
        remaining: i64,
    },
    ExceedsBurst {
        remaining: i64,
    },
    /// The nanoseconds to wait, rounded down, and by how much the wait may exceed them.
    Denied {
        remaining: i64,
        wait: (u128, u128),
    },
}

#[derive(Debug)]
pub(crate) struct Keys {
    tiers: Vec<Settings>,
    known: HashMap<u64, Key>,
    given: HashMap<u64, usize>,
    /// The debts of keys without a slot, by key and tier.
    ///
    /// `None` if a charge gives such a key a slot.
    unseen: Option<HashMap<(u64, usize), Debt>>,
}

impl Keys {
    pub(crate) fn new(tiers: Vec<Settings>, shares: bool) -> Self {
        Self { tiers, known: HashMap::new(), given: HashMap::new(), unseen: shares.then(HashMap::new) }
    }

    pub(crate) fn own_tier(key: u64) -> usize {
        key as usize % TIERS
    }

    fn tier(&self, key: u64) -> usize {
        self.known.get(&key).map_or_else(|| self.tier_if_seen(key), |known| known.tier)
    }

    fn tier_if_seen(&self, key: u64) -> usize {
        self.given.get(&key).copied().unwrap_or_else(|| Self::own_tier(key).min(self.tiers.len() - 1))
    }

    pub(crate) fn pass(&mut self, ticks: i64) {
        for key in self.known.values_mut() {
            key.debt = key.debt.less(ticks * self.tiers[key.tier].rate());
        }
        for ((_, tier), debt) in self.unseen.iter_mut().flatten() {
            *debt = debt.less(ticks * self.tiers[*tier].rate());
        }
    }

    pub(crate) fn check(&mut self, key: u64, n: u32) -> Answer {
        let tier = self.tier(key);
        let settings = self.tiers[tier];
        let mut now = self.known.get(&key).copied().unwrap_or_else(|| Key {
            tier,
            debt: self.inherited(key, tier),
            is_moved: false,
        });
        let remaining = |debt: Debt| (settings.full() - debt.0).max(0).div_euclid(TOKEN);
        let after = Debt(now.debt.0 + i64::from(n) * TOKEN);
        if n == 0 {
            Answer::Allowed { remaining: remaining(now.debt) }
        } else if n > settings.burst {
            Answer::ExceedsBurst { remaining: remaining(now.debt) }
        } else if after.0 <= settings.full() {
            now.debt = after;
            self.known.insert(key, now);
            Answer::Allowed { remaining: remaining(after) }
        } else {
            // A tick of the model is a million nanoseconds, and a tick of the clock is less than one.
            let short = (after.0 - settings.full()) as u128 * 1_000_000;
            Answer::Denied { remaining: remaining(now.debt), wait: (short / settings.rate() as u128, 3) }
        }
    }

    /// Returns the debt of a key without a slot in a tier.
    fn unseen(&self, key: u64, tier: usize) -> Debt {
        self.unseen.as_ref().and_then(|unseen| unseen.get(&(key, tier)).copied()).unwrap_or_default()
    }

    /// Returns a newcomer's debt, which is the longest of its own in all tiers.
    fn inherited(&self, key: u64, tier: usize) -> Debt {
        // Compares the times to repay: a / b < c / d is a · d < c · b.
        let longer = |one: &usize, other: &usize| {
            let [one_debt, other_debt] = [one, other].map(|tier| self.unseen(key, *tier).0);
            (one_debt * self.tiers[*other].rate()).cmp(&(other_debt * self.tiers[*one].rate()))
        };
        match (0..self.tiers.len()).max_by(longer).unwrap() {
            longest if longest == tier || self.unseen(key, longest).0 == 0 => self.unseen(key, tier),
            longest => self.unseen(key, longest).moved(self.tiers[longest], self.tiers[tier]),
        }
    }

    /// Whether a key without a slot owes something in another tier.
    ///
    /// After repeated moves, debts might not be whole numbers of parts.
    pub(crate) fn mixes_tiers(&self, key: u64) -> bool {
        let tier = self.tier(key);
        !self.known.contains_key(&key)
            && (0..self.tiers.len()).any(|other| other != tier && self.unseen(key, other).0 > 0)
    }

    /// The limit, and the tokens left of it.
    pub(crate) fn peek(&self, key: u64) -> (u32, i64) {
        let tier = self.tier(key);
        let settings = self.tiers[tier];
        let debt = self.known.get(&key).map_or_else(|| self.inherited(key, tier), |known| known.debt).0;
        (settings.burst, (settings.full() - debt).max(0).div_euclid(TOKEN))
    }

    pub(crate) fn charge(&mut self, key: u64, n: u32) -> u32 {
        let tier = self.tier(key);
        let mut newcomer = Debt::default();
        let (debt, gets_slot) = match (self.known.get_mut(&key), &mut self.unseen) {
            (Some(known), _) => (&mut known.debt, false),
            (None, Some(unseen)) => (unseen.entry((key, tier)).or_default(), false),
            (None, None) => (&mut newcomer, true),
        };
        let room = (self.tiers[tier].deepest() - debt.0).max(0).div_euclid(TOKEN);
        let booked = room.min(i64::from(n));
        debt.0 += booked * TOKEN;
        if gets_slot && booked > 0 {
            self.known.insert(key, Key { tier, debt: newcomer, is_moved: false });
        }
        booked as u32
    }

    pub(crate) fn refund(&mut self, key: u64, n: u32) -> u32 {
        let Some(known) = self.known.get_mut(&key) else { return 0 };
        let given = known.debt.0.min(i64::from(n) * TOKEN);
        known.debt = known.debt.less(i64::from(n) * TOKEN);
        (given + TOKEN - 1).div_euclid(TOKEN) as u32
    }

    pub(crate) fn reset(&mut self, key: u64) {
        if let Some(known) = self.known.get_mut(&key) {
            known.debt = Debt::default();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.unseen.iter_mut().for_each(HashMap::clear);
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// Changes the quotas of several tiers, and returns whether all of them exist.
    pub(crate) fn set_quotas(&mut self, quotas: &[(usize, Settings)]) -> bool {
        let all_exist = quotas.iter().all(|(tier, _)| *tier < self.tiers.len());
        for &(tier, settings) in quotas.iter().filter(|_| all_exist) {
            self.tiers[tier] = settings;
        }
        all_exist
    }

    pub(crate) fn add_tier(&mut self, settings: Settings) {
        self.tiers.push(settings);
    }

    /// Whether a key's debt was moved and is not repaid yet.
    ///
    /// After another move it might not be a whole number of parts.
    pub(crate) fn was_moved(&self, key: u64) -> bool {
        self.known.get(&key).is_some_and(|known| known.is_moved && known.debt.0 > 0)
    }

    /// Sets or clears a key's tier. Its debt takes as long to repay as before.
    pub(crate) fn give_tier(&mut self, key: u64, given: Option<usize>) {
        match given {
            Some(tier) => self.given.insert(key, tier),
            None => self.given.remove(&key),
        };
        self.retier(key);
    }

    /// Moves a key to the tier that it belongs to now.
    pub(crate) fn retier(&mut self, key: u64) {
        let tier = self.tier_if_seen(key);
        if let Some(known) = self.known.get_mut(&key) {
            known.debt = known.debt.moved(self.tiers[known.tier], self.tiers[tier]);
            known.tier = tier;
            known.is_moved = true;
        }
    }
}
