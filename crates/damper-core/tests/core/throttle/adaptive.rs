//! The adaptive throttle in outages, recoveries and ordinary traffic, and against a slow model.

use damper::breaker::Verdict;
use damper::throttle::{AdaptiveThrottle, Throttled};
use damper::{CallError, Clock, ManualClock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);
const LATENCY: Duration = Duration::from_millis(40);

/// Random numbers for a test.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn is_within(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

type Throttle = AdaptiveThrottle<Arc<ManualClock>>;

/// A client that makes a call each `interval`, whose verdicts come 40 ms later.
struct Client {
    clock: Arc<ManualClock>,
    throttle: Arc<Throttle>,
    interval: Duration,
    random: Random,
}

/// The calls of one run.
#[derive(Debug, Default)]
struct Calls {
    made: u32,
    sent: u32,
    accepted: u32,
}

impl Client {
    fn new(calls_per_second: u32, seed: u64) -> Self {
        Self::with(calls_per_second, seed, |throttle| throttle)
    }

    /// A client whose throttle has other settings.
    fn with(calls_per_second: u32, seed: u64, set: impl FnOnce(Throttle) -> Throttle) -> Self {
        let clock = Arc::new(ManualClock::new());
        let throttle = Arc::new(set(AdaptiveThrottle::with_clock(Arc::clone(&clock), seed)));
        Self { clock, throttle, interval: Duration::from_secs(1) / calls_per_second, random: Random(seed) }
    }

    /// Makes calls for `duration` to a service that accepts `accepted` percent of them.
    fn run(&mut self, duration: Duration, accepted: u64) -> Calls {
        let mut calls = Calls::default();
        let mut in_flight = VecDeque::new();
        for _ in 0..duration.as_nanos() / self.interval.as_nanos() {
            self.clock.advance(self.interval);
            let now = self.clock.now();
            while in_flight.front().is_some_and(|&(ends, _, _)| ends <= now) {
                let Some((_, permit, is_accepted)) = in_flight.pop_front() else { break };
                settle(permit, is_accepted);
            }
            calls.made += 1;
            if let Ok(permit) = self.throttle.try_acquire_owned() {
                let is_accepted = self.random.is_within(accepted);
                calls.sent += 1;
                calls.accepted += u32::from(is_accepted);
                in_flight.push_back((now + LATENCY.as_nanos() as u64, permit, is_accepted));
            }
        }
        for (_, permit, is_accepted) in in_flight {
            settle(permit, is_accepted);
        }
        calls
    }
}

fn settle(permit: damper::throttle::ThrottlePermit<Arc<AdaptiveThrottle<Arc<ManualClock>>>>, is_accepted: bool) {
    if is_accepted {
        permit.accepted();
    } else {
        permit.rejected();
    }
}

/// Calls per second, with seeds. One seed is enough at the highest rate.
const RATES: [(u32, u64); 7] = [(5, 1), (5, 2), (5, 3), (50, 1), (50, 2), (50, 3), (1_000, 1)];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn outage_of_five_seconds_leaves_one_call_in_a_hundred_and_one_a_second() {
    for (rate, seed) in RATES {
        let mut client = Client::new(rate, seed);
        let healthy = client.run(seconds(120), 100);
        assert_eq!(healthy.made, healthy.sent, "{rate} a second");
        client.run(seconds(5), 0);
        let outage = client.run(seconds(60), 0);
        // Of a random draw with this mean, six standard deviations.
        let drawn = f64::from(outage.made) / 100.0;
        let most = drawn + 6.0 * drawn.sqrt() + 61.0;
        assert!(f64::from(outage.sent) <= most, "{rate} a second: {outage:?}");
        assert!(outage.sent >= 59, "{rate} a second: {outage:?}");
    }
}

#[test]
fn service_gets_its_calls_fifteen_seconds_after_a_recovery() {
    for (rate, seed) in RATES {
        // At 1,000 calls a second the long outage is left out: the window is the same at every rate.
        let outages: &[u64] = if rate < 1_000 { &[10, 60, 600] } else { &[10, 60] };
        for &outage in outages {
            let mut client = Client::new(rate, seed);
            client.run(seconds(60), 100);
            client.run(seconds(outage), 0);
            client.run(seconds(15), 100);
            let recovered = client.run(seconds(30), 100);
            let share = f64::from(recovered.accepted) / f64::from(recovered.made);
            assert!(share >= 0.95, "{rate} a second after {outage} s: {share}");
        }
    }
}

#[test]
fn ninety_percent_success_refuses_at_most_one_call_in_a_hundred() {
    for (rate, seed) in RATES {
        let duration = seconds(600.min(200_000 / u64::from(rate)));
        let calls = Client::new(rate, seed).run(duration, 90);
        assert!((calls.made - calls.sent) * 100 <= calls.made, "{rate} a second: {calls:?}");
    }
}

/// A service has a bad minute in each hour. Calls in the other minutes are not refused.
#[test]
fn day_with_bad_minutes_refuses_nothing_between_them() {
    let mut client = Client::new(5, 1);
    let mut refused_beside = 0;
    for _ in 0..24 {
        client.run(seconds(60), 30);
        client.run(seconds(30), 99); // the window still contains the bad minute
        let good = client.run(seconds(3_510), 99);
        refused_beside += good.made - good.sent;
    }
    assert_eq!(refused_beside, 0);
}

/// A service accepts 100 calls a second, and a client wants to make 400. It sends 200.
#[test]
fn service_with_a_limit_gets_twice_the_calls_it_accepts() {
    let client = Client::new(400, 1);
    let mut calls = Calls::default();
    for second in 0..120 {
        // The service accepts the first hundred calls of each second.
        let mut left = 100;
        for _ in 0..400 {
            client.clock.advance(client.interval);
            let Ok(permit) = client.throttle.try_acquire() else { continue };
            let is_accepted = left > 0;
            left -= i32::from(is_accepted);
            if second >= 60 {
                calls.sent += 1;
                calls.accepted += u32::from(is_accepted);
            }
            if is_accepted {
                permit.accepted();
            } else {
                permit.rejected();
            }
        }
    }
    assert!(calls.accepted >= 60 * 98, "{calls:?}");
    assert!((60 * 180..60 * 220).contains(&calls.sent), "{calls:?}");
}

/// Returns the share of the calls that is sent to a service that accepts some at random.
///
/// There are 100 calls a second. The last eight of ten minutes count.
fn sent_to_a_service_that_accepts(percent: u64, client: &Client) -> f64 {
    let mut random = Random(percent);
    let mut sent = 0.0;
    for call in 0..60_000 {
        client.clock.advance(client.interval);
        let Ok(permit) = client.throttle.try_acquire() else { continue };
        sent += f64::from(u8::from(call >= 12_000));
        if random.is_within(percent) { permit.accepted() } else { permit.rejected() }
    }
    sent / 48_000.0
}

/// One of two replicas is dead, or a validation refuses most calls.
///
/// Fewer calls do not have fewer rejected. By the formula alone 3 to 6 % were sent.
#[test]
fn service_that_rejects_a_share_for_its_own_reasons_gets_what_it_accepts_less_a_fifth() {
    for (accepted, least, most) in [(50, 0.45, 1.0), (45, 0.20, 0.32), (40, 0.16, 0.27), (30, 0.07, 0.16)] {
        let sent = sent_to_a_service_that_accepts(accepted, &Client::new(100, 1));
        println!("{accepted} % accepted: {sent:.3} sent");
        assert!((least..most).contains(&sent), "{accepted} % accepted: {sent} sent");
    }
}

#[test]
fn largest_refused_share_is_a_setting() {
    let client = Client::with(100, 1, |throttle| throttle.max_refused(0.3).unwrap());
    let sent = sent_to_a_service_that_accepts(20, &client);
    assert!((0.67..0.73).contains(&sent), "{sent}");
    for share in [-0.01, 0.991, f64::NAN] {
        let error = AdaptiveThrottle::with_clock(ManualClock::new(), 7).max_refused(share).unwrap_err();
        assert_eq!(error.to_string(), format!("max_refused is {share:?}, it must be 0.0 to 0.99"));
    }
}

/// Services that accept 100 calls a second, and clients that want to make some times as many.
///
/// For each call that the service accepts they send two by the formula alone. The margin adds to it from seven times on.
#[test]
fn overloaded_service_gets_few_more_calls_than_by_the_formula() {
    for (times, most) in [(3, 2.2), (5, 2.2), (10, 2.7), (20, 3.3), (40, 4.1)] {
        let client = Client::new(100 * times, 1);
        let mut sent = 0.0;
        for second in 0..120 {
            let mut left = 100;
            for _ in 0..100 * times {
                client.clock.advance(client.interval);
                let Ok(permit) = client.throttle.try_acquire() else { continue };
                sent += f64::from(u8::from(second >= 60));
                if left > 0 {
                    left -= 1;
                    permit.accepted();
                } else {
                    permit.rejected();
                }
            }
        }
        let sent = sent / 6_000.0;
        println!("{times} times: {sent:.2}");
        assert!((1.8..most).contains(&sent), "{times} times: {sent}");
    }
}

/// A service never answers, so each call ends by its timeout.
#[test]
fn timeouts_of_any_length_count_as_rejections() {
    for timeout in [6, 29, 31, 60, 300] {
        let client = Client::new(50, 1);
        let mut in_flight = VecDeque::new();
        let (mut sent, mut made) = (0, 0);
        for call in 0..(timeout + 60) * 50 {
            client.clock.advance(client.interval);
            while in_flight.front().is_some_and(|&(began, _)| began + timeout * 50 <= call) {
                let Some((_, permit)) = in_flight.pop_front() else { break };
                settle(permit, false);
            }
            let permit = client.throttle.try_acquire_owned();
            if call >= (timeout + 30) * 50 {
                made += 1;
                sent += u32::from(permit.is_ok());
            }
            in_flight.extend(permit.ok().map(|permit| (call, permit)));
        }
        assert!(sent <= made / 20, "timeouts of {timeout} s: {sent} of {made} are sent");
    }
}

#[test]
fn at_least_one_call_a_second_is_sent() {
    let mut client = Client::new(2, 3);
    client.run(seconds(60), 0);
    let calls = client.run(seconds(100), 0);
    assert!((95..=110).contains(&calls.sent), "{calls:?}");
}

/// A clock that the test sets, forwards or backwards.
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn frequency(&self) -> u64 {
        1_000_000
    }
}

/// A thread reads the clock just before another one sends a call, so that call lies in its future.
#[test]
fn clock_reading_just_before_the_last_sent_call_sends_no_extra_call() {
    let clock = SetClock(AtomicU64::new(0));
    let throttle = AdaptiveThrottle::with_clock(&clock, 1);
    for _ in 0..10 {
        throttle.try_acquire().unwrap().rejected();
    }
    clock.0.store(2_000_000, Relaxed);
    throttle.try_acquire().unwrap().rejected();
    clock.0.store(1_999_999, Relaxed);
    let sent = (0..100).filter(|_| throttle.try_acquire().is_ok()).count();
    assert!(sent <= 5, "{sent} of 100 although about one is drawn");
}

/// The same where no call is drawn: a call in the future is no call of long ago.
///
/// An hour ahead the clock has stepped back.
#[test]
fn call_that_lies_in_the_future_is_no_reason_for_a_probe() {
    for (behind, is_sent) in [(1, false), (1_000, false), (3_599_000_000, false), (3_601_000_000, true)] {
        let clock = SetClock(AtomicU64::new(0));
        let throttle = AdaptiveThrottle::with_clock(&clock, 1);
        for _ in 0..10 {
            throttle.try_acquire().unwrap().rejected();
        }
        // A probe, after a second without a call.
        clock.0.store(4_000_000_000, Relaxed);
        for _ in 0..10 {
            throttle.try_acquire().unwrap().rejected();
        }
        let sent = loop {
            clock.0.store(clock.now() + 1_000_001, Relaxed);
            if throttle.try_acquire().is_ok() {
                break clock.now();
            }
        };
        clock.0.store(sent - behind, Relaxed);
        let first = throttle.try_acquire();

        assert_eq!(first.is_ok(), is_sent, "{behind} µs behind");
    }
}

/// A call that is drawn counts as sent: the next probe comes a second after it.
#[test]
fn drawn_call_puts_off_the_probe() {
    let clock = ManualClock::new();
    let throttle = AdaptiveThrottle::with_clock(&clock, 3);
    clock.advance(seconds(10));
    for _ in 0..10 {
        throttle.try_acquire().unwrap().rejected();
    }
    throttle.try_acquire().expect("none was sent since the outage began").rejected();
    let mut drawn = 0;
    for _ in 0..900 {
        clock.advance(MILLISECOND);
        let Ok(permit) = throttle.try_acquire() else { continue };
        permit.rejected();
        let refusal = loop {
            if let Err(refusal) = throttle.try_acquire() {
                break refusal;
            }
        };
        assert_eq!(refusal.retry_after(), seconds(1), "counted from the drawn call");
        drawn += 1;
    }
    assert!(drawn > 0);
}

#[test]
fn dropped_permit_leaves_no_trace() {
    let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7);
    for _ in 0..100 {
        drop(throttle.try_acquire().unwrap());
        throttle.try_acquire().unwrap().ignore();
        throttle.try_acquire().unwrap().record(Verdict::Ignored);
    }
    assert_eq!((throttle.status().requests(), throttle.status().accepted()), (0, 0));
}

#[test]
fn calls_return_their_result_or_the_refusal() {
    let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7);
    assert_eq!(throttle.call(|| Ok::<_, ()>(1)), Ok(1));
    assert_eq!(throttle.call_with(|| Err::<(), _>("404"), |_| Verdict::Success), Err(CallError::Failed("404")));
    assert_eq!(throttle.status().accepted(), 2);
    // A call was accepted recently, so it takes many more failures until the throttle refuses.
    let refused = (0..10_000).find_map(|_| match throttle.call(|| Err::<(), _>("503")) {
        Err(CallError::Refused(throttled)) => Some(throttled),
        _ => None,
    });
    let refused: Throttled = refused.expect("a call is refused");
    assert!(refused.to_string().starts_with("throttled, "), "{refused}");
    assert!(refused.share_refused() > 0.3 && refused.share_refused() <= 0.99);
}

#[tokio::test]
async fn futures_are_not_polled_while_throttled() {
    let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7);
    for _ in 0..10 {
        assert_eq!(throttle.run(async { Err::<(), _>("503") }).await, Err(CallError::Failed("503")));
    }
    let mut polled = 0;
    for _ in 0..200 {
        let result = throttle.run(async {
            polled += 1;
            Err::<(), _>("503")
        });
        _ = result.await;
    }
    assert!((1..20).contains(&polled), "{polled} of 200");
}

#[test]
fn refusal_is_never_retried() {
    let throttled = loop {
        let throttle = AdaptiveThrottle::with_clock(ManualClock::new(), 7);
        for _ in 0..20 {
            _ = throttle.call(|| Err::<(), ()>(()));
        }
        if let Err(throttled) = throttle.try_acquire().map(drop) {
            break throttled;
        }
    };
    let error = std::io::Error::other(CallError::<std::io::Error, Throttled>::Refused(throttled));
    assert_eq!(damper::retry::EveryErr::judge(&error), damper::retry::Failure::FATAL);
}

#[test]
fn multipliers_out_of_range_are_refused() {
    for multiplier in [0.99, 10.01, f64::NAN, f64::INFINITY, -2.0] {
        let error = AdaptiveThrottle::with_clock(ManualClock::new(), 7).multiplier(multiplier).unwrap_err();
        assert_eq!(error.to_string(), format!("multiplier is {multiplier:?}, it must be 1.0 to 10.0"));
    }
}

/// The throttle's rule over a plain list of calls, in floating point.
#[derive(Default)]
struct Model {
    /// The bucket in which each call began, whether it was sent, and its verdict once it has one.
    calls: Vec<(u64, bool, Option<bool>)>,
    phase: ModelPhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ModelPhase {
    #[default]
    Formula,
    Outage,
    Recovery {
        sent: f64,
        since: f64,
    },
}

impl Model {
    fn refused(&mut self, now: Duration) -> f64 {
        let bucket = now.as_micros() as u64 / 1_250_000;
        let count = |buckets: u64, which: &dyn Fn(bool, Option<bool>) -> bool| {
            let is_in = |began: u64| began <= bucket && bucket - began < buckets;
            let counted = self.calls.iter().filter(|(began, is_sent, ended)| is_in(*began) && which(*is_sent, *ended));
            f64::from(u32::try_from(counted.count()).unwrap())
        };
        let is_accepted = |_, verdict| verdict == Some(true);
        let (requests, accepted) =
            (count(24, &|is_sent, verdict| !is_sent || verdict.is_some()), count(24, &is_accepted));
        let (verdicts, recent) = (count(4, &|_, verdict| verdict.is_some()), count(4, &is_accepted));
        let formula = if requests < 10.0 { 0.0 } else { (requests - 2.0 * accepted) / (requests + 1.0) };
        let ended = count(24, &|_, verdict| verdict.is_some());
        let most = if ended < 10.0 { 0.99 } else { (1.0 - accepted / ended + 0.2).min(0.99) };
        let formula = formula.clamp(0.0, most);
        let share = |phase: ModelPhase| match phase {
            ModelPhase::Formula => formula,
            ModelPhase::Outage => 0.99,
            ModelPhase::Recovery { sent, since } => {
                let elapsed = now.as_secs_f64() - since;
                let doubled = sent * 2f64.powf(elapsed.floor()) * (1.0 + elapsed.fract());
                (1.0 - doubled).max(0.0)
            }
        };
        self.phase = match self.phase {
            phase if recent == 0.0 && (verdicts >= 10.0 || phase == ModelPhase::Outage) => ModelPhase::Outage,
            _ if verdicts < 3.0 || recent < 0.9 * verdicts - 1e-9 => ModelPhase::Formula,
            ModelPhase::Recovery { sent, since } => ModelPhase::Recovery { sent, since },
            phase if share(phase) < 1e-4 => ModelPhase::Formula,
            phase => ModelPhase::Recovery { sent: 1.0 - share(phase), since: now.as_secs_f64() },
        };
        share(self.phase)
    }
}

/// Random histories of calls, late verdicts and pauses.
#[test]
fn refused_share_matches_a_slow_model() {
    for seed in 0..150 {
        let mut random = Random(seed);
        let clock = ManualClock::new();
        let throttle = AdaptiveThrottle::with_clock(&clock, seed);
        let mut model = Model::default();
        let mut now = Duration::ZERO;
        let mut in_flight = Vec::new();
        for step in 0..400 {
            if step % 40 == 0 {
                // Shifts the sequence of random numbers.
                random.next();
            }
            let pause = match random.next() % 40 {
                0 => seconds(random.next() % 40),
                _ => MILLISECOND * (random.next() % 300) as u32,
            };
            clock.advance(pause);
            now += pause;
            let health = [0, 5, 50, 93, 100][(step / 80 + seed as usize) % 5];
            for _ in 0..random.next() % 3 {
                if !in_flight.is_empty() {
                    let (permit, call): (_, usize) = in_flight.swap_remove(random.next() as usize % in_flight.len());
                    let permit: damper::throttle::ThrottlePermit<_> = permit;
                    let is_accepted = random.is_within(health);
                    let oldest = (now.as_micros() as u64 / 1_250_000).saturating_sub(23);
                    if !is_accepted {
                        // A rejection from before the window counts at the window's beginning.
                        model.calls[call].0 = model.calls[call].0.max(oldest);
                    }
                    // A verdict is dropped if a later call was counted in the same bucket.
                    let bucket: u64 = model.calls[call].0;
                    let is_reused = model.calls.iter().any(|&(began, is_sent, verdict)| {
                        began > bucket && began % 24 == bucket % 24 && (!is_sent || verdict.is_some())
                    });
                    if !is_reused {
                        model.calls[call].2 = Some(is_accepted);
                    }
                    if is_accepted {
                        permit.accepted();
                    } else {
                        permit.rejected();
                    }
                }
            }
            let expected = model.refused(now);
            let got = throttle.status().share_refused();
            assert!(
                (got - expected).abs() < 2e-3,
                "seed {seed}, step {step}: {got} and not {expected} in {:?}",
                model.phase
            );
            let result = throttle.try_acquire();
            model.calls.push((now.as_micros() as u64 / 1_250_000, result.is_ok(), None));
            if let Ok(permit) = result {
                in_flight.push((permit, model.calls.len() - 1));
            }
        }
        drop(in_flight);
    }
}
