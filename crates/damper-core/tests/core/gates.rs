//! Damper's types as gates decide as they do alone, and the combinators ask them as they say.

use core::time::Duration;
use damper::breaker::{self, BreakerConfig};
use damper::concurrency::{
    Admission, AdmissionRequest, Criticality, LimitBounds, LimitRule, Outcome, RefusalCause, WindowPlan, WindowSummary,
};
use damper::gate::{
    Answer, AnyGate, Ask, Classes, Costs, Either, Ending, Exempt, Gate, KeyOf, Never, PerKey, Permit, Refusal,
    RefusalKind, Shared, Verdict, Waits,
};
use damper::shadow::Shadowed;
use damper::throttle::AdaptiveThrottle;
use damper::{
    AdaptiveLimit, Bulkhead, CallError, CircuitBreaker, KeyedBulkhead, KeyedCircuitBreaker, KeyedLimiter, ManualClock,
    Quota, RateLimiter, is_refusal,
};
use proptest::prelude::*;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const ENDINGS: [Ending; 9] = [
    Ending::Success,
    Ending::Declined,
    Ending::Limited,
    Ending::Unavailable,
    Ending::BadGateway,
    Ending::Failed,
    Ending::Broken,
    Ending::TimedOut,
    Ending::NotSent,
];

/// One call: the time before it, its ending, and whether its head comes before that.
type Step = (u64, usize, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..3_000u64, 0..ENDINGS.len(), any::<bool>()), 1..200)
}

/// Makes the calls at a gate and at its twin, and compares the decisions.
///
/// The twin is told each ending in its own words.
fn compare<G: Ask<()>>(
    clock: &ManualClock,
    steps: &[Step],
    gate: &G,
    mut twin: impl FnMut(Option<(Ending, bool)>) -> bool,
) {
    for &(millis, ending, is_headed) in steps {
        clock.advance(Duration::from_millis(millis));
        let verdict = Verdict::of(ENDINGS[ending]);
        let passed = match gate.ask(&()).at_once().expect("no call waits") {
            Ok(mut permit) => {
                if is_headed {
                    permit.answered(&verdict);
                    permit.first_data();
                }
                permit.end(&verdict);
                true
            }
            Err(_) => false,
        };
        assert_eq!(passed, twin(passed.then_some((ENDINGS[ending], is_headed))), "{steps:?}");
    }
}

proptest! {
    #[test]
    fn breaker_as_a_gate_decides_as_alone(steps in steps()) {
        let clock = ManualClock::new();
        let config = BreakerConfig::builder().failure_threshold(3).build().unwrap();
        let gate = CircuitBreaker::with_clock(config, &clock);
        let twin = CircuitBreaker::with_clock(config, &clock);
        compare(&clock, &steps, &&gate, |ending| {
            let Ok(mut permit) = twin.try_acquire() else { return false };
            let Some((ending, is_headed)) = ending else { return true };
            if is_headed {
                permit.probe_answered();
            }
            permit.record(match ending {
                Ending::Success | Ending::Declined | Ending::Limited => breaker::Verdict::Success,
                Ending::NotSent => breaker::Verdict::Ignored,
                _ => breaker::Verdict::Failure,
            });
            true
        });
    }

    #[test]
    fn throttle_as_a_gate_decides_as_alone(steps in steps()) {
        let clock = ManualClock::new();
        let gate = AdaptiveThrottle::with_clock(&clock, 7);
        let twin = AdaptiveThrottle::with_clock(&clock, 7);
        compare(&clock, &steps, &&gate, |ending| {
            let Ok(permit) = twin.try_acquire() else { return false };
            match ending {
                // The first data show that the service accepted the call.
                Some((_, true) | (Ending::Success | Ending::Declined | Ending::Failed, _)) => permit.accepted(),
                Some((Ending::Limited | Ending::NotSent, _)) | None => permit.ignore(),
                Some(_) => permit.rejected(),
            }
            true
        });
    }

    #[test]
    fn adaptive_limit_as_a_gate_measures_as_alone(steps in steps()) {
        let clock = ManualClock::new();
        let bounds = LimitBounds::new(1, 20).unwrap();
        let gate = AdaptiveLimit::with_clock(bounds, &clock);
        let twin = AdaptiveLimit::with_clock(bounds, &clock);
        compare(&clock, &steps, &&gate, |ending| {
            let Ok(permit) = twin.try_acquire() else { return false };
            permit.record(match ending {
                Some((Ending::Success, _)) => Outcome::Success,
                Some((Ending::Unavailable | Ending::TimedOut, _)) => Outcome::Overloaded,
                _ => Outcome::Ignored,
            });
            true
        });
        prop_assert_eq!(gate.rule(), twin.rule());
        prop_assert_eq!((gate.limit(), gate.in_flight()), (twin.limit(), 0));
    }

    #[test]
    fn limiter_as_a_gate_decides_as_alone(steps in steps()) {
        let clock = ManualClock::new();
        let quota = Quota::per_second(1).burst(3);
        let gate = RateLimiter::with_clock(quota, &clock);
        let twin = RateLimiter::with_clock(quota, &clock);
        compare(&clock, &steps, &&gate, |_| twin.check().is_ok());
    }

    /// With a gate for each key, each key's calls are decided as by a gate of its own.
    #[test]
    fn breakers_per_key_decide_as_one_for_each(steps in steps(), keys in proptest::collection::vec(0..3u8, 200)) {
        let clock = Arc::new(ManualClock::new());
        let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
        let store = Arc::new(KeyedCircuitBreaker::<u8, _>::with_clock(config, 16, clock.clone()).unwrap());
        let gate = PerKey::new(|key: &u8| *key, Arc::clone(&store));
        let twins = [(); 3].map(|()| CircuitBreaker::with_clock(config, clock.clone()));
        for (&(millis, ending, _), key) in steps.iter().zip(&keys) {
            clock.advance(Duration::from_millis(millis));
            let (passed, verdict) = (gate.ask(key).at_once().unwrap(), Verdict::of(ENDINGS[ending]));
            let twin = twins[usize::from(*key)].try_acquire();
            prop_assert_eq!(passed.is_ok(), twin.is_ok());
            if let (Ok(permit), Ok(twin)) = (passed, twin) {
                permit.end(&verdict);
                twin.record((&verdict).into());
            }
        }
    }
}

/// Counts all samples that it sees.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    successes: u32,
    overloaded: u32,
}

impl LimitRule for Samples {
    fn first(&self) -> WindowPlan {
        WindowPlan { samples: 1, length: Duration::ZERO, ..WindowPlan::new(10) }
    }

    fn next(&mut self, window: &WindowSummary) -> WindowPlan {
        self.successes += window.successes;
        self.overloaded += window.overloaded;
        self.first()
    }
}

#[test]
fn overload_in_trailers_is_told_after_a_good_head_and_once() {
    let samples = |head: Option<Ending>, end: Ending| {
        let limit = AdaptiveLimit::with_rule(Samples::default(), ManualClock::new());
        // The first call only begins the first window.
        limit.try_acquire().unwrap().success();
        let Answer::Pass(mut permit) = (&limit).ask(&()) else { panic!("a slot is free") };
        if let Some(head) = head {
            permit.answered(&Verdict::of(head));
        }
        permit.end(&Verdict::of(end));
        assert_eq!(limit.in_flight(), 0);
        let Samples { successes, overloaded } = limit.rule();
        (successes, overloaded)
    };
    assert_eq!(samples(Some(Ending::Success), Ending::Unavailable), (1, 1));
    assert_eq!(samples(Some(Ending::Unavailable), Ending::Unavailable), (0, 1));
    assert_eq!(samples(Some(Ending::Success), Ending::Success), (1, 0));
    assert_eq!(samples(None, Ending::Success), (1, 0));
    assert_eq!(samples(None, Ending::TimedOut), (0, 1));
    assert_eq!(samples(Some(Ending::Declined), Ending::Declined), (0, 0));
}

/// Lends its key.
struct Name;
impl KeyOf<(&'static str, u32)> for Name {
    type Key = str;

    fn with_key<T>(&self, call: &(&'static str, u32), then: impl FnOnce(&str) -> T) -> T {
        then(call.0)
    }
}

#[test]
fn costs_take_as_many_tokens_as_they_say() {
    let limits =
        Arc::new(KeyedLimiter::<str>::builder(Quota::per_second(10)).clock(ManualClock::new()).build().unwrap());
    let gate = Costs::new(PerKey::new(Name, limits), |call: &(&'static str, u32)| call.1);
    assert!(gate.ask(&("alice", 7)).is_pass());
    assert!(!gate.ask(&("alice", 4)).is_pass());
    assert!(gate.ask(&("alice", 3)).is_pass());
    assert!(gate.ask(&("bob", 10)).is_pass());
}

#[test]
fn absent_and_exempt_gates_let_every_call_pass() {
    static FULL: Bulkhead<ManualClock> = Bulkhead::with_clock(0, ManualClock::new());
    assert!(None::<&Bulkhead<ManualClock>>.ask(&()).is_pass());
    assert!(!Some(&FULL).ask(&()).is_pass());
    let gate = Exempt::new(&FULL, |path: &str| path == "/healthz");
    assert!(gate.ask("/healthz").is_pass() && !gate.ask("/").is_pass());
}

/// Gates that are closed for all calls say so before a call is made.
#[test]
fn refusal_of_all_calls_is_told_through_combinators() {
    let (clock, breaker) = (ManualClock::new(), |clock| CircuitBreaker::with_clock(BreakerConfig::DEFAULT, clock));
    let (open, closed) = (breaker(&clock), breaker(&clock));
    open.force_open();
    assert!(Gate::refusal(&&open).is_some() && Gate::refusal(&&closed).is_none());
    assert!(Some(&open).refusal().is_some() && None::<&CircuitBreaker>.refusal().is_none());
    assert!((&closed, &open).refusal().is_some() && (&closed, &closed).refusal().is_none());
    assert!(Exempt::new(&open, |(): &()| true).refusal().is_none(), "exempt calls pass");
}

#[test]
fn pair_asks_the_inner_gate_only_if_the_outer_one_lets_the_call_pass() {
    let clock = ManualClock::new();
    let outer = RateLimiter::with_clock(Quota::per_second(1).burst(2), &clock);
    let inner = Bulkhead::with_clock(1, &clock);
    let gate = (&outer, &inner);
    let Answer::Pass(held) = gate.ask(&()) else { panic!("both let it pass") };
    let Answer::Refuse(Either::Second(full)) = gate.ask(&()) else { panic!("the slot is taken") };
    assert_eq!(full.cause(), RefusalCause::NoSlot);
    drop(held);
    let Answer::Refuse(refused @ Either::First(_)) = gate.ask(&()) else { panic!("the tokens are used up") };
    assert_eq!(inner.in_flight(), 0);
    assert_eq!(refused.kind(), RefusalKind::OverLimit);
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(refused.to_string(), "rate limit exceeded, retry in 1 s");
    assert!(is_refusal(&refused));
}

#[test]
fn candidate_changes_nothing_and_is_told() {
    let clock = ManualClock::new();
    let (in_force, candidate) = (Bulkhead::with_clock(2, &clock), Bulkhead::with_clock(1, &clock));
    let gate = Shadowed::new(&in_force, &candidate);
    let held: Vec<_> = (0..3).filter_map(|_| gate.ask(&()).at_once()?.ok()).collect();
    assert_eq!((held.len(), gate.report().only_by_candidate, gate.report().by_both), (2, 1, 1));
    assert_eq!((in_force.in_flight(), candidate.in_flight()), (2, 1));
    drop(held);
    assert_eq!((in_force.in_flight(), candidate.in_flight()), (0, 0));
}

/// A gate whose permits write down what they learn.
#[derive(Clone, Copy)]
struct Diary<'a>(&'static str, &'a Mutex<Vec<String>>);

impl Diary<'_> {
    fn write(&self, event: impl fmt::Debug) {
        self.1.lock().unwrap().push(format!("{} {event:?}", self.0));
    }
}

impl Gate for Diary<'_> {
    type Permit = Self;
    type Refusal = Closed;
    type Wait = Never<Self, Closed>;
}

impl<Q: ?Sized> Ask<Q> for Diary<'_> {
    fn ask(&self, _: &Q) -> Answer<Self, Self::Wait, Closed> {
        Answer::Pass(*self)
    }
}

impl Permit for Diary<'_> {
    fn answered(&mut self, verdict: &Verdict) {
        self.write(verdict.ending);
    }

    fn first_data(&mut self) {
        self.write("data");
    }

    fn end(self, verdict: &Verdict) {
        self.write(verdict.ending);
    }

    fn panicked(self) {
        self.write("panic");
    }

    fn usual_latency(&self) -> Option<Duration> {
        (self.0 == "in force").then_some(Duration::from_millis(9))
    }

    fn was_asked(&self) -> bool {
        self.0 != "in force"
    }
}

#[test]
fn permit_of_a_shadowed_gate_passes_on_all_that_it_learns() {
    let diary = Mutex::new(Vec::new());
    let gate = Shadowed::new(Diary("in force", &diary), Diary("candidate", &diary));
    let ask = || gate.ask(&()).at_once().unwrap().unwrap();
    let learnt = || std::mem::take(&mut *diary.lock().unwrap());
    let (success, declined) = (Verdict::of(Ending::Success), Verdict::of(Ending::Declined));
    let mut permit = ask();
    permit.answered(&success);
    assert_eq!(learnt(), ["in force Success", "candidate Success"]);
    permit.first_data();
    assert_eq!(learnt(), ["in force \"data\"", "candidate \"data\""]);
    permit.end(&declined);
    assert_eq!(learnt(), ["in force Declined", "candidate Declined"]);
    ask().panicked();
    assert_eq!(learnt(), ["in force \"panic\"", "candidate \"panic\""]);
    // A caller sees the gate in force alone.
    let permit = ask();
    assert_eq!(permit.usual_latency(), Some(Duration::from_millis(9)));
    assert!(!permit.was_asked());
}

/// Returns a breaker that waits for the outcome of a probe.
///
/// A probe that is abandoned opens it again.
fn breaker_before_its_probe(clock: &ManualClock) -> CircuitBreaker<&ManualClock> {
    let config = BreakerConfig::builder().failure_threshold(1).cooldown(Duration::from_secs(1)).abandoned_probes_fail();
    let breaker = CircuitBreaker::with_clock(config.build().unwrap(), clock);
    breaker.try_acquire().unwrap().failure();
    clock.advance(Duration::from_secs(1));
    breaker
}

#[tokio::test(start_paused = true)]
async fn probe_that_another_gate_refused_is_not_abandoned() {
    let (clock, full) = (ManualClock::new(), Bulkhead::new(1).queue(1));
    let _held = full.try_acquire().unwrap();

    let breaker = breaker_before_its_probe(&clock);
    assert!(!(&breaker, &full).ask(&()).is_pass());
    assert_eq!(breaker.state(), breaker::State::HalfOpen);

    let patient = Waits::new(&full, Duration::from_secs(1), tokio::time::sleep);
    let Answer::Wait(wait) = (&breaker, patient.clone()).ask(&()) else { panic!("it has to wait") };
    assert!(wait.await.is_err());
    assert_eq!(breaker.state(), breaker::State::HalfOpen);
    assert!((&breaker, &RateLimiter::new(Quota::per_second(1))).ask(&()).is_pass());

    let candidate = breaker_before_its_probe(&clock);
    assert!(!Shadowed::new(&full, &candidate).ask(&()).is_pass());
    assert_eq!(candidate.state(), breaker::State::HalfOpen);
    let Answer::Wait(wait) = Shadowed::new(patient, &candidate).ask(&()) else { panic!("it has to wait") };
    assert!(wait.await.is_err());
    assert_eq!(candidate.state(), breaker::State::HalfOpen);
}

/// It would measure the wait in the queue of the limit in force as the latency of the service.
#[tokio::test(start_paused = true)]
async fn candidate_learns_nothing_of_calls_that_waited_in_force() {
    let (clock, full) = (ManualClock::new(), Bulkhead::new(1).queue(1));
    let candidate = AdaptiveLimit::with_rule(Samples::default(), &clock);
    let gate = Shadowed::new(Waits::new(&full, Duration::from_secs(60), tokio::time::sleep), &candidate);
    let call = || gate.ask(&());
    // The first call only begins a window.
    for calls in [0, 1] {
        let Answer::Pass(mut permit) = call() else { panic!("a slot is free") };
        permit.answered(&Verdict::of(Ending::Success));
        permit.end(&Verdict::of(Ending::Success));
        assert_eq!(candidate.rule().successes, calls);
    }
    let Answer::Pass(held) = call() else { panic!("a slot is free") };
    let Answer::Wait(wait) = call() else { panic!("it has to wait") };
    clock.advance(Duration::from_secs(30));
    drop(held);
    let mut permit = wait.await.unwrap();
    assert_eq!(candidate.in_flight(), 1, "it has a slot of the candidate too");
    permit.answered(&Verdict::of(Ending::Success));
    permit.end(&Verdict::of(Ending::Success));
    assert_eq!((candidate.in_flight(), candidate.rule().successes), (0, 1));
}

#[test]
fn admission_as_a_gate_knows_the_class_of_each_call() {
    let clock = ManualClock::new();
    let admission = Admission::fixed_with_clock(1, &clock);
    let gate = Classes::new(&admission, |is_batch: &bool| {
        AdmissionRequest::new().criticality(if *is_batch { Criticality::Sheddable } else { Criticality::Critical })
    });
    let Answer::Pass(held) = gate.ask(&true) else { panic!("a slot is free") };
    let Answer::Refuse(refused) = gate.ask(&false) else { panic!("the slot is taken") };
    assert_eq!(refused.cause(), RefusalCause::NoSlot);
    held.end(&Verdict::of(Ending::Success));
    assert!(gate.ask(&false).is_pass());
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_their_turn_no_longer_than_they_have_time() {
    let bulkheads = Arc::new(KeyedBulkhead::<u8>::new(1, 16).unwrap().queue(4));
    let sleep = tokio::time::sleep;
    let gate = Waits::new(PerKey::new(|call: &(u8, u64)| call.0, bulkheads), Duration::from_secs(5), sleep)
        .time_left(|call: &(u8, u64)| Some(Duration::from_secs(call.1)));
    let Answer::Pass(held) = gate.ask(&(1, 60)) else { panic!("a slot is free") };
    assert!(gate.ask(&(2, 60)).is_pass(), "another key has a slot of its own");
    let Answer::Wait(short) = gate.ask(&(1, 1)) else { panic!("it has to wait") };
    let Answer::Wait(long) = gate.ask(&(1, 60)) else { panic!("it has to wait") };
    assert_eq!(short.await.unwrap_err().cause(), RefusalCause::TimedOut);
    drop(held);
    assert!(long.await.is_ok());
}

#[tokio::test]
async fn outer_permit_is_held_while_a_call_waits_at_the_inner_gate() {
    let (outer, inner) = (Arc::new(Bulkhead::new(2)), Arc::new(Bulkhead::new(1).queue(1)));
    let gate = (Arc::clone(&outer), Waits::new(inner, Duration::from_secs(5), tokio::time::sleep));
    let Answer::Pass(held) = gate.ask(&()) else { panic!("slots are free") };
    let Answer::Wait(waiting) = gate.ask(&()) else { panic!("it has to wait") };
    assert_eq!(outer.in_flight(), 2);
    drop(held);
    let permit = waiting.await.unwrap();
    assert_eq!(outer.in_flight(), 1);
    drop(permit);
    let Answer::Pass(_held) = gate.ask(&()) else { panic!("slots are free") };
    let Answer::Wait(given_up) = gate.ask(&()) else { panic!("it has to wait") };
    drop(given_up);
    assert_eq!(outer.in_flight(), 1);
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn call_waits_at_an_admission_no_longer_than_the_gate_says() {
    let clock = damper::time::TokioClock::new();
    let admission = Arc::new(Admission::fixed_with_clock(1, clock).queue(4));
    let classes = Classes::new(admission, |(): &()| AdmissionRequest::new().wait_at_most(Duration::from_secs(9)));
    let gate = Waits::new(classes, Duration::from_secs(2), tokio::time::sleep);
    let Answer::Pass(_held) = gate.ask(&()) else { panic!("a slot is free") };
    let Answer::Wait(waiting) = gate.ask(&()) else { panic!("it has to wait") };
    let refused = tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("it waits for 2 s");
    assert_eq!(refused.err().unwrap().cause(), RefusalCause::TimedOut);
}

#[test]
fn verdict_has_what_was_set() {
    let wait = Some(Duration::from_secs(7));
    let verdict = Verdict::of(Ending::Limited).with_retry_after(wait).with_cost(12);
    assert_eq!((verdict.ending, verdict.retry_after, verdict.cost), (Ending::Limited, wait, Some(12)));
    assert!(verdict.may_be_processed && !verdict.unprocessed().may_be_processed);
    assert_eq!(Verdict::of(Ending::Limited), Verdict::from(Ending::Limited));
    assert!(!Verdict::of(Ending::NotSent).may_be_processed);
}

/// A refusal of a user's own.
#[derive(Clone, Debug)]
struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed at night")
    }
}

impl Error for Closed {}

impl Refusal for Closed {
    fn kind(&self) -> RefusalKind {
        RefusalKind::Unavailable
    }
}

/// A gate of a user's own that is always closed.
#[derive(Clone, Copy)]
struct Night;

impl Gate for Night {
    type Permit = ();
    type Refusal = Closed;
    type Wait = damper::gate::Never<(), Closed>;
}

impl<Q: ?Sized> Ask<Q> for Night {
    fn ask(&self, _: &Q) -> Answer<(), Self::Wait, Closed> {
        Answer::Refuse(Closed)
    }
}

/// A gate that refuses every call, and counts those that it was not asked about.
#[derive(Clone, Default)]
struct CountedNight(Arc<AtomicU32>);

impl Gate for CountedNight {
    type Permit = ();
    type Refusal = Closed;
    type Wait = damper::gate::Never<(), Closed>;

    fn refusal(&self) -> Option<Closed> {
        Some(Closed)
    }

    fn refused_unasked(&self, _: &Closed) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<Q: ?Sized> Ask<Q> for CountedNight {
    fn ask(&self, _: &Q) -> Answer<(), Self::Wait, Closed> {
        Answer::Refuse(Closed)
    }
}

#[test]
fn refusal_without_a_question_is_told_through_combinators() {
    fn refuse<G: Gate>(gate: &G) {
        gate.refused_unasked(&gate.refusal().expect("it is closed"));
    }
    let (gate, open) = (CountedNight::default(), Arc::new(Bulkhead::new(1)));
    let count = || gate.0.load(Ordering::Relaxed);
    refuse(&gate);
    refuse(&Some(gate.clone()));
    refuse(&(gate.clone(), Arc::clone(&open)));
    refuse(&(Arc::clone(&open), gate.clone()));
    refuse(&Either::<_, Arc<Bulkhead>>::First(gate.clone()));
    refuse(&Either::<Arc<Bulkhead>, _>::Second(gate.clone()));
    refuse(&Shared::new(gate.clone()));
    refuse(&AnyGate::<()>::new(gate.clone()));
    assert_eq!(count(), 8);

    // A candidate refuses it too if it refuses all calls.
    let shadowed = Shadowed::new(gate.clone(), gate.clone());
    refuse(&shadowed);
    assert_eq!((count(), shadowed.report().by_both, shadowed.report().only_in_force), (10, 1, 0));
    let shadowed = Shadowed::new(gate.clone(), open);
    refuse(&shadowed);
    assert_eq!((count(), shadowed.report().by_both, shadowed.report().only_in_force), (11, 0, 1));
}

/// One of the two limits lets calls wait.
#[tokio::test]
async fn one_of_two_gates_is_asked() {
    type OneOfTwo = Either<Arc<AdaptiveLimit>, Waits<Arc<Bulkhead>, fn(Duration) -> tokio::time::Sleep>>;
    let (limit, pool) = (Arc::new(AdaptiveLimit::default()), Arc::new(Bulkhead::new(1).queue(1)));
    let first = OneOfTwo::First(Arc::clone(&limit));
    let Answer::Pass(mut permit) = first.ask(&()) else { panic!("a slot is free") };
    assert_eq!((limit.in_flight(), pool.in_flight(), permit.usual_latency()), (1, 0, None));
    permit.answered(&Verdict::of(Ending::Success));
    permit.end(&Verdict::of(Ending::Success));
    assert_eq!(limit.in_flight(), 0);

    let second = OneOfTwo::Second(Waits::new(Arc::clone(&pool), Duration::from_secs(5), tokio::time::sleep));
    let Answer::Pass(held) = second.ask(&()) else { panic!("a slot is free") };
    let Answer::Wait(waiting) = second.ask(&()) else { panic!("it has to wait") };
    drop(held);
    let permit = waiting.await.unwrap();
    assert_eq!(pool.in_flight(), 1);
    permit.panicked();
    assert_eq!(pool.in_flight(), 0);

    let closed = Waits::new(Arc::new(Bulkhead::new(0)), Duration::from_secs(5), tokio::time::sleep as _);
    let Answer::Wait(refused) = OneOfTwo::Second(closed).ask(&()) else { panic!("it may wait") };
    let full = refused.await.unwrap_err();
    assert_eq!(full.kind(), RefusalKind::Unavailable);
    assert!(is_refusal(&CallError::<std::io::Error, _>::Refused(full)));
}

/// Outer gates know a user's refusal, through pairs, gates of any type and boxes.
#[test]
fn refusal_of_a_users_gate_is_known_as_one() {
    let alone = CallError::<std::io::Error, _>::Refused(Closed);
    assert!(is_refusal(&alone));
    assert_eq!(alone.to_string(), "call refused: closed at night");
    assert_eq!(Ending::of_error(&alone), Ending::NotSent);

    let Answer::Refuse(in_pair) = (Night, Night).ask(&()) else { panic!("it is closed") };
    assert!(is_refusal(&CallError::<std::io::Error, _>::Refused(in_pair)));
    let Answer::Refuse(of_any) = AnyGate::<()>::new(Night).ask(&()) else { panic!("it is closed") };
    let of_any = CallError::<std::io::Error, _>::Refused(of_any);
    assert!(is_refusal(&of_any) && is_refusal(&std::io::Error::other(of_any)));
    assert!(!is_refusal(&CallError::<_, Closed>::Failed(std::io::Error::other("no route"))));
}

/// Every refusal of damper's own has the status that its layer answers with.
#[test]
fn any_gate_refuses_as_its_gate_does() {
    let breaker = Arc::new(CircuitBreaker::with_clock(BreakerConfig::DEFAULT, ManualClock::new()));
    breaker.force_open();
    let limiter = Arc::new(RateLimiter::with_clock(Quota::per_second(1).burst(1), ManualClock::new()));
    limiter.check().unwrap();
    let gates: [(AnyGate<str>, u16, Option<u64>, &str); 3] = [
        (AnyGate::new(breaker), 503, None, "circuit forced open"),
        (AnyGate::new(limiter), 429, Some(1), "rate limit exceeded, retry in 1 s"),
        (
            AnyGate::new(Arc::new(Bulkhead::with_clock(0, ManualClock::new()))),
            503,
            None,
            "too many calls in flight, limit 0",
        ),
    ];
    for (gate, status, wait, message) in gates {
        let Answer::Refuse(refusal) = gate.ask("/") else { panic!("{message}") };
        assert_eq!((refusal.kind().http_status(), refusal.to_string()), (status, message.to_owned()));
        assert_eq!(refusal.retry_after(), wait.map(Duration::from_secs));
        assert!(is_refusal(&refusal));
    }
}

#[test]
fn any_gate_learns_as_its_gate_does() {
    let config = BreakerConfig::builder().failure_threshold(2).build().unwrap();
    let breaker = Arc::new(CircuitBreaker::with_clock(config, ManualClock::new()));
    let gate = AnyGate::<()>::new(Arc::clone(&breaker));
    for _ in 0..2 {
        let Answer::Pass(permit) = gate.ask(&()) else { panic!("it is closed") };
        permit.end(&Verdict::of(Ending::Broken));
    }
    assert_eq!(breaker.state(), breaker::State::Open);
    assert!(gate.refusal().is_some());
}

/// A result alone says whether a call succeeded, was not sent, or failed.
#[test]
fn result_of_a_call_is_its_verdict() {
    let ending = |result: Result<(), CallError<std::io::Error, Closed>>| Verdict::of_result(&result).ending;
    assert_eq!(ending(Ok(())), Ending::Success);
    assert_eq!(ending(Err(CallError::Refused(Closed))), Ending::NotSent);
    let timeout = std::io::Error::from(std::io::ErrorKind::TimedOut);
    let failed = Err::<(), _>(CallError::<_, Closed>::Failed(timeout));
    assert_eq!(Verdict::of_result(&failed), Verdict::of(Ending::of_error(failed.as_ref().unwrap_err())));
    assert_ne!(Verdict::of_result(&failed).ending, Ending::NotSent);
}
