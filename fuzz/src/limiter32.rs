//! The 32-bit token bucket against the exact one.

use crate::input::{MOST_STEPS, QuotaInput, Tokens};
use crate::models::bucket::ExactBucket;
use crate::models::timer::Timer;
use arbitrary::Arbitrary;
use damper::RateLimiter32;

const MOST_BURST: u32 = (1 << 28) - 1;

/// The limit on the start and on the ticks after it, so that ticks do not wrap.
const MOST_TICKS: u64 = 1 << 63;

/// A limiter and its calls.
#[derive(Arbitrary, Debug)]
pub struct Limiter32Input {
    quota: QuotaInput,
    frequency: Frequency,
    start: u64,
    calls: Vec<(Step, Tokens)>,
}

/// Frequencies of timers, which are known at compile time.
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
    /// This many sixteenths of a burst's refill time, plus or minus this many ticks.
    Refills(u16, i8),
    /// To the moment at which the model has the tokens, plus or minus this many ticks.
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

/// No token is too early, whatever the time between calls.
///
/// None is late either, unless the word may have wrapped. That may last as long as callers take tokens.
fn compare<const HERTZ: u64>(input: &Limiter32Input) {
    let quota = input.quota.quota(u32::MAX);
    let quota = quota.burst(quota.burst_size().min(MOST_BURST));
    let start = input.start % MOST_TICKS;
    let timer = Timer::<HERTZ>::at(start);
    let limiter = RateLimiter32::new(quota, &timer).expect("the burst fits");
    let mut model = ExactBucket::new(quota, HERTZ);
    let refill = model.ticks_for_bursts(1);
    // A unit is at most the 2^-27th part of a burst. Positions and the rate are rounded.
    let early = 2 + (refill >> 26);
    let circle = 8 * refill;
    // A word of 0 is a full bucket only at the timer's start.
    let (mut idle, mut may_have_circled) = (0, start != 0);
    // Whether the limiter may lack tokens that the model has: as long as callers take tokens.
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
                // Waits of centuries are not checked exactly.
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
