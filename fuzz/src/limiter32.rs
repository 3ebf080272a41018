//! The token bucket in 32 bits against the exact one.

use crate::input::{MOST_STEPS, QuotaInput, Tokens};
use crate::models::bucket::ExactBucket;
use crate::models::timer::Timer;
use arbitrary::Arbitrary;
use damper::RateLimiter32;

const MOST_BURST: u32 = (1 << 28) - 1;

/// From the start, and of the start: that the ticks do not wrap.
const MOST_TICKS: u64 = 1 << 63;

/// A limiter and the calls it gets.
#[derive(Arbitrary, Debug)]
pub struct Limiter32Input {
    quota: QuotaInput,
    frequency: Frequency,
    start: u64,
    calls: Vec<(Step, Tokens)>,
}

/// Those of timers, which are known when firmware is compiled.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Frequency {
    One,
    Millis,
    Crystal,
    Micros,
    Mega25,
    Nanos,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Pass(u16),
    PassLong(u64),
    /// So many sixteenths of the time in which a burst is refilled, and so many ticks more or less.
    Refills(u16, i8),
    /// To when the tokens are there by the model, or so many ticks off it.
    Nearly(i8),
}

/// Compares the limiter with the exact bucket.
pub fn limiter32(input: Limiter32Input) {
    match input.frequency {
        Frequency::One => compare::<1>(&input),
        Frequency::Millis => compare::<1_000>(&input),
        Frequency::Crystal => compare::<32_768>(&input),
        Frequency::Micros => compare::<1_000_000>(&input),
        Frequency::Mega25 => compare::<25_000_000>(&input),
        Frequency::Nanos => compare::<1_000_000_000>(&input),
    }
}

/// Nothing too early, whatever the time between; and nothing late, unless the word may have circled, which then counts
/// for as long as somebody takes tokens.
fn compare<const HERTZ: u64>(input: &Limiter32Input) {
    let quota = input.quota.quota(u32::MAX);
    let quota = quota.burst(quota.burst_size().min(MOST_BURST));
    let start = input.start % MOST_TICKS;
    let timer = Timer::<HERTZ>::at(start);
    let limiter = RateLimiter32::new(quota, &timer).expect("the burst fits");
    let mut model = ExactBucket::new(quota, HERTZ);
    let refill = model.ticks_for_bursts(1);
    // A unit is at most the 2^-27th part of a burst; a position and the rate are rounded.
    let early = 2 + (refill >> 26);
    let circle = 8 * refill;
    // A word of 0 is a full bucket only where the timer starts.
    let (mut idle, mut may_have_circled) = (0, start != 0);
    // Whether some may be missing that the model has: for as long as somebody takes tokens.
    let mut may_lag = may_have_circled;
    let mut passed = 0;
    for &(step, n) in input.calls.iter().take(MOST_STEPS) {
        let n = n.number();
        let ticks = match step {
            Step::Pass(ticks) => ticks.into(),
            Step::PassLong(ticks) => i128::from(ticks >> 8),
            Step::Refills(sixteenths, off) => refill * i128::from(sixteenths) / 16 + i128::from(off),
            Step::Nearly(off) => model.wait(n).unwrap_or(0) + i128::from(off),
        };
        let ticks = u64::try_from(ticks.max(0)).unwrap_or(u64::MAX).min(MOST_TICKS - passed);
        passed += ticks;
        idle += i128::from(ticks);
        timer.advance(ticks);
        model.pass(ticks);
        may_have_circled |= idle > circle;
        may_lag = may_have_circled || may_lag && idle <= refill + early;
        let used = limiter.peek();
        assert_eq!(used.used() + used.remaining(), quota.burst_size());
        match limiter.check_n(n) {
            Ok(allowed) => {
                assert!(
                    n <= quota.burst_size() && (n == 0 || model.will_have(n, early)),
                    "{n} of {model:?}: too early"
                );
                model.take(n);
                (idle, may_have_circled) = if n == 0 { (idle, may_have_circled) } else { (0, false) };
                let left = allowed.remaining();
                assert!(left == 0 || model.will_have(left, early), "{left} left of {model:?}");
            }
            Err(denied) => {
                assert_eq!(denied.exceeds_burst(), n > quota.burst_size());
                if may_lag {
                    continue;
                }
                assert!(denied.exceeds_burst() || !model.has(n), "{n} of {model:?}: late");
                // Centuries are as good as more.
                if let Some(wait) = denied.retry_after().filter(|wait| wait.as_secs() < 1 << 33) {
                    let ticks = wait.as_nanos() * u128::from(HERTZ) / 1_000_000_000;
                    let ticks = i128::try_from(ticks).expect("2^33 seconds of nanoseconds") + 1;
                    assert!(model.will_have(n, ticks + early), "{n} of {model:?} after {ticks}");
                    let shorter = ticks - 3 - early;
                    assert!(shorter < 1 || !model.will_have(n, shorter), "{n} of {model:?} after {ticks}");
                }
            }
        }
    }
}
