//! Waiting for the tokens of a key of a keyed limiter.

use super::virtual_time::{Runtime, Timers};
use crate::models::cases::cases;
use crate::models::fifo::{Cancelled, Fifo, Refused};
use crate::waiting::MILLIS;
use damper::keyed::KeyedReservation;
use damper::time::Seed;
use damper::{KeyedLimiter, ManualClock, Quota, WhenFull};
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

const FREQUENCY: u64 = 100;
const TICK: Duration = Duration::from_millis(10);

type Limits<'a, K> = KeyedLimiter<K, &'a ManualClock, Seed>;

fn limits<K: ?Sized>(quota: Quota, capacity: usize, when_full: WhenFull, clock: &ManualClock) -> Limits<'_, K> {
    KeyedLimiter::<K>::builder(quota)
        .capacity(capacity)
        .when_full(when_full)
        .clock(clock)
        .hasher(Seed::new(1, 2))
        .build()
        .unwrap()
}

fn ticks(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos() / TICK.as_nanos()).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Reserve { key: u8, n: u32, longest: Option<u64> },
    Check { key: u8, n: u32 },
    Cancel(usize),
    CancelLast,
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let (key, n) = (|| 0..3_u8, || prop_oneof![4 => 1..4u32, 1 => 0..11u32]);
    let longest = prop_oneof![3 => Just(None), 1 => (0..200u64).prop_map(Some)];
    let event = prop_oneof![
        8 => (key(), n(), longest).prop_map(|(key, n, longest)| Event::Reserve { key, n, longest }),
        2 => (key(), n()).prop_map(|(key, n)| Event::Check { key, n }),
        2 => any::<usize>().prop_map(Event::Cancel),
        2 => Just(Event::CancelLast),
        6 => (0..25u64).prop_map(Event::Pass),
    ];
    proptest::collection::vec(event, 1..60)
}

/// A waiter for a key: the key, its name in the model, its tokens and its reservation.
type Waiter<'a> = (u8, usize, u32, KeyedReservation<'a, &'a ManualClock>);

fn cancel(models: &mut [Fifo], at: u64, (key, name, n, reservation): Waiter<'_>) {
    let is_given_back = n > 0 && models[usize::from(key)].cancel(at, name) == Cancelled::GivenBack;
    assert_eq!(reservation.cancel(), is_given_back, "waiter {name} of {key}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(80) })]

    /// Each key has a queue of its own, which is served on the tick.
    ///
    /// A cancelled waiter keeps the others in place.
    #[test]
    fn waiters_of_each_key_are_served_like_a_separate_queue(
        (period, burst, max_debt) in (1..12u64, 1..10u32, 0..30u32),
        events in events(),
    ) {
        let clock = ManualClock::with_frequency(FREQUENCY);
        let quota = Quota::every(TICK * u32::try_from(period).unwrap()).unwrap().burst(burst).max_debt(max_debt);
        let limits = limits::<u8>(quota, 8, WhenFull::SharedOverflow, &clock);
        let mut models = [(); 3].map(|()| Fifo::new(period, burst, max_debt));
        let mut waiters: Vec<Waiter<'_>> = Vec::new();
        let mut now = 0;
        for event in events {
            match event {
                Event::Reserve { key, n, longest } => {
                    let reserved = match longest {
                        Some(ticks) => limits.reserve_within(&key, n, TICK * u32::try_from(ticks).unwrap()),
                        None => limits.reserve(&key, n),
                    };
                    match (reserved, models[usize::from(key)].queue_up(now, n, longest)) {
                        (Ok(reservation), Ok(name)) => waiters.push((key, name, n, reservation)),
                        (Err(denied), Err(refused)) => {
                            prop_assert_eq!(denied.exceeds_burst(), refused == Refused::ExceedsBurst);
                            if refused != Refused::ExceedsBurst {
                                let wait = ticks(denied.retry_after().unwrap());
                                let fits = |at| models[usize::from(key)].clone().queue_up(at, n, longest).is_ok();
                                prop_assert!(fits(now + wait) && !fits(now + wait - 1), "not after {} ticks", wait);
                            }
                        }
                        (reserved, modelled) => prop_assert!(false, "{reserved:?}, expected {modelled:?}"),
                    }
                }
                Event::Check { key, n } => {
                    let is_there = n <= burst && models[usize::from(key)].take(now, n);
                    prop_assert_eq!(limits.check_n(&key, n).is_ok(), is_there);
                }
                Event::Cancel(which) if !waiters.is_empty() => {
                    cancel(&mut models, now, waiters.remove(which % waiters.len()));
                }
                Event::CancelLast if !waiters.is_empty() => cancel(&mut models, now, waiters.pop().unwrap()),
                Event::Cancel(_) | Event::CancelLast => {}
                Event::Pass(ticks) => {
                    now += ticks;
                    clock.advance_ticks(ticks);
                }
            }
            for (key, name, n, reservation) in &waiters {
                let due = if *n == 0 { now } else { models[usize::from(*key)].served(*name).unwrap() };
                let wait = reservation.ready_in().unwrap();
                prop_assert_eq!(ticks(wait), due.saturating_sub(now), "waiter {} of {}", name, key);
            }
            for (key, model) in (0..).zip(&models) {
                prop_assert_eq!(limits.peek(&key).remaining(), model.level(now).0);
            }
        }
    }
}

/// A model of one key's word, in parts of a token. Each tick refills one part.
///
/// Taken tokens move it up, and refunds move it down.
#[derive(Debug)]
struct Walk {
    word: u64,
    burst: u64,
    deepest: u64,
    /// The parts granted since the bucket was last not below empty. `given` are those refunded since.
    acted: u64,
    given: u64,
    since: u64,
}

impl Walk {
    fn is_below_empty(&self, now: u64) -> bool {
        self.word > now + self.burst
    }

    fn take(&mut self, now: u64, parts: u64) -> u64 {
        self.word = self.word.max(now) + parts;
        self.word
    }

    /// Runs after every possible change.
    fn settle(&mut self, now: u64) {
        if !self.is_below_empty(now) {
            // Grants all waiting parts, which fit in the bucket.
            (self.acted, self.given, self.since) = (self.word.saturating_sub(now), 0, now);
        }
    }

    /// Grants `parts`. All grants since the bucket was last not below empty are within the envelope.
    fn acts(&mut self, now: u64, parts: u64) {
        if self.is_below_empty(now) {
            self.acted += parts;
            let most = self.burst + (now - self.since) + self.given;
            assert!(self.acted <= most, "{} of {most} acted by {now}: {self:?}", self.acted);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Settling {
    Reserve(u32),
    /// Gives back this many of the granted tokens.
    Refund(u32),
    Cancel(usize),
    /// Settles a waiter's reservation, of which it used this many at most.
    Settle(usize, u32),
    Pass(u64),
}

fn settling() -> impl Strategy<Value = Vec<Settling>> {
    let step = prop_oneof![
        6 => (1..5u32).prop_map(Settling::Reserve),
        4 => (1..8u32).prop_map(Settling::Refund),
        2 => any::<usize>().prop_map(Settling::Cancel),
        3 => (any::<usize>(), 0..6u32).prop_map(|(which, used)| Settling::Settle(which, used)),
        6 => (0..12u64).prop_map(Settling::Pass),
    ];
    proptest::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(120) })]

    /// Under refunds each waiter is ready at the tick of its position, or once the bucket is out of debt.
    ///
    /// The waiters together take at most the burst, the refilled tokens, and the refunds since the queue was empty.
    #[test]
    fn refunds_keep_waiters_in_the_envelope(
        (period, burst, max_debt) in (1..8u64, 4..8u32, 0..40u32),
        steps in settling(),
    ) {
        let clock = ManualClock::with_frequency(FREQUENCY);
        let quota = Quota::every(TICK * u32::try_from(period).unwrap()).unwrap().burst(burst).max_debt(max_debt);
        let limits = limits::<u8>(quota, 4, WhenFull::SharedOverflow, &clock);
        let parts = |n: u32| u64::from(n) * period;
        // The clock starts late, so that no word lies before its start.
        let mut now = 1_000;
        clock.advance_ticks(now);
        let mut walk = Walk {
            word: 0, burst: parts(burst), deepest: parts(burst + max_debt), acted: 0, given: 0, since: now,
        };
        let mut waiters: Vec<(u64, u32, bool, KeyedReservation<'_, _>)> = Vec::new();
        let mut acted = 0_u64;
        for step in steps {
            match step {
                Settling::Reserve(n) => {
                    let fits = walk.word.max(now) + parts(n) <= now + walk.deepest;
                    let reserved = limits.reserve(&0, n);
                    prop_assert_eq!(reserved.is_ok(), fits);
                    if let Ok(reservation) = reserved {
                        walk.settle(now);
                        waiters.push((walk.take(now, parts(n)), n, false, reservation));
                        if !walk.is_below_empty(now) {
                            acted += u64::from(n);
                            waiters.last_mut().unwrap().2 = true;
                        }
                    }
                }
                Settling::Refund(n) => {
                    let n = u32::try_from(acted.min(n.into())).unwrap();
                    acted -= u64::from(n);
                    limits.refund(&0, n);
                    let back = parts(n).min(walk.word.saturating_sub(now));
                    walk.word -= back;
                    walk.given += back;
                }
                Settling::Cancel(which) if !waiters.is_empty() => {
                    let (position, n, has_acted, reservation) = waiters.remove(which % waiters.len());
                    if !has_acted {
                        let is_last = position == walk.word && position > now + walk.burst;
                        prop_assert_eq!(reservation.cancel(), is_last);
                        if is_last {
                            walk.word -= parts(n);
                        }
                    }
                }
                Settling::Settle(which, used) if !waiters.is_empty() => {
                    let (_, n, has_acted, reservation) = waiters.remove(which % waiters.len());
                    // Of the tokens that were granted, refunds may have given back all but these.
                    let left = u32::try_from(acted.min(n.into())).unwrap();
                    let used = if has_acted { used.max(n - left) } else { used };
                    reservation.settle(used);
                    if let Some(excess) = used.checked_sub(n) {
                        let room = (now + walk.deepest).saturating_sub(walk.word.max(now)) / period;
                        if room > 0 && excess > 0 {
                            walk.take(now, room.min(excess.into()) * period);
                        }
                    } else {
                        let back = parts(n - used).min(walk.word.saturating_sub(now));
                        walk.word -= back;
                        if has_acted {
                            acted -= u64::from(n - used);
                            walk.given += back;
                        }
                    }
                }
                Settling::Cancel(_) | Settling::Settle(..) => {}
                Settling::Pass(ticks) => {
                    now += ticks;
                    clock.advance_ticks(ticks);
                }
            }
            for (position, n, has_acted, reservation) in &mut waiters {
                let due = (*position).min(walk.word.max(now)).saturating_sub(walk.burst + now);
                prop_assert_eq!(ticks(reservation.ready_in().unwrap()), due);
                if due == 0 && !*has_acted {
                    *has_acted = true;
                    acted += u64::from(*n);
                    walk.acts(now, parts(*n));
                }
            }
            walk.settle(now);
        }
    }
}

/// The tokens that a key's workers use in a minute.
///
/// Every call reserves twice the tokens that it uses.
#[test]
fn settled_budget_of_a_key_is_used_up() {
    for workers in [2, 4, 8] {
        let clock = ManualClock::with_frequency(MILLIS);
        let limits = limits::<str>(Quota::per_second(1_000).burst(500), 4, WhenFull::SharedOverflow, &clock);
        let reserve = || limits.reserve("model", 100).unwrap();
        let mut waiting: Vec<_> = (0..workers).map(|_| Some(reserve())).collect();
        let mut calling = vec![0; workers];
        let mut used = 0;
        for now in 0..60 * MILLIS {
            for (waiting, until) in waiting.iter_mut().zip(&mut calling) {
                if let Some(slot) = waiting
                    && slot.ready_in() == Some(Duration::ZERO)
                {
                    (*waiting, *until) = (None, now + MILLIS / 100);
                } else if waiting.is_none() && *until <= now {
                    limits.refund("model", 50);
                    used += 50;
                    *waiting = Some(reserve());
                }
            }
            clock.advance_ticks(1);
        }
        assert!((57_000..=60_500).contains(&used), "{workers} workers used {used} of 60,000");
    }
}

/// Each host serves its callers in order and at its whole rate, through a flood of other hosts.
///
/// Twenty callers wait for each of three hosts, the flood follows, and then ten more callers.
#[test]
fn waiters_of_every_key_are_served_in_order_through_a_flood_of_keys() {
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        let timers = Timers::new(MILLIS);
        let hosts = limits::<str>(Quota::per_second(10), 64, when_full, &timers.clock);
        let served = RefCell::new(Vec::new());
        let mut runtime = Runtime::new(&timers);
        for (wave, waiters) in [0..20u64, 20..30].into_iter().enumerate() {
            for waiter in waiters {
                for host in ["one", "two", "three"] {
                    let (hosts, served, timers) = (&hosts, &served, &timers);
                    runtime.spawn(async move {
                        hosts.acquire(host, 1).sleeping_by(timers.sleep()).await.unwrap();
                        served.borrow_mut().push((host, waiter, timers.now()));
                    });
                }
            }
            runtime.run_until(500 * (wave as u64 + 1));
            for other in 0..10_000 {
                _ = hosts.check_n(&format!("{wave}.{other}.flood.example.com"), 10);
            }
        }
        runtime.run_until(2_000);
        for host in ["one", "two", "three"] {
            let of_host: Vec<_> =
                served.borrow().iter().filter(|served| served.0 == host).map(|&(_, w, at)| (w, at)).collect();
            // A burst of ten, then one every 100 ms.
            let expected: Vec<_> = (0..30_u64).map(|waiter| (waiter, waiter.saturating_sub(9) * 100)).collect();
            assert_eq!(of_host, expected, "{host}, {when_full:?}");
        }
    }
}

/// A limiter of one set, whose four slots have waiters.
fn full_of_waiters(when_full: WhenFull, clock: &ManualClock) -> Limits<'_, u8> {
    let limits = limits::<u8>(Quota::per_second(10).burst(1), 1, when_full, clock);
    for key in 0..4 {
        for _ in 0..3 {
            _ = limits.reserve(&key, 1).unwrap();
        }
    }
    limits
}

#[test]
fn newcomer_never_takes_the_slot_of_a_key_with_waiters() {
    for when_full in [WhenFull::SharedOverflow, WhenFull::DenyNew, WhenFull::EvictLeastIndebted] {
        let clock = ManualClock::new();
        let limits = full_of_waiters(when_full, &clock);
        for newcomer in 10..50 {
            _ = limits.check(&newcomer);
            _ = limits.reserve(&newcomer, 1);
            _ = limits.reserve(&newcomer, 0);
        }
        assert_eq!((limits.len(), limits.evictions()), (4, 0), "{when_full:?}");
        for key in 0..4 {
            let next = limits.reserve(&key, 1).unwrap();
            assert_eq!(next.ready_in(), Some(Duration::from_millis(300)), "{key}, {when_full:?}");
        }
    }
}

/// If all slots are in debt, a newcomer is not queued behind another key's debt.
#[test]
fn newcomer_never_waits_for_the_debt_of_an_evicted_key() {
    let clock = ManualClock::new();
    let limits = limits::<u8>(Quota::per_second(10).burst(2), 1, WhenFull::EvictLeastIndebted, &clock);
    for key in 0..4 {
        limits.check(&key).unwrap();
    }
    assert!(limits.reserve(&10, 2).is_err(), "one of the two tokens is missing");
    assert_eq!(limits.reserve(&10, 1).unwrap().ready_in(), Some(Duration::ZERO));
    assert_eq!(limits.evictions(), 1);
    let own = limits.reserve(&10, 2).unwrap();
    assert_eq!(own.ready_in(), Some(Duration::from_millis(200)), "the debt is the key's own");
}

#[test]
fn deny_new_refuses_to_let_a_newcomer_wait() {
    let clock = ManualClock::new();
    let limits = full_of_waiters(WhenFull::DenyNew, &clock);
    let denied = limits.reserve(&10, 1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(300)));
    assert_eq!(limits.reserve(&10, 0).unwrap().ready_in(), Some(Duration::ZERO));
}

/// A key without a slot waits in its shared bucket.
///
/// When it gets a slot, it is served after its own waiters there.
#[test]
fn key_without_a_slot_waits_in_its_shared_bucket() {
    let clock = ManualClock::new();
    let limits = full_of_waiters(WhenFull::SharedOverflow, &clock);
    let waits = |wait| Some(Duration::from_millis(wait));
    let [first, second, third, fourth] = [(); 4].map(|()| limits.reserve(&10, 1).unwrap());
    let ready = [&first, &second, &third, &fourth].map(KeyedReservation::ready_in);
    assert_eq!(ready, [0, 100, 200, 300].map(waits));
    assert!(!third.cancel(), "another waiter arrived later");
    assert!(fourth.cancel());
    assert_eq!(limits.reserve(&10, 1).unwrap().ready_in(), waits(300), "the place of the fourth");
    assert_eq!((limits.len(), limits.overflows()), (4, 5));
    assert!(limits.reserve_within(&10, 1, Duration::from_millis(399)).is_err());

    // A slot becomes free.
    limits.reset(&0);
    let in_a_slot = limits.reserve(&10, 1).unwrap();
    assert_eq!((in_a_slot.ready_in(), second.ready_in()), (waits(400), waits(100)));
    assert_eq!(limits.overflows(), 6, "the key has a slot");
    assert!(in_a_slot.cancel());
    assert!(limits.check(&10).is_err());
    clock.advance(Duration::from_millis(100));
    assert_eq!(second.ready_in(), waits(0));
    assert!(!second.cancel(), "the waiter is ready");
}

/// A key of another tier does not wait behind those of a full line.
///
/// The same key does, once it is moved to that tier.
///
/// The earlier waiter's tokens then stay used.
#[test]
fn shared_tokens_are_kept_when_their_key_comes_again_in_another_tier() {
    let clock = ManualClock::new();
    let limits = KeyedLimiter::<u8>::builder(Quota::per_second(10).burst(1))
        .tiers([Quota::per_second(5).burst(1)], |key| usize::from(*key == 11))
        .capacity(1)
        .shared_buckets(2)
        .clock(&clock)
        // Their tags have four bits, so that one pair of keys in 15 has the same.
        .hasher(Seed::new(1, 2))
        .build()
        .unwrap();
    for key in 0..4 {
        limits.check(&key).unwrap();
    }
    _ = limits.reserve(&10, 1).unwrap();
    let first = limits.reserve(&10, 1).unwrap();
    let other = limits.reserve(&11, 1).unwrap();
    assert_eq!(first.ready_in(), Some(Duration::from_millis(100)));
    assert_eq!(other.ready_in(), Some(Duration::ZERO));
    limits.set_tier(&10, 1).unwrap();
    let moved = limits.reserve(&10, 1).unwrap();
    assert_eq!(moved.ready_in(), Some(Duration::from_millis(200)));
    assert!(!first.cancel());
}

#[test]
fn cancelled_waiter_of_a_key_keeps_others_in_place() {
    let clock = ManualClock::new();
    let limits = limits::<str>(Quota::per_second(10).burst(1), 4, WhenFull::SharedOverflow, &clock);
    limits.check("a").unwrap();
    let [first, second, third] = [(); 3].map(|()| limits.reserve("a", 1).unwrap());
    assert!(!first.cancel(), "others arrived later");
    let waits = || [second.ready_in(), third.ready_in()].map(|wait| wait.unwrap().as_millis());
    assert_eq!(waits(), [200, 300]);
    let fourth = limits.reserve("a", 1).unwrap();
    assert!(fourth.cancel());
    assert_eq!((waits(), limits.reserve("a", 1).unwrap().ready_in()), ([200, 300], Some(Duration::from_millis(400))));
}

#[test]
fn refund_of_all_missing_tokens_makes_waiters_ready() {
    let clock = ManualClock::new();
    let limits = limits::<str>(Quota::per_second(10).burst(4), 4, WhenFull::SharedOverflow, &clock);
    limits.check_n("a", 4).unwrap();
    let [first, second] = [(); 2].map(|()| limits.reserve("a", 2).unwrap());
    let waits = || [&first, &second].map(|waiter| waiter.ready_in().unwrap().as_millis());
    assert_eq!(waits(), [200, 400]);
    assert_eq!(limits.refund("a", 1), 1);
    assert_eq!(waits(), [200, 300], "the last waiter is ready earlier");
    assert_eq!(limits.refund("a", 3), 3);
    assert_eq!(waits(), [0, 0]);
    assert!(limits.check("a").is_err(), "no tokens beyond the refunded ones");
}

#[test]
fn reset_makes_waiters_ready() {
    let clock = ManualClock::new();
    let limits = limits::<str>(Quota::per_second(10).burst(1), 4, WhenFull::SharedOverflow, &clock);
    let [_, _, last] = [(); 3].map(|()| limits.reserve("a", 1).unwrap());
    limits.reset("a");
    assert_eq!(last.ready_in(), Some(Duration::ZERO));
    limits.check("a").unwrap();
    assert!(!last.cancel(), "the reset forgot its tokens");
}

/// After a `clear` the slot has another owner, even if it is the same key with the same debt.
#[test]
fn clear_leaves_waiters_in_place() {
    let clock = ManualClock::new();
    let limits = limits::<str>(Quota::per_second(10).burst(1), 1, WhenFull::SharedOverflow, &clock);
    let [_, old] = [(); 2].map(|()| limits.reserve("a", 1).unwrap());
    limits.clear();
    assert_eq!(old.ready_in(), Some(Duration::from_millis(100)));
    limits.check("a").unwrap();
    assert_eq!(old.ready_in(), Some(Duration::from_millis(100)), "its slot has another owner");
    let new = limits.reserve("a", 1).unwrap();
    assert!(!old.cancel(), "its tokens are forgotten");
    assert_eq!((new.ready_in(), new.cancel()), (Some(Duration::from_millis(100)), true));
}

#[test]
fn waiters_keep_their_times_when_their_key_changes_tier() {
    let clock = ManualClock::new();
    let tiers = |quota: Quota| {
        KeyedLimiter::<str>::builder(Quota::per_second(10).burst(1))
            .tiers([quota], |_| 0)
            .clock(&clock)
            .build()
            .unwrap()
    };
    let waits = |limits: &Limits<'_, str>| {
        let [_, first, last] = [(); 3].map(|()| limits.reserve("a", 1).unwrap());
        limits.set_tier("a", 1).unwrap();
        let waits = [first.ready_in(), last.ready_in()].map(|wait| wait.unwrap().as_millis());
        assert!(!last.cancel(), "its debt is on another line");
        waits
    };
    // 300 ms of debt are a third of a token in one tier and 30 tokens in the other. Neither is what the waiters took.
    assert_eq!(waits(&tiers(Quota::per_second(1).burst(1))), [100, 200]);
    assert_eq!(waits(&tiers(Quota::per_second(100).burst(30))), [100, 200]);
    assert_eq!(waits(&tiers(Quota::UNLIMITED)), [100, 200]);
}

#[test]
fn waiters_follow_a_change_of_the_quota() {
    let clock = ManualClock::new();
    let limits = limits::<str>(Quota::per_second(10).burst(1), 4, WhenFull::SharedOverflow, &clock);
    let [_, first, last] = [(); 3].map(|()| limits.reserve("a", 1).unwrap());
    let waits = || [&first, &last].map(|waiter| waiter.ready_in().map(|wait| wait.as_millis()));
    limits.set_quota(Quota::per_second(1).burst(1)).unwrap();
    assert_eq!(waits(), [Some(1_000), Some(2_000)]);
    limits.set_quota(Quota::per_second(0).burst(1)).unwrap();
    assert_eq!(waits(), [None, None]);
    limits.set_quota(Quota::per_second(1).burst(2)).unwrap();
    assert_eq!(waits(), [Some(0), Some(1_000)]);
    limits.set_quota(Quota::UNLIMITED).unwrap();
    assert_eq!(waits(), [Some(0), Some(0)]);
    assert!(!last.cancel(), "the waiter is ready");
}

#[test]
fn charge_delays_later_waiters() {
    let clock = ManualClock::new();
    let limits = limits::<str>(Quota::per_second(10).burst(1), 4, WhenFull::SharedOverflow, &clock);
    let [_, waiter] = [(); 2].map(|()| limits.reserve("a", 1).unwrap());
    assert_eq!(limits.charge("a", 3), 3);
    assert_eq!(waiter.ready_in(), Some(Duration::from_millis(100)));
    assert_eq!(limits.reserve("a", 1).unwrap().ready_in(), Some(Duration::from_millis(500)));
    assert!(!waiter.cancel());
}

#[test]
fn too_many_waiters_of_a_key_are_refused_at_once() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(10).burst(2).max_debt(2);
    let limits = limits::<str>(quota, 4, WhenFull::SharedOverflow, &clock);
    assert!(limits.reserve("a", 3).unwrap_err().exceeds_burst());
    let waiters = [(); 4].map(|()| limits.reserve("a", 1).unwrap());
    let denied = limits.reserve("a", 1).unwrap_err();
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(100)));
    let denied = limits.reserve_within("b", 2, Duration::ZERO).map(drop);
    assert!(denied.is_ok(), "another key has a queue of its own");
    assert_eq!(waiters[3].ready_in(), Some(Duration::from_millis(200)));
}

/// A waiting future that is dropped gives its place to the next. An unpolled one never had a place.
#[test]
fn dropped_future_of_a_key_gives_its_place_back() {
    let timers = Timers::new(MILLIS);
    let limits = limits::<str>(Quota::per_second(10).burst(1), 4, WhenFull::SharedOverflow, &timers.clock);
    limits.check("a").unwrap();
    let mut runtime = Runtime::new(&timers);
    drop(limits.acquire("a", 1).sleeping_by(timers.sleep()));
    let task = runtime.spawn(async { limits.acquire("a", 1).sleeping_by(timers.sleep()).await.unwrap() });
    runtime.run_until(50);
    assert_eq!(limits.reserve("a", 1).unwrap().ready_in().unwrap().as_millis(), 150);
    let [last, after] =
        [(); 2].map(|()| runtime.spawn(async { limits.acquire("a", 1).sleeping_by(timers.sleep()).await.unwrap() }));
    runtime.run_until(60);
    runtime.drop_task(after);
    runtime.drop_task(last);
    runtime.drop_task(task);
    assert_eq!(
        limits.reserve("a", 1).unwrap().ready_in().unwrap().as_millis(),
        240,
        "the tokens of two waiters are back"
    );
}

/// The time after which a blocked thread counts as hanging.
const FOR_EVER: Duration = Duration::from_secs(30);

/// Blocks a thread for a token of the key, under a quota that refills none.
///
/// Returns when the thread has its place.
fn wait_in_a_thread(limits: &Arc<KeyedLimiter<str>>) -> Receiver<()> {
    let (done, ends) = channel();
    let (reserved, waits) = channel();
    let limits = Arc::clone(limits);
    thread::spawn(move || {
        let reservation = limits.reserve("a", 1).unwrap();
        reserved.send(()).unwrap();
        reservation.wait();
        // After a failure there is no receiver.
        _ = done.send(());
    });
    waits.recv().unwrap();
    ends
}

/// A key without tokens under a quota that refills nothing, and a larger tier.
fn never_refilled() -> Arc<KeyedLimiter<str>> {
    let quota = Quota::per_second(0).burst(2).max_debt(4);
    let tiers = [Quota::per_second(0).burst(20)];
    let limits = KeyedLimiter::<str>::builder(quota).tiers(tiers, |_| 0).build().unwrap();
    limits.check_n("a", 2).unwrap();
    Arc::new(limits)
}

#[test]
fn moving_the_word_back_wakes_blocked_threads() {
    let changes: [fn(&KeyedLimiter<str>); 5] = [
        |limits| assert_eq!(limits.refund("a", 2), 2),
        |limits| limits.reset("a"),
        |limits| limits.set_tier("a", 1).unwrap(),
        |limits| limits.set_quota(Quota::per_second(0).burst(4)).unwrap(),
        |limits| limits.set_quota(Quota::per_second(1_000).burst(2)).unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let limits = never_refilled();
        let waiters = [wait_in_a_thread(&limits), wait_in_a_thread(&limits)];
        assert_eq!(waiters[0].recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
        change(&limits);
        assert_eq!(waiters.map(|ends| ends.recv_timeout(FOR_EVER)), [Ok(()); 2], "change {number}");
    }
}

#[test]
fn acquire_blocks_until_the_tokens_of_the_key_are_there() {
    let limits = KeyedLimiter::<str>::builder(Quota::per_second(200).burst(1)).build().unwrap();
    let begin = std::time::Instant::now();
    for _ in 0..5 {
        limits.acquire("a", 1).jitter(Duration::from_millis(1)).within(FOR_EVER).wait().unwrap();
    }
    assert!(begin.elapsed() >= Duration::from_millis(20), "four calls had to wait");
    assert!(limits.acquire("a", 2).wait().unwrap_err().exceeds_burst());
}

/// The quota no longer refills.
///
/// The line reaches no further position, and `clear` forgets the positions of waiters.
#[test]
fn clear_makes_waiters_ready_that_would_wait_for_ever() {
    // With a slot, and in the shared bucket.
    for keys in [1, 40] {
        let clock = ManualClock::with_frequency(FREQUENCY);
        let quota = Quota::per_second(1).burst(2).max_debt(1_000);
        let limits = limits::<u32>(quota, 8, WhenFull::SharedOverflow, &clock);
        for key in 0..keys {
            _ = limits.reserve(&key, 2);
        }
        let key = keys - 1;
        let waiter = limits.reserve(&key, 2).unwrap();
        assert!(waiter.ready_in() > Some(Duration::ZERO));
        limits.set_quota(Quota::per_second(0).burst(2).max_debt(1_000)).unwrap();
        assert_eq!(waiter.ready_in(), None, "{keys} keys");
        limits.clear();
        assert_eq!(waiter.ready_in(), Some(Duration::ZERO), "{keys} keys");
    }
}

#[test]
fn clear_wakes_threads_that_would_wait_for_ever() {
    let clock = ManualClock::with_frequency(FREQUENCY);
    let limits = limits::<u8>(Quota::per_second(1).burst(2).max_debt(10), 8, WhenFull::SharedOverflow, &clock);
    _ = limits.reserve(&1, 2).unwrap();
    let waiter = limits.reserve(&1, 2).unwrap();
    limits.set_quota(Quota::per_second(0).burst(2).max_debt(10)).unwrap();
    let (done, is_done) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            waiter.wait();
            done.send(()).unwrap();
        });
        assert_eq!(is_done.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
        limits.clear();
        let woken = is_done.recv_timeout(Duration::from_secs(10));
        // After a failure this lets the scope end.
        limits.set_quota(Quota::per_second(1_000)).unwrap();
        woken.unwrap();
    });
}

/// The excess of a settlement is booked in the tier that the key has now.
#[test]
fn settlement_does_not_bring_a_key_back_to_a_tier_that_it_left() {
    for when_full in [WhenFull::DenyNew, WhenFull::EvictLeastIndebted, WhenFull::SharedOverflow] {
        let (clock, own_tier) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
        let tier_of = {
            let own_tier = Arc::clone(&own_tier);
            move |_: &str| own_tier.load(Relaxed)
        };
        let limits = KeyedLimiter::<str>::builder(Quota::per_hour(1_000))
            .tiers([Quota::per_hour(10_000)], tier_of)
            .when_full(when_full)
            .clock(&clock)
            .build()
            .unwrap();
        let (moved, retiered) = (limits.reserve("a", 0).unwrap(), limits.reserve("b", 0).unwrap());
        limits.set_tier("a", 1).unwrap();
        moved.settle(700);
        assert_eq!((limits.tier_of("a"), limits.peek("a").used()), (1, 700), "{when_full:?}");
        own_tier.store(1, Relaxed);
        limits.retier("b");
        retiered.settle(700);
        assert_eq!(limits.tier_of("b"), 1, "{when_full:?}");
        assert!(limits.check_n("b", 2_000).is_ok(), "{when_full:?}");
        assert_eq!(limits.tier_of("b"), 1, "{when_full:?}");
        // So it is if the slot that was moved has another owner by now.
        own_tier.store(0, Relaxed);
        let moved = limits.reserve("c", 1).unwrap();
        limits.set_tier("c", 1).unwrap();
        limits.clear();
        moved.settle(701);
        assert_eq!((limits.tier_of("c"), limits.peek("c").used()), (1, 700), "{when_full:?}");
    }
}
