//! A table that is too small for its keys.
//!
//! No key gets more than its quota. Under eviction, all keys together get no more than the slots hold.

use crate::input::MOST_STEPS;
use arbitrary::Arbitrary;
use damper::keyed::KeyedReservation;
use damper::limit::KeyedAlgorithm;
use damper::time::Seed;
use damper::{Alignment, Denied, FixedWindow, KeyedLimiter, ManualClock, Quota, SlidingCounter, TokenBucket, WhenFull};

const KEYS: u8 = 64;

const SECOND: i128 = 1_000_000_000;

/// How early each source of tokens may be, in ticks.
const EARLY_TICKS: i128 = 2;

/// A limiter of few slots, and the operations on its keys.
#[derive(Arbitrary, Debug)]
pub struct CrowdedInput {
    capacity: u8,
    when_full: Policy,
    algorithm: Which,
    /// The limit per second.
    limit: u8,
    burst: u8,
    max_debt: Option<u8>,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Policy {
    Shared,
    Deny,
    Evict,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Which {
    Bucket,
    Fixed,
    Sliding,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Check(u8, u8),
    /// This many consecutive keys from the first one on, each once.
    Flood(u8, u8),
    Charge(u8, u8),
    Refund(u8, u8),
    Reset(u8),
    Clear,
    /// This many milliseconds pass.
    Pass(u8),
    PassNanos(u32),
    /// Waits for this many tokens. Only for a token bucket.
    Reserve(u8, u8),
    Cancel(u8),
}

type Limits<'a, A> = KeyedLimiter<u8, &'a ManualClock, Seed, A>;

type Place<'a> = KeyedReservation<'a, &'a ManualClock>;

/// An algorithm, and whether callers can wait for its keys.
trait Waiting: KeyedAlgorithm + Sized {
    fn reserve<'a>(_: &'a Limits<'a, Self>, _: u8, _: u32) -> Option<Result<Place<'a>, Denied>> {
        None
    }
}

impl Waiting for FixedWindow {}

impl Waiting for SlidingCounter {}

impl Waiting for TokenBucket {
    fn reserve<'a>(limits: &'a Limits<'a, Self>, key: u8, n: u32) -> Option<Result<Place<'a>, Denied>> {
        Some(limits.reserve(&key, n))
    }
}

/// A waiting caller.
struct Waiter<'a> {
    key: u8,
    n: u32,
    place: Place<'a>,
    /// The time at which it was first promised its tokens, or `None` for never.
    due: Option<i128>,
}

impl Waiter<'_> {
    /// Returns the time at which its tokens are promised now.
    fn ready_at(&self, now: i128) -> Option<i128> {
        Some(now + i128::try_from(self.place.ready_in()?.as_nanos()).expect("the wait fits a `u64`"))
    }
}

/// Checks the guarantees of each policy.
pub fn crowded(input: CrowdedInput) {
    match input.algorithm {
        Which::Bucket => run::<TokenBucket>(&input),
        Which::Fixed => run::<FixedWindow>(&input),
        Which::Sliding => run::<SlidingCounter>(&input),
    }
}

fn run<A: Waiting>(input: &CrowdedInput) {
    let quota = Quota::per_second(u32::from(input.limit % 20)).burst(u32::from(input.burst % 10));
    let quota = input.max_debt.map_or(quota, |tokens| quota.max_debt(tokens.into()));
    let capacity = usize::from(input.capacity % 12) + 1;
    let when_full = match input.when_full {
        Policy::Shared => WhenFull::SharedOverflow,
        Policy::Deny => WhenFull::DenyNew,
        Policy::Evict => WhenFull::EvictLeastIndebted,
    };
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u8>::builder(quota)
        .capacity(capacity)
        .when_full(when_full)
        .clock(&clock)
        .hasher(Seed::new(3, 4))
        .aligned_to(Alignment::ClockOrigin)
        .algorithm::<A>()
        .build()
        .expect("all settings are in their ranges");
    let by_windows = !matches!(input.algorithm, Which::Bucket);
    let slots = (2 * capacity).next_multiple_of(4);
    let mut ledger = Ledger::new(quota, by_windows, slots, when_full);
    let mut waiters: Vec<Waiter<'_>> = Vec::new();
    for &step in input.steps.iter().take(MOST_STEPS) {
        match step {
            Step::Check(key, n) => ledger.check(&limits, key % KEYS, u32::from(n % 12)),
            Step::Flood(first, keys) => {
                (0..keys % KEYS).for_each(|key| ledger.check(&limits, first.wrapping_add(key) % KEYS, 1));
            }
            Step::Charge(key, n) => {
                let booked = limits.charge(&(key % KEYS), n.into());
                assert!(booked <= n.into());
                ledger.keys[usize::from(key % KEYS)].charge(booked);
            }
            Step::Refund(key, n) => {
                assert!(limits.refund(&(key % KEYS), n.into()) <= n.into());
                ledger.refund(key % KEYS, n.into());
            }
            Step::Reset(key) => {
                limits.reset(&(key % KEYS));
                ledger.reset(key % KEYS);
            }
            Step::Clear => {
                limits.clear();
                assert!(limits.is_empty());
                ledger.clear();
            }
            Step::Pass(millis) => ledger.pass(&clock, u64::from(millis) * 1_000_000),
            Step::PassNanos(nanos) => ledger.pass(&clock, nanos.into()),
            Step::Reserve(key, n) => {
                let (key, n) = (key % KEYS, u32::from(n % 12));
                match A::reserve(&limits, key, n) {
                    None => {}
                    Some(Ok(place)) => {
                        let waiter = Waiter { key, n, place, due: None };
                        let due = waiter.ready_at(ledger.now);
                        ledger.reserved(key, n, due);
                        waiters.push(Waiter { due, ..waiter });
                    }
                    Some(Err(denied)) => {
                        assert!(n > 0);
                        assert_eq!(denied.exceeds_burst(), n > quota.burst_size());
                    }
                }
            }
            Step::Cancel(which) if !waiters.is_empty() => {
                let waiter = waiters.swap_remove(usize::from(which) % waiters.len());
                let was_ready = waiter.ready_at(ledger.now) == Some(ledger.now);
                if waiter.place.cancel() {
                    assert!(!was_ready, "given back after it was ready");
                    ledger.cancelled(waiter.key, waiter.n, waiter.due);
                }
            }
            Step::Cancel(_) => {}
        }
        for waiter in &waiters {
            let ready_at = waiter.ready_at(ledger.now);
            // "Never" is later than any time.
            let is_later = match (ready_at, waiter.due) {
                (Some(ready_at), Some(due)) => ready_at > due.max(ledger.now),
                (ready_at, due) => ready_at.is_none() && due.is_some(),
            };
            assert!(!is_later, "ready at {ready_at:?}, promised at {:?}", waiter.due);
        }
        assert!(limits.len() <= slots, "{} of {slots}", limits.len());
        assert!(when_full == WhenFull::EvictLeastIndebted || limits.evictions() == 0);
        assert!(when_full == WhenFull::SharedOverflow || limits.overflows() == 0);
        let before = limits.len();
        let usage = limits.peek(&0);
        assert_eq!((usage.used() + usage.remaining(), limits.len()), (usage.limit(), before), "peeks take nothing");
    }
}

/// The most that a key may still get: tokens times 10^9. With windows, the tokens of the present one.
#[derive(Clone, Copy, Debug)]
struct Own {
    level: i128,
    /// The last response reported no tokens left, and no time has passed since.
    is_exhausted: bool,
}

impl Own {
    fn charge(&mut self, booked: u32) {
        self.level -= i128::from(booked) * SECOND;
    }
}

#[derive(Debug)]
struct Ledger {
    by_windows: bool,
    slots: i128,
    when_full: WhenFull,
    limit: i128,
    full: i128,
    now: i128,
    keys: Vec<Own>,
    /// The tokens that all slots together may still give. With windows, in the present one.
    left: i128,
    /// The tokens reserved in advance that are not due yet.
    pending: Vec<Pending>,
}

/// Tokens reserved in advance, in units of [`Own::level`].
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pending {
    key: u8,
    due: i128,
    taken: i128,
}

impl Ledger {
    fn new(quota: Quota, by_windows: bool, slots: usize, when_full: WhenFull) -> Self {
        let tokens = if by_windows { quota.limit() } else { quota.burst_size() };
        let (full, slots) = (i128::from(tokens) * SECOND, i128::try_from(slots).expect("few"));
        let keys = vec![Own { level: full, is_exhausted: false }; KEYS.into()];
        Self {
            by_windows,
            slots,
            when_full,
            limit: quota.limit().into(),
            full,
            now: 0,
            keys,
            left: slots * full,
            pending: Vec::new(),
        }
    }

    /// Returns the tokens refilled in this many ticks.
    fn produced(&self, ticks: i128) -> i128 {
        if self.by_windows { 0 } else { ticks * self.limit }
    }

    fn pass(&mut self, clock: &ManualClock, ticks: u64) {
        clock.advance_ticks(ticks);
        let (before, ticks) = (self.now, i128::from(ticks));
        self.now += ticks;
        let (produced, full) = (self.produced(ticks), self.full);
        self.left += self.slots * produced;
        self.left -= self.pending.extract_if(.., |pending| pending.due <= self.now).map(|due| due.taken).sum::<i128>();
        for own in &mut self.keys {
            own.level = full.min(own.level + produced);
            own.is_exhausted &= ticks == 0;
        }
        if self.by_windows && before / SECOND != self.now / SECOND {
            self.keys.iter_mut().for_each(|own| own.level = full);
            self.left = self.slots * full;
        }
    }

    fn check<A: KeyedAlgorithm>(&mut self, limits: &Limits<'_, A>, key: u8, n: u32) {
        let refused_newcomers = limits.refused_newcomers();
        let answer = limits.check_n(&key, n);
        let was_newcomer = limits.refused_newcomers() > refused_newcomers;
        let (asked, early) = (i128::from(n) * SECOND, self.produced(EARLY_TICKS));
        let full = self.full;
        let own = &mut self.keys[usize::from(key)];
        match answer {
            Ok(allowed) => {
                assert!(i128::from(allowed.remaining()) * SECOND <= full - asked || n == 0);
                assert!(n == 0 || !own.is_exhausted, "a fresh burst");
                own.level -= asked;
                own.is_exhausted |= n > 0 && allowed.remaining() == 0;
                self.left -= asked;
                // A key that evicts others is charged with their debts, so only the total is bounded.
                if self.when_full == WhenFull::EvictLeastIndebted {
                    assert!(self.left + self.slots * early >= 0, "more than all slots hold");
                } else {
                    assert!(own.level + early >= 0 || n == 0, "{n} of {key}: more than its quota");
                }
            }
            Err(denied) if asked > full => assert!(denied.exceeds_burst()),
            Err(denied) => {
                assert!(n > 0 && !denied.exceeds_burst());
                assert!(denied.retry_after().is_some() || self.limit == 0);
                if self.when_full == WhenFull::DenyNew && !self.by_windows {
                    // A key in debt has a slot, and is judged by that slot alone.
                    let is_idle = own.level + early >= full;
                    assert!(if was_newcomer { is_idle } else { own.level < asked }, "late: {own:?}");
                }
            }
        }
    }

    /// Records `n` tokens of a key reserved for `due`, and checks that they are available by then.
    fn reserved(&mut self, key: u8, n: u32, due: Option<i128>) {
        let (asked, early) = (i128::from(n) * SECOND, self.produced(EARLY_TICKS));
        let own = &mut self.keys[usize::from(key)];
        own.level -= asked;
        own.is_exhausted |= n > 0 && due != Some(self.now);
        let Some(due) = due else { return };
        if due == self.now {
            self.left -= asked;
        } else {
            self.pending.push(Pending { key, due, taken: asked });
        }
        let come = early + (due - self.now) * self.limit;
        if self.when_full == WhenFull::EvictLeastIndebted {
            let used =
                self.pending.iter().filter(|pending| pending.due <= due).map(|pending| pending.taken).sum::<i128>();
            assert!(self.left + self.slots * come >= used, "more than all slots hold");
        } else {
            assert!(own.level + come >= 0 || n == 0, "{n} of {key}: ready before its tokens are available");
        }
    }

    /// Records that `n` tokens reserved for `due` were given back.
    fn cancelled(&mut self, key: u8, n: u32, due: Option<i128>) {
        let taken = i128::from(n) * SECOND;
        let pending = due.and_then(|due| self.pending.iter().position(|one| *one == Pending { key, due, taken }));
        match pending {
            // The tokens that they would have taken stay available.
            Some(index) => _ = self.pending.swap_remove(index),
            None => self.left += taken,
        }
        let own = &mut self.keys[usize::from(key)];
        own.level = self.full.min(own.level + taken);
        own.is_exhausted = false;
    }

    fn refund(&mut self, key: u8, n: u32) {
        let (full, own) = (self.full, &mut self.keys[usize::from(key)]);
        own.level = full.min(own.level + i128::from(n) * SECOND);
        own.is_exhausted = false;
        self.left += i128::from(n) * SECOND;
    }

    fn reset(&mut self, key: u8) {
        self.keys[usize::from(key)] = Own { level: self.full, is_exhausted: false };
        // The reset forgets the debt of waiters too.
        let owed = self.pending.iter().filter(|pending| pending.key == key).map(|pending| pending.taken).sum::<i128>();
        self.left += self.full + owed;
    }

    fn clear(&mut self) {
        self.keys.fill(Own { level: self.full, is_exhausted: false });
        self.left += self.slots * self.full + self.pending.iter().map(|pending| pending.taken).sum::<i128>();
    }
}
