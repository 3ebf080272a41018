//! Calls with retries and a common budget, against a slow model of each.
//!
//! The model knows every decision except the random waits, of which it knows the bounds.

use crate::input::{Frequency, MOST_STEPS};
use crate::models::backoff::{Growth, SlowBackoff};
use arbitrary::Arbitrary;
use damper::retry::{
    Attempts, Budget, Failure, GaveUp, Jitter, RetryBucket, RetryBudget, RetryBudgetConfig, RetryThrottle, Unlimited,
};
use damper::{Clock, Deadline, ManualClock, Retry};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// A policy, its budget, and the events of its calls.
#[derive(Arbitrary, Debug)]
pub struct RetryInput {
    policy: PolicyInput,
    budget: BudgetInput,
    frequency: Frequency,
    start: u64,
    seed: u64,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct PolicyInput {
    max_attempts: u8,
    growth: GrowthInput,
    jitter: JitterInput,
    base: Time,
    longest: Time,
    throttled_base: Time,
    max_hint: Option<Time>,
    deadline: Option<Time>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum GrowthInput {
    Constant,
    /// In thousandths above one.
    Exponential(u16),
    Fibonacci,
    Linear,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum JitterInput {
    None,
    Full,
    Equal,
    Decorrelated,
    Proportional,
}

/// A duration: a short one, so that some are equal, or any.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Time {
    Millis(u16),
    Nanos(u64),
    Longest,
}

impl Time {
    fn duration(self) -> Duration {
        match self {
            Self::Millis(millis) => Duration::from_millis(millis.into()),
            Self::Nanos(nanos) => Duration::from_nanos(nanos),
            Self::Longest => Duration::MAX,
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum BudgetInput {
    Unlimited,
    Slices(Shares),
    Bucket(Shares),
    /// The tokens, and the thousandths of one that a success returns.
    Throttle(u16, u16),
}

/// The settings of a budget.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Shares {
    /// In thousandths.
    ratio: u16,
    floor: u8,
    reserve: u8,
    ttl_millis: u16,
}

impl Shares {
    fn reserve(self) -> u32 {
        u32::from(self.reserve).max(u32::from(self.floor > 0))
    }

    fn ttl(self) -> Duration {
        Duration::from_millis(u64::from(self.ttl_millis) + 1)
    }

    fn config(self) -> RetryBudgetConfig {
        let builder = RetryBudgetConfig::builder().ratio(f64::from(self.ratio) / 1_000.0).ttl(self.ttl());
        builder.floor(self.floor.into()).reserve(self.reserve()).build().expect("in range")
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Begins a call in this place, replacing any other.
    Begin(u8, Option<Time>),
    Succeed(u8),
    Fail(u8, FailureInput),
    /// Waits as long as the call's last failure requires.
    Sleep(u8),
    Pass(u64),
    PassShort(u16),
    GoBack(u16),
    /// Successful calls and requested retries of other callers.
    Others {
        calls: u8,
        retries: u8,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct FailureInput {
    kind: KindInput,
    hint: HintInput,
    is_unprocessed: bool,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
enum KindInput {
    Transient,
    Throttled,
    Fatal,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum HintInput {
    None,
    RetryAfter(Time),
    Pushback(Time),
    Declined,
}

impl FailureInput {
    fn failure(self) -> Failure {
        let failure = match self.kind {
            KindInput::Transient => Failure::TRANSIENT,
            KindInput::Throttled => Failure::THROTTLED,
            KindInput::Fatal => Failure::FATAL,
        };
        let failure = match self.hint {
            HintInput::None => failure.retry_after(None),
            HintInput::RetryAfter(wait) => failure.retry_after(Some(wait.duration())),
            HintInput::Pushback(wait) => failure.pushback(wait.duration()),
            HintInput::Declined => failure.declined(),
        };
        if self.is_unprocessed { failure.unprocessed() } else { failure }
    }

    fn hint(self) -> Option<Duration> {
        match self.hint {
            HintInput::RetryAfter(wait) | HintInput::Pushback(wait) => Some(wait.duration()),
            HintInput::None | HintInput::Declined => None,
        }
    }
}

/// The requests to a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Began,
    Succeeded,
    Failed,
    Withdrew(bool),
}

/// Any budget, with its requests.
struct Recorded<'a> {
    budget: Box<dyn Budget + 'a>,
    asked: RefCell<Vec<Asked>>,
}

impl<'a> Recorded<'a> {
    fn new(input: BudgetInput, clock: &'a ManualClock) -> Self {
        let budget: Box<dyn Budget + 'a> = match input {
            BudgetInput::Unlimited => Box::new(Unlimited),
            BudgetInput::Slices(shares) => Box::new(RetryBudget::with_clock(shares.config(), clock)),
            BudgetInput::Bucket(shares) => Box::new(RetryBucket::with_clock(shares.config(), clock)),
            BudgetInput::Throttle(tokens, ratio) => {
                let tokens = 1 + u32::from(tokens) % 1_000;
                Box::new(RetryThrottle::new(tokens, f64::from(ratio) / 1_000.0).expect("in range"))
            }
        };
        Self { budget, asked: RefCell::default() }
    }
}

impl Budget for Recorded<'_> {
    fn began(&self) {
        self.budget.began();
        self.asked.borrow_mut().push(Asked::Began);
    }
    fn succeeded(&self) {
        self.budget.succeeded();
        self.asked.borrow_mut().push(Asked::Succeeded);
    }
    fn failed(&self) {
        self.budget.failed();
        self.asked.borrow_mut().push(Asked::Failed);
    }
    fn try_withdraw(&self) -> bool {
        let is_allowed = self.budget.try_withdraw();
        self.asked.borrow_mut().push(Asked::Withdrew(is_allowed));
        is_allowed
    }
}

/// The ticks at which calls began and retries were allowed, until the clock steps back.
#[derive(Default)]
struct History {
    calls: BTreeMap<i128, i128>,
    retries: BTreeMap<i128, i128>,
}

impl History {
    /// Checks a budget's bound on every interval between two retries.
    fn check(&self, shares: Shares, ttl: Duration, frequency: u64) {
        let frequency = i128::from(frequency);
        let before = (ttl.as_nanos() as i128 * frequency) / 1_000_000_000 + 1;
        for &from in self.retries.keys() {
            let mut allowed = 0;
            for (&until, retries) in self.retries.range(from..) {
                allowed += retries;
                let calls: i128 = self.calls.range(from - before..=until).map(|(_, calls)| calls).sum();
                // In thousandths. A frequency has 26 significant bits, rounded down, and a token may be a tick early.
                let floor = i128::from(shares.floor) * 1_000 * (until - from + 1) / frequency;
                let floor = floor + (floor >> 24) + 1;
                let bound = i128::from(shares.reserve()) * 1_000 + floor + i128::from(shares.ratio) * calls;
                assert!(allowed * 1_000 <= bound, "{allowed} retries from tick {from} to {until}, {calls} calls");
            }
        }
    }
}

/// A throttle in thousandths of a token.
struct SlowThrottle {
    tokens: i64,
    most: i64,
    per_success: i64,
}

/// The expected answer of the budget, or the bounds of its history.
enum Expected {
    Always,
    WithinBound(Shares, Duration),
    Throttle(SlowThrottle),
}

/// The consequence of a failure.
#[derive(Debug)]
enum Outcome {
    GaveUp(GaveUp),
    /// Another attempt, after a wait between these two.
    ///
    /// The deadline must allow the drawn wait.
    Again(Duration, Duration),
}

/// One call, by the documented rules.
struct SlowCall {
    number: u32,
    retries: u32,
    /// Bounds of the previous wait in nanoseconds, or zero before the first.
    previous: (u128, u128),
    had_free_retry: bool,
    /// The tick of the deadline, and the time that it allowed.
    deadline: Option<(i128, Duration)>,
    began: i128,
    /// The wait before the present attempt, until it is slept.
    wait: Duration,
}

struct Model {
    max_attempts: u32,
    backoff: SlowBackoff,
    throttled_base: Duration,
    max_hint: Duration,
    frequency: i128,
    now: i128,
}

impl Model {
    fn left(&self, call: &SlowCall) -> Option<Duration> {
        call.deadline.map(|(expires, specified)| {
            let nanos = (expires - self.now).max(0) as u128 * 1_000_000_000 / self.frequency as u128;
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(specified)
        })
    }

    /// Returns the ticks until a deadline passes.
    ///
    /// One without time has passed also on a clock that stepped back.
    fn ticks_left(&self, (expires, specified): &(i128, Duration)) -> i128 {
        let left = expires - self.now;
        if specified.is_zero() { left.min(0) } else { left }
    }

    /// Returns the tick of a deadline that is set now.
    fn expiry(&self, time: Time) -> (i128, Duration) {
        let duration = time.duration();
        let ticks = (duration.as_nanos() * self.frequency as u128 / 1_000_000_000).min(1 << 62) as i128;
        (self.now + ticks, duration.min(Duration::from_nanos(u64::MAX - 1)))
    }

    /// Classifies a failure before the budget is asked. The call counts the retry.
    fn fail(&self, call: &mut SlowCall, failure: FailureInput) -> Outcome {
        if failure.kind == KindInput::Fatal {
            return Outcome::GaveUp(GaveUp::NotRetryable);
        } else if matches!(failure.hint, HintInput::Declined) {
            return Outcome::GaveUp(GaveUp::Declined);
        } else if call.number >= self.max_attempts {
            return Outcome::GaveUp(GaveUp::Attempts);
        }
        let hint = failure.hint();
        if let Some(wait) = hint.filter(|wait| *wait > self.max_hint) {
            return Outcome::GaveUp(GaveUp::Hint { wait, longest: self.max_hint });
        }
        let left = self.left(call);
        let is_too_long = |wait: Duration| left.is_some_and(|left| wait >= left);
        let no_time = GaveUp::Deadline { hint: hint.filter(|hint| is_too_long(*hint)) };
        if let HintInput::Pushback(wait) = failure.hint {
            let wait = wait.duration();
            (call.retries, call.previous) = (0, (0, 0));
            return if is_too_long(wait) { Outcome::GaveUp(no_time) } else { Outcome::Again(wait, wait) };
        }
        let mut backoff = self.backoff;
        if failure.kind == KindInput::Throttled && hint.is_none() {
            backoff.base = backoff.base.max(self.throttled_base);
        }
        let base = backoff.base_nanos();
        call.retries += 1;
        // A zero wait counts as none, so the next draw starts with the first delay.
        let previous = if call.previous.0 == 0 { call.previous.1.max(base) } else { call.previous.1 };
        let (least, most) = backoff.bounds(call.retries, previous);
        call.previous = (least, most);
        let [mut least, mut most] = [least, most].map(|nanos| Duration::from_nanos(nanos as u64));
        if let Some(hint) = hint {
            let spread = (hint / 10).max(Duration::from_nanos(base as u64));
            (least, most) = (least.max(hint), most.max(hint).saturating_add(spread));
        }
        if is_too_long(least) { Outcome::GaveUp(no_time) } else { Outcome::Again(least, most) }
    }
}

/// Compares every decision with the model's.
pub fn retry(input: RetryInput) {
    let RetryInput { policy, budget: kind, frequency, start, seed, steps } = input;
    let hertz = frequency.hertz();
    let clock = ManualClock::with_frequency(hertz);
    // Neither the clock nor the differences of its readings wrap.
    clock.set_ticks((start >> 3) + (1 << 61));
    let mut room: i128 = match kind {
        // Slices of time repeat after 65,536 slices.
        BudgetInput::Slices(shares) => (30_000 * shares.ttl().as_nanos() / 1_000_000_000 * u128::from(hertz)) as i128,
        _ => 1 << 61,
    }
    .min(1 << 61);
    let budget = Recorded::new(kind, &clock);
    let mut expected = match kind {
        BudgetInput::Unlimited => Expected::Always,
        BudgetInput::Slices(shares) => Expected::WithinBound(shares, shares.ttl()),
        BudgetInput::Bucket(shares) => Expected::WithinBound(shares, Duration::ZERO),
        BudgetInput::Throttle(tokens, ratio) => {
            let most = (1 + i64::from(tokens) % 1_000) * 1_000;
            Expected::Throttle(SlowThrottle { tokens: most, most, per_success: ratio.into() })
        }
    };
    let mut history = Some(History::default());

    let growth = match policy.growth {
        GrowthInput::Constant => Growth::Constant,
        GrowthInput::Exponential(more) => Growth::Exponential(1_000 + u32::from(more)),
        GrowthInput::Fibonacci => Growth::Fibonacci,
        GrowthInput::Linear => Growth::Linear,
    };
    let jitter = match policy.jitter {
        JitterInput::None => Jitter::None,
        JitterInput::Full => Jitter::Full,
        JitterInput::Equal => Jitter::Equal,
        JitterInput::Decorrelated => Jitter::Decorrelated,
        JitterInput::Proportional => Jitter::PROPORTIONAL,
    };
    let mut model = Model {
        max_attempts: u32::from(policy.max_attempts).max(1),
        backoff: SlowBackoff { growth, base: policy.base.duration(), longest: policy.longest.duration(), jitter },
        throttled_base: policy.throttled_base.duration(),
        max_hint: policy.max_hint.map_or(Duration::from_secs(300), Time::duration),
        frequency: hertz.into(),
        now: 0,
    };
    let mut retry = Retry::with_clock(policy.max_attempts.into(), &clock, seed)
        .backoff(model.backoff.backoff())
        .throttled_base(model.throttled_base)
        .max_hint(model.max_hint)
        .budget(&budget);
    let policy_deadline = policy.deadline.map(|time| model.expiry(time));
    if let Some(time) = policy.deadline {
        retry = retry.deadline(Deadline::with_clock(time.duration(), &clock));
    }

    let mut calls: BTreeMap<u8, (Attempts<&ManualClock>, SlowCall)> = BTreeMap::new();
    for step in steps.into_iter().take(MOST_STEPS) {
        let mut asked = Vec::new();
        match step {
            Step::Begin(place, deadline) => {
                let own = deadline.map(|time| model.expiry(time));
                let attempts = match deadline {
                    Some(time) => retry.begin_by(Deadline::with_clock(time.duration(), &clock)),
                    None => retry.begin(),
                };
                // The call's own deadline if both pass at the same tick.
                let earliest = own.into_iter().chain(policy_deadline).min_by_key(|deadline| model.ticks_left(deadline));
                let call = SlowCall {
                    number: 1,
                    retries: 0,
                    previous: (0, 0),
                    had_free_retry: false,
                    deadline: earliest,
                    began: model.now,
                    wait: Duration::ZERO,
                };
                if earliest.is_none_or(|deadline| model.ticks_left(&deadline) > 0) {
                    asked.push(Asked::Began);
                }
                assert_eq!(attempts.deadline().is_expired(), asked.is_empty());
                calls.insert(place % 8, (attempts, call));
            }
            Step::Succeed(place) => {
                if let Some((attempts, _)) = calls.remove(&(place % 8)) {
                    attempts.succeeded(&retry);
                    asked.push(Asked::Succeeded);
                }
            }
            Step::Fail(place, failure) => {
                let Some((mut attempts, mut call)) = calls.remove(&(place % 8)) else { continue };
                let outcome = model.fail(&mut call, failure);
                let decided = attempts.failed(&retry, failure.failure());
                // gRPC counts a declined retry as a failure, with any status.
                if failure.kind != KindInput::Fatal || matches!(failure.hint, HintInput::Declined) {
                    asked.push(Asked::Failed);
                }
                let is_free = failure.is_unprocessed && !call.had_free_retry;
                let left = model.left(&call);
                match (&outcome, decided) {
                    (Outcome::GaveUp(reason), Err(gave_up)) => assert_eq!(gave_up, *reason),
                    (Outcome::Again(least, most), Ok(wait)) => {
                        assert!(*least <= wait && wait <= *most, "{wait:?}, expected {outcome:?}");
                        assert!(failure.hint().is_none_or(|hint| wait >= hint), "{wait:?} is before {failure:?}");
                        assert!(left.is_none_or(|left| wait < left), "{wait:?} ends after the deadline, in {left:?}");
                        if !is_free {
                            asked.push(Asked::Withdrew(true));
                        }
                        call.had_free_retry |= is_free;
                        call.number += 1;
                        call.wait = wait;
                        if failure.hint().is_none() {
                            call.previous = (wait.as_nanos(), wait.as_nanos());
                        }
                        assert_eq!((attempts.number(), attempts.attempt().number()), (call.number, call.number));
                        assert!(call.number <= model.max_attempts);
                        calls.insert(place % 8, (attempts, call));
                    }
                    (Outcome::Again(..), Err(GaveUp::Budget)) => {
                        assert!(!is_free, "a free retry takes nothing from the budget");
                        asked.push(Asked::Withdrew(false));
                    }
                    // Only a random wait can be too long.
                    (Outcome::Again(_, most), Err(GaveUp::Deadline { hint: None })) => {
                        assert!(left.is_some_and(|left| *most >= left), "{left:?} are left, expected {outcome:?}");
                    }
                    (_, decided) => panic!("{decided:?}, expected {outcome:?}"),
                }
            }
            Step::Sleep(place) => {
                if let Some((_, call)) = calls.get_mut(&(place % 8)) {
                    let ticks = (call.wait.as_nanos() * u128::from(hertz)).div_ceil(1_000_000_000);
                    call.wait = Duration::ZERO;
                    pass(&clock, &mut model, &mut room, ticks.min(1 << 61) as i128);
                }
            }
            Step::Pass(ticks) => pass(&clock, &mut model, &mut room, (ticks >> 3).into()),
            Step::PassShort(ticks) => pass(&clock, &mut model, &mut room, ticks.into()),
            Step::GoBack(ticks) => {
                clock.set_ticks(clock.now() - u64::from(ticks));
                model.now -= i128::from(ticks);
                if ticks > 0 {
                    history = None;
                }
            }
            Step::Others { calls, retries } => {
                for _ in 0..calls {
                    budget.began();
                    budget.succeeded();
                    asked.extend([Asked::Began, Asked::Succeeded]);
                }
                for _ in 0..retries {
                    asked.push(Asked::Withdrew(budget.try_withdraw()));
                }
            }
        }
        let was_asked = budget.asked.take();
        assert_eq!(was_asked, asked);
        for asked in was_asked {
            match (&mut expected, asked) {
                (Expected::Always, Asked::Withdrew(is_allowed)) => assert!(is_allowed),
                (Expected::Throttle(throttle), Asked::Withdrew(is_allowed)) => {
                    assert_eq!(is_allowed, throttle.tokens > throttle.most / 2, "{} thousandths", throttle.tokens);
                }
                (Expected::Throttle(throttle), Asked::Succeeded) => {
                    throttle.tokens = (throttle.tokens + throttle.per_success).min(throttle.most);
                }
                (Expected::Throttle(throttle), Asked::Failed) => throttle.tokens = (throttle.tokens - 1_000).max(0),
                _ => {}
            }
            if let Some(history) = &mut history {
                match asked {
                    Asked::Began => *history.calls.entry(model.now).or_default() += 1,
                    Asked::Withdrew(true) => *history.retries.entry(model.now).or_default() += 1,
                    _ => {}
                }
            }
        }
        for (attempts, call) in calls.values() {
            assert_eq!(
                attempts.deadline().is_expired(),
                call.deadline.is_some_and(|deadline| model.ticks_left(&deadline) <= 0)
            );
            let since = (model.now - call.began).max(0) as u128 * 1_000_000_000 / u128::from(hertz);
            assert_eq!(attempts.elapsed(&retry), Duration::from_nanos(u64::try_from(since).unwrap_or(u64::MAX)));
        }
    }
    if let (Expected::WithinBound(shares, ttl), Some(history)) = (expected, history) {
        history.check(shares, ttl, hertz);
    }
}

/// Lets ticks pass, as far as the clock has room.
fn pass(clock: &ManualClock, model: &mut Model, room: &mut i128, ticks: i128) {
    let ticks = ticks.min(*room);
    *room -= ticks;
    clock.advance_ticks(ticks as u64);
    model.now += ticks;
}
