//! The keyed table: floods of more keys than slots, which evict one another.
//!
//! Meanwhile buckets are charged, refunded and reset, and the quota changes.
#![cfg(shuttle)]

use damper_core::{KeyedLimiter, Quota, RateLimiter, WhenFull};
use damper_shuttle_tests::{History, Time, advance, check, check_flawed, random, time, timed, together};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// Hashes a `u64` to itself: a schedule is replayed with the same slots.
#[derive(Clone, Copy, Default)]
struct Identity(u64);

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

/// More than the four slots.
const KEYS: u64 = 7;

/// The quotas that are put in force, the first at the start.
const QUOTAS: [Quota; 4] = [
    Quota::per_second(1).burst(3).max_debt(4),
    Quota::per_second(2).burst(6).max_debt(4),
    Quota::per_second(1).burst(1).max_debt(4),
    Quota::per_second(4).burst(2).max_debt(4),
];

struct Keyed {
    limits: KeyedLimiter<u64, Time, BuildHasherDefault<Identity>>,
    /// Refuses now and then what the keys' own limits allow.
    all: RateLimiter<damper_core::TokenBucket, Time>,
    time: Time,
    history: History,
    when_full: WhenFull,
}

/// The tokens that all slots together hold and produce.
fn all_slots(quota: Quota) -> Quota {
    Quota::per_second(4 * quota.limit()).burst(4 * quota.burst_size())
}

impl Keyed {
    fn new(when_full: WhenFull) -> Arc<Self> {
        let time = time();
        let limits = KeyedLimiter::<u64>::builder(QUOTAS[0])
            .capacity(1)
            .when_full(when_full)
            .clock(Arc::clone(&time))
            .hasher(BuildHasherDefault::default())
            .build()
            .unwrap();
        let all = RateLimiter::with_clock(Quota::per_second(2).burst(4), Arc::clone(&time));
        // The first use runs alone, and one thread at a time changes the quota. A look is no use.
        limits.set_quota(QUOTAS[0]).unwrap();
        all.set_quota(all.quota()).unwrap();
        let history =
            History::new(if when_full == WhenFull::EvictLeastIndebted { all_slots(QUOTAS[0]) } else { QUOTAS[0] });
        Arc::new(Self { limits, all, time, history, when_full })
    }

    /// An evicted key may come back to a slot that owes less.
    ///
    /// Then only all slots together keep to an envelope.
    fn admitted(&self, key: u64, between: [u64; 2], n: u32) {
        let key = if self.when_full == WhenFull::EvictLeastIndebted { KEYS } else { key };
        self.history.admitted(key, between, n);
    }

    fn check(&self) {
        let (key, n) = (random(KEYS), 1 + random(2) as u32);
        let (between, allowed) = timed(&self.time, || self.limits.check_n(&key, n).is_ok());
        if allowed {
            self.admitted(key, between, n);
        }
    }

    fn check_with_all(&self) {
        let key = random(KEYS);
        let (between, allowed) = timed(&self.time, || self.limits.check_n_with(&key, 1, &self.all).is_ok());
        if allowed {
            self.admitted(key, between, 1);
        }
    }

    fn refund(&self) {
        let (key, n) = (random(KEYS), 1 + random(2) as u32);
        let (between, given) = timed(&self.time, || self.limits.refund(&key, n));
        assert!(given <= n);
        self.history.returned(between, n);
    }

    /// No key has owed more than this.
    fn reset(&self) {
        let (between, ()) = timed(&self.time, || self.limits.reset(&random(KEYS)));
        self.history.returned(between, 10);
    }

    fn change(&self) {
        let quota = QUOTAS[random(QUOTAS.len() as u64) as usize];
        let (between, ()) = timed(&self.time, || self.limits.set_quota(quota).unwrap());
        let all = self.when_full == WhenFull::EvictLeastIndebted;
        self.history.changed(between, if all { all_slots(quota) } else { quota });
    }

    /// After a long rest each key has its burst again, and the slots are counted.
    fn comes_to_rest(&self) {
        assert!(self.limits.len() <= 4, "{} keys in four slots", self.limits.len());
        self.time.advance(Duration::from_secs(1_000));
        let burst = self.limits.quota().burst_size();
        for key in 0..4 {
            assert!(self.limits.check_n(&key, burst).is_ok(), "a token is late");
            assert!(self.limits.check(&key).is_err(), "one burst");
        }
        assert_eq!(self.limits.len(), 4, "the slots that are taken");
        self.limits.clear();
        assert_eq!(self.limits.len(), 0, "the slots that are taken");
    }
}

fn flood(when_full: WhenFull) {
    let keyed = Keyed::new(when_full);
    together(4, 8, &keyed, |keyed, _| match random(8) {
        0 => advance(&keyed.time),
        1 => keyed.check_with_all(),
        _ => keyed.check(),
    });
    keyed.history.keeps_to_the_envelope();
    keyed.comes_to_rest();
}

/// More keys than slots evict one another: together they get at most four bursts and their rate.
///
/// [A newcomer that inherits nothing.]
#[test]
fn evictions_keep_all_slots_in_one_envelope() {
    check(3_000, || flood(WhenFull::EvictLeastIndebted));
}

#[test]
#[should_panic]
fn evictions_keep_all_slots_in_one_envelope_unless_flawed() {
    check_flawed(|| flood(WhenFull::EvictLeastIndebted));
}

/// Keys without a slot share a bucket: each key gets its burst and its rate, wherever it is.
///
/// [A newcomer that does not inherit the shared debt.]
#[test]
fn keys_from_overflow_stay_in_their_envelope() {
    check(3_000, || flood(WhenFull::SharedOverflow));
}

#[test]
#[should_panic]
fn keys_from_overflow_stay_in_their_envelope_unless_flawed() {
    check_flawed(|| flood(WhenFull::SharedOverflow));
}

/// The same where keys without a slot are refused.
///
/// [A first sight that does not look for a slot again under the lock.]
#[test]
fn each_key_has_one_slot() {
    check(3_000, || flood(WhenFull::DenyNew));
}

#[test]
#[should_panic]
fn each_key_has_one_slot_unless_flawed() {
    check_flawed(|| flood(WhenFull::DenyNew));
}

fn everything(when_full: WhenFull) {
    let keyed = Keyed::new(when_full);
    together(4, 8, &keyed, |keyed, place| match (place, random(12)) {
        (0, 0..6) => keyed.change(),
        (_, 0 | 1) => advance(&keyed.time),
        (_, 2) => keyed.check_with_all(),
        (_, 3) => keyed.refund(),
        (_, 4) => _ = keyed.limits.charge(&random(KEYS), 2),
        (1, 5) => keyed.reset(),
        _ => keyed.check(),
    });
    keyed.history.keeps_to_the_envelope();
    keyed.comes_to_rest();
}

/// All operations on keys run while the quota changes.
///
/// Each key stays in the envelope of the quotas in force.
///
/// [A newcomer that inherits nothing.]
#[test]
fn each_key_stays_in_its_envelope_while_the_quota_changes() {
    check(3_000, || everything(WhenFull::EvictLeastIndebted));
    check(3_000, || everything(WhenFull::SharedOverflow));
}

#[test]
#[should_panic]
fn each_key_stays_in_its_envelope_while_the_quota_changes_unless_flawed() {
    check_flawed(|| everything(WhenFull::SharedOverflow));
}

/// `clear` runs again and again while keys evict one another: the slots that are taken stay counted.
///
/// [A `clear` that claims a claimed slot.]
#[test]
fn clears_beside_evictions_keep_the_slot_count() {
    check(10_000, clears);
}

#[test]
#[should_panic]
fn clears_beside_evictions_keep_the_slot_count_unless_flawed() {
    check_flawed(clears);
}

fn clears() {
    let keyed = Keyed::new(WhenFull::EvictLeastIndebted);
    together(4, 8, &keyed, |keyed, place| match (place, random(4)) {
        (0, _) => keyed.limits.clear(),
        (_, 0) => advance(&keyed.time),
        (_, 1) => keyed.limits.reset(&random(KEYS)),
        _ => keyed.check(),
    });
    keyed.comes_to_rest();
}
