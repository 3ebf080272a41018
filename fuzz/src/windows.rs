//! Algorithms that count by windows, against a list of the tokens taken.

use crate::input::{Frequency, MOST_STEPS, QuotaInput, Tokens, ticks_of};
use crate::models::log::Log;
use crate::models::windows::Windows;
use arbitrary::Arbitrary;
use damper::{FixedWindow, ManualClock, RateLimiter, SlidingCounter, SlidingLog};

/// The maximum number of ticks. At 4 units each they are less than half a cycle of positions.
const MOST_TICKS: i128 = 1 << 60;

/// The largest limit of a log. Larger ones would use too much memory.
const LARGEST_LOG: u32 = 1 << 10;

/// A limiter and its calls.
#[derive(Arbitrary, Debug)]
pub struct WindowsInput {
    algorithm: Which,
    quota: QuotaInput,
    frequency: Frequency,
    start: u64,
    calls: Vec<(Move, Tokens)>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Which {
    Fixed,
    Counter,
    Log,
}

/// How far the clock moves before a call.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Move {
    Pass(u8),
    PassLong(u64),
    /// By this many 65,536ths of a window.
    Parts(u16),
    /// By this many windows.
    Windows(u8),
    /// To the start of the next window, plus or minus this many ticks.
    Boundary(i8),
}

/// Compares a limiter with the list.
pub fn windows(input: WindowsInput) {
    match input.algorithm {
        Which::Fixed => fixed_window(&input),
        Which::Counter => sliding_counter(&input),
        Which::Log => sliding_log(&input),
    }
}

impl WindowsInput {
    /// Returns the calls with their ticks, counted from the start of a window.
    fn calls(&self, start: i128, moved: impl Fn(i128, Move) -> i128) -> impl Iterator<Item = (i128, u32)> {
        let mut tick = start;
        self.calls.iter().take(MOST_STEPS).map_while(move |&(by, n)| {
            tick = moved(tick, by);
            (tick < MOST_TICKS).then_some((tick, n.number()))
        })
    }

    /// Returns the calls with their ticks, for windows that do not move.
    fn calls_by(&self, model: &Windows, start: i128) -> Vec<(i128, u32)> {
        let moved = |tick: i128, by| {
            let to = match by {
                Move::Pass(ticks) => tick + i128::from(ticks),
                // In all less than half of the cycle of a window number.
                Move::PassLong(ticks) => tick + i128::from(ticks).min(model.ticks() << 22),
                Move::Parts(parts) => tick + ((model.ticks() * i128::from(parts)) >> 16),
                Move::Windows(windows) => tick + model.ticks() * i128::from(windows),
                Move::Boundary(off) => model.next(tick) + i128::from(off),
            };
            // If windows are no whole number of ticks, the last tick of one may count as the next one's.
            let is_unclear = |tick: i128| !model.is_aligned() && model.number(tick) != model.number(tick + 1);
            (to.max(tick)..to.max(tick) + 4).find(|&tick| !is_unclear(tick)).expect("windows of at least 4 ticks")
        };
        self.calls(start, moved).collect()
    }
}

/// A clock with the input's frequency and start.
fn started(input: &WindowsInput) -> ManualClock {
    let clock = ManualClock::with_frequency(input.frequency.hertz());
    clock.set_ticks(input.start);
    clock
}

/// Moves a clock to a tick, counted from its start.
fn set(clock: &ManualClock, start: u64, tick: i128) {
    clock.set_ticks(start.wrapping_add(u64::try_from(tick).expect("below 2^64")));
}

/// The count is exact, and so is a wait except for the rounding of frequencies.
fn fixed_window(input: &WindowsInput) {
    let (quota, frequency) = (input.quota.quota(u32::MAX), input.frequency.hertz());
    let mut model = Windows::new(quota, frequency);
    if model.ticks() < 4 {
        return;
    }
    let clock = started(input);
    let limiter = RateLimiter::with_algorithm(FixedWindow::new(quota), &clock);
    assert!(limiter.check_n(0).is_ok(), "this call starts the line");
    // Windows start a tick earlier if the clock is about to wrap.
    let offset = i128::from(input.start == u64::MAX);
    for (tick, n) in input.calls_by(&model, offset) {
        set(&clock, input.start, tick - offset);
        let allows = model.fixed_allows(tick, n);
        let left = i128::from(quota.limit()) - model.count(model.number(tick));
        assert_eq!(i128::from(limiter.peek().remaining()), left);
        match limiter.check_n(n) {
            Ok(allowed) => {
                assert!(allows, "{n} at {tick} of {model:?}");
                model.take(tick, n);
                assert_eq!(i128::from(allowed.remaining()), left - i128::from(n));
            }
            Err(denied) => {
                assert!(!allows, "{n} at {tick} of {model:?}");
                assert_eq!(i128::from(denied.remaining()), left);
                assert_eq!(denied.exceeds_burst(), n > quota.limit());
                let Some(wait) = denied.retry_after() else { continue };
                let (wait, slack) = ticks_of(wait, frequency);
                let (next, early) = (model.next(tick) - tick, i128::from(!model.is_aligned()));
                let late = slack + i128::from(!model.is_aligned() || is_just_below_a_power_of_two(model.ticks()));
                assert!((next - early..=next + late).contains(&wait), "{wait} of {next}");
                set(&clock, input.start, tick - offset + wait);
                assert!(limiter.peek().remaining() >= n, "the stated wait suffices");
            }
        }
    }
}

/// A tick is then hardly more than 2 units, so the nearest whole number of units may be off.
fn is_just_below_a_power_of_two(ticks: i128) -> bool {
    let power = i128::try_from(ticks.cast_unsigned().next_power_of_two()).expect("ticks are below 2^60");
    power - ticks <= power >> 20
}

/// As in the formula: never late, and at most a tick early.
fn sliding_counter(input: &WindowsInput) {
    let (quota, frequency) = (input.quota.quota((1 << 24) - 1), input.frequency.hertz());
    let mut model = Windows::new(quota, frequency);
    if model.ticks() < 4 {
        return;
    }
    let clock = started(input);
    let limiter = RateLimiter::with_algorithm(SlidingCounter::new(quota).expect("the limit fits"), &clock);
    assert!(limiter.check_n(0).is_ok(), "this call starts the line");
    let early = i128::from(input.start == u64::MAX);
    let (mut before, mut idle) = (early, 0);
    for (tick, n) in input.calls_by(&model, early) {
        // A window's number has at least 16 bits.
        idle += (tick - before) / model.ticks() + 1;
        before = tick;
        if idle >= 1 << 15 {
            break;
        }
        set(&clock, input.start, tick - early);
        match limiter.check_n(n) {
            Ok(allowed) => {
                let allows = model.counter_allows(tick, n) || model.counter_allows(tick + 1, n);
                assert!(allows, "{n} at {tick} of {model:?}");
                model.take(tick, n);
                idle = if n == 0 { idle } else { 0 };
                let left = allowed.remaining();
                assert!(model.counter_allows(tick + 1, left), "{left} left");
                assert!(left == quota.limit() || !model.counter_allows(tick, left + 1), "{left} left");
            }
            Err(denied) => {
                assert!(!model.counter_allows(tick, n), "{n} at {tick} of {model:?}");
                assert_eq!(denied.exceeds_burst(), n > quota.limit());
                let Some(wait) = denied.retry_after() else { continue };
                let (wait, slack) = ticks_of(wait, frequency);
                set(&clock, input.start, tick - early + wait);
                assert!(limiter.peek().remaining() >= n, "{wait} suffices");
                let shorter = wait - 2 - slack;
                if shorter > 0 {
                    set(&clock, input.start, tick - early + shorter);
                    assert!(limiter.peek().remaining() < n, "{shorter} suffices too");
                }
            }
        }
    }
}

/// Never late, and at most a tick early; exact where a window is a whole number of ticks.
fn sliding_log(input: &WindowsInput) {
    let (quota, frequency) = (input.quota.quota(LARGEST_LOG), input.frequency.hertz());
    let mut model = Log::new(quota, frequency);
    if model.ticks() < 4 {
        return;
    }
    let early = i128::from(!model.is_aligned());
    let clock = started(input);
    let limiter = RateLimiter::with_algorithm(SlidingLog::new(quota).expect("the limit fits"), &clock);
    let window = model.ticks();
    let moved = |tick: i128, by| match by {
        Move::Pass(ticks) => tick + i128::from(ticks),
        Move::PassLong(ticks) => tick + i128::from(ticks).min(window << 22),
        Move::Parts(parts) => tick + ((window * i128::from(parts)) >> 16),
        Move::Windows(windows) => tick + window * i128::from(windows),
        Move::Boundary(off) => tick + (window + i128::from(off)).max(0),
    };
    // Stamps are read correctly for 2^60 units, at most 4 per tick.
    for (tick, n) in input.calls(0, moved).take_while(|&(tick, _)| tick < 1 << 57) {
        set(&clock, input.start, tick);
        match limiter.check_n(n) {
            Ok(allowed) => {
                assert!(model.allows(tick + early, n), "{n} at {tick} of {model:?}");
                model.take(tick, n);
                let used = (quota.limit() - allowed.remaining()) as usize;
                assert!((model.used(tick + early)..=model.used(tick)).contains(&used), "{used} of {model:?}");
            }
            Err(denied) => {
                assert!(!model.allows(tick, n), "{n} at {tick} of {model:?}");
                assert_eq!(denied.exceeds_burst(), n > quota.limit());
                let Some(wait) = denied.retry_after() else { continue };
                let (wait, slack) = ticks_of(wait, frequency);
                assert!(model.allows(tick + wait + early, n), "{wait} suffices");
                let shorter = wait - 2 - slack;
                assert!(shorter < 0 || !model.allows(tick + shorter, n), "{shorter} suffices too, of {wait}");
            }
        }
    }
}
