//! All operations of a token bucket in random order, against a model of plain numbers.
//!
//! The rates refill a whole number of eighths of a token per tick, so nothing is rounded and everything is compared
//! exactly. `rate_limiter.rs` covers the other rates.

use crate::models::cases::cases;
use damper::{LimitSet, ManualClock, Quota, RateLimiter, Reservation, SetQuotaError, TokenBucket};
use proptest::prelude::*;
use std::time::Duration;

/// Ticks of the clock per tick of the model.
///
/// A quota can be slowed down a thousand times without losing a part.
const CLOCK_TICKS: u64 = 1_024;
const FREQUENCY: u64 = 1_000 * CLOCK_TICKS;
const TICK: Duration = Duration::from_millis(1);
/// Amounts in the model are eighths of a token.
const TOKEN: i64 = 8;

#[derive(Clone, Copy, Debug)]
struct Settings {
    /// Eighths of a token per tick.
    rate: i64,
    burst: u32,
    max_debt: u32,
}

impl Settings {
    fn quota(self) -> Quota {
        // rate / 8 tokens per tick of a millisecond.
        let per_second = u32::try_from(self.rate * 1_000 / TOKEN).unwrap();
        Quota::per_second(per_second).burst(self.burst).max_debt(self.max_debt)
    }
}

/// A bucket as a level that rises by itself and falls when tokens are taken. Below zero is debt.
struct Model {
    settings: Settings,
    level: i64,
    now: i64,
    /// The units by which refunds moved the line.
    refunded: i64,
}

impl Model {
    fn burst(&self) -> i64 {
        i64::from(self.settings.burst) * TOKEN
    }

    fn deepest(&self) -> i64 {
        -i64::from(self.settings.max_debt) * TOKEN
    }

    fn pass(&mut self, ticks: i64) {
        self.now += ticks;
        self.level = self.burst().min(self.level + ticks * self.settings.rate);
    }

    /// Takes `n` tokens if that leaves at least `floor`.
    fn take(&mut self, n: u32, floor: i64) -> bool {
        let left = self.level - i64::from(n) * TOKEN;
        let taken = left >= floor;
        if taken {
            self.level = left;
        }
        taken
    }

    /// Returns the ticks of the clock until this level. They are exact, as the rates are powers of two.
    fn clock_ticks_until(&self, level: i64) -> i64 {
        (level - self.level).max(0) * CLOCK_TICKS as i64 / self.settings.rate
    }

    fn tokens(&self) -> u32 {
        u32::try_from(self.level.max(0) / TOKEN).unwrap()
    }

    /// Gives back up to `n` tokens, and returns how many, rounded up.
    fn refund(&mut self, n: u32) -> u32 {
        let given = (self.burst() - self.level).min(i64::from(n) * TOKEN);
        self.level += given;
        self.refunded += given;
        u32::try_from(rounded_up(given, TOKEN)).unwrap()
    }

    /// Returns the line's position at which the last reservation is ready. Refunds do not move it.
    fn act_position(&self) -> i64 {
        self.now * self.settings.rate + self.refunded - self.level
    }

    /// Returns the ticks of the clock until the line reaches a position.
    fn clock_ticks_until_position(&self, position: i64) -> i64 {
        self.clock_ticks_until(position - self.now * self.settings.rate - self.refunded + self.level)
    }
}

fn rounded_up(amount: i64, unit: i64) -> i64 {
    (amount + unit - 1) / unit
}

#[derive(Clone, Debug)]
enum Step {
    Pass(i64),
    Check(u32),
    Oversized(u32),
    TakeUpTo(u32),
    Charge(u32),
    Refund(u32),
    Reset,
    Drain,
    Reserve(u32, Option<u32>),
    /// Cancels the oldest or the newest reservation.
    Cancel(bool),
    SetQuota(Settings),
}

fn settings() -> impl Strategy<Value = Settings> {
    let rate = prop_oneof![Just(1), Just(2), Just(4), Just(8), Just(16)];
    (rate, 1..12u32, 0..30u32).prop_map(|(rate, burst, max_debt)| Settings { rate, burst, max_debt })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = || prop_oneof![Just(0), 1..4u32, 0..50u32, Just(u32::MAX)];
    let step = prop_oneof![
        6 => (0..60i64).prop_map(Step::Pass),
        1 => (0..10_000i64).prop_map(Step::Pass),
        5 => n().prop_map(Step::Check),
        2 => n().prop_map(Step::Oversized),
        3 => n().prop_map(Step::TakeUpTo),
        3 => n().prop_map(Step::Charge),
        3 => n().prop_map(Step::Refund),
        1 => Just(Step::Reset),
        1 => Just(Step::Drain),
        5 => (n(), proptest::option::of(0..200u32)).prop_map(|(n, longest)| Step::Reserve(n, longest)),
        4 => any::<bool>().prop_map(Step::Cancel),
        1 => settings().prop_map(Step::SetQuota),
    ];
    proptest::collection::vec(step, 1..200)
}

/// Whether a wait is this many ticks of the clock, or one more where `nearly` allows it.
fn is_wait(stated: Option<Duration>, ticks: i64, nearly: bool) -> bool {
    // Converts back from nanoseconds, rounding down, which undoes the rounding up.
    let stated = stated.unwrap().as_nanos() * u128::from(FREQUENCY) / 1_000_000_000;
    let ticks = ticks as u128;
    stated == ticks || nearly && stated == ticks + 1
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn bucket_matches_its_model(settings in settings(), start in 0..12u32, steps in steps()) {
        let clock = ManualClock::with_frequency(FREQUENCY);
        let start = start.min(settings.burst);
        let limiter = RateLimiter::with_algorithm(TokenBucket::with_level(settings.quota(), start), &clock);
        let mut model = Model { settings, level: i64::from(start) * TOKEN, now: 0, refunded: 0 };
        let mut reservations: Vec<(Reservation<_>, u32, i64)> = Vec::new();
        let mut changed = false;
        prop_assert!(limiter.check_n(0).is_ok(), "this call starts the line");
        for step in steps {
            match step {
                Step::Pass(ticks) => {
                    clock.advance_ticks(ticks as u64 * CLOCK_TICKS);
                    model.pass(ticks);
                }
                Step::Check(n) => {
                    let wait = model.clock_ticks_until(i64::from(n) * TOKEN);
                    match limiter.check_n(n) {
                        Ok(allowed) => {
                            prop_assert!(n == 0 || model.take(n, 0));
                            prop_assert_eq!(allowed.remaining(), model.tokens());
                        }
                        Err(denied) => {
                            prop_assert!(n > 0 && (n > model.settings.burst || !model.take(n, 0)));
                            prop_assert_eq!(denied.exceeds_burst(), n > model.settings.burst);
                            if n <= model.settings.burst {
                                let stated = denied.retry_after();
                                prop_assert!(is_wait(stated, wait, changed), "{:?}", stated);
                            }
                        }
                    }
                }
                Step::Oversized(n) => {
                    let full = model.level == model.burst();
                    let expected = n == 0 || model.take(n, if full { model.deepest() } else { 0 });
                    let depth = i64::from(model.settings.burst + model.settings.max_debt);
                    match limiter.check_oversized(n) {
                        Ok(_) => prop_assert!(expected),
                        Err(denied) => {
                            prop_assert!(!expected);
                            prop_assert_eq!(denied.exceeds_burst(), i64::from(n) > depth, "otherwise waiting helps");
                        }
                    }
                }
                Step::TakeUpTo(n) => {
                    let expected = n.min(model.tokens());
                    prop_assert!(expected == 0 || model.take(expected, 0));
                    prop_assert_eq!(limiter.take_up_to(n), expected);
                }
                Step::Charge(n) => {
                    let room = ((model.level - model.deepest()) / TOKEN).max(0);
                    let expected = n.min(u32::try_from(room).unwrap());
                    prop_assert!(expected == 0 || model.take(expected, model.deepest()));
                    prop_assert_eq!(limiter.charge(n), expected);
                }
                Step::Refund(n) => prop_assert_eq!(limiter.refund(n), model.refund(n)),
                Step::Reset => {
                    limiter.reset();
                    model.refund(u32::MAX);
                }
                Step::Drain => {
                    let expected = model.tokens();
                    prop_assert!(expected == 0 || model.take(expected, 0));
                    prop_assert_eq!(limiter.drain(), expected);
                }
                Step::Reserve(n, longest) => {
                    let reserved = match longest {
                        Some(longest) => limiter.reserve_within(n, TICK * longest),
                        None => limiter.reserve(n),
                    };
                    let wait = model.clock_ticks_until(i64::from(n) * TOKEN);
                    let longest = longest.map(|longest| i64::from(longest) * CLOCK_TICKS as i64);
                    let in_time = longest.is_none_or(|longest| wait <= longest);
                    // After a change a wait may be a tick too long.
                    let nearly = changed && longest == Some(wait);
                    let expected = n == 0 || n <= model.settings.burst && in_time && {
                        reserved.is_ok() || !nearly
                    } && model.take(n, model.deepest());
                    prop_assert_eq!(reserved.is_ok(), expected);
                    if let Err(denied) = &reserved {
                        prop_assert_eq!(denied.exceeds_burst(), n > model.settings.burst);
                        if n <= model.settings.burst {
                            // The debt leaves room for the tokens, and they come within the longest wait.
                            let room = model.clock_ticks_until(i64::from(n) * TOKEN + model.deepest());
                            let late = longest.map_or(0, |longest| wait - longest);
                            let stated = denied.retry_after();
                            prop_assert!(is_wait(stated, room.max(late), changed), "{:?}", stated);
                        }
                    }
                    if let Ok(reserved) = reserved {
                        if n > 0 {
                            let stated = reserved.ready_in();
                            prop_assert!(is_wait(stated, wait, changed), "{:?}", stated);
                        } else {
                            prop_assert_eq!(reserved.ready_in(), Some(Duration::ZERO));
                        }
                        reservations.push((reserved, n, model.act_position()));
                    }
                }
                Step::Cancel(oldest) => {
                    let reservation = if oldest && !reservations.is_empty() {
                        Some(reservations.remove(0))
                    } else {
                        reservations.pop()
                    };
                    if let Some((reservation, n, position)) = reservation {
                        // Only the last reservation can be cancelled, and only before it is ready.
                        let expected = n > 0 && model.level < 0 && (changed || position == model.act_position());
                        let cancelled = reservation.cancel();
                        prop_assert!(cancelled == expected || changed, "{} where {} was expected", cancelled, expected);
                        if cancelled {
                            prop_assert!(expected);
                            model.level += i64::from(n) * TOKEN;
                        }
                    }
                }
                Step::SetQuota(settings) => {
                    let missing = model.burst() - model.level;
                    prop_assert_eq!(limiter.set_quota(settings.quota()), Ok(()));
                    prop_assert_eq!(limiter.quota(), settings.quota());
                    model.settings = settings;
                    model.level = model.burst() - missing;
                    changed = true;
                    // The change moves the reservations' tokens, which the model does not follow.
                    reservations.clear();
                }
            }
            for (reservation, n, position) in &reservations {
                let wait = if *n == 0 { 0 } else { model.clock_ticks_until_position(*position) };
                let stated = reservation.ready_in();
                prop_assert!(is_wait(stated, wait, changed), "{:?} for {} ticks", stated, wait);
            }
            let usage = limiter.peek();
            prop_assert_eq!(usage.remaining(), model.tokens());
            prop_assert_eq!(usage.used() + usage.remaining(), usage.limit());
            prop_assert_eq!(i64::from(limiter.debt()), rounded_up((-model.level).max(0), TOKEN));
        }
    }

    /// A set of two limits allows the calls that both models allow.
    ///
    /// A refusal by one limit takes nothing from the other.
    #[test]
    fn limit_set_takes_all_or_nothing(
        settings in (settings(), settings()),
        calls in proptest::collection::vec((0..100i64, 0..8u32), 1..200),
    ) {
        let clock = ManualClock::with_frequency(FREQUENCY);
        let layered = LimitSet::with_clock([settings.0.quota(), settings.1.quota()], &clock);
        let mut models = [settings.0, settings.1].map(|settings| Model { settings, level: 0, now: 0, refunded: 0 });
        for model in &mut models {
            model.level = model.burst();
        }
        prop_assert!(layered.check_n(0).is_ok());
        for (pass, n) in calls {
            clock.advance_ticks(pass as u64 * CLOCK_TICKS);
            for model in &mut models {
                model.pass(pass);
            }
            // Whether the call exceeds the burst, and the ticks of the clock until its tokens are available.
            let refusal = |model: &Model| {
                let (cost, rate) = (i64::from(n) * TOKEN, model.settings.rate);
                let missing = cost - model.level;
                (missing > 0).then(|| (cost > model.burst(), rounded_up(missing * CLOCK_TICKS as i64, rate)))
            };
            let refused_by = match models.each_ref().map(refusal) {
                [None, None] => None,
                [Some(first), second] if second.is_none_or(|second| first >= second || first.0 && second.0) => Some(0),
                _ => Some(1),
            };
            match layered.check_n(n) {
                Ok(_) => {
                    prop_assert!(refused_by.is_none() || n == 0);
                    prop_assert!(models.iter_mut().all(|model| model.take(n, 0)));
                }
                Err(denied) => {
                    prop_assert_eq!(Some(denied.index()), refused_by);
                    prop_assert_eq!(denied.quota(), models[denied.index()].settings.quota());
                }
            }
            prop_assert_eq!(layered.peek().map(|usage| usage.remaining()), [models[0].tokens(), models[1].tokens()]);
        }
    }
}

#[test]
fn unlimited_quota_allows_every_call_uncounted() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::UNLIMITED, &clock);
    for n in [0, 1, u32::MAX, u32::MAX] {
        assert_eq!(limiter.check_n(n).unwrap().remaining(), u32::MAX);
        assert_eq!(limiter.take_up_to(n), n);
        assert_eq!(limiter.charge(n), n);
        assert_eq!(limiter.reserve(n).unwrap().ready_in(), Some(Duration::ZERO));
    }
    assert_eq!((limiter.debt(), limiter.quota().to_string()), (0, "unlimited".into()));
    assert_eq!(limiter.peek().resets_in(), Some(Duration::ZERO));
    // A limit can be set later, and removed again.
    limiter.set_quota(Quota::per_second(3)).unwrap();
    assert_eq!(limiter.check_n(3).unwrap().remaining(), 0);
    assert!(limiter.check().is_err());
    limiter.set_quota(Quota::UNLIMITED).unwrap();
    assert_eq!(limiter.debt(), 0, "the old debt is gone");
    assert!(limiter.check_n(1_000).is_ok());
    // That holds whatever quota the limiter was built with.
    for quota in [Quota::per_hour(1), Quota::per_second(10), Quota::per_second(u32::MAX), Quota::per_second(0)] {
        let limiter = RateLimiter::with_clock(quota, &clock);
        assert_eq!(limiter.set_quota(Quota::UNLIMITED), Ok(()), "{quota}");
        assert!(limiter.check_n(u32::MAX).is_ok());
        assert_eq!(limiter.set_quota(quota), Ok(()), "{quota}");
        assert_eq!(limiter.quota(), quota);
    }
}

#[test]
fn refill_longer_than_a_duration_has_no_window() {
    let century = Quota::per(1, Duration::from_nanos(u64::MAX)).unwrap();
    let window = |burst| RateLimiter::with_clock(century.burst(burst), ManualClock::new()).peek().window();
    assert_eq!(window(3), Some(Duration::from_nanos(u64::MAX) * 3));
    assert_eq!(window(u32::MAX), None);
}

#[test]
fn soft_limit_warns_before_the_limit() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10), &clock).soft_limit(3);
    let near: Vec<_> = (0..10).map(|_| limiter.check().unwrap().is_near_limit()).collect();
    assert_eq!(near.iter().position(|near| *near), Some(7), "with two tokens left");
    assert!(near[7..].iter().all(|near| *near));
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check_oversized(8).unwrap().is_near_limit());
}

#[test]
fn bucket_can_start_empty() {
    static CLOCK: ManualClock = ManualClock::new();
    static EMPTY: RateLimiter<TokenBucket, &ManualClock> =
        RateLimiter::with_algorithm(TokenBucket::with_level(Quota::per_second(10).burst(5), 0), &CLOCK);
    assert_eq!(EMPTY.check().unwrap_err().retry_after(), Some(Duration::from_millis(100)));
    CLOCK.advance(Duration::from_secs(5));
    assert!(EMPTY.check_n(5).is_ok());
}

/// A reservation's wait moves with the quota.
#[test]
fn waiter_follows_the_quota() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_second(10).burst(1), &clock);
    limiter.check().unwrap();
    let waiter = limiter.reserve(1).unwrap();
    assert_eq!(waiter.ready_in(), Some(Duration::from_millis(100)));
    limiter.set_quota(Quota::per_second(1).burst(1)).unwrap();
    let slower = waiter.ready_in().unwrap();
    assert!(
        slower >= Duration::from_secs(1) && slower < Duration::from_secs(1) + Duration::from_micros(1),
        "{slower:?}"
    );
    limiter.set_quota(Quota::per_second(0).burst(1)).unwrap();
    assert_eq!(waiter.ready_in(), None);
    limiter.set_quota(Quota::per_second(1_000).burst(1)).unwrap();
    clock.advance(Duration::from_millis(2));
    assert_eq!(waiter.ready_in(), Some(Duration::ZERO));
}

#[test]
fn unfit_quotas_are_refused_and_the_old_one_stays() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_hour(1), &clock);
    // The errors name the limit.
    let refused = limiter.set_quota(Quota::per_second(1_000).burst(1));
    assert_eq!(refused, Err(SetQuotaError::TooFast { quota: Quota::per_second(1_000).burst(1), most: 0 }));
    let refused = limiter.set_quota(Quota::per_hour(1_000_000).burst(1));
    let Err(SetQuotaError::TooFast { most, .. }) = refused else { panic!("{refused:?}") };
    assert!((1_000..2_048).contains(&most), "{most}");
    assert!(limiter.set_quota(Quota::per_hour(most + 1).burst(1)).is_err());
    let refused = limiter.set_quota(Quota::per_hour(1).burst(u32::MAX));
    let Err(SetQuotaError::TooLarge { tokens, most: most_tokens }) = refused else { panic!("{refused:?}") };
    assert_eq!(tokens, 11 * u64::from(u32::MAX));
    let largest = Quota::per_hour(1).burst(0).max_debt(u32::try_from(most_tokens).unwrap());
    assert!(limiter.set_quota(largest.burst(1)).is_err());
    assert_eq!(limiter.quota(), Quota::per_hour(1));
    assert_eq!(limiter.set_quota(largest), Ok(()));
    assert_eq!(limiter.set_quota(Quota::per_hour(most).burst(1)), Ok(()));
    assert_eq!(limiter.set_quota(Quota::per_hour(1)), Ok(()));
    assert!(limiter.check().is_ok() && limiter.check().is_err());
    // A quota a thousand times faster fits, and so does every slower one.
    assert_eq!(limiter.set_quota(Quota::per_hour(1_000).burst(100)), Ok(()));
    let fast = RateLimiter::with_clock(Quota::per_second(1_000_000), &clock);
    assert_eq!(fast.set_quota(Quota::per_hour(1)), Ok(()));
    assert_eq!(fast.set_quota(Quota::per_second(1_000_000)), Ok(()));
}

/// From the slowest to the fastest quota, with the largest burst. A `static` can have it too.
#[test]
fn limiter_accepts_the_quota_that_it_was_built_up_to() {
    static CLOCK: ManualClock = ManualClock::new();
    static LIMITER: RateLimiter<damper::TokenBucket, &ManualClock> =
        RateLimiter::with_clock(Quota::UNLIMITED, &CLOCK).up_to(Quota::per_second(u32::MAX));
    assert_eq!(LIMITER.set_quota(Quota::per_second(u32::MAX)), Ok(()));
    let slow = [Quota::per_hour(1), Quota::per_second(0), Quota::UNLIMITED, Quota::per_second(0).burst(7)];
    let large = [Quota::per_second(1_000_000_000), Quota::per_minute(1).burst(u32::MAX), Quota::UNLIMITED];
    for (slow, large) in slow.into_iter().flat_map(|slow| large.map(|large| (slow, large))) {
        let clock = ManualClock::new();
        let limiter = RateLimiter::with_clock(slow, &clock).up_to(large);
        assert_eq!(limiter.quota(), slow);
        for quota in [large, slow, large.burst(1), large] {
            assert_eq!(limiter.set_quota(quota), Ok(()), "{slow} up to {large}");
            assert_eq!(limiter.quota(), quota);
        }
        assert_eq!(limiter.check_n(large.burst_size()).is_ok(), large.burst_size() > 0);
    }
    // An unlimited quota always fits.
    let clock = ManualClock::new();
    let limiter = RateLimiter::with_clock(Quota::per_hour(1), &clock).up_to(Quota::UNLIMITED);
    limiter.check().unwrap();
    assert_eq!(limiter.check().unwrap_err().retry_after(), Some(Duration::from_hours(1)));
}

/// Threads check, charge, refund, reserve and cancel while the quota changes.
///
/// The tokens taken stay within the larger quota, and nothing hangs or panics.
// CLAIM: RateLimiter
#[test]
fn all_operations_together_stay_in_the_envelope() {
    let clock = ManualClock::new();
    let fast = Quota::per_second(1_000).burst(100).max_debt(50);
    let slow = Quota::per_second(100).burst(10).max_debt(50);
    let limiter = RateLimiter::with_clock(fast, &clock);
    let taken: i64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (limiter, clock) = (&limiter, &clock);
                scope.spawn(move || {
                    let mut taken = 0i64;
                    for step in 0..60_000u32 {
                        match (step + worker) % 6 {
                            0 => taken += i64::from(limiter.take_up_to(3)),
                            1 => taken += i64::from(limiter.charge(1)),
                            2 => {
                                if let Ok(slot) = limiter.reserve(2) {
                                    taken += if slot.cancel() { 0 } else { 2 };
                                }
                            }
                            3 => clock.advance(Duration::from_micros(100)),
                            _ => taken += i64::from(limiter.check().is_ok()),
                        }
                    }
                    taken
                })
            })
            .collect();
        scope.spawn(|| {
            for step in 0..20_000 {
                let _ = limiter.set_quota(if step % 2 == 0 { slow } else { fast });
            }
        });
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    // 30,000 steps of 100 µs are 3 s, in which the fast quota refills 3,000. Debt adds to the burst.
    assert!(taken <= 100 + 50 + 3_000, "{taken}");
    assert!(taken >= 10 + 300, "{taken}");
}
