//! A budget of language model tokens.
//!
//! Reserve an estimate before the call, and settle when the bill comes.
//!
//! The estimate is the prompt plus the longest answer allowed. Most answers are shorter: the rest is refunded, and callers that
//! wait for tokens get them sooner. Some estimates are too low: the excess is charged, into debt if necessary.

use damper::{Clock, Denied, ManualClock, Quota, RateLimiter, TokenBucket};
use std::time::Duration;

const MODEL: Quota = Quota::per_minute(60_000).burst(10_000);

/// Calls the model when the budget allows it, if that is within `patience`.
///
/// `call` returns how many tokens it used.
fn ask<C: Clock>(
    budget: &RateLimiter<TokenBucket, C>,
    estimate: u32,
    patience: Duration,
    sleep: impl FnOnce(Duration),
    call: impl FnOnce() -> u32,
) -> Result<u32, Denied> {
    let turn = budget.reserve_within(estimate, patience)?;
    sleep(turn.ready_in().unwrap_or(patience)); // `None`: the quota was set to nothing meanwhile.
    let used = call();
    budget.refund(estimate.saturating_sub(used));
    budget.charge(used.saturating_sub(estimate));
    Ok(used)
}

fn main() -> Result<(), Denied> {
    let clock = ManualClock::new(); // leave it out, use `RateLimiter::new` and `thread::sleep`, and real time passes
    let budget = RateLimiter::with_clock(MODEL, &clock);
    let ask = |estimate, bill| {
        let before = clock.now();
        let used = ask(&budget, estimate, Duration::from_secs(5), |wait| clock.advance(wait), || bill)?;
        let waited = Duration::from_nanos(clock.now() - before);
        let (left, owed) = (budget.peek().remaining(), budget.debt());
        println!("estimated {estimate}, used {used}: waited {waited:?}, {left} left, {owed} owed");
        Ok::<_, Denied>((waited.as_secs(), left, owed))
    };

    assert_eq!(ask(8_000, 3_000)?, (0, 7_000, 0), "5,000 came back");
    assert_eq!(ask(6_000, 9_000)?, (0, 0, 2_000), "2,000 more than there were");
    assert_eq!(ask(3_000, 3_000)?, (5, 0, 0), "2,000 owed and 3,000 to come, at 1,000 a second");

    // Another call waits while this one runs, and needs less than it reserved: the other gets the rest at once.
    let first = budget.reserve(4_000)?;
    let second = budget.reserve(3_000)?;
    let waits = || [first.ready_in(), second.ready_in()].map(|wait| wait.map(|wait| wait.as_secs()));
    assert_eq!(waits(), [Some(4), Some(7)]);
    clock.advance(Duration::from_secs(4));
    assert_eq!(budget.refund(3_000), 3_000); // the bill was 1,000
    assert_eq!((waits(), budget.debt()), ([Some(0), Some(0)], 0));
    println!("estimated 4000, used 1000: the next in line waits no longer");

    let denied = ask(9_000, 9_000).expect_err("nine seconds are more than five");
    println!("estimated 9000: {denied}");
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(4)), "then five are left to wait");
    Ok(())
}
