//! Two limits in one decision: ten a second and a thousand an hour.
//!
//! All of it is taken or none, and the refusal names the limit.

use damper::{LimitSet, ManualClock, Quota};
use std::time::Duration;

/// The narrowest first: what is refused most often then costs least.
const LIMITS: [Quota; 2] = [Quota::per_second(10), Quota::per_hour(1_000)];

fn main() {
    let clock = ManualClock::new(); // leave it out, use `LimitSet::new`, and real time passes
    let api = LimitSet::with_clock(LIMITS, &clock);

    // A client that calls 20 times a second, for two minutes.
    let (mut allowed, mut refused_by) = (0, [0; 2]);
    for _ in 0..20 * 120 {
        match api.check() {
            Ok(_) => allowed += 1,
            Err(denied) => {
                refused_by[denied.index()] += 1;
                if refused_by[denied.index()] == 1 {
                    println!("after {allowed}: {denied}"); // limit 1 (10/s burst 10): rate limit exceeded, retry in 50 ms
                }
            }
        }
        clock.advance(Duration::from_millis(50));
    }
    let [by_the_second, by_the_hour] = refused_by;
    println!("{allowed} allowed, {by_the_second} refused by the second, {by_the_hour} by the hour");
    // The hour's thousand, and what came in during two minutes.
    assert_eq!(allowed, 1_000 + 1_000 * 120 / 3_600);

    // If one limit refuses, the other gets its tokens back: the ten a second are all there.
    let [second, hour] = api.peek();
    println!(
        "{} of {} left this second, {} of {} this hour",
        second.remaining(),
        second.limit(),
        hour.remaining(),
        hour.limit()
    );
    assert_eq!((second.remaining(), hour.remaining()), (10, 0));

    let denied = api.check().expect_err("the hour is used up");
    println!("{denied}");
    assert_eq!((denied.index(), denied.quota()), (1, LIMITS[1]));
    clock.advance(denied.retry_after().expect("the hour's next token comes"));
    assert!(api.check().is_ok());
}
