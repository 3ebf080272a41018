//! Pacers: the sleeps of calls, the learning from responses, and the end of calls.

use damper::retry::{Budget, GaveUp};
#[cfg(feature = "compared")]
use damper::throttle::compared::{CubicRate, ExponentialBackoff, GradualDecrease, ProportionalDecrease};
use damper::throttle::{Hints, Level, Moment, NoPacing, PaceTooSlow, PacedRetry, Pacer, RemainingDecrease, Strategy};
#[cfg(feature = "std")]
use damper::{Deadline, RetryBudget};
use damper::{ManualClock, Quota, RetryError};
use std::cell::{Cell, RefCell};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const QUOTA: Quota = Quota::per_hour(4_500);

/// A status, and the `Retry-After` of the answer in seconds.
type Answer = Result<(u16, Option<u64>), u16>;

/// The result of a call.
type PacedAnswer = Result<(u16, Option<u64>), RetryError<u16>>;

fn hints(answer: &Answer) -> Hints {
    match *answer {
        Ok((429, retry_after)) => Hints::REJECTED.retry_after(retry_after.map(Duration::from_secs)),
        Err(429) => Hints::REJECTED,
        Ok(_) => Hints::ACCEPTED,
        Err(_) => Hints::UNKNOWN,
    }
}

/// Sleeps for as many seconds as it has seen rejections.
#[derive(Clone, Copy, Debug)]
struct Counted;

impl Strategy for Counted {
    fn before_call(&self, learned: u64, _: Moment) -> Duration {
        Duration::from_secs(learned)
    }

    fn answered(&self, learned: &mut u64, hints: &Hints, _: Moment) -> Duration {
        *learned += u64::from(hints.is_rejected());
        Duration::from_secs(*learned)
    }
}

fn pacer<S: Strategy>(strategy: S, clock: &ManualClock) -> Pacer<S, &ManualClock> {
    Pacer::with_clock(strategy, clock, 7)
}

/// A 500, or no answer, says nothing about the quota.
#[test]
fn answer_that_neither_accepts_nor_rejects_teaches_nothing() {
    fn assert_unchanged(strategy: impl Strategy) {
        let clock = ManualClock::new();
        let pacer = pacer(strategy, &clock);
        for _ in 0..3 {
            assert!(pacer.answered(&Hints::REJECTED.remaining(Some(0))).is_some());
        }
        let before = pacer.peek();
        for _ in 0..100 {
            assert_eq!(pacer.answered(&Hints::UNKNOWN), None);
            assert_eq!(pacer.answered(&Hints::UNKNOWN.remaining(Some(4_000))), None);
        }
        assert_eq!(pacer.peek(), before);
        // An accepted one teaches something.
        pacer.answered(&Hints::ACCEPTED.remaining(Some(4_000)));
        assert_ne!(pacer.peek(), before);
    }
    assert_unchanged(RemainingDecrease::new(QUOTA));
    assert_unchanged(Level::new(QUOTA));
}

/// The longest sleep may be thousands of times the time of a token, and is forgotten all the same.
#[test]
fn longest_sleep_of_level_falls_after_an_outage() {
    let clock = ManualClock::new();
    // A token takes 510 µs, which a unit of 256 µs measures worst.
    let pacer = pacer(Level::new(Quota::per(117_600, 60 * SECOND).unwrap()), &clock);
    let answered = |hints: Hints, times: u32| {
        for _ in 0..times {
            clock.advance(SECOND);
            pacer.answered(&hints);
        }
    };
    answered(Hints::REJECTED, 300);
    assert!(pacer.peek() > 15_000 * Duration::from_micros(510), "{:?}", pacer.peek());
    answered(Hints::ACCEPTED.remaining(Some(117_600)), 300);
    answered(Hints::REJECTED, 1);
    assert!(pacer.peek() < 20 * Duration::from_micros(510), "{:?}", pacer.peek());
}

/// A round of more than 63 calls keeps the share of those that were rejected.
#[test]
fn busy_round_of_level_keeps_its_rejections() {
    let clock = ManualClock::new();
    let pacer = pacer(Level::new(QUOTA), &clock);
    let learn = |accepts: bool| {
        let hints = if accepts { Hints::ACCEPTED } else { Hints::REJECTED };
        pacer.answered(&hints.remaining(Some(0)));
    };
    learn(false);
    let before = pacer.peek();
    // A twentieth of the round counts for the one before.
    clock.advance(before / 10);
    (0..40).for_each(|_| learn(false));
    (0..40).for_each(|_| learn(true));
    clock.advance(before);
    learn(true);
    let grown = pacer.peek().as_secs_f64() / before.as_secs_f64();
    // 40 of 63 and then none of 18, with the first halved: (50 + 4) / (30 + 4), which is 1.59, if no share is lost.
    assert!((1.5..1.7).contains(&grown), "{grown}");
}

/// Makes a call, and returns the result with the sleeps.
fn call<S: Strategy, B: Budget>(
    clock: &ManualClock,
    pacer: &Pacer<S, &ManualClock>,
    retry: &PacedRetry<B>,
    answers: &[Answer],
) -> (PacedAnswer, Vec<Duration>) {
    let sleeps = RefCell::new(Vec::new());
    let sleep = |wait| {
        clock.advance(wait);
        sleeps.borrow_mut().push(wait);
    };
    let result = pacer.call_sleeping_by(retry, hints, sleep, |attempt| answers[attempt as usize - 1]);
    (result, sleeps.into_inner())
}

#[cfg(feature = "std")]
#[test]
fn pacers_can_be_statics() {
    static DEFAULT: Pacer = Pacer::new(QUOTA);
    static NAMED: Pacer<RemainingDecrease> = Pacer::with_strategy(RemainingDecrease::new(QUOTA));
    assert_eq!((DEFAULT.before_call(), NAMED.before_call()), (Duration::ZERO, Duration::ZERO));
    let rejected = DEFAULT.answered(&Hints::REJECTED).unwrap();
    // 13 calls of 0.8 s, with jitter.
    assert!((6_760..=8_008).contains(&rejected.as_millis()), "{rejected:?}");
}

#[test]
fn rejected_call_is_made_again_after_each_sleep_until_it_succeeds() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let (result, sleeps) = call(&clock, &pacer, &PacedRetry::DEFAULT, &[Ok((429, None)), Err(429), Ok((200, None))]);
    assert_eq!(result, Ok((200, None)));
    assert_eq!(sleeps, [SECOND, 2 * SECOND]);
    let (_, sleeps) = call(&clock, &pacer, &PacedRetry::DEFAULT, &[Ok((200, None))]);
    assert_eq!(sleeps, [2 * SECOND], "what was learned stays");
}

#[test]
fn other_errors_end_the_call_and_teach_nothing() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let (result, sleeps) = call(&clock, &pacer, &PacedRetry::DEFAULT, &[Err(503)]);
    let error = result.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), error.into_error()), (GaveUp::NotRetryable, 1, Some(503)));
    assert_eq!((sleeps.len(), pacer.before_call()), (0, Duration::ZERO));
    assert_eq!(pacer.answered(&Hints::UNKNOWN.retry_after(Some(SECOND))), None);
    assert_eq!(pacer.before_call(), Duration::ZERO);
}

#[test]
fn attempts_are_bounded() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let (result, sleeps) = call(&clock, &pacer, &PacedRetry::new(3), &[Err(429); 3]);
    let error = result.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), error.elapsed()), (GaveUp::Attempts, 3, 3 * SECOND));
    assert_eq!(sleeps, [SECOND, 2 * SECOND]);
    assert_eq!(error.to_string(), "gave up after 3 attempts in 3 s: no attempts left");
    let (result, _) = call(&clock, &pacer, &PacedRetry::new(0), &[Ok((429, None))]);
    assert_eq!(result, Ok((429, None)), "the last answer is returned as it is");
}

#[test]
fn call_that_would_sleep_beyond_its_time_is_given_up_at_once() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let retry = PacedRetry::new(10).max_time(3 * SECOND);
    let (result, sleeps) = call(&clock, &pacer, &retry, &[Err(429); 3]);
    let error = result.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 2));
    assert_eq!(sleeps, [SECOND], "not 2 s more, which end with the time");
    let (result, sleeps) = call(&clock, &pacer, &retry.max_time(2 * SECOND), &[Ok((200, None))]);
    let error = result.unwrap_err();
    let too_slow = PaceTooSlow::new(2 * SECOND, 2 * SECOND);
    assert_eq!((error.reason(), error.attempts(), error.error()), (GaveUp::Paced(too_slow), 0, None));
    assert_eq!(sleeps, []);
    let (result, _) = call(&clock, &pacer, &retry.max_time(60 * SECOND), &[Ok((429, Some(90)))]);
    assert_eq!(result, Ok((429, Some(90))));
}

#[test]
fn sleep_that_took_too_long_is_followed_by_no_attempt() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let retry = PacedRetry::new(10).max_time(5 * SECOND);
    let result = pacer.call_sleeping_by(&retry, hints, |_| clock.advance(9 * SECOND), |_| Answer::Err(429));
    let error = result.unwrap_err();
    assert_eq!((error.reason(), error.attempts(), error.error()), (GaveUp::Deadline { hint: None }, 1, Some(&429)));
    // Before the first attempt the pacer refuses the call, and the service has not failed it.
    let result = pacer.call_sleeping_by(&retry, hints, |_| clock.advance(9 * SECOND), |_| Answer::Err(429));
    let error = result.unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Paced(PaceTooSlow::new(9 * SECOND, Duration::ZERO)), 0));
}

/// Calls that would sleep for too long take no places from the others.
///
/// There are forty calls a second, far more than the rate.
#[cfg(feature = "compared")]
#[test]
fn refused_calls_leave_the_rate_of_a_schedule_as_it_is() {
    let clock = ManualClock::new();
    let pacer = pacer(CubicRate::new(Quota::per_second(10)), &clock);
    let retry = PacedRetry::new(1).max_time(5 * SECOND);
    pacer.answered(&Hints::REJECTED);
    let made = || {
        let calls = (0..40 * 100).filter(|_| {
            clock.advance(SECOND / 40);
            pacer.begin().before_call(&pacer, &retry).is_ok()
        });
        calls.count()
    };
    let [early, middle, late] = [made(), made(), made()];
    assert!(early > 50 && middle.abs_diff(late) <= middle / 10, "{early}, {middle}, {late}");
}

#[test]
fn place_is_taken_only_by_a_call_that_can_wait_for_it() {
    /// Each call sleeps a second longer than the one before.
    struct Places;
    impl Strategy for Places {
        fn before_call(&self, _: u64, _: Moment) -> Duration {
            Duration::ZERO
        }

        fn answered(&self, _: &mut u64, _: &Hints, _: Moment) -> Duration {
            Duration::ZERO
        }

        fn schedule(&self, schedule: &mut u64, _: u64, _: Duration, _: Moment) -> Duration {
            *schedule += 1;
            Duration::from_secs(*schedule)
        }
    }
    let clock = ManualClock::new();
    let pacer = pacer(Places, &clock);
    assert_eq!((pacer.before_call_within(|| SECOND), pacer.before_call_within(|| 2 * SECOND)), (SECOND, SECOND));
    assert_eq!((pacer.before_call_within(|| SECOND), pacer.before_call()), (2 * SECOND, 2 * SECOND));
    assert_eq!(pacer.answered_within(&Hints::REJECTED, || Duration::ZERO), Some(3 * SECOND));
    // The last attempt of a call.
    let retry = PacedRetry::new(1);
    let mut attempts = pacer.begin();
    assert_eq!(attempts.before_call(&pacer, &retry), Ok(3 * SECOND));
    attempts.begin_attempt(&retry);
    assert_eq!(attempts.answered(&pacer, &retry, &Hints::REJECTED), Err(GaveUp::Attempts));
    assert_eq!(pacer.answered(&Hints::REJECTED), Some(4 * SECOND), "the first that is taken");
}

#[test]
fn pause_holds_calls_that_already_sleep() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    pacer.answered(&Hints::REJECTED);
    let paused = Hints::REJECTED.retry_after(Some(60 * SECOND));
    let mut sleeps = 0;
    let call = |retry: PacedRetry, sleeps: &mut u32| {
        let sleep = |wait: Duration| {
            clock.advance(wait);
            *sleeps += 1;
            if *sleeps == 1 {
                // Another thread records a pause meanwhile.
                pacer.answered(&paused);
            }
        };
        pacer.call_sleeping_by(&retry, hints, sleep, |_| Answer::Ok((200, Some(pacer.peek().as_secs()))))
    };
    let result = call(PacedRetry::DEFAULT, &mut sleeps);
    assert_eq!((result, sleeps), (Ok((200, Some(2))), 2), "the pause is over");
    let error = call(PacedRetry::DEFAULT.max_time(30 * SECOND), &mut 0).unwrap_err();
    assert!(matches!(error.reason(), GaveUp::Paced(too_slow) if too_slow.retry_after() >= 60 * SECOND), "{error}");
}

#[cfg(feature = "std")]
#[test]
fn deadline_bounds_the_call() {
    let expired = PacedRetry::DEFAULT.deadline(&Deadline::after(Duration::ZERO));
    assert_eq!(expired.longest_time(), Duration::ZERO);
    let error = Pacer::new(QUOTA).call(&expired, hints, |_| Answer::Ok((200, None))).unwrap_err();
    assert_eq!((error.reason(), error.attempts()), (GaveUp::Deadline { hint: None }, 0));
    let never = PacedRetry::DEFAULT.deadline(&Deadline::NEVER);
    assert_eq!(never, PacedRetry::DEFAULT);
}

/// A budget that allows this many retries, and counts calls.
#[derive(Default)]
struct Allowance {
    left: Cell<u32>,
    began: Cell<u32>,
    ended: Cell<[u32; 2]>,
}

impl Budget for Allowance {
    fn began(&self) {
        self.began.set(self.began.get() + 1);
    }

    fn succeeded(&self) {
        let [succeeded, failed] = self.ended.get();
        self.ended.set([succeeded + 1, failed]);
    }

    fn failed(&self) {
        let [succeeded, failed] = self.ended.get();
        self.ended.set([succeeded, failed + 1]);
    }

    fn try_withdraw(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

#[test]
fn retries_are_within_the_budget() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let budget = Allowance { left: Cell::new(1), ..Allowance::default() };
    let retry = PacedRetry::new(5).budget(&budget);
    let (result, _) = call(&clock, &pacer, &retry, &[Ok((429, None)), Ok((200, None))]);
    assert_eq!(result, Ok((200, None)));
    let (result, sleeps) = call(&clock, &pacer, &retry, &[Err(429)]);
    assert_eq!(result.unwrap_err().reason(), GaveUp::Budget);
    assert_eq!(sleeps, [SECOND]);
    assert_eq!((budget.began.get(), budget.ended.get()), (2, [1, 2]));
    _ = call(&clock, &pacer, &PacedRetry::new(1).budget(&budget), &[Err(429)]);
    _ = call(&clock, &pacer, &PacedRetry::new(5).max_time(Duration::ZERO).budget(&budget), &[]);
    _ = call(&clock, &pacer, &PacedRetry::new(5).max_time(SECOND).budget(&budget), &[]);
    assert_eq!((budget.began.get(), budget.ended.get()), (3, [1, 3]), "a call without an attempt is none");
}

#[test]
fn retry_that_is_not_made_takes_nothing_from_the_budget() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let budget = Allowance { left: Cell::new(1), ..Allowance::default() };
    _ = call(&clock, &pacer, &PacedRetry::new(1).budget(&budget), &[Err(429)]);
    _ = call(&clock, &pacer, &PacedRetry::new(5).max_time(2 * SECOND).budget(&budget), &[Err(429)]);
    assert_eq!(budget.left.get(), 1, "nothing was taken");
}

#[cfg(feature = "std")]
#[test]
fn policies_are_constants() {
    static BUDGET: RetryBudget = RetryBudget::DEFAULT;
    const RETRY: PacedRetry = PacedRetry::new(4).max_time(HOUR);
    let retry = RETRY.budget(&BUDGET);
    assert_eq!((retry.max_attempts(), retry.longest_time()), (4, HOUR));
}

#[test]
fn calls_wait_until_the_time_that_the_service_asked_for() {
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let retry = pacer.answered(&Hints::REJECTED.retry_after(Some(60 * SECOND)).resets_in(Some(HOUR))).unwrap();
    // A tenth of the time is jitter.
    assert!(retry >= 60 * SECOND && retry <= 66 * SECOND, "{retry:?}");
    let others: Vec<_> = (0..100).map(|_| pacer.before_call()).collect();
    let [least, most] = [others.iter().min().unwrap(), others.iter().max().unwrap()];
    assert!(*least >= 60 * SECOND && *most <= 66 * SECOND && *most > *least + 4 * SECOND, "{least:?} to {most:?}");
    clock.advance(50 * SECOND);
    let left = pacer.before_call();
    assert!(left >= 10 * SECOND && left <= 11 * SECOND, "{left:?}");
    clock.advance(10 * SECOND);
    assert_eq!(pacer.before_call(), SECOND);
}

#[test]
fn reset_counts_where_no_retry_after_is_said() {
    let clock = ManualClock::new();
    let pacer = pacer(NoPacing, &clock);
    assert_eq!(pacer.answered(&Hints::ACCEPTED.resets_in(Some(HOUR))), None);
    assert_eq!(pacer.before_call(), Duration::ZERO, "a success stops no calls");
    let retry = pacer.answered(&Hints::REJECTED.resets_in(Some(60 * SECOND))).unwrap();
    assert!(retry >= 60 * SECOND, "{retry:?}");
}

#[test]
fn hostile_times_are_bounded() {
    for (hint, longest) in [(Duration::MAX, None), (100 * 24 * HOUR, None), (Duration::MAX, Some(60 * SECOND))] {
        let clock = ManualClock::new();
        let pacer = pacer(NoPacing, &clock);
        let pacer = if let Some(longest) = longest { pacer.max_hint(longest) } else { pacer };
        let (retry, longest) =
            (pacer.answered(&Hints::REJECTED.retry_after(Some(hint))).unwrap(), longest.unwrap_or(HOUR));
        assert!(retry >= longest && retry <= longest * 11 / 10, "{retry:?}");
        clock.advance(longest);
        assert_eq!(pacer.before_call(), Duration::ZERO);
    }
    let clock = ManualClock::new();
    let pacer = pacer(Counted, &clock);
    let retry = pacer.answered(&Hints::REJECTED.retry_after(Some(Duration::ZERO)));
    assert_eq!(retry, Some(SECOND), "a time of 0 leaves the strategy's own sleep as it is");
}

/// Hints are bounded before a custom strategy sees them.
#[test]
fn strategies_see_no_time_beyond_the_longest_hint() {
    #[derive(Debug)]
    struct Obeying;
    impl Strategy for Obeying {
        fn before_call(&self, learned: u64, _: Moment) -> Duration {
            Duration::from_secs(learned)
        }

        fn answered(&self, learned: &mut u64, hints: &Hints, _: Moment) -> Duration {
            *learned = hints.resets_in.max(hints.retry_after).unwrap_or_default().as_secs();
            Duration::ZERO
        }
    }
    let clock = ManualClock::new();
    let pacer = pacer(Obeying, &clock);
    pacer.answered(&Hints::ACCEPTED.resets_in(Some(Duration::MAX)));
    assert_eq!(pacer.before_call(), HOUR);
    let pacer = pacer.max_hint(60 * SECOND);
    pacer.answered(&Hints::ACCEPTED.retry_after(Some(HOUR)));
    assert_eq!(pacer.before_call(), 60 * SECOND);
    pacer.answered(&Hints::ACCEPTED.resets_in(Some(SECOND)));
    assert_eq!(pacer.before_call(), SECOND);
}

#[test]
fn shorter_time_leaves_a_longer_one_as_it_is() {
    let clock = ManualClock::new();
    let pacer = pacer(NoPacing, &clock);
    for seconds in [60, 5, 0] {
        pacer.answered(&Hints::REJECTED.retry_after(Some(Duration::from_secs(seconds))));
        assert!(pacer.before_call() >= 60 * SECOND, "after {seconds} s");
    }
}

/// Returns the pacer of a client of a fixed window, in its next window after a rejection.
///
/// The rejection asked for 40 seconds, and the next window has given its first answer.
fn in_a_fixed_window(clock: &ManualClock) -> Pacer<Level, &ManualClock> {
    let pacer = pacer(Level::new(Quota::per_hour(5_000)), clock);
    let until_reset = Some(40 * SECOND);
    pacer.answered(&Hints::REJECTED.retry_after(until_reset).resets_in(until_reset));
    clock.advance(60 * SECOND);
    assert!(sleep_after(&pacer, 100, 60) < SECOND);
    pacer
}

/// Returns the sleep of a call after an answer with this many calls left and seconds until the reset.
fn sleep_after(pacer: &Pacer<Level, &ManualClock>, left: u64, resets_in: u64) -> Duration {
    let resets_in = Some(Duration::from_secs(resets_in));
    pacer.answered(&Hints::ACCEPTED.remaining(Some(left)).resets_in(resets_in));
    pacer.before_call()
}

#[test]
fn used_up_fixed_window_stops_calls_until_its_reset() {
    let clock = ManualClock::new();
    let pacer = in_a_fixed_window(&clock);
    assert!((50 * SECOND..60 * SECOND).contains(&sleep_after(&pacer, 0, 50)));
    clock.advance(60 * SECOND);
    assert!(sleep_after(&pacer, 99, 50) < SECOND, "the next window");
}

/// A service with a window of a minute may have a bucket of an hour beside it.
#[test]
fn used_up_window_stops_calls_hardly_longer_than_a_rejection_did() {
    let clock = ManualClock::new();
    let pacer = in_a_fixed_window(&clock);
    let sleep = sleep_after(&pacer, 0, 65);
    assert!(sleep < 10 * SECOND, "a rejection has asked for 40 s: {sleep:?}");
}

#[test]
fn window_with_many_calls_left_stops_no_call_whatever_others_have_used() {
    let clock = ManualClock::new();
    let pacer = in_a_fixed_window(&clock);
    let sleep = sleep_after(&pacer, 12, 30);
    assert!(sleep < 10 * SECOND, "12 calls are left: {sleep:?}");
    assert!((30 * SECOND..40 * SECOND).contains(&sleep_after(&pacer, 5, 30)), "7 were used meanwhile, and 5 are left");
}

/// The tokens of a server's bucket or log come back before the reset.
#[test]
fn limit_that_allowed_a_call_before_its_reset_is_never_taken_for_a_fixed_window() {
    let clock = ManualClock::new();
    let pacer = in_a_fixed_window(&clock);
    let [wait, reset] = [SECOND, 60 * SECOND].map(Some);
    for (retry_after, resets_in) in [(wait, reset), (reset, reset)] {
        pacer.answered(&Hints::REJECTED.retry_after(retry_after).resets_in(resets_in));
        clock.advance(80 * SECOND);
        let sleep = sleep_after(&pacer, 0, 50);
        assert!(sleep < 20 * SECOND, "a bucket: {sleep:?}");
    }
}

#[test]
fn clock_that_steps_back_ends_a_pause() {
    let clock = ManualClock::new();
    clock.advance(10 * HOUR);
    let pacer = pacer(NoPacing, &clock);
    pacer.answered(&Hints::REJECTED.retry_after(Some(60 * SECOND)));
    clock.step_back(5 * HOUR);
    assert_eq!(pacer.before_call(), Duration::ZERO);
    pacer.answered(&Hints::REJECTED.retry_after(Some(5 * SECOND)));
    assert!(pacer.before_call() >= 5 * SECOND, "and times count again");
}

/// The reading of another thread lies before the begin of the pause.
#[test]
fn late_thread_does_not_shorten_the_longest_pause() {
    let clock = ManualClock::new();
    clock.advance(10 * HOUR);
    let pacer = pacer(NoPacing, &clock);
    pacer.answered(&Hints::REJECTED.retry_after(Some(HOUR)));
    clock.step_back(SECOND);
    assert!(pacer.before_call() >= HOUR);
    pacer.answered(&Hints::REJECTED.retry_after(Some(2 * SECOND)));
    clock.advance(SECOND);
    assert!(pacer.before_call() >= HOUR);
}

/// The clock stands at the time at which its microseconds wrap.
#[test]
fn pause_goes_on_where_the_clock_wraps() {
    let clock = ManualClock::with_frequency(1_000_000);
    clock.set_ticks(0_u64.wrapping_sub(30_000_000));
    let pacer = pacer(NoPacing, &clock);
    pacer.answered(&Hints::REJECTED.retry_after(Some(60 * SECOND)));
    clock.advance(45 * SECOND);
    let left = pacer.before_call();
    assert!(left >= 15 * SECOND && left < 17 * SECOND, "{left:?}");
}

#[test]
fn same_seed_and_answers_give_the_same_sleeps() {
    let sleeps = |seed| {
        let clock = ManualClock::new();
        let pacer = Pacer::with_clock(Level::new(QUOTA), &clock, seed);
        (0..50)
            .map(|call| {
                let hints = if call % 3 == 0 { Hints::REJECTED } else { Hints::ACCEPTED.remaining(Some(3)) };
                let sleep = pacer.answered(&hints).unwrap_or_else(|| pacer.before_call());
                clock.advance(sleep);
                sleep
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(sleeps(1), sleeps(1));
    assert_ne!(sleeps(1), sleeps(2));
}

/// Each thread records 1,000 answers, and none of them is lost.
#[test]
fn threads_share_what_is_learned() {
    let pacer = Pacer::with_clock(Counted, ManualClock::new(), 7);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| _ = pacer.answered(&Hints::REJECTED)));
        }
    });
    assert_eq!(pacer.before_call(), Duration::from_secs(4_000));
    assert_eq!(pacer.peek(), Duration::from_secs(4_000));
}

#[test]
fn pacers_are_shared_by_threads() {
    fn shared<T: Send + Sync + std::fmt::Debug>(_: &T) {}
    shared(&pacer(Level::new(QUOTA), &ManualClock::new()));
    #[cfg(feature = "compared")]
    shared(&pacer(CubicRate::new(QUOTA), &ManualClock::new()));
}

/// With every strategy, a client of an exhausted limit gets through if it may retry long enough.
#[test]
fn every_strategy_gets_through() {
    fn gets_through(strategy: impl Strategy + std::fmt::Debug) {
        let clock = ManualClock::new();
        let limiter = damper::RateLimiter::with_clock(Quota::per_minute(60).burst(5), &clock);
        let pacer = pacer(strategy, &clock);
        let mut rejected = 0;
        for _ in 0..200 {
            let answer = pacer.call_sleeping_by(
                &PacedRetry::new(1_000).max_time(HOUR),
                |result: &Result<u32, u32>| match result {
                    Ok(remaining) => Hints::ACCEPTED.remaining(Some((*remaining).into())),
                    Err(_) => Hints::REJECTED.remaining(Some(0)),
                },
                |sleep| clock.advance(sleep),
                |_| {
                    clock.advance(Duration::from_millis(10));
                    limiter
                        .check()
                        .map(|allowed| allowed.remaining())
                        .map_err(|_| {
                            rejected += 1;
                        })
                        .map_err(|()| 429)
                },
            );
            assert!(answer.is_ok(), "{:?}", pacer.strategy());
        }
        println!("{:?}: {rejected} rejected", pacer.strategy());
    }
    let quota = Quota::per_minute(60).burst(5);
    gets_through(RemainingDecrease::new(quota));
    gets_through(Level::new(quota));
    #[cfg(feature = "compared")]
    {
        gets_through(ExponentialBackoff::new(quota));
        gets_through(GradualDecrease::new(quota));
        gets_through(ProportionalDecrease::new(quota));
        gets_through(CubicRate::new(quota));
    }
}

#[cfg(feature = "tokio")]
mod asynchronous {
    use super::{Answer, Counted, GaveUp, PacedRetry, Pacer, SECOND, hints};
    use crate::models::tokio_clock::TokioClock;
    use std::cell::Cell;
    use std::time::Duration;
    use tokio::time::{Instant, timeout};

    fn pacer() -> Pacer<Counted, TokioClock> {
        Pacer::with_clock(Counted, TokioClock(Instant::now()), 7)
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_call_is_made_again_until_it_succeeds() {
        let (pacer, began) = (pacer(), Instant::now());
        let result = pacer
            .run(&PacedRetry::DEFAULT, hints, |attempt| async move {
                tokio::time::sleep(SECOND / 2).await;
                if attempt < 3 { Answer::Err(429) } else { Answer::Ok((200, None)) }
            })
            .await;
        assert_eq!(result, Ok((200, None)));
        assert_eq!(began.elapsed(), 3 * SECOND / 2 + 3 * SECOND);
        assert_eq!(pacer.before_call(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn call_is_given_up_when_its_time_does_not_leave_the_sleep() {
        let (pacer, began) = (pacer(), Instant::now());
        let retry = PacedRetry::new(10).max_time(3 * SECOND);
        let result = pacer.run(&retry, hints, |_| async { Answer::Err(429) }).await;
        let error = result.unwrap_err();
        assert_eq!((error.reason(), error.attempts(), error.error()), (GaveUp::Deadline { hint: None }, 2, Some(&429)));
        assert_eq!(began.elapsed(), SECOND);
        let result = pacer.run(&retry.max_time(SECOND), hints, |_| async { Answer::Err(429) }).await;
        assert_eq!(result.unwrap_err().attempts(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_call_makes_no_attempt_and_teaches_nothing() {
        let (pacer, calls) = (pacer(), Cell::new(0));
        let call = |answer: Answer, latency: Duration| {
            let calls = &calls;
            pacer.run(&PacedRetry::DEFAULT, hints, move |_| {
                calls.set(calls.get() + 1);
                async move {
                    tokio::time::sleep(latency).await;
                    answer
                }
            })
        };
        // The call is dropped while it sleeps before the second attempt, and then during the first one.
        assert!(timeout(SECOND / 2, call(Err(429), Duration::ZERO)).await.is_err());
        assert_eq!((calls.get(), pacer.before_call()), (1, SECOND));
        assert!(timeout(2 * SECOND, call(Err(429), 5 * SECOND)).await.is_err());
        assert_eq!((calls.get(), pacer.before_call()), (2, SECOND));
        // The call is dropped while it sleeps before the first attempt.
        assert!(timeout(SECOND / 2, call(Err(429), Duration::ZERO)).await.is_err());
        assert_eq!((calls.get(), pacer.before_call()), (2, SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn call_sleeps_by_any_timer() {
        let (pacer, sleeps) = (pacer(), Cell::new(Duration::ZERO));
        let result = pacer
            .run(&PacedRetry::DEFAULT, hints, |attempt| {
                std::future::ready(if attempt == 1 { Answer::Err(429) } else { Answer::Ok((200, None)) })
            })
            .sleeping_by(|wait| {
                sleeps.set(sleeps.get() + wait);
                std::future::ready(())
            })
            .await;
        assert_eq!((result, sleeps.get()), (Ok((200, None)), SECOND));
    }
}
