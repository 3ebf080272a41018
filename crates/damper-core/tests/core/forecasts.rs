//! Forecasts of gates: what they say is what the next call gets, and saying it changes nothing.

use crate::models::cases::cases;
use core::fmt::Debug;
use core::time::Duration;
use damper::breaker::BreakerConfig;
use damper::concurrency::{Admission, AdmissionRequest, Criticality};
use damper::gate::{
    Answer, AnyGate, Ask, Classes, Costs, Either, Ending, Exempt, Forecast, PerKey, Permit, Shared, Verdict, Waits,
};
use damper::shadow::Shadowed;
use damper::throttle::{AdaptiveThrottle, KeyedThrottle};
use damper::time::{FixedFrequency, Seed};
use damper::words::{AtomicU64, WordLimiter};
use damper::{
    AdaptiveLimit, Bulkhead, CircuitBreaker, Deadline, KeyedBulkhead, KeyedCircuitBreaker, KeyedLimiter, LimitSet,
    Limiter, ManualClock, Pausable, Plan, Quota, QuotaTree, RateLimiter, RateLimiter32, SlidingLog, Striped,
};
use proptest::prelude::*;
use std::future::{Pending, pending};
use std::sync::Arc;

type Clock = Arc<ManualClock>;

/// A call of one of four keys.
#[derive(Clone, Copy, Debug)]
struct Call {
    key: u8,
    cost: u32,
    is_late: bool,
}

/// A call, the time before it, how it ends, and whether it is held until a later one.
type Step = (Call, u64, bool, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let call =
        (0..4_u8, 0..4_u32, prop::bool::weighted(0.1)).prop_map(|(key, cost, is_late)| Call { key, cost, is_late });
    prop::collection::vec((call, 0..3_000_u64, any::<bool>(), any::<bool>()), 1..60)
}

/// Says how a gate answers a call: its name, and the refusal.
fn told<R: Debug>(forecast: &Forecast<R>) -> (&'static str, Option<String>) {
    match forecast {
        Forecast::Pass(_) => ("pass", None),
        Forecast::Wait => ("wait", None),
        Forecast::Refuse(refusal) => ("refuse", Some(format!("{refusal:?}"))),
        _ => ("unknown", None),
    }
}

/// Makes the calls at a gate that is asked for forecasts, and at one that never is.
///
/// Each is on a clock of its own.
fn does_as_it_says<G: Ask<Call>>(gate: impl Fn(Clock) -> G, steps: &[Step]) {
    let clocks = [(); 2].map(|()| Arc::new(ManualClock::new()));
    let [asked, never_asked] = clocks.each_ref().map(|clock| gate(Arc::clone(clock)));
    let mut held = Vec::new();
    for &(call, millis, succeeds, is_held) in steps {
        for clock in &clocks {
            clock.advance(Duration::from_millis(millis));
        }
        let forecast = told(&asked.forecast(&call));
        for key in 0..4 {
            // About any call, any number of times.
            _ = asked.forecast(&Call { key, ..call });
        }
        assert_eq!(told(&asked.forecast(&call)), forecast, "{steps:?}");
        let (answer, beside) = (asked.ask(&call), never_asked.ask(&call));
        let of_answer = |answer: &Answer<_, _, G::Refusal>| match answer {
            Answer::Pass(_) => ("pass", None),
            Answer::Wait(_) => ("wait", None),
            Answer::Refuse(refusal) => ("refuse", Some(format!("{refusal:?}"))),
        };
        assert_eq!(of_answer(&answer), of_answer(&beside), "a forecast has changed the gate: {steps:?}");
        assert_eq!(of_answer(&answer), forecast, "{steps:?}");
        let permits = [answer, beside].map(|answer| answer.at_once().and_then(Result::ok));
        let verdict = Verdict::of(if succeeds { Ending::Success } else { Ending::Failed });
        held.push((permits, verdict));
        if !is_held {
            let (permits, verdict) = held.remove(0);
            permits.into_iter().flatten().for_each(|permit| permit.end(&verdict));
        }
    }
}

/// A sleep that never ends.
fn never(_: Duration) -> Pending<()> {
    pending()
}

fn quota(burst: u32) -> Quota {
    Quota::per_minute(40).burst(burst)
}

fn limiter(burst: u32, clock: Clock) -> Arc<RateLimiter<damper::TokenBucket, Clock>> {
    Arc::new(RateLimiter::with_clock(quota(burst), clock))
}

fn word(burst: u32, clock: Clock) -> Arc<WordLimiter<'static, Clock>> {
    let plan = Plan::new(quota(burst)).unwrap();
    Arc::new(WordLimiter::new(Box::leak(Box::new(AtomicU64::new(0))), plan, clock))
}

/// A clock with the frequency of a [`ManualClock`], known at compile time.
#[derive(Debug)]
struct Fixed(Clock);

impl damper::Clock for Fixed {
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn frequency(&self) -> u64 {
        Self::HERTZ
    }
}

impl FixedFrequency for Fixed {
    const HERTZ: u64 = 1_000_000_000;
}

fn word32(burst: u32, clock: Clock) -> Arc<RateLimiter32<&'static Fixed>> {
    Arc::new(RateLimiter32::new(quota(burst), &*Box::leak(Box::new(Fixed(clock)))).unwrap())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that `time_left` takes")]
fn left(call: &Call) -> Option<Duration> {
    call.is_late.then_some(Duration::ZERO)
}

/// Returns the request of a call at an admission whose clock never steps back.
fn request(clock: Clock) -> impl Fn(&Call) -> AdmissionRequest {
    move |call: &Call| {
        let request = AdmissionRequest::new().criticality(Criticality::ALL[usize::from(call.key)]).tenant(&call.key);
        let deadline = Deadline::with_clock(Duration::ZERO, Arc::clone(&clock));
        if call.is_late { request.by(&deadline) } else { request }
    }
}

proptest! {
    #![proptest_config(cases(32))]

    // CLAIM: http::ServerStack::explain
    #[test]
    fn limiters_do_as_they_say(steps in steps(), burst in 0..6_u32) {
        let log = |clock| Arc::new(RateLimiter::with_algorithm(SlidingLog::new(quota(burst)).unwrap(), clock));
        let set = |clock| Arc::new(LimitSet::with_clock([quota(burst), Quota::per_hour(20)], clock));
        let keyed = |clock| Arc::new(KeyedLimiter::<u8>::builder(quota(burst)).clock(clock).build().unwrap());
        does_as_it_says(|clock| limiter(burst, clock), &steps);
        does_as_it_says(log, &steps);
        does_as_it_says(|clock| Arc::new(Striped::with_stripes(quota(burst + 3), 2, 2, clock).unwrap()), &steps);
        does_as_it_says(|clock| Costs::new(Arc::new(Striped::with_stripes(quota(burst + 3), 2, 2, clock).unwrap()), |call: &Call| call.cost), &steps);
        does_as_it_says(|clock| Costs::new(word(burst, clock), |call: &Call| call.cost), &steps);
        does_as_it_says(|clock| Costs::new(word32(burst, clock), |call: &Call| call.cost), &steps);
        does_as_it_says(set, &steps);
        does_as_it_says(|clock: Clock| {
            let paused = Pausable::with_clock(limiter(burst, Arc::clone(&clock)), clock);
            paused.pause_for(Duration::from_secs(20));
            Arc::new(paused)
        }, &steps);
        does_as_it_says(|clock| Costs::new(limiter(burst, clock), |call: &Call| call.cost), &steps);
        does_as_it_says(|clock| PerKey::new(|call: &Call| call.key, keyed(clock)), &steps);
        does_as_it_says(|clock| Costs::new(PerKey::new(|call: &Call| call.key, keyed(clock)), |call: &Call| call.cost), &steps);
        does_as_it_says(|clock| Waits::new(limiter(burst, clock), Duration::from_secs(1), never), &steps);
        does_as_it_says(|clock| {
            Waits::new(Costs::new(limiter(burst, clock), |call: &Call| call.cost), Duration::from_secs(1), never)
        }, &steps);
    }

    // CLAIM: http::ServerStack::explain
    #[test]
    fn breakers_and_concurrency_limits_do_as_they_say(steps in steps(), slots in 0..4_u32) {
        let config = BreakerConfig::builder().failure_threshold(2).cooldown(Duration::from_secs(4)).build().unwrap();
        let breaker = |clock| Arc::new(CircuitBreaker::with_clock(config, clock));
        let bulkhead = |clock| Arc::new(Bulkhead::with_clock(slots, clock).queue(3));
        let admission = |clock| Arc::new(Admission::fixed_with_clock(slots, clock));
        does_as_it_says(breaker, &steps);
        does_as_it_says(|_| Arc::new(AdaptiveLimit::default()), &steps);
        does_as_it_says(bulkhead, &steps);
        does_as_it_says(|clock| Waits::new(bulkhead(clock), Duration::from_secs(1), never).time_left(left), &steps);
        does_as_it_says(|clock| Classes::new(admission(Arc::clone(&clock)), request(clock)), &steps);
        does_as_it_says(|clock| {
            Waits::new(Classes::new(admission(Arc::clone(&clock)), request(clock)), Duration::from_secs(1), never)
        }, &steps);
    }

    // CLAIM: http::ServerStack::explain
    #[test]
    fn combinators_pass_on_what_their_gates_say(steps in steps(), burst in 0..6_u32, slots in 0..4_u32) {
        let bulkhead = |clock| Arc::new(Bulkhead::with_clock(slots, clock));
        does_as_it_says(|clock: Clock| (bulkhead(Arc::clone(&clock)), limiter(burst, clock)), &steps);
        does_as_it_says(|clock| Some(limiter(burst, clock)), &steps);
        does_as_it_says(|clock| Exempt::new(limiter(burst, clock), |call: &Call| call.key == 0), &steps);
        does_as_it_says(|clock| Shared::new(limiter(burst, clock)), &steps);
        does_as_it_says(|clock| AnyGate::<Call>::new(limiter(burst, clock)), &steps);
        does_as_it_says(|clock| {
            if slots % 2 == 0 { Either::First(limiter(burst, clock)) } else { Either::Second(bulkhead(clock)) }
        }, &steps);
        does_as_it_says(|clock: Clock| Shadowed::new(limiter(burst, Arc::clone(&clock)), limiter(1, clock)), &steps);
    }

    // CLAIM: http::ServerStack::explain
    #[test]
    fn trees_do_as_they_say(steps in steps(), burst in 0..6_u32) {
        let clocks = [(); 2].map(|()| Arc::new(ManualClock::new()));
        let trees = clocks.each_ref().map(|clock| {
            QuotaTree::<u8, 2, 1>::builder(["team", "user"], ["calls"]).clock(Arc::clone(clock)).build().unwrap()
        });
        let [team, user] = [8, burst].map(|burst| Plan::new(quota(burst)).unwrap());
        for (call, millis, ..) in steps {
            for clock in &clocks {
            clock.advance(Duration::from_millis(millis));
        }
            let path = [(&9, [&team]), (&call.key, [&user])];
            let forecast = trees[0].forecast(&path, [call.cost]);
            _ = trees[0].forecast(&[(&9, [&team]), (&7, [&user])], [1]);
            let [answer, beside] = trees.each_ref().map(|tree| tree.check(&path, [call.cost]));
            prop_assert_eq!(answer, beside);
            prop_assert_eq!(told(&forecast), told(&answer.err().into()));
        }
    }
}

proptest! {
    #![proptest_config(cases(32))]

    // CLAIM: http::ServerStack::explain
    #[test]
    fn throttles_say_what_the_next_call_gets(steps in steps(), seed: u64, max_refused in 0..100_u8) {
        let throttle = |clock| {
            let throttle = AdaptiveThrottle::with_clock(clock, seed).max_refused(f64::from(max_refused) / 100.0).unwrap();
            // An outage, so that some calls are refused and some are drawn to be sent.
            (0..10).for_each(|_| throttle.try_acquire().unwrap().rejected());
            Arc::new(throttle)
        };
        does_as_it_says(throttle, &steps);
    }

    // CLAIM: http::ServerStack::explain
    #[test]
    fn gates_of_keys_do_as_they_say(steps in steps(), slots in 0..4_u32) {
        let config = BreakerConfig::builder().failure_threshold(2).cooldown(Duration::from_secs(4)).build().unwrap();
        let key = |call: &Call| call.key;
        // A seed in common, so that both throttles of a key draw alike.
        let throttles = |clock| KeyedThrottle::<u8, _, _>::with_clock_and_hasher(64, clock, Seed::new(7, 7)).unwrap();
        let bulkheads = |clock| Arc::new(KeyedBulkhead::<u8, _>::with_clock(slots, 64, clock).unwrap().queue(3));
        does_as_it_says(|clock| {
            PerKey::new(key, Arc::new(KeyedCircuitBreaker::<u8, _>::with_clock(config, 64, clock).unwrap()))
        }, &steps);
        does_as_it_says(|clock| PerKey::new(key, Arc::new(throttles(clock))), &steps);
        does_as_it_says(|clock| PerKey::new(key, bulkheads(clock)), &steps);
        does_as_it_says(|clock| {
            Waits::new(PerKey::new(key, bulkheads(clock)), Duration::from_secs(1), never).time_left(left)
        }, &steps);
    }
}

/// While all bulkheads are held, another key may get none.
#[test]
fn store_without_room_does_not_know_about_a_new_key() {
    let limits = Arc::new(KeyedBulkhead::<u8>::new(1, 1).unwrap());
    let gate = PerKey::new(|call: &Call| call.key, Arc::clone(&limits));
    let [held, other] = [1, 2].map(|key| Call { key, cost: 1, is_late: false });
    assert_eq!(told(&gate.forecast(&other)).0, "pass");
    assert!(limits.is_empty(), "a forecast creates no entry");
    let answer = gate.ask(&held);
    assert!(!limits.is_empty());
    assert_eq!(told(&gate.forecast(&held)).0, "refuse");
    assert_eq!(told(&gate.forecast(&other)).0, "unknown");
    drop(answer);
}

#[test]
fn throttle_without_a_seed_and_a_gate_of_ones_own_do_not_know() {
    struct Mine(RateLimiter);
    impl Limiter for Mine {
        fn try_acquire(&self, _: u32) -> Result<(), damper::Denied> {
            Ok(())
        }
        fn usage(&self) -> damper::Usage {
            self.0.peek()
        }
    }
    let throttle = Arc::new(AdaptiveThrottle::default());
    assert_eq!(throttle.forecast(&()), Forecast::Pass(None));
    (0..10).for_each(|_| throttle.try_acquire().unwrap().rejected());
    assert_eq!(throttle.forecast(&()), Forecast::Unknown, "its first number comes from the operating system");
    _ = throttle.try_acquire();
    assert_ne!(throttle.forecast(&()), Forecast::Unknown);
    assert_eq!(Ask::forecast(&&Mine(RateLimiter::new(quota(1))), &()), Forecast::Unknown);
    let absent: Option<&'static Mine> = None;
    assert_eq!(absent.forecast(&()), Forecast::Pass(None));
}
